"""How `plait compare` shows the differences between models."""

from collections.abc import Iterable

from rich.console import Console

from plait.cli.display import print_table
from plait.cli.option_names import as_options
from plait.evaluation.compare import ModelComparison
from plait.evaluation.paired import TaskComparison
from plait.model.card import three_decimals
from plait.training.transfer import Transfer

__all__ = ["draw_interval", "print_comparison", "print_transfer"]

_WIDTH = 31  # of a drawn interval; odd, so that 0 has a place in the middle


def print_comparison(out: Console, found: ModelComparison) -> None:
    """The scores of each task side by side, the difference drawn with its interval, and the verdict."""
    span = max((abs(end) for one in found.tasks.values() for end in one.interval or ()), default=0.0)
    rows = [
        (
            task,
            one.metric,
            f"{one.rows:,}",
            three_decimals(one.first),
            three_decimals(one.second),
            f"{one.difference:+.3f}",
            _interval(one),
            three_decimals(one.corrected_p),
            one.verdict,
        )
        for task, one in found.tasks.items()
    ]
    out.print(f"{found.second} compared with {found.first} on {found.data}", soft_wrap=True)
    names = ("task", "metric", "rows", found.first, found.second, "gain", "95 % interval", "p", "")
    print_table(out, names, rows)
    width = max(map(len, found.tasks), default=0)
    out.print(f"  {'':{width}}  {_scale(span)}".rstrip(), soft_wrap=True)
    for task, one in found.tasks.items():
        out.print(f"  {task:{width}}  {draw_interval(one, span)}", soft_wrap=True)
    for test in dict.fromkeys(one.test for one in found.tasks.values()):
        tested = ", ".join(task for task, one in found.tasks.items() if one.test == test)
        out.print(f"p of {tested}: {test}{_corrected(len(found.tasks))}", soft_wrap=True)
    _print_notes(out, found.notes)


def print_transfer(out: Console, found: Transfer) -> None:
    """The matrix: what each task (row) gains by another (column)."""
    out.print(
        f"{found.run}: the gain of each task (row) on {found.data} from training with one other (column)",
        soft_wrap=True,
    )
    print_table(out, *found.table())
    out.print("* a difference that the test shows, corrected for all pairs (Holm)", soft_wrap=True)
    _print_notes(out, found.notes)


def draw_interval(one: TaskComparison, span: float) -> str:
    """The interval of a difference as a line with a dot, from −span to +span: `   │ ├──●──┤  `."""
    places = [" "] * _WIDTH
    middle = _WIDTH // 2
    places[middle] = "│"
    if one.interval is None or not span:
        return "".join(places).rstrip()

    def place(value: float) -> int:
        return min(_WIDTH - 1, max(0, middle + round(middle * value / span)))

    low, high = map(place, one.interval)
    places[low : high + 1] = "─" * (high - low + 1)
    places[low], places[high] = "├", "┤"
    if low <= middle <= high:
        places[middle] = "┼"
    places[place(one.difference)] = "●"
    return "".join(places).rstrip()


def _scale(span: float) -> str:
    """The heading above the drawn intervals: both ends and 0."""
    low, high = f"{-span:+.2f}", f"{span:+.2f}"
    half = _WIDTH // 2
    return f"{low}{'0'.rjust(half + 1 - len(low))}{high.rjust(half)}"


def _corrected(tests: int) -> str:
    return f", corrected for {tests} tasks (Holm)" if tests > 1 else ""


def _interval(one: TaskComparison) -> str:
    return "{:+.3f} to {:+.3f}".format(*one.interval) if one.interval else "–"


def _print_notes(out: Console, notes: Iterable[str]) -> None:
    for note in notes:
        out.print(as_options(note), soft_wrap=True)
