"""Half of the shard processes are killed; run again and merged, the output has every row once, as of one process."""

import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from streaming import rows_of, write_rows

SHARDS = 4
ROWS = 120  # 30 per shard, in parts of 7


def kill_in_part(after: int) -> None:
    """Killed when half of a part is in its file."""
    from plait.inference.resumable import ResumableOutput

    add = ResumableOutput.add

    def wrapped(self, data, errors, **facts):
        if len(self.parts) == after:
            self._part(after).write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        add(self, data, errors, **facts)

    ResumableOutput.add = wrapped


def kill_before_record(after: int) -> None:
    """Killed when the part is in its place, but nothing says so."""
    from plait.inference import shards

    shards.write_json = lambda path, value: os.kill(os.getpid(), signal.SIGKILL)


def work(arguments: list[str], moment, log: Path) -> None:
    """The command line in its own process, which ends itself at the moment."""
    import torch

    from plait.cli.main import main
    from plait.inference import stream

    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)
    stream._CHUNK_ROWS = 7
    if moment:
        moment(2)
    sys.argv = ["plait", *arguments]
    main()


@pytest.fixture
def run_all(trained_run, tmp_path):
    """Runs `plait embed` or `plait predict` in several processes at once; returns their exit codes and messages."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["plait.inference.shards", "plait.cli.display", "pyarrow.parquet", "torch._dynamo"])

    def run(commands: list[tuple[str, ...]], moments: dict) -> list[tuple[int, str]]:
        kinds = {"embed": ["embed", str(trained_run)], "predict": ["predict", str(trained_run), "mood"]}
        logs = [tmp_path / f"log{number}" for number in range(len(commands))]
        started = [
            server.Process(target=work, args=([*kinds[kind], *options], moments.get(number), log))
            for number, ((kind, *options), log) in enumerate(zip(commands, logs, strict=True))
        ]
        for process in started:
            process.start()
        for process in started:
            process.join()
        return [(process.exitcode, log.read_text()) for process, log in zip(started, logs, strict=True)]

    return run


@pytest.mark.parametrize("kind", ["embed", "predict"])
def test_killing_half_of_the_shards_loses_and_repeats_nothing(kind, run_all, tmp_path):
    from plait.errors import RequestError
    from plait.inference.merge import check_parts, merge_parts
    from plait.progress import SilentProgress

    rows = rows_of(ROWS)
    for bad in (0, 40, 100):
        rows[bad]["sentence"] = ""
    (tmp_path / "in").mkdir()
    for number in range(3):  # no shard begins where a file does
        write_rows(tmp_path / f"in/{number}.jsonl", rows[40 * number : 40 * number + 40])
    parts = tmp_path / "parts"
    shard = (kind, "--input", str(tmp_path / "in"), "--output", str(parts), "--shards", str(SHARDS), "--shard")
    commands = [(*shard, str(number)) for number in range(SHARDS)]
    codes = [code for code, _ in run_all(commands, {1: kill_in_part, 3: kill_before_record})]
    assert codes == [0, -signal.SIGKILL, 0, -signal.SIGKILL]
    with pytest.raises(RequestError, match=r"shards 1 and 3 of 4 are not finished; run --shards 4 --shard NUMBER"):
        check_parts(parts, SilentProgress())

    again = run_all(
        [*commands, (kind, "--input", str(tmp_path / "in"), "--output", str(tmp_path / "whole.parquet"))], {}
    )
    assert [code for code, _ in again] == [0] * 5, again
    messages = [log for _, log in again]
    assert "shard 0 of 4 is already done" in messages[0] and "shard 2 of 4 is already done" in messages[2]
    assert "resuming after row 14" in messages[1] and "resuming after row 30" in messages[3]
    done = merge_parts(parts, tmp_path / "merged.parquet", "parquet", SilentProgress())
    assert (done.rows, done.bad) == (ROWS, 3)
    merged, whole = (pyarrow.parquet.read_table(tmp_path / f"{name}.parquet") for name in ("merged", "whole"))
    assert merged.equals(whole)
    assert merged.column("id").to_pylist() == [str(number) for number in range(ROWS)]
    errors = [(tmp_path / f"{name}.parquet.errors.jsonl").read_bytes() for name in ("merged", "whole")]
    assert errors[0] == errors[1]
    assert not list(parts.glob(".*"))
