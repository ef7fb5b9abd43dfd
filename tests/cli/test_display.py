"""Progress, and the tables that end a training run."""

from io import StringIO

from rich.console import Console

from plait.cli import display
from plait.cli.display import _Counter, print_gains
from plait.runs.records import Gain


def test_gains_come_with_advice_where_none_is_shown():
    out = Console(width=140, record=True, file=StringIO())
    gains = {
        "mood": Gain("test", 1_200, "frozen encoder", 0.6, 0.7, 0.08, 0.12),
        "same": Gain("dev", 64, "zero-shot cosine", 0.7, 0.71, -0.05, 0.07),
        "near": Gain("dev", 64, "zero-shot cosine", 0.8, 0.6, -0.3, -0.1),
    }
    print_gains(out, gains)
    lines = [" ".join(line.split()) for line in out.export_text().splitlines()]
    assert "mood test frozen encoder 0.600 +0.100 +0.080 to +0.120 better" in lines
    assert [line for line in lines if ": " in line] == [
        "same: no gain shown over the zero-shot cosine; more labelled rows help most; "
        "64 dev rows show only large differences",
        "near: worse than the zero-shot cosine; "
        "try a lower lr, or --single-task to see whether the other tasks harm it",
    ]


def test_progress_shows_its_unit_and_the_time_left(monkeypatch):
    now = iter([0.0, 4.0, 8.0])
    monkeypatch.setattr(display.time, "monotonic", lambda: next(now))
    counter = _Counter(total=14, done=4)  # resumed
    assert counter.add(1, {"examples": 32}) == "step 5 of 14 · 8 rows/s · 36 s left"
    assert counter.add(3, {"examples": 96}) == "step 8 of 14 · 16 rows/s · 12 s left"


def test_progress_without_a_total_shows_speed_only(monkeypatch):
    now = iter([0.0, 2.0])
    monkeypatch.setattr(display.time, "monotonic", lambda: next(now))
    assert _Counter().add(3000, {}) == "3,000 · 1,500/s"
