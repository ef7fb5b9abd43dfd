"""Small data: what a user gets from 64, 500 and 2,000 labelled rows, with plait and with other ways.

    python benchmarks/small_data.py [--sets NAME …] [--sizes N …] [--ways NAME …]   measure what is missing
    python benchmarks/small_data.py --table                                          only print the tables

Every cell is a data set, a number of training rows, a draw and a way. All ways get the same encoder (minilm), the same
training rows and nothing else, and are scored on 1,500 rows that share no text with the training rows and that nothing
is chosen on: accuracy, or Pearson's correlation for scores. Time is the processor time of all threads and processes,
from reading the rows to the answers. Cells are stored in benchmarks/results/small-data.jsonl as they come, so a run
that was stopped resumes.

Free ways train no encoder: the majority class, the cosine of a pair (with a threshold from the training rows), and
scikit-learn's logistic regression on frozen embeddings with cross-validated C (ridge regression for scores; of a pair
[|u − v|; u∗v]). `plait` is `plait init` on a folder with one csv file, and `plait train` with the recipe it writes;
`plait, three tasks` is the same on a folder with the files of three sets.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compare import Target, at_least, at_most
from page import table, target_cells
from small_data_sets import DRAWS, GROUPS, SETS, SIZES, TEST_ROWS, make_cell, score
from small_data_ways import MINILM, PLAIT, REGRESSION, SETFIT, TOGETHER, WAYS
from venvs import InstallError, python_of

HERE = Path(__file__).resolve().parent
CELLS = HERE / "results/small-data.jsonl"
PEER = "small-data"  # peers/small-data.txt
ABOUT = (
    "each cell is a data set, a number of training rows, a draw and a way. All ways get minilm, the same training rows "
    f"and nothing else, scored on up to {TEST_ROWS:,} other rows: accuracy, or Pearson's correlation for sts and "
    "sick. plait is `plait init` on the file, then `plait train`; `plait, three tasks` trains the files of three sets "
    "together. The last line is the processor time of all threads and processes for a set. minilm was trained on Quora "
    "duplicates and SNLI among others."
)
Key = tuple[str, int, int, str]  # set, rows, draw, way
Found = dict[str, Any]  # set, rows, draw, way, score, seconds


def stored() -> dict[Key, Found]:
    """The cells that were measured."""
    lines = CELLS.read_text(encoding="utf-8").splitlines() if CELLS.is_file() else []
    found = [json.loads(line) for line in lines]
    return {(one["set"], one["rows"], one["draw"], one["way"]): one for one in found}


def measure(names: Sequence[str], size: int, draw: int, way: str) -> list[Found]:
    """One cell, or those of a group of sets, in a process of its own."""
    python = python_of(PEER) if WAYS[way].peer else Path(sys.executable)
    command = [python, __file__, "--work", json.dumps([names, size, draw, way])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no output")
    return json.loads(done.stdout.splitlines()[-1])


def work(names: Sequence[str], size: int, draw: int, way: str) -> None:
    """The worker's side: print scores, null where the way does not apply, and processor seconds per set."""
    cells = [make_cell(name, size, draw) for name in names]
    began = processor_seconds()
    predicted = WAYS[way].predict(cells)
    seconds = (processor_seconds() - began) / len(cells)
    found = [
        {"set": name, "rows": size, "draw": draw, "way": way, "score": answers and score(cell, answers)}
        | {"seconds": round(seconds, 2)}
        for name, cell, answers in zip(names, cells, predicted, strict=True)
    ]
    print(json.dumps(found))


