"""`plait demo`"""

import sys
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from plait.runs.directory import RunDirectory

__all__ = ["command"]

_RECIPE = "starter"
_TEXTS: dict[str, list[str | tuple[str, str]]] = {
    "sentiment": [
        "Cancelled my subscription after a week, it crashed every single morning.",
        "Does what it says. Nothing more, nothing less.",
        "I have not laughed this hard in a theatre for years!",
    ],
    "duplicate": [
        ("How can I get candle wax out of a carpet?", "what removes melted wax from a rug"),
        ("How long should I boil an egg?", "Which eggs are best for baking?"),
    ],
    "similarity": [
        ("Two dogs are running along the beach.", "A pair of dogs run on the sand."),
        ("The shop opens at nine.", "The shop closes at nine."),
        ("She is tuning the piano.", "Bread prices rose again this spring."),
    ],
}


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/starter"),
    show_default=True,
    help="The run's directory.",
)
def command(out: Path) -> None:
    """Watch one encoder learn three tasks.

    Trains the starter recipe, then shows its scores beside baselines and predictions for each task.
    """
    from plait.cli.display import console
    from plait.cli.train import add_report, run_recipe
    from plait.inference.predictor import load
    from plait.reporting.report import REPORT_NAME
    from plait.runs.directory import RunDirectory

    screen = console()
    run = RunDirectory(out)
    if run.is_trained:
        screen.print(f"{out} is already trained; delete it to train again.\n")
    elif run.has_begun:
        screen.print(f"{out} was interrupted: resuming it.\n")
        run_recipe(None, resume=out)
    else:
        screen.print("One encoder (all-MiniLM-L6-v2), three tasks, 320 training rows each:")
        screen.print("sentiment of reviews, duplicate questions, similarity of sentences.\n")
        run_recipe(_RECIPE, out=out)
    _show_scores(run)
    predictor = load(out)
    for task, examples in _TEXTS.items():
        screen.print(f"\n{task}: plait predict {out}/best {task} …", style="bold")
        for example, prediction in zip(examples, predictor.predict(task, examples), strict=True):  # type: ignore[arg-type]
            answer = (
                f"{prediction.score:.1f} of 5"
                if prediction.label is None
                else f"{prediction.label} ({prediction.score:.0%})"
            )
            shown = example if isinstance(example, str) else " | ".join(example)
            screen.print(f"  {answer:>14}   {shown}")
    page = out / REPORT_NAME if (out / REPORT_NAME).is_file() else add_report(out)
    screen.print("\nWhat to try next:")
    for line in _next_steps(out):
        screen.print(f"  {line}", soft_wrap=True)
    if page:
        screen.print(f"\nThe report, to open in a browser: {page}", soft_wrap=True)


def _next_steps(out: Path) -> list[str]:
    """Commands that work from here, and what each is for."""
    steps = [
        (f'plait predict {out}/best sentiment "your own sentence"', ""),
        (f"plait evaluate {out} --split test", "every metric, with intervals"),
        (f"plait check {_RECIPE}", "what the recipe trains, and how long it takes"),
        (f"plait train {_RECIPE} --set epochs=8 --out runs/longer", "the same, trained for longer"),
        (f"less {out}/best/README.md", "the model card"),
        (f"plait serve {out}/best", "the model over HTTP; open the address that it prints"),
    ]
    if which("plait") is None:
        activate = Path(sys.prefix) / "bin/activate"
        here = activate.relative_to(Path.cwd()) if activate.is_relative_to(Path.cwd()) else activate
        steps.insert(0, (f". {here}", "so that the shell finds plait"))
    return [f"{command:<60} {meaning}".rstrip() for command, meaning in steps]


def _show_scores(run: "RunDirectory") -> None:
    """Dev and test scores beside their baselines."""
    from plait.cli.display import console, print_scores
    from plait.evaluation.evaluate import score_task
    from plait.model.directory.load import load_model
    from plait.runs.origins import find_split

    loaded, result = load_model(run.best), run.read_result()
    assert loaded.record is not None, "a run has a plait model"
    for split in ("dev", "test"):
        examples = find_split(loaded.record, loaded.folder, split, None)
        scores = {task: score_task(loaded.model, task, part, intervals=True) for task, part in examples.items()}
        print_scores(
            console(),
            f"{split}: {sum(task.rows for task in scores.values())} examples that were not trained on",
            {task: found.metric for task, found in scores.items()},
            {task: found.value for task, found in scores.items()},
            result.baselines.get(split, {}),
            {task: found.interval for task, found in scores.items()},
        )
    minutes, seconds = divmod(round(result.seconds), 60)
    threads = "1 thread" if result.threads == 1 else f"{result.threads} threads"
    console().print(f"Trained in {minutes} min {seconds:02d} s with {threads}. The model: {run.best}")
