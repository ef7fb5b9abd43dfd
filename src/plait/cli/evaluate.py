"""`plait evaluate MODEL`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

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
    split: str,
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
    from plait.data.examples import Examples
    from plait.errors import RequestError, did_you_mean
    from plait.evaluation.evaluate import score_predictions
    from plait.evaluation.mistakes import check_place, count_groups, describe_groups, find_mistakes, write_mistakes
    from plait.evaluation.order import measure_order, needs_pass
    from plait.evaluation.word_weights import WordWeight, measure_word_weights, weighted_member
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
    weighs: list[WordWeight] = []
    if word_weights is not None:
        member = weighted_member(scored, model)
        if word_weights not in examples:
            raise RequestError(f"--word-weights: no task {word_weights!r} here; {did_you_mean(word_weights, examples)}")
        weighs = measure_word_weights(member, word_weights, examples[word_weights].texts, at_least=at_least)
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
        by_group = {task: count_groups(listed) for task, listed in wrong.items()}
        result = {"scores": shown, "order": order, "baselines": baselines, "mistakes": mistakes}
        result["mistake_groups"] = {task: groups for task, groups in by_group.items() if groups}
        if word_weights is not None:
            result["word_weights"] = [asdict(found) for found in weighs]
        print_json({"kind": "result", **result})
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
        out.print(f"wrong predictions, worst first (for scores all), in {mistakes}", soft_wrap=True)
        for task, listed in wrong.items():
            groups = describe_groups(listed, scored.tasks[task].labels)
            out.print(f"  {task}: {len(listed):,}{f' ({groups})' if groups else ''}", soft_wrap=True)
    if word_weights is not None:
        out.print(f"words of {word_weights} by weight in an embedding; 1: as in a plain mean", soft_wrap=True)
        rows = [(found.word, three_decimals(found.weight), f"{found.count:,}") for found in weighs]
        if len(rows) > 2 * _MOST_WORDS:
            rows = [*rows[:_MOST_WORDS], ("…", "", ""), *rows[-_MOST_WORDS:]]
        print_table(out, ("word", "weight", "occurrences"), rows)
