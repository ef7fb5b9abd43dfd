"""Too little memory, and workers that are killed: one message that says what to lower, and work that can be resumed."""

import os
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from faults.bench import Bench, same_files
from faults.processes import limit_memory, plait

__all__ = ["CASES", "check"]

ROW = "memory"


def _train(bench: Bench, place: Path) -> list[object]:
    recipe = bench.recipe_file("memory", checkpoint_every=1, epochs=2, schedule="round_robin", batch_size=12)
    return ["train", recipe, "--out", place / "run", "--no-report", "--no-baselines", "--threads", "1"]


def take_memory_at_step(step: int) -> None:
    """Let a step ask for more memory than there is, as a long batch would."""
    import torch

    from plait.training.trainer import Trainer

    real = Trainer.step

    def greedy(self: Trainer, number: int, planned: object) -> dict[str, float]:
        if number == step:
            limit_memory(2**28)
            torch.empty(2**40, dtype=torch.uint8)
        return real(self, number, planned)  # type: ignore[arg-type]

    Trainer.step = greedy  # type: ignore[assignment,method-assign]


def limited(megabytes: int, bench: Bench, place: Path) -> str:
    """A run that gets so many megabytes of address space, then as many as it wants."""
    return _failed_then_resumed(bench, place, partial(limit_memory, megabytes * 2**20), may_finish=True)


def greedy_step(step: int, bench: Bench, place: Path) -> str:
    return _failed_then_resumed(bench, place, partial(take_memory_at_step, step))


def _failed_then_resumed(bench: Bench, place: Path, change: Callable[[], None], may_finish: bool = False) -> str:
    def make(made: Path) -> None:
        made.mkdir()
        ended = bench.start(made, plait, *_train(bench, made)).end()
        assert ended.code == 0, ended.log

    expected = bench.once(ROW, make)
    ended = bench.start(place, partial(plait, change=change), *_train(bench, place)).end()
    if not (may_finish and ended.code == 0):
        if ended.code != 1 or not ended.is_clean or "memory" not in ended.log:
            return f"ended with {ended.code}: {ended.log[-500:]}"
        begun = (place / "run/run.json").exists()
        again = ["train", "--resume", place / "run", "--no-report"] if begun else _train(bench, place)
        ended = bench.start(place, plait, *again).end()
        if ended.code:
            return f"resuming ended with {ended.code}: {ended.log[-500:]}"
    return same_files(expected, place)


def kill_worker_at_part(part: int) -> None:
    """Kill a worker of this process before the rows of a part are processed."""
    from plait.inference import stream

    stream._CHUNK_ROWS = 7
    results, calls = stream._Stream._results, iter(range(1000))

    def wrapped(self: stream._Stream, records: object) -> object:
        if next(calls) == part:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGKILL)
        return results(self, records)  # type: ignore[arg-type]

    stream._Stream._results = wrapped  # type: ignore[assignment,method-assign]


def killed_worker(part: int, bench: Bench, place: Path) -> str:
    from faults.outputs import small_parts

    arguments = ["predict", bench.model, "mood", "--input", bench.rows, "--output"]

    def make(made: Path) -> None:
        made.mkdir()
        ended = bench.start(made, partial(plait, change=small_parts), *arguments, made / "out.csv").end()
        assert ended.code == 0, ended.log

    expected = bench.once("memory-predict", make)
    arguments += [place / "out.csv", "--workers", "1"]
    ended = bench.start(place, partial(plait, change=partial(kill_worker_at_part, part)), *arguments).end()
    if ended.code != 1 or not re.search(r"worker stopped", ended.log) or not ended.is_clean:
        return f"ended with {ended.code}: {ended.log[-500:]}"
    again = ["--resume"] if part else []
    ended = bench.start(place, partial(plait, change=small_parts), *arguments, *again).end()
    return f"resuming ended: {ended.log[-500:]}" if ended.code else same_files(expected, place)


CASES: tuple[Callable[[Bench, Path], str], ...] = (
    partial(greedy_step, 0),
    partial(killed_worker, 2),
    partial(limited, 10),
    *(partial(greedy_step, step) for step in (1, 5, 9)),
    *(partial(killed_worker, part) for part in (0, 1, 4, 7)),
    *(partial(limited, megabytes) for megabytes in (1, 3, 20, 40, 80, 160, 320)),
)


def check(bench: Bench, number: int) -> str:
    case = CASES[number % len(CASES)]
    problem = case(bench, bench.place(ROW, number))
    return problem and f"{case.func.__name__}{case.args}: {problem}"  # type: ignore[attr-defined]
