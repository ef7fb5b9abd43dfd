"""Do the time per text and the memory of embedding a file stay the same, however long the file is?

    python benchmarks/growth.py [--json] [--full] [--rounds N] [--threads N]

`plait embed` reads texts from a csv file and writes vectors to a .npy file, in a new process each time.
"""

import csv
import random
import statistics
import subprocess
import sys
from pathlib import Path

from compare import Benchmark, Contender, Disagreement, Setting, Table, Target, Work, at_most, run
from store import store_folder
from texts import SEED, texts_of

FULL, REDUCED = (1_000, 10_000, 100_000), (1_000, 2_000, 4_000)
SIZES = ("the smallest file", "the middle file", "the largest file")


def write_texts(setting: Setting) -> list[str]:
    """A file for each size: short texts from the same data sets, all distinct."""
    known = [text for name in ("SST", "Quora", "STS") for text in texts_of(name)]
    paths = []
    for size in FULL if setting.full else REDUCED:
        path = store_folder("growth") / f"{size}.csv"
        generator = random.Random(f"{SEED}/{size}")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text"])
            writer.writerows([f"{generator.choice(known)} {number}"] for number in range(size))
        paths.append(str(path))
    return paths


def embed_file(place: int, setting: Setting) -> Work:
    source = setting.prepared[place]
    output = str(Path(source).with_suffix(".npy"))

    def work() -> int:
        words = ["embed", "minilm", "--input", source, "--output", output]
        done = subprocess.run([sys.executable, "-m", "plait", *words], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return int(done.stdout.split()[0].replace(",", ""))

    return work


def check(outputs) -> dict[str, dict[str, object]]:
    """Every file has as many vectors as texts."""
    found = tuple(int(outputs[name]) for name in SIZES)
    if found not in (FULL, REDUCED):
        raise Disagreement(f"{found} vectors were written")
    return {name: {"texts": rows} for name, rows in zip(SIZES, found, strict=True)}


def added_text(table: Table) -> tuple[float, float]:
    """Milliseconds per added text, from the smallest file to the middle one and from there to the largest."""
    sizes = FULL if table.setting.full else REDUCED
    small, middle, large = (table.contenders[name].times for name in SIZES)
    first = [(b - a) / (sizes[1] - sizes[0]) for a, b in zip(small, middle, strict=True)]
    second = [(c - b) / (sizes[2] - sizes[1]) for b, c in zip(middle, large, strict=True)]
    return 1000 * statistics.median(first), 1000 * statistics.median(second)


def targets(table: Table) -> list[Target]:
    first, second = added_text(table)
    peaks = [table.contenders[name].megabytes or 0.0 for name in SIZES]
    return [
        at_most(0.1, "relative difference in the time per added text", abs(second / first - 1)),
        at_most(50, "MB between the memory peaks", max(peaks) - min(peaks)),
    ]


def facts(table: Table) -> dict[str, object]:
    first, second = added_text(table)
    return {
        "per added text": f"{first:.2f} ms up to the middle size, {second:.2f} ms beyond",
        "MB": "the peak of the whole process",
    }


BENCHMARK = Benchmark(
    "Embedding files of growing size",
    {
        name: Contender(lambda setting, place=place: embed_file(place, setting), prepare=write_texts)
        for place, name in enumerate(SIZES)
    },
    check=check,
    targets=targets,
    facts=facts,
)

if __name__ == "__main__":
    run(BENCHMARK)
