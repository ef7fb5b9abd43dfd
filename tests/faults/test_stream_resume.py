"""`plait predict` and `plait embed`, killed at various moments and resumed, write the same bytes."""

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from streaming import rows_of, write_rows

Pause = Callable[[], None]
ROWS, PARTS = 50, 8  # 7 rows per part


def pause_in_work(pause: Pause, after: int) -> None:
    """While the rows of a part are processed."""
    from plait.inference import stream

    results, calls = stream._Stream._results, iter(range(1000))

    def wrapped(self, records):
        if next(calls) == after:
            pause()
        return results(self, records)

    stream._Stream._results = wrapped


def pause_in_part(pause: Pause, after: int) -> None:
    """When half of a part is in its file."""
    from plait.inference.resumable import ResumableOutput

    add = ResumableOutput.add

    def wrapped(self, data, errors, **facts):
        if len(self.parts) == after:
            self._part(after).write_bytes(data[: len(data) // 2])
            pause()
        add(self, data, errors, **facts)

    ResumableOutput.add = wrapped


def pause_before_journal(pause: Pause, after: int) -> None:
    """When a part is on disk, and half of its line is in the journal."""
    from plait.inference.resumable import ResumableOutput

    append = ResumableOutput._append

    def wrapped(self, line):
        if "rows" in line and len(self.parts) == after:
            with self.journal.open("a") as file:
                file.write('{"rows": ')
            pause()
        append(self, line)

    ResumableOutput._append = wrapped


def pause_in_join(pause: Pause, after: int) -> None:
    """When the errors are listed and a piece of the whole output is written."""
    from plait.inference.resumable import ResumableOutput

    finish = ResumableOutput.finish

    class Halting:
        def __init__(self, writer):
            self.writer = writer

        def join(self, paths, header, file):
            self.writer.join(paths[:after], header, file)
            file.flush()
            pause()
            file.seek(0)
            file.truncate()
            self.writer.join(paths, header, file)

    ResumableOutput.finish = lambda self, writer, header, errors: finish(self, Halting(writer), header, errors)


def pause_before_removal(pause: Pause, after: int) -> None:
    """When the output exists, and so do its parts."""
    from plait.inference.resumable import ResumableOutput

    remove = ResumableOutput._remove

    def wrapped(self):
        pause()
        remove(self)

    ResumableOutput._remove = wrapped


def work(arguments: list[str], moment: Callable[[Pause], None] | None, log: Path, line: Connection) -> None:
    """The command line in its own process; it reports when it reaches the moment, and waits there."""
    import torch

    from plait.cli.main import main
    from plait.inference import stream

    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)
    stream._CHUNK_ROWS = 7

    def pause() -> None:
        line.send("here")
        line.recv()

    if moment:
        moment(pause)
    sys.argv = ["plait", *arguments]
    main()


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    rows = rows_of(ROWS)
    for bad in (0, 6, 7, 30, 49):
        rows[bad]["sentence"] = ""
    return write_rows(tmp_path_factory.mktemp("input") / "in.csv", rows)


@pytest.fixture(scope="module")
def start(trained_run, source):
    """Start `plait predict` or `plait embed`; it waits at the given moment."""
    server = multiprocessing.get_context("forkserver")  # new processes have all slow imports already
    server.set_forkserver_preload(["plait.inference.stream", "plait.cli.display", "pyarrow.parquet", "torch._dynamo"])
    processes = []

    def begin(output: Path, *options: str, moment=None):
        kind = ["embed", str(trained_run)] if output.suffix == ".npy" else ["predict", str(trained_run), "mood"]
        arguments = [*kind, "--input", str(source), "--output", str(output), *options]
        ours, its = server.Pipe()
        process = server.Process(target=work, args=(arguments, moment, output.parent / "log", its))
        process.start()
        its.close()
        processes.append(process)
        return process, ours

    yield begin
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    """An output of an uninterrupted process, with its list of errors beside it."""
    folder = tmp_path_factory.mktemp("whole")

    def output(kind: str) -> Path:
        if not (folder / f"out.{kind}").exists():
            finish(start, folder / f"out.{kind}")
        return folder / f"out.{kind}"

    return output


def finish(start, output: Path, *options: str, code: int = 0) -> str:
    """Run the command to its end and return its messages."""
    process, _ = start(output, *options)
    process.join()
    log = (output.parent / "log").read_text()
    assert process.exitcode == code, log
    assert "Traceback" not in log
    return log


def kill_at(start, output: Path, moment: Callable[[Pause], None], *options: str) -> None:
    """Kill the command when it reaches a moment."""
    process, line = start(output, *options, moment=moment)
    assert line.recv() == "here"
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "log")


