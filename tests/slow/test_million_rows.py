"""A million rows take no more memory than a thousand, and come out complete and in order."""

import csv
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest

from streaming import train_model
from tiny import sentences

pytestmark = pytest.mark.slow

FEW, MANY = 1_000, 1_000_000
BAD = 100_003  # every so many rows a text is empty
MEMORY = 200  # MB that the larger file may take more


@pytest.fixture(scope="module")
def model(tiny_bert, tmp_path_factory) -> Path:
    return train_model(tmp_path_factory.mktemp("million"), tiny_bert)


def write_many(path: Path, count: int) -> Path:
    texts = sentences(5000, seed=8, longest=6)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "sentence"])
        writer.writerows((row, f"{texts[row % 5000]} {row}" if row % BAD != BAD - 1 else "") for row in range(count))
    return path


# Of a process that a large one starts, the system counts the memory of the large one too; so a small one starts it.
MEASURE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024)
"""


def predict(model: Path, source: Path, output: Path) -> tuple[float, float]:
    """Seconds, and the peak of the process's memory in MB."""
    command = [sys.executable, "-m", "plait", "predict", model, "mood", "--input", source, "--output", output]
    began = time.perf_counter()
    measured = subprocess.run([sys.executable, "-c", MEASURE, *map(str, command)], capture_output=True, text=True)
    code, peak = measured.stdout.split()
    assert code == "0"
    return time.perf_counter() - began, float(peak)


def test_a_million_rows_in_flat_memory_complete_and_in_order(model, tmp_path, capsys):
    few, many = write_many(tmp_path / "few.csv", FEW), write_many(tmp_path / "many.csv", MANY)
    short, small = predict(model, few, tmp_path / "few-out.csv")
    long, large = predict(model, many, tmp_path / "many-out.csv")
    with capsys.disabled():
        speed = f"{(MANY - FEW) / (long - short):,.0f} rows/s"
        print(f"\n{MANY:,} rows in {long:.0f} s, {speed}; peak {large:.0f} MB, of {FEW:,} rows {small:.0f} MB")
    assert large - small < MEMORY
    with many.open(newline="") as given, (tmp_path / "many-out.csv").open(newline="") as made:
        asked, found = csv.reader(given), csv.reader(made)
        assert next(found) == [*next(asked), "prediction", "probability", "p(high)", "p(low)"]
        rows = 0
        for question, answer in zip(asked, found, strict=True):
            assert answer[:2] == question
            bad = rows % BAD == BAD - 1
            assert (answer[2:] == [""] * 4) if bad else (answer[2] in ("high", "low"))
            rows += 1
    assert rows == MANY
    with (tmp_path / "few-out.csv").open() as file, (tmp_path / "many-out.csv").open() as larger:
        assert [line.split(",")[:3] for line in file] == [line.split(",")[:3] for line in islice(larger, FEW + 1)]
    assert len((tmp_path / "many-out.csv.errors.jsonl").read_text().splitlines()) == MANY // BAD
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "few-out.csv", "few.csv", "many-out.csv", "many-out.csv.errors.jsonl", "many.csv",
    ]  # fmt: skip
