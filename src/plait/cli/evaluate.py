"""`plait evaluate MODEL`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.files import engine_option, log

if TYPE_CHECKING:
    from plait.model.directory.load import EngineName

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@click.option("--split", type=click.Choice(["train", "dev", "test"]), default="dev", show_default=True)
@click.option("--on", "files", multiple=True, metavar="TASK=FILE", help="Other labelled data for a task.")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the data files.")
@click.option(
    "--mistakes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the wrong predictions, worst first: .csv or .jsonl.",
)
@engine_option
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(
    model: str,
    split: str,
    files: tuple[str, ...],
    data: Path | None,
    mistakes: Path | None,
    engine: "EngineName",
    as_json: bool,
) -> None:
    """Score a model on labelled data.

    MODEL is a model directory or a run. Scores come with 95 % bootstrap intervals and beside their baselines. For tasks
    that compare two texts, it also shows how often swapping them changes the prediction. --mistakes writes the wrong
    predictions of each task to a file, most confident first; for scores all predictions, largest error first.
    """
    from plait.cli.display import console, print_json, print_scores, print_table, progress_for
    from plait.data.examples import Examples
    from plait.evaluation.evaluate import score_predictions
    from plait.evaluation.mistakes import check_place, find_mistakes, write_mistakes
    from plait.evaluation.order import measure_order, needs_pass
    from plait.model.card import three_decimals
    from plait.model.directory.load import load_model
    from plait.model.directory.record import open_directory, recipe_tasks
    from plait.model.encode_texts import predict_columns
    from plait.runs.origins import find_split, given_examples

    if mistakes:
        check_place(mistakes)
    record = open_directory(model).record
    loaded = load_model(model, engine=engine, log=log)
    scored = loaded.model
    examples: dict[str, Examples] = (
        given_examples(record.tasks, files) if files else find_split(record, loaded.folder, split, data)
    )
    if mistakes:
        check_place(mistakes, {where.rpartition(":")[0] for part in examples.values() for where in part.origins})
    progress = progress_for(as_json)
    why = "its members do not share their" if record.provenance.members else "it was trained without"
    for task in scored.tasks if not files else ():
        if task not in examples:
            progress.note(f"{task}: not scored, {why} {split} data; give --on {task}=FILE")
    if split == "dev" and not files:
        blocks = recipe_tasks(record.provenance.recipe)
        for task in examples:
            if count := blocks.get(task, {}).get("choose_rows"):
                progress.note(
                    f"{task}: {count:,} dev rows chose the model; the other {len(examples[task]):,} are scored"
                )
    passes = {task: 2 if needs_pass(scored, task) else 1 for task in examples}
    progress.begin("evaluating", sum(passes[task] * len(part) * len(part.texts) for task, part in examples.items()))
    predicted = {
        task: predict_columns(scored, task, part.texts, advance=progress.advance) for task, part in examples.items()
    }
    scores = {
        task: score_predictions(scored.tasks[task], part.labels, predicted[task].predictions, intervals=True)
        for task, part in examples.items()
    }
    orders = {
        task: measure_order(scored, task, part, predicted[task].predictions, advance=progress.advance)
        for task, part in examples.items()
    }
    progress.end()
    for task, answered in predicted.items():
        if answered.truncated:
            counts = f"{answered.truncated:,} of {answered.inputs:,} inputs"
            progress.note(f"{task}: {counts} were truncated to {scored.tasks[task].max_length} tokens")
    wrong = {
        task: find_mistakes(scored.tasks[task], part, predicted[task].predictions) for task, part in examples.items()
    }
    if mistakes:
        write_mistakes([mistake for found in wrong.values() for mistake in found], mistakes)
    baselines = {} if files else record.provenance.baselines.get(split, {})
    if as_json:
        shown = {task: asdict(found) for task, found in scores.items()}
        order = {task: asdict(found) for task, found in orders.items() if found}
        print_json({"kind": "result", "scores": shown, "order": order, "baselines": baselines, "mistakes": mistakes})
        return
    out = console()
    metrics = {task: found.metric for task, found in scores.items()}
    values = {task: found.value for task, found in scores.items()}
    intervals = {task: found.interval for task, found in scores.items()}
    title = f"{model} on {'the files given' if files else split}"
    print_scores(out, title, metrics, values, baselines, intervals)
    for task, found in scores.items():
        every = ", ".join(f"{name} {three_decimals(value)}" for name, value in found.values.items())
        out.print(f"{task}, {found.rows:,} rows: {every}", soft_wrap=True)
        if order_found := orders[task]:
            out.print(f"  {order_found.describe()}", soft_wrap=True)
        if found.recall:
            print_table(out, ("class", "recall"), [(name, three_decimals(v)) for name, v in found.recall.items()])
    if mistakes:
        counts = ", ".join(f"{len(found):,} of {task}" for task, found in wrong.items())
        out.print(f"wrong predictions, worst first (for scores all), in {mistakes}: {counts}", soft_wrap=True)