def same(output: Path, whole: Path) -> None:
    """Equal outputs, equal lists of errors, and nothing left behind."""
    for end in ("", ".errors.jsonl"):
        assert Path(f"{output}{end}").read_bytes() == Path(f"{whole}{end}").read_bytes()
    assert names(output.parent) == [output.name, f"{output.name}.errors.jsonl"]


MOMENTS = {
    "first part": partial(pause_in_work, after=0),
    "second part": partial(pause_in_work, after=1),
    "last part": partial(pause_in_work, after=PARTS - 1),
    "half a part": partial(pause_in_part, after=2),
    "half a line of the journal": partial(pause_before_journal, after=3),
    "half the output": partial(pause_in_join, after=PARTS // 2),
    "before the parts are removed": partial(pause_before_removal, after=0),
}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_output_that_was_killed_and_resumed_has_the_same_bytes(start, whole, moment, kind, tmp_path):
    kill_at(start, output := tmp_path / f"out.{kind}", MOMENTS[moment])
    results = [output.name, f"{output.name}.errors.jsonl"]
    seen = {"half the output": results[1:], "before the parts are removed": results}.get(moment, [])
    assert names(tmp_path) == [f".{output.name}.parts", *seen]
    log = finish(start, output, "--resume")
    assert ("resuming after row" in log) == (moment != "first part")
    assert "50 rows" in log and "5 of them bad" in log
    same(output, whole(kind))


def test_an_output_can_be_killed_again_and_again(start, whole, tmp_path):
    output = tmp_path / "out.csv"
    kill_at(start, output, partial(pause_in_work, after=1))
    for _ in range(PARTS - 2):
        kill_at(start, output, partial(pause_in_work, after=1), "--resume")
    assert "resuming after row 49" in finish(start, output, "--resume")
    same(output, whole("csv"))


def test_starting_again_without_resume_after_a_kill(start, whole, tmp_path):
    kill_at(start, output := tmp_path / "out.csv", MOMENTS["half the output"])
    assert "resuming" not in finish(start, output)
    same(output, whole("csv"))


def test_a_second_process_on_the_same_output_is_refused_and_harms_nothing(start, whole, tmp_path):
    first, line = start(output := tmp_path / "out.csv", moment=partial(pause_in_work, after=4))
    assert line.recv() == "here"
    for options in ([], ["--resume"]):
        assert "out.csv: another process is writing it" in finish(start, output, *options, code=2)
    line.send("continue")
    first.join()
    assert first.exitcode == 0
    same(output, whole("csv"))


def test_an_interrupt_explains_how_to_resume(start, whole, tmp_path):
    process, line = start(output := tmp_path / "out.csv", moment=MOMENTS["second part"])
    assert line.recv() == "here"
    os.kill(process.pid, signal.SIGINT)
    process.join()
    log = (tmp_path / "log").read_text()
    assert process.exitcode == 130 and "Traceback" not in log
    assert f"stopped; the same command with --resume continues {output}" in log
    assert "resuming after row 7" in finish(start, output, "--resume")
    same(output, whole("csv"))


def test_an_interrupt_before_the_first_part_leaves_nothing(start, tmp_path):
    process, line = start(tmp_path / "out.csv", moment=MOMENTS["first part"])
    assert line.recv() == "here"
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130 and "--resume" not in (tmp_path / "log").read_text()
    assert names(tmp_path) == []


def limit_files(pause: Pause, size: int) -> None:
    """No file may grow beyond a size, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_gives_one_message_and_loses_nothing(start, whole, tmp_path):
    size = whole("csv").stat().st_size
    process, _ = start(output := tmp_path / "out.csv", moment=partial(limit_files, size=size // 2))
    process.join()
    log = (tmp_path / "log").read_text()
    assert process.exitcode == 1 and "plait: " in log and "Traceback" not in log
    assert ".out.csv.parts" in names(tmp_path) and "out.csv" not in names(tmp_path)
    finish(start, output, "--resume")
    same(output, whole("csv"))
