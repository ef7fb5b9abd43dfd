"""`--engine ray`: killed actors and a killed command lose no row and repeat none; the output is that of one process."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet
import pytest

from streaming import rows_of, write_rows

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed")]

ROWS = 40_000  # 5,000 in each of 8 shards, which are three chunks
PATIENCE = 600  # seconds


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ray") / "in"
    folder.mkdir()
    rows = [{"id": str(number), "sentence": row["sentence"]} for number, row in enumerate(rows_of(400) * (ROWS // 400))]
    rows[9]["sentence"] = ""
    for number in range(3):
        write_rows(folder / f"{number}.csv", rows[ROWS * number // 3 : ROWS * (number + 1) // 3])
    return folder


@pytest.fixture(scope="module")
def whole(trained_run, source):
    """The output of one process without Ray."""
    output = source.parent / "whole.parquet"
    command = [sys.executable, "-m", "plait", "embed", trained_run, "--input", source, "--output", output]
    subprocess.run(command, check=True, capture_output=True)
    return pyarrow.parquet.read_table(output)


def start(model: Path, source: Path, output: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "plait", "embed", model, "--input", source, "--output", output]
    options = ["--engine", "ray", "--workers", "2"]
    return subprocess.Popen([*map(str, command), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen) -> str:
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "Traceback" not in out, out
    return out


def descendants(pid: int) -> dict[int, str]:
    """The processes that a process started, directly or not, with their names."""
    found: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(folder.name)] = parent, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended
    chosen, names = {pid}, {}
    while more := {child for child, (parent, _) in found.items() if parent in chosen} - chosen:
        chosen |= more
        names |= {child: found[child][1] for child in more}
    return names


def wait_for(condition, process: subprocess.Popen) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.05)


def some_rows_are_written(output: Path) -> bool:
    return any(len(path.read_bytes().splitlines()) > 1 for path in output.glob(".part-*.parts/journal.jsonl"))


def merged(output: Path):
    file = output.with_suffix(".parquet")
    subprocess.run([sys.executable, "-m", "plait", "embed", "--merge", output, "--output", file], check=True)
    assert not list(output.glob(".*"))
    return pyarrow.parquet.read_table(file)


def test_killing_half_of_the_actors_changes_nothing(trained_run, source, whole, tmp_path):
    process = start(trained_run, source, tmp_path / "out")
    wait_for(lambda: some_rows_are_written(tmp_path / "out"), process)
    actors = [pid for pid, name in descendants(process.pid).items() if "MapWorker" in name]
    assert len(actors) == 2
    os.kill(actors[0], signal.SIGKILL)
    assert f"{ROWS:,} rows in {tmp_path}/out, 1 of them bad and left empty" in finish(process)
    assert merged(tmp_path / "out").equals(whole)


def test_a_killed_command_continues(trained_run, source, whole, tmp_path):
    process = start(trained_run, source, tmp_path / "out")
    wait_for(lambda: len(list((tmp_path / "out").glob("_part-*.parquet.json"))) >= 2, process)
    others = descendants(process.pid)
    process.kill()
    for pid in others:  # Ray ends them as well, but later
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("_part-*.parquet.json")}
    out = finish(start(trained_run, source, tmp_path / "out"))
    assert f"{len(done)} of 8 shards are already done" in out
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())
    assert merged(tmp_path / "out").equals(whole)


def test_commands_of_the_docs_run(trained_run, tmp_path):
    page = (Path(__file__).parent.parent.parent / "docs/scale.md").read_text(encoding="utf-8")
    (block,) = [found for found in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "ray" in found]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/first").symlink_to(trained_run)
    (tmp_path / "corpus").mkdir()
    write_rows(tmp_path / "corpus/a.csv", rows_of(30))
    for command in block.splitlines():
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert pyarrow.parquet.read_table(tmp_path / "by-ray.parquet").num_rows == 30


def test_more_workers_than_processors_are_refused(trained_run, source, tmp_path):
    command = [sys.executable, "-m", "plait", "embed", trained_run, "--input", source, "--output", tmp_path / "out"]
    done = subprocess.run([*command, "--engine", "ray", "--workers", "9999"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "plait: --workers 9999: the Ray cluster has" in done.stderr and "Traceback" not in done.stderr


def test_a_mistake_of_a_shard_is_one_line(trained_run, source, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("text\nx\n")
    command = [sys.executable, "-m", "plait", "embed", trained_run, "--input", tmp_path / "in"]
    done = subprocess.run([*command, "--output", tmp_path / "out", "--engine", "ray"], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"plait: {tmp_path}/in/a.csv:1: no column 'sentence'")


def test_the_mapper_in_a_pipeline_of_ray_data(trained_run, source, whole):
    code = f"""
import ray, plait
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
rows = ray.data.read_csv({str(source / "0.csv")!r}).limit(100)
found = rows.map_batches(plait.BatchMapper, fn_constructor_args=[{str(trained_run)!r}], batch_size=50, concurrency=1)
print(sum(len(row["embedding"]) for row in found.take_all()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "1600", done.stderr
