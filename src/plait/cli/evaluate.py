"""`plait evaluate MODEL…`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from plait.cli.complete import complete_task, complete_task_file
from plait.cli.files import encoding_option, engine_option, log, safe_csv_option

if TYPE_CHECKING:
    from plait.evaluation.evaluate_model import Evaluation
    from plait.model.directory.load import EngineName

__all__ = ["command"]

_MOST_WORDS = 15  # of the heaviest and of the lightest


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(), metavar="MODEL…")
@click.option("--split", type=click.Choice(["train", "dev", "test"]), default="dev", show_default=True)
@click.option(
    "--on",
    "files",
    multiple=True,
    metavar="TASK=FILE",
    help="Other labelled data for a task.",
    shell_complete=complete_task_file,
)
@click.option(
    "--text",
    "text_columns",
    multiple=True,
    metavar="COLUMN",
    help="The text columns of --on.  [default: as in training]",
)
@click.option(
    "--label",
    "label_columns",
    multiple=True,
    metavar="COLUMN",
    help="The label column of --on.  [default: as in training]",
)
@encoding_option("the files of --on")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the data files.")
@click.option(
    "--mistakes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the wrong predictions, false positives and negatives apart, worst first: .csv or .jsonl.",
)
@click.option(
    "--predictions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write every row with its texts, label, prediction and probabilities: .csv or .jsonl.",
)
@safe_csv_option
@click.option(
    "--word-weights",
    metavar="TASK",
    shell_complete=complete_task,
    help="For pooling: weighted, which words of this task's texts weigh most and least in an embedding.",
)
@click.option(
    "--at-least", type=click.IntRange(min=1), default=5, show_default=True, help="For --word-weights: occurrences."
)
@engine_option
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(
    models: tuple[str, ...],
    split: Literal["train", "dev", "test"],
    files: tuple[str, ...],
    text_columns: tuple[str, ...],
    label_columns: tuple[str, ...],
    encoding: str,
    data: Path | None,
    mistakes: Path | None,
    predictions: Path | None,
    safe_csv: bool,
    word_weights: str | None,
    at_least: int,
    engine: "EngineName",
    as_json: bool,
) -> None:
    """Score a model on labelled data, or several side by side.

    MODEL is a model directory or a run. Scores come with 95 % bootstrap intervals and beside their baselines. Then
    follow precision, recall, F1 and support (rows) of each class, the confusion matrix, the errors of scores (MAE and
    RMSE) and the calibration of probabilities (ECE in 15 bins). For tasks that compare two texts, it also shows how
    often swapping them changes the prediction. Several models make one table, with a column for each.

    --mistakes writes the wrong predictions of each task to a file, most confident first: false positives apart from
    false negatives, classes by the expected class. For scores it writes all predictions, largest error first.
    --word-weights TASK lists words by their weight in an embedding: 1 is their weight in a plain mean.
    """
    if len(models) > 1 and (mistakes or predictions or word_weights):
        raise click.UsageError("--mistakes, --predictions and --word-weights are for one model")
    if len(set(models)) < len(models):
        raise click.UsageError("a MODEL is given twice")
    from plait.cli.display import console, print_json, print_table, progress_for
    from plait.cli.evaluation_tables import print_evaluation, print_side_by_side
    from plait.errors import RequestError
    from plait.evaluation.evaluate_model import different_rows, evaluate
    from plait.evaluation.mistakes import count_groups, describe_groups
    from plait.model.card import three_decimals
    from plait.model.directory.record import open_directory
    from plait.runs.origins import named_files

    on: dict[str, dict[str, list[str]] | None] = dict.fromkeys(models)
    wrong: list[str] = []
    for model in models:
        tasks = open_directory(model).record.tasks
        try:
            on[model] = named_files(tasks, files) if files else None
        except RequestError as error:
            wrong += (f"{model}: {mistake}" if len(models) > 1 else mistake for mistake in error.mistakes)
    if wrong:
        raise RequestError(*wrong)
    progress = progress_for(as_json)
    evaluations: dict[str, Evaluation] = {}
    for model in models:
        if len(models) > 1:
            progress.note(model)
        evaluations[model] = evaluate(
            model,
            on[model],
            split=split,
            data=data,
            text_columns=text_columns,
            label_columns=label_columns,
            encoding=encoding,
            mistakes=mistakes,
            predictions=predictions,
            safe_csv=safe_csv,
            word_weights=word_weights,
            at_least=at_least,
            engine=engine,
            progress=progress,
            log=log,
        )
    for task in different_rows(list(evaluations.values())):
        progress.note(f"{task}: the models have different {split} rows; --on {task}=FILE scores them on the same")
    found = evaluations[models[0]]
    if as_json:
        shown: dict[str, object] = {"models": {model: _facts(each) for model, each in evaluations.items()}}
        if len(models) == 1:
            groups = {task: count_groups(listed) for task, listed in found.mistakes.items()}
            shown = {
                **_facts(found),
                "mistakes": mistakes,
                "mistake_groups": {task: counts for task, counts in groups.items() if counts},
                "predictions": predictions,
            }
        if word_weights is not None:
            shown["word_weights"] = [asdict(weight) for weight in found.word_weights]
        print_json({"kind": "result", **shown})
        return
    out = console()
    where = "the files given" if files else split
    if len(models) > 1:
        print_side_by_side(out, f"{len(models)} models on {where}", evaluations)
        return
    print_evaluation(out, f"{models[0]} on {where}", found)
    if mistakes:
        out.print(f"wrong predictions, worst first (for scores all), in {mistakes}", soft_wrap=True)
        for task, listed in found.mistakes.items():
            described = describe_groups(listed, found.tasks[task].labels)
            out.print(f"  {task}: {len(listed):,}{f' ({described})' if described else ''}", soft_wrap=True)
    if predictions:
        rows = sum(scores.rows for scores in found.scores.values())
        out.print(f"predictions of {rows:,} rows in {predictions}", soft_wrap=True)
    if word_weights is not None:
        out.print(f"words of {word_weights} by weight in an embedding; 1: as in a plain mean", soft_wrap=True)
        words = [(weight.word, three_decimals(weight.weight), f"{weight.count:,}") for weight in found.word_weights]
        if len(words) > 2 * _MOST_WORDS:
            words = [*words[:_MOST_WORDS], ("…", "", ""), *words[-_MOST_WORDS:]]
        print_table(out, ("word", "weight", "occurrences"), words)


def _facts(found: "Evaluation") -> dict[str, object]:
    """What JSON says about the scores of a model."""
    return {
        "scores": {task: asdict(scores) for task, scores in found.scores.items()},
        "details": {task: asdict(details) for task, details in found.details.items()},
        "order": {task: asdict(order) for task, order in found.orders.items()},
        "baselines": found.baselines,
    }
