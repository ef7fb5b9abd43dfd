"""Progress and tables: a bar for people at a terminal, plain lines for a pipe, JSON for machines."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from plait.cli.option_names import as_options
from plait.model.card import three_decimals
from plait.progress import Progress

if TYPE_CHECKING:
    from plait.runs.records import Gain

__all__ = [
    "console",
    "duration",
    "print_conflicts",
    "print_gains",
    "print_json",
    "print_scores",
    "print_table",
    "progress_for",
    "show_progress",
]

_EVERY = 10.0  # seconds between two lines of progress in a pipe


def console() -> Console:
    """Where results go; a pipe gets them without colour and at full width."""
    out = Console(highlight=False, markup=False)
    return out if out.is_terminal else Console(highlight=False, markup=False, width=140)


def print_json(value: object) -> None:
    """One JSON document on one line."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def progress_for(as_json: bool) -> Progress:
    """The display that suits the terminal, pipe or program that reads the output."""
    return _JsonLines() if as_json else _progress_in_words(as_options)


def show_progress() -> Progress:
    """Progress for people, to be given as `progress`: a bar in a terminal or notebook, plain lines elsewhere."""
    return _progress_in_words(str)


def _progress_in_words(words: Callable[[str], str]) -> Progress:
    """A bar or lines; `words` is how arguments that notes name are called."""
    errors = Console(stderr=True, highlight=False, markup=False)
    return _Bar(errors, words) if errors.is_terminal else _Lines(words)


def _score_line(record: Mapping[str, Any]) -> str:
    """An evaluation in one line."""
    parts = [
        f"{task} {record['metrics'][task]} {three_decimals(values.get(record['metrics'][task]))}"
        for task, values in record["dev"].items()
    ]
    mean = f"  mean {three_decimals(record['mean'])}" if len(parts) > 1 else ""
    if record.get("choose"):
        mean = f"  rows that choose: {three_decimals(record['mean'])}"
    best = "  (best so far)" if record["best"] and parts else ""
    stage = f"stage {record['stage'] + 1}, " if "stage" in record else ""
    where = f"{stage}epoch {record['epoch'] + 1}, step {record['step']}: "
    return where + ("  ".join(parts) or "no dev data") + mean + best


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


class _Counter:
    """How much of a part of the work is done, how fast, and how long the rest will take."""

    def __init__(self, total: int = 0, done: int = 0) -> None:
        self.total, self.done, self.before = total, done, done
        self.started = time.monotonic()
        self.rows = 0

    def add(self, count: int, facts: Mapping[str, Any]) -> str:
        """Count what was done: `step 8 of 14 · 5 rows/s · 18 s left`."""
        self.done += count
        self.rows += facts.get("examples", count)
        passed = max(time.monotonic() - self.started, 1e-9)
        trains = "examples" in facts
        parts = [f"{'step ' if trains else ''}{self.done:,}{f' of {self.total:,}' if self.total else ''}"]
        parts.append(f"{self.rows / passed:,.0f}{' rows' if trains else ''}/s")
        if self.total:
            left = (self.total - self.done) * passed / max(self.done - self.before, 1)
            parts.append(f"{duration(left)} left")
        return " · ".join(parts)


