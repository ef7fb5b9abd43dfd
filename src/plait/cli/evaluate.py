"""`plait evaluate MODEL`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.files import engine_option, tell

if TYPE_CHECKING:
    from plait.model.load import EngineName

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@click.option("--split", type=click.Choice(["train", "dev", "test"]), default="dev", show_default=True)
@click.option("--on", "files", multiple=True, metavar="TASK=FILE", help="Other labelled data for a task.")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where data files lie.")
@click.option(
    "--mistakes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the wrong predictions, worst first: .csv or .jsonl.",
)
@engine_option
@click.option("--json", "as_json", is_flag=True, help="The same facts as JSON.")
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

    MODEL is a model directory or a run. Scores come with 95 % bootstrap intervals and beside their baselines.
    Of tasks that compare two texts it tells how often swapping them changes the answer.
    With --mistakes, the wrong predictions of each task go to a file, the surest first; of scores all, the farthest off
    first.
    """
    from plait.cli.display import console, number, print_json, print_scores, watcher_for
    from plait.evaluation.evaluate import decode_examples, score
    from plait.evaluation.find import find_split, given_examples
    from plait.evaluation.mistakes import check_place, find_mistakes, write_mistakes
    from plait.evaluation.order import measure_order, needs_pass
    from plait.model.about import read_about
    from plait.model.ensemble import count_cut
    from plait.model.load import load_model

    if mistakes:
        check_place(mistakes)
    about = read_about(model)
    loaded = load_model(model, engine=engine, tell=tell)
    examples = given_examples(loaded, files) if files else find_split(loaded, model, about, split, data)
    if mistakes:
        check_place(mistakes, {where.rpartition(":")[0] for part in examples.values() for where in part.origins})
    watcher = watcher_for(as_json)
    why = "its members do not share their" if "members" in about else "it was trained without"
    for task in loaded.tasks if not files else ():
        if task not in examples:
            watcher.note(f"{task}: is not scored, {why} {split} data; give --on {task}=FILE")
    passes = {task: 2 if needs_pass(loaded, task) else 1 for task in examples}
    inputs = sum(passes[task] * len(part) * len(part.texts) for task, part in examples.items())
    watcher.begin("evaluating", inputs)
    decoded = {task: decode_examples(loaded, task, part, progress=watcher.advance) for task, part in examples.items()}
    scores = {
        task: score(loaded.tasks[task], part.labels, decoded[task], intervals=True) for task, part in examples.items()
    }
    orders = {
        task: measure_order(loaded, task, part, decoded[task], progress=watcher.advance)
        for task, part in examples.items()
    }
    watcher.end()
    for task, part in examples.items():
        inputs, cut = count_cut(loaded, part.texts, task)
        if cut:
            watcher.note(f"{task}: {cut:,} of {inputs:,} inputs were cut at {loaded.tasks[task].max_length} tokens")
    wrong = {task: find_mistakes(loaded.tasks[task], part, decoded[task]) for task, part in examples.items()}
    if mistakes:
        write_mistakes([mistake for found in wrong.values() for mistake in found], mistakes)
    baselines = {} if files else about["baselines"].get(split, {})
    if as_json:
        told = {task: asdict(found) for task, found in scores.items()}
        order = {task: asdict(found) for task, found in orders.items() if found}
        print_json({"kind": "result", "scores": told, "order": order, "baselines": baselines, "mistakes": mistakes})
        return
    out = console()
    metrics = {task: found.metric for task, found in scores.items()}
    values = {task: found.value for task, found in scores.items()}
    intervals = {task: found.interval for task, found in scores.items()}
    title = f"{model} on {'the files given' if files else split}"
    print_scores(out, title, metrics, values, baselines, intervals)
    for task, found in scores.items():
        every = ", ".join(f"{name} {number(value)}" for name, value in found.values.items())
        out.print(f"{task}, {found.rows:,} rows: {every}", soft_wrap=True)
        if found.per_class:
            shares = ", ".join(f"{name} {number(value)}" for name, value in found.per_class.items())
            out.print(f"  right among those that are: {shares}", soft_wrap=True)
        if order_found := orders[task]:
            out.print(f"  {order_found.describe()}", soft_wrap=True)
    if mistakes:
        counts = ", ".join(f"{len(found):,} of {task}" for task, found in wrong.items())
        out.print(f"wrong predictions in {mistakes}, worst first (scores: every one): {counts}", soft_wrap=True)
