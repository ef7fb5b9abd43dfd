"""The shards of a corpus on Ray Data: actors that each load the model once and process one shard after the other.

Ray schedules the shards and replaces actors that die. A shard whose actor died is continued by another one, after the
last rows that were written. All machines of a cluster must see the input, the model and the output folder.
"""

import logging
import os
import pickle
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

from plait.errors import ExecutionError, PlaitError, RequestError
from plait.inference.batch_mapper import BatchMapper
from plait.inference.corpus import Shard, find_corpus
from plait.inference.shards import ShardOutput, check_shard, divisions, open_shard, run_shard, shard_request
from plait.inference.stream import Done
from plait.progress import Progress, SilentProgress

__all__ = ["ray_or_error", "run_on_ray"]

_SHARDS_PER_WORKER = 4  # so that fast workers can take over from slow ones
_SECONDS = 1.0  # between two looks at what is finished


class _ShardActor:
    """Processes shards; Ray makes one per worker."""

    def __init__(self, mapper: bytes, encoding: str, source: str, folder: str, count: int) -> None:
        made: BatchMapper = pickle.loads(mapper)  # loads the model
        self.job = replace(made.job, encoding=encoding)
        self.source, self.folder, self.count = source, Path(folder), count

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch of one shard → what is wrong with it, one mistake per line."""
        (number,) = batch["shard"].tolist()
        mistakes = ""
        try:
            run_shard(self.job, self.source, self.folder, Shard(number, self.count), SilentProgress())
        except PlaitError as error:
            mistakes = "\n".join(error.mistakes)
        return {"shard": [number], "mistakes": [mistakes]}


def ray_or_error() -> Any:
    """The module ray with Ray Data; if it is missing, a RequestError says how to install it."""
    try:
        import ray.data
    except ImportError as error:
        raise RequestError(f'--engine ray needs the package {error.name}; pip install "plait[cluster]"') from None
    return ray


def run_on_ray(
    mapper: BatchMapper,
    source: str,
    folder: Path,
    progress: Progress,
    *,
    shards: int | None = None,
    workers: int | None = None,
    encoding: str = "utf-8",
) -> Done:
    """Process a file or folder into the parts of all shards; finished ones, and finished rows of others, are kept.

    Uses the Ray cluster that this process or the environment names, or else starts Ray on this machine.
    """
    ray = ray_or_error()
    job = replace(mapper.job, encoding=encoding)
    own = not ray.is_initialized()
    if own:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # the rest is in Ray's own log files
        _start(ray)
    try:
        most = int(ray.cluster_resources().get("CPU", 1))
        if workers and workers > most:
            raise RequestError(f"--workers {workers}: the Ray cluster has {most} processors; use at most {most}")
        workers = workers or most
        begun = divisions(folder)
        count = shards or (begun.pop() if len(begun) == 1 else workers * _SHARDS_PER_WORKER)
        check_shard(source, folder, Shard(0, count))
        given = open_shard(job, source, folder, Shard(0, count))  # fails now if a column is missing
        request = shard_request(job, find_corpus(Path(source)))
        parts = [ShardOutput(folder, Shard(number, count)) for number in range(count)]
        records = [part.record for part in parts]
        # A part of another request is not done: its shard says what is wrong with it.
        todo = [number for number, record in enumerate(records) if not record or record.request != request]
        if len(todo) < count:
            for part in {*parts} - {parts[number] for number in todo}:
                part.output.discard()
            progress.note(f"{count - len(todo)} of {count} shards are already done")
        # Absolute, since actors have a working directory of their own.
        places = str(Path(source).resolve()), str(folder.resolve())
        arguments = (pickle.dumps(mapper), encoding, *places, count)
        if todo:
            total = given.rows * count  # about
            _run(ray, todo, arguments, min(workers, len(todo)), parts, progress, job.what, total)
    finally:
        if own:
            ray.shutdown()
    records = [part.record for part in parts]
    rows, bad = (sum(getattr(record, what) for record in records if record) for what in ("rows", "bad"))
    return Done(rows, bad, folder if bad else None)


def _start(ray: Any) -> None:
    """Connect to a cluster, or start Ray on this machine."""
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray has no class of its own for a start that takes too long
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ExecutionError(f"Ray did not start: {reason}") from None


def _run(
    ray: Any,
    todo: list[int],
    arguments: tuple[Any, ...],
    workers: int,
    parts: list[ShardOutput],
    progress: Progress,
    what: str,
    total: int,
) -> None:
    """Let actors process some shards; all their mistakes are raised at once."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    dataset = ray.data.from_items([{"shard": number} for number in todo], override_num_blocks=len(todo)).map_batches(
        _ShardActor,
        fn_constructor_args=arguments,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
        num_cpus=1,
    )
    collected: Future[list[dict[str, Any]]] = Future()
    Thread(target=_collect, args=(dataset, collected), daemon=True, name="plait-ray").start()
    rows = sum(part.rows_on_disk for part in parts)
    progress.begin(what, total, rows)
    finished, open_parts = 0, parts
    try:
        while not collected.done():
            wait([collected], timeout=_SECONDS)
            records = [part.record for part in open_parts]  # those of finished parts are read once
            finished += sum(record.rows for record in records if record)
            open_parts = [part for part, record in zip(open_parts, records, strict=True) if not record]
            now = max(rows, finished + sum(part.output.rows_on_disk for part in open_parts))
            if now > rows:
                progress.advance(now - rows)
            rows = now
        answers = collected.result()
    except ray.exceptions.RayError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise ExecutionError(f"Ray stopped: {reason}; the same command continues where it stopped") from None
    finally:
        progress.end()
    mistakes = [line for answer in answers for line in answer["mistakes"].splitlines()]
    if mistakes:
        raise RequestError(*dict.fromkeys(mistakes))


def _collect(dataset: Any, collected: "Future[list[dict[str, Any]]]") -> None:
    """The answers of all shards, or why there are none; the body of a thread."""
    try:
        collected.set_result(list(dataset.iter_rows()))
    except BaseException as error:
        collected.set_exception(error)
