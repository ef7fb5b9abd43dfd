"""A corpus of short texts: memory of one process that embeds a tenth and all of it, and Ray with two actors beside it.

    python benchmarks/corpus.py [--full] [--rows N] [--model MODEL] [--out DIR]

20,000 texts, or a million with --full, in eight csv files. The rows that Ray's shards and their merge give must equal
those of one process. Without Ray, only one process and two shards are measured. Seconds include the start of Python,
of Ray and of the models; megabytes are the highest sum over all processes, read every fifth of a second.
"""

import argparse
import csv
import random
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from machine import machine
from serve_soak import tree_megabytes
from store import store_folder
from texts import SEED, texts_of

FULL, REDUCED = 1_000_000, 20_000
FILES = 8
SECONDS = 0.2  # between two readings of memory


def write_texts(folder: Path, rows: int) -> Path:
    """Short texts of several data sets, all distinct."""
    folder.mkdir(parents=True, exist_ok=True)
    known = [text for name in ("SST", "Quora", "STS") for text in texts_of(name)]
    generator = random.Random(f"{SEED}/{rows}")
    for place in range(FILES):
        with (folder / f"{place}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text"])
            numbers = range(rows * place // FILES, rows * (place + 1) // FILES)
            writer.writerows([number, f"{generator.choice(known)} {number}"] for number in numbers)
    return folder


def measure(*words: object) -> tuple[float, float]:
    """The seconds and peak megabytes of a command of plait."""
    began, peak = time.perf_counter(), 0.0
    command = [sys.executable, "-m", "plait", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        peak = max(peak, tree_megabytes(process.pid))
        time.sleep(SECONDS)
    if process.returncode:
        raise SystemExit(process.stderr.read() if process.stderr else "")
    return time.perf_counter() - began, peak


def same_rows(first: Path, second: Path) -> bool:
    """Whether two files of parquet hold the same rows, read a little at a time."""
    import pyarrow.parquet

    files = [pyarrow.parquet.ParquetFile(path) for path in (first, second)]
    if files[0].metadata.num_rows != files[1].metadata.num_rows or files[0].schema_arrow != files[1].schema_arrow:
        return False
    rows = (row for row in zip(*(_rows(file) for file in files), strict=True))
    return all(one == other for one, other in rows)


def _rows(file):
    for batch in file.iter_batches(batch_size=1024):
        yield from batch.to_pylist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--out", type=Path, default=None, help="where texts and outputs go")
    given = parser.parse_args()
    rows = given.rows or (FULL if given.full else REDUCED)
    folder = (given.out or store_folder("corpus")) / str(rows)
    few, many = (write_texts(folder / name, count) for name, count in (("few", rows // 10), ("many", rows)))
    embed = ("embed", given.model, "--text", "text")
    print(machine())
    print(f"{'':<34}{'rows':>10}{'seconds':>10}{'rows/s':>10}{'MB':>8}", flush=True)

    def report(name: str, count: int, *words: object) -> None:
        seconds, peak = measure(*words)
        print(f"{name:<34}{count:>10,}{seconds:>10.1f}{count / seconds:>10,.0f}{peak:>8,.0f}", flush=True)

    whole, merged, parts = folder / "whole.parquet", folder / "merged.parquet", folder / f"parts-{time.time_ns()}"
    report("one process, a tenth", rows // 10, *embed, "--input", few, "--output", folder / "few.parquet")
    report("one process", rows, *embed, "--input", many, "--output", whole)
    if find_spec("ray"):
        ray = ("--engine", "ray", "--workers", 2)
        report("Ray, 2 actors", rows, *embed, "--input", many, "--output", parts, *ray)
    else:
        for number in range(2):
            shard = ("--shards", 2, "--shard", number)
            report(f"shard {number} of 2", rows // 2, *embed, "--input", many, "--output", parts, *shard)
    report("merge", rows, "embed", "--merge", parts, "--output", merged)
    if not same_rows(whole, merged):
        raise SystemExit("the merged rows differ from those of one process")
    print("the merged rows equal those of one process")


if __name__ == "__main__":
    main()