class _Bar:
    """One bar at a time, with speed and time left."""

    def __init__(self, console: Console, words: Callable[[str], str]) -> None:
        self.console = console
        self.words = words
        self.progress: RichProgress | None = None
        self.task = TaskID(0)
        self.counter = _Counter()

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.end()
        self.progress = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[loss]}"),
            console=self.console,
            transient=True,
            refresh_per_second=4,
        )
        self.progress.start()
        self.task = self.progress.add_task(what, total=total or None, completed=done, count="", loss="")
        self.counter = _Counter(total, done)

    def advance(self, count: int = 1, **facts: Any) -> None:
        if self.progress is None:
            return
        losses = " ".join(f"{task} {value:.3f}" for task, value in facts.get("loss", {}).items())
        counted, loss = self.counter.add(count, facts), f"loss {losses}" if losses else ""
        self.progress.update(self.task, advance=count, count=counted, loss=loss)

    def end(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None

    def scores(self, record: dict[str, Any]) -> None:
        self.console.print(_score_line(record))

    def note(self, message: str) -> None:
        self.console.print(self.words(message))


class _Lines:
    """Plain lines for a pipe."""

    def __init__(self, words: Callable[[str], str]) -> None:
        self.words = words
        self.what = ""
        self.last = 0.0
        self.counter = _Counter()

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.what, self.last = what, time.monotonic()
        self.counter = _Counter(total, done)
        click.echo(f"{what} ({total:,})" if total else what, err=True)

    def advance(self, count: int = 1, **facts: Any) -> None:
        counted, now = self.counter.add(count, facts), time.monotonic()
        if now - self.last >= _EVERY:
            self.last = now
            click.echo(f"  {self.what}: {counted}", err=True)

    def end(self) -> None:
        pass

    def scores(self, record: dict[str, Any]) -> None:
        click.echo(_score_line(record), err=True)

    def note(self, message: str) -> None:
        click.echo(self.words(message), err=True)


class _JsonLines:
    """Evaluations and notes as JSON, one per line."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        print_json({"kind": "begin", "what": what, "total": total, "done": done})

    def advance(self, count: int = 1, **facts: Any) -> None:
        pass  # metrics.jsonl has every step

    def end(self) -> None:
        pass

    def scores(self, record: dict[str, Any]) -> None:
        print_json(record)

    def note(self, message: str) -> None:
        print_json({"kind": "note", "message": as_options(message)})


def print_table(out: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table; long cells wrap."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def print_scores(
    out: Console,
    title: str,
    metrics: Mapping[str, str],
    scores: Mapping[str, float],
    baselines: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, tuple[float, float] | None] | None = None,
) -> None:
    """A table of each task's score beside its baselines, and their means."""
    table = Table(box=box.SIMPLE_HEAD)
    for place, column in enumerate(["task", "metric", *baselines, "plait", *(["95 % interval"] if intervals else [])]):
        table.add_column(column, justify="left" if place < 2 else "right")
    for task, value in scores.items():
        row = [
            task,
            metrics[task],
            *(three_decimals(found.get(task)) for found in baselines.values()),
            three_decimals(value),
        ]
        if intervals:
            interval = intervals[task]
            row.append(f"{three_decimals(interval[0])} to {three_decimals(interval[1])}" if interval else "–")
        table.add_row(*row)
    if len(scores) > 1:
        means = [_mean_of(found, scores) for found in baselines.values()]
        table.add_row("mean", "", *map(three_decimals, means), three_decimals(_mean_of(scores, scores)))
    out.print(title, soft_wrap=True)
    out.print(table)


def print_gains(out: Console, gains: Mapping[str, "Gain"]) -> None:
    """What training gained over the best baseline of each task, and what to do where no gain is shown."""
    rows = [
        (
            task,
            gain.split,
            f"{gain.baseline} {three_decimals(gain.baseline_score)}",
            f"{gain.difference:+.3f}",
            f"{gain.low:+.3f} to {gain.high:+.3f}",
            gain.verdict,
        )
        for task, gain in gains.items()
    ]
    out.print("what fine-tuning gained over the best baseline", soft_wrap=True)
    print_table(out, ("task", "on", "best baseline", "gain", "95 % interval", ""), rows)
    for task, gain in gains.items():
        if gain.verdict == "worse":
            advice = "try a lower lr, or --single-task to see whether the other tasks harm it"
            out.print(f"{task}: worse than the {gain.baseline}; {advice}", soft_wrap=True)
        elif gain.verdict != "better":
            advice = f"more labelled rows help most; {gain.rows:,} {gain.split} rows show only large differences"
            out.print(f"{task}: no gain shown over the {gain.baseline}; {advice}", soft_wrap=True)


def print_conflicts(out: Console, conflicts: Mapping[str, Mapping[str, float]], when: str = "") -> None:
    """A table of the cosines between the gradients of each pair of tasks."""
    rows = [
        (pair, f"{found['mean']:+.3f}", f"{found['negative']:.0%}", f"{found['count']:,}")
        for pair, found in conflicts.items()
    ]
    out.print(f"{when}cosines between the tasks' gradients, from -1 (opposed) to +1 (aligned)", soft_wrap=True)
    print_table(out, ("tasks", "mean cosine", "below 0", "steps measured"), rows)


def _mean_of(table: Mapping[str, float], tasks: Mapping[str, float]) -> float | None:
    """The mean over all tasks; None if one is missing."""
    return sum(table[task] for task in tasks) / len(tasks) if all(task in table for task in tasks) else None
