"""`plait predict` and `plait embed` killed at random moments: no output or a whole one, and the rest by --resume."""

from functools import partial
from pathlib import Path

from faults.bench import Bench, same_files
from faults.processes import plait

__all__ = ["check"]

ROW = "outputs"
KINDS = ("csv", "jsonl", "parquet", "npy")


def small_parts() -> None:
    """Parts of 7 rows, so that there are several."""
    from plait.inference import stream

    stream._CHUNK_ROWS = 7


def _arguments(bench: Bench, place: Path, kind: str, *more: str) -> list[object]:
    command = ["embed", bench.model] if kind == "npy" else ["predict", bench.model, "mood"]
    return [*command, "--input", bench.rows, "--output", place / f"out.{kind}", *more]


def check(bench: Bench, number: int) -> str:
    """Kill the command at one moment, or at two."""
    kind, chance = KINDS[number % len(KINDS)], bench.chance(ROW, number)
    work = partial(plait, change=small_parts)

    def make(place: Path) -> None:
        place.mkdir()
        ended = bench.start(place, work, *_arguments(bench, place, kind)).end()
        assert ended.code == 0, ended.log
        place.with_suffix(".seconds").write_text(str(ended.seconds))

    expected = bench.once(f"outputs-{kind}", make)
    length = float(expected.with_suffix(".seconds").read_text())
    place = bench.place(ROW, number)
    for _ in range(chance.randint(1, 2)):
        child = bench.start(place, work, *_again(bench, place, kind))
        if child.wait(chance.uniform(0, length)) is None:
            child.kill()
        output = place / f"out.{kind}"
        if output.exists() and output.read_bytes() != (expected / output.name).read_bytes():
            return f"{kind}: half an output"
    ended = bench.start(place, work, *_again(bench, place, kind)).end()
    if ended.code or not ended.is_clean:
        return f"{kind}: ended with {ended.code}: {ended.log[-400:]}"
    return same_files(expected, place)


def _again(bench: Bench, place: Path, kind: str) -> list[object]:
    begun = (place / f".out.{kind}.parts/journal.jsonl").exists()
    return _arguments(bench, place, kind, *(["--resume"] if begun else []))
