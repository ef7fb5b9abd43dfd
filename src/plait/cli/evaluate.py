"""`plait evaluate MODEL`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from plait.cli.files import engine_option, log

if TYPE_CHECKING:
    from plait.model.directory.load import EngineName

__all__ = ["command"]

_MOST_WORDS = 15  # of the heaviest and of the lightest


@click.command()
@click.argument("model", type=click.Path())
@click.option("--split", type=click.Choice(["train", "dev", "test"]), default="dev", show_default=True)
@click.option("--on", "files", multiple=True, metavar="TASK=FILE", help="Other labelled data for a task.")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the data files.")
@click.option(
    "--mistakes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the wrong predictions, false positives and negatives apart, worst first: .csv or .jsonl.",
)
@click.option(
    "--word-weights",
    metavar="TASK",
    help="For pooling: weighted, which words of this task's texts weigh most and least in an embedding.",
)
@click.option(
    "--at-least", type=click.IntRange(min=1), default=5, show_default=True, help="For --word-weights: occurrences."
)
@engine_option
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(
    model: str,
    split: Literal["train", "dev", "test"],
    files: tuple[str, ...],
    data: Path | None,
    mistakes: Path | None,
    word_weights: str | None,
    at_least: int,
    engine: "EngineName",
    as_json: bool,
) -> None:
    """Score a model on labelled data.

    MODEL is a model directory or a run. Scores come with 95 % bootstrap intervals and beside their baselines. For tasks
    that compare two texts, it also shows how often swapping them changes the prediction. --mistakes writes the wrong
    predictions of each task to a file, most confident first: false positives apart from false negatives, classes by the
    expected class. For scores it writes all predictions, largest error first. --word-weights TASK lists words by their
    weight in an embedding: 1 is their weight in a plain mean.
    """
    from plait.cli.display import console, print_json, print_scores, print_table, progress_for
    from plait.evaluation.evaluate_model import evaluate
    from plait.evaluation.mistakes import count_groups, describe_groups
    from plait.model.card import three_decimals
    from plait.model.directory.record import open_directory
    from plait.runs.origins import named_files

    found = evaluate(
        model,
        named_files(open_directory(model).record.tasks, files) if files else None,
        split=split,
        data=data,
        mistakes=mistakes,
        word_weights=word_weights,
        at_least=at_least,
        engine=engine,
        progress=progress_for(as_json),
        log=log,
    )
    if as_json:
        shown: dict[str, object] = {
            "scores": {task: asdict(scores) for task, scores in found.scores.items()},
            "order": {task: asdict(order) for task, order in found.orders.items()},
            "baselines": found.baselines,
            "mistakes": mistakes,
            "mistake_groups": {
                task: groups for task, listed in found.mistakes.items() if (groups := count_groups(listed))
            },
        }
        if word_weights is not None:
            shown["word_weights"] = [asdict(weight) for weight in found.word_weights]
        print_json({"kind": "result", **shown})
        return
    out = console()
    metrics = {task: scores.metric for task, scores in found.scores.items()}
    values = {task: scores.value for task, scores in found.scores.items()}
    intervals = {task: scores.interval for task, scores in found.scores.items()}
    title = f"{model} on {'the files given' if files else split}"
    print_scores(out, title, metrics, values, found.baselines, intervals)
    for task, scores in found.scores.items():
        every = ", ".join(f"{name} {three_decimals(value)}" for name, value in scores.values.items())
        out.print(f"{task}, {scores.rows:,} rows: {every}", soft_wrap=True)
        if task in found.orders:
            out.print(f"  {found.orders[task].describe()}", soft_wrap=True)
        if scores.recall:
            print_table(out, ("class", "recall"), [(name, three_decimals(v)) for name, v in scores.recall.items()])
    if mistakes:
        out.print(f"wrong predictions, worst first (for scores all), in {mistakes}", soft_wrap=True)
        for task, listed in found.mistakes.items():
            described = describe_groups(listed, found.tasks[task].labels)
            out.print(f"  {task}: {len(listed):,}{f' ({described})' if described else ''}", soft_wrap=True)
    if word_weights is not None:
        out.print(f"words of {word_weights} by weight in an embedding; 1: as in a plain mean", soft_wrap=True)
        rows = [(weight.word, three_decimals(weight.weight), f"{weight.count:,}") for weight in found.word_weights]
        if len(rows) > 2 * _MOST_WORDS:
            rows = [*rows[:_MOST_WORDS], ("…", "", ""), *rows[-_MOST_WORDS:]]
        print_table(out, ("word", "weight", "occurrences"), rows)