def processor_seconds() -> float:
    """Of this process and of those that it started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def mean_of(cells: dict[Key, Found], name: str, size: int, way: str, key: str = "score") -> float | None:
    """The mean over the draws that were measured; None if none was."""
    found = [cells.get((name, size, draw, way), {}).get(key) for draw in range(DRAWS)]
    known = [value for value in found if value is not None]
    return statistics.mean(known) if known else None


def section(cells: dict[Key, Found]) -> str:
    """A section of docs/benchmarks.md: one table per number of rows, and how plait compares."""
    parts = ["## Small data", "`python benchmarks/small_data.py`: " + ABOUT]
    for size in SIZES:
        draws = {draw for _, rows, draw, way in cells if rows == size and way == PLAIT}
        if not draws:
            continue
        title = f"**{size:,} rows**, mean of {len(draws)} draws" if len(draws) > 1 else f"**{size:,} rows**, one draw"
        lines = [title, "", f"| set | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
        for name in SETS:
            found = [mean_of(cells, name, size, way) for way in WAYS]
            lines.append(f"| {name} | {' | '.join('' if value is None else f'{value:.3f}' for value in found)} |")
        seconds = [
            [value for name in SETS if (value := mean_of(cells, name, size, way, "seconds")) is not None]
            for way in WAYS
        ]
        shown = [f"{statistics.mean(own):.1f}" if own else "" for own in seconds]
        lines.append(f"| processor seconds | {' | '.join(shown)} |")
        parts.append("\n".join(lines))
    gains = [(way, mean_gain(cells, PLAIT, way)) for way in WAYS if way not in (PLAIT, TOGETHER)]
    over = ", ".join(f"{gain:+.3f} over {way}" for way, gain in gains if gain is not None)
    rows = [target_cells(asdict(target)) for target in targets(cells)]
    return "\n\n".join([*parts, table(["target", "measured", ""], rows), f"plait's mean gains: {over}."])


def targets(cells: dict[Key, Found]) -> list[Target]:
    """What plait must reach against the other ways, over all sets and numbers of rows that both have."""
    free = [way for way, about in WAYS.items() if about.free]
    gaps = {
        f"{name}, {size:,} rows": ours - max(theirs)
        for name, size, ours in means(cells, PLAIT)
        if (theirs := [value for way in free if (value := mean_of(cells, name, size, way)) is not None])
    }
    lowest = min(gaps, key=gaps.__getitem__, default="")
    shares = [
        ours / theirs
        for name, size, _ in means(cells, PLAIT)
        if (theirs := mean_of(cells, name, size, SETFIT, "seconds")) and mean_of(cells, name, size, SETFIT) is not None
        if (ours := mean_of(cells, name, size, PLAIT, "seconds")) is not None
    ]
    return [
        at_least(-0.005, f"over the best free way in every cell; the lowest is {lowest}", gaps.get(lowest)),
        at_least(0.015, f"over {REGRESSION}, mean", mean_gain(cells, PLAIT, REGRESSION)),
        at_least(0, f"over {SETFIT}, mean", mean_gain(cells, PLAIT, SETFIT)),
        at_most(1 / 3, f"of {SETFIT}'s processor time, median", statistics.median(shares) if shares else None),
        at_least(0, "of three tasks trained together over each alone, mean", mean_gain(cells, TOGETHER, PLAIT)),
    ]


def means(cells: dict[Key, Found], way: str) -> list[tuple[str, int, float]]:
    """The mean score of a way for each set and number of rows where it was measured."""
    found = [(name, size, mean_of(cells, name, size, way)) for name in SETS for size in SIZES]
    return [(name, size, value) for name, size, value in found if value is not None]


def mean_gain(cells: dict[Key, Found], way: str, other: str) -> float | None:
    """The mean gain of one way over another, over the sets and numbers of rows that both have."""
    gains = [
        ours - theirs
        for name, size, ours in means(cells, way)
        if (theirs := mean_of(cells, name, size, other)) is not None
    ]
    return statistics.mean(gains) if gains else None


def wanted(sets: Sequence[str], sizes: Sequence[int], ways: Sequence[str]) -> list[tuple[list[str], int, int, str]]:
    """What to measure, one draw of everything before the next."""
    found = []
    for draw in range(DRAWS):
        for size in sizes:
            for way in ways:
                groups = [list(group) for group in GROUPS] if WAYS[way].together else [[name] for name in SETS]
                found += [(group, size, draw, way) for group in groups if set(group) & set(sets)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, choices=SIZES)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--table", action="store_true", help="only print the tables")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*json.loads(arguments.work))
        return
    from plait.encoder.find import find_checkpoint

    os.environ[MINILM] = str(find_checkpoint("minilm").folder)
    for names, size, draw, way in [] if arguments.table else wanted(arguments.sets, arguments.sizes, arguments.ways):
        if all((name, size, draw, way) in stored() for name in names):
            continue
        try:
            found = measure(names, size, draw, way)
        except (InstallError, RuntimeError) as error:
            print(f"{', '.join(names)}, {size} rows, draw {draw}, {way}: {error}", file=sys.stderr, flush=True)
            continue
        with CELLS.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in found)
        for one in found:
            print(f"{one['set']}, {size} rows, draw {draw}, {way}: {one['score']}", file=sys.stderr, flush=True)
    print(section(stored()))


if __name__ == "__main__":
    main()
