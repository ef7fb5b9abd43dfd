"""SIGINT and SIGTERM at random moments, and a second one during the save: 130 or 143, and a run that can be resumed."""

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

from faults.bench import Bench, same_files
from faults.processes import plait

__all__ = ["check"]

ROW = "signals"
_OPTIONS = ("--no-report", "--no-baselines", "--threads", "1")


def _train(bench: Bench, place: Path) -> list[object]:
    recipe = bench.recipe_file("signals", checkpoint_every=3, epochs=2, schedule="round_robin", batch_size=12)
    return ["train", recipe, "--out", place / "run", *_OPTIONS]


def begin(marker: Path, second: int | None) -> None:
    """Show that the command begins; `second` is a signal that it gets while it saves after the first one."""
    from plait.cli import stopping
    from plait.runs import checkpoint

    marker.touch()
    save, made, stops = checkpoint.save_tensors, stopping.Stop.__init__, []

    def noted(self: Any) -> None:
        made(self)
        stops.append(self)

    def interrupted(*arguments: Any) -> Any:
        found = save(*arguments)
        if second and stops and stops[-1].signal:
            os.kill(os.getpid(), second)
        return found

    stopping.Stop.__init__ = noted  # type: ignore[method-assign]
    checkpoint.save_tensors = interrupted


def check(bench: Bench, number: int) -> str:
    """Stop a run by one or two signals, then resume it."""

    def make(place: Path) -> None:
        place.mkdir()
        ended = bench.start(place, plait, *_train(bench, place)).end()
        assert ended.code == 0, ended.log
        place.with_suffix(".seconds").write_text(str(ended.seconds))

    expected = bench.once(ROW, make)
    length = float(expected.with_suffix(".seconds").read_text())
    chance = bench.chance(ROW, number)
    sent = (signal.SIGINT, signal.SIGTERM)[number % 2]
    second = chance.choice((signal.SIGINT, signal.SIGTERM)) if number % 3 == 0 else None
    for _ in range(20):
        place = bench.place(ROW, number)
        marker = place.with_suffix(".began")
        marker.unlink(missing_ok=True)
        child = bench.start(place, partial(plait, change=partial(begin, marker, second)), *_train(bench, place))
        while not marker.exists() and child.wait(0.01) is None:
            pass
        time.sleep(chance.uniform(0, 0.9) * length)
        child.signal(sent)
        ended = child.end()
        if ended.code:
            break
    else:
        return "the run always finished before the signal"
    # Before the command listens, SIGTERM ends the process itself, which a shell shows as 143 too.
    codes = {128 + sent, *([128 + second] if second else []), -signal.SIGTERM if sent == signal.SIGTERM else 128 + sent}
    if ended.code not in codes or not ended.is_clean:
        return f"ended with {ended.code}: {ended.log[-400:]}"
    run = place / "run"
    if left := [path.name for path in run.rglob(".*") if path.suffix in (".part", ".old")]:
        return f"temporary files are left: {left}"
    begun = (run / "run.json").exists()
    again = ["train", "--resume", run, "--no-report"] if begun else _train(bench, place)
    ended = bench.start(place, plait, *again).end()
    if ended.code:
        return f"resuming ended with {ended.code}: {ended.log[-400:]}"
    return same_files(expected, place)
