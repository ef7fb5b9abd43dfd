"""How `plait evaluate` shows the scores of a model, or of several side by side."""

from collections.abc import Mapping

from rich.console import Console

from plait.cli.display import print_scores, print_table
from plait.evaluation.details import Details
from plait.evaluation.evaluate_model import Evaluation
from plait.model.card import three_decimals

__all__ = ["print_evaluation", "print_side_by_side"]

_MATRIX_CLASSES = 10  # up to which a confusion matrix fits into a terminal
_SHOWN_CONFUSIONS = 10


def print_evaluation(out: Console, title: str, found: Evaluation) -> None:
    """The scores of each task beside its baselines, then the details."""
    metrics = {task: scores.metric for task, scores in found.scores.items()}
    values = {task: scores.value for task, scores in found.scores.items()}
    intervals = {task: scores.interval for task, scores in found.scores.items()}
    print_scores(out, title, metrics, values, found.baselines, intervals)
    for task, scores in found.scores.items():
        details = found.details[task]
        every = ", ".join(f"{name} {three_decimals(v)}" for name, v in {**scores.values, **details.errors}.items())
        out.print(f"{task}, {scores.rows:,} rows: {every}", soft_wrap=True)
        if task in found.orders:
            out.print(f"  {found.orders[task].describe()}", soft_wrap=True)
        if details.classes:
            rows = [
                (name, *map(three_decimals, (each.precision, each.recall, each.f1)), f"{each.support:,}")
                for name, each in details.classes.items()
            ]
            print_table(out, ("class", "precision", "recall", "f1", "support"), rows)
        if details.confusion:
            _print_confusion(out, details)


def _print_confusion(out: Console, details: Details) -> None:
    """The confusion matrix, or the most frequent confusions of many classes."""
    names = list(details.classes)
    if len(names) <= _MATRIX_CLASSES:
        rows = [
            (name, *(f"{count:,}" for count in counts)) for name, counts in zip(names, details.confusion, strict=True)
        ]
        print_table(out, ("expected ↓ predicted →", *names), rows)
        return
    confused = details.most_confused()
    if confused:
        shown = [(expected, predicted, f"{count:,}") for expected, predicted, count in confused[:_SHOWN_CONFUSIONS]]
        print_table(out, ("expected", "predicted", "rows"), shown)
    if len(confused) > _SHOWN_CONFUSIONS:
        more = f"… and {len(confused) - _SHOWN_CONFUSIONS:,} more pairs of classes; --json has the whole matrix"
        out.print(more, soft_wrap=True)


def print_side_by_side(out: Console, title: str, evaluations: Mapping[str, Evaluation]) -> None:
    """One table of all metrics, with a column for each model; a task's own metric comes first, with its interval."""
    rows: list[tuple[str, ...]] = []
    for task in dict.fromkeys(task for found in evaluations.values() for task in found.scores):
        cells = [_metric_cells(found, task) for found in evaluations.values()]
        metrics = dict.fromkeys(metric for column in cells for metric in column)
        rows += [(task, metric, *(column.get(metric, "–") for column in cells)) for metric in metrics]
    out.print(title, soft_wrap=True)
    print_table(out, ("task", "metric", *evaluations), rows)


def _metric_cells(found: Evaluation, task: str) -> dict[str, str]:
    """Every metric of a task, the task's own first."""
    if task not in found.scores:
        return {}
    scores = found.scores[task]
    own = three_decimals(scores.value)
    if scores.interval:
        own += f" ({' to '.join(map(three_decimals, scores.interval))})"
    others = {**scores.values, **found.details[task].errors}
    return {scores.metric: own} | {name: three_decimals(v) for name, v in others.items() if name != scores.metric}
