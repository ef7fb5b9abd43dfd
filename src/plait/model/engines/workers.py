"""Worker processes that each hold a copy of a model's encoder and embed tokenized inputs.

`python -m plait.model.engines.workers MODEL THREADS ENGINE` is one of them. It reads batches from standard input and
writes their embeddings as plain arrays until the input ends, which also happens when its parent dies.
S inputs, D width.
"""

import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO

import numpy as np
import torch
from torch import Tensor

from plait.errors import ExecutionError, RequestError
from plait.model.directory.load import LoadedModel, load_model
from plait.model.directory.record import member_folder
from plait.model.model import Model
from plait.processes import module_command, safe_environment

__all__ = ["use_workers"]

_INTEGER, _NUMBER = np.dtype("<i4"), np.dtype("<f4")


def use_workers(loaded: LoadedModel, count: int) -> None:
    """Let `count` processes encode for a model, or for each member of an ensemble."""
    if count < 1:
        raise RequestError(f"workers: expected a number of processes, found {count}")
    members = loaded.model.members
    for number, member in enumerate(members, 1):
        folder = loaded.folder if isinstance(loaded.model, Model) else member_folder(loaded.folder, number)
        name = member.engine.name if member.engine else "torch"
        member.engine = _Workers(folder, count, member.encoder.config.width, name)


class _Workers:
    """An engine that hands each batch to the next free process."""

    def __init__(self, source: Path, count: int, width: int, engine: str) -> None:
        self.name = engine
        self.width = width
        self.lanes = count
        threads = max(1, torch.get_num_threads() // count)
        command = module_command("plait.model.engines.workers", source, threads, engine)
        processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=safe_environment(),
            )
            for _ in range(count)
        ]
        self.free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in processes:
            self.free.put(process)
        weakref.finalize(self, _stop, processes)

    def pooled(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Tensor:
        """Embeddings (S, D) of tokenized inputs, by one of the processes."""
        process = self.free.get()
        try:
            assert process.stdin and process.stdout, "both are pipes"
            for part in ([len(ids)], [len(text) for text in ids], firsts, np.concatenate(ids)):
                process.stdin.write(np.asarray(part, _INTEGER).tobytes())
            process.stdin.flush()
            answer = _read(process.stdout, _NUMBER, len(ids) * self.width)
        except (BrokenPipeError, EOFError):
            raise ExecutionError(
                f"a worker stopped (exit code {process.wait()}), perhaps out of memory; use fewer workers"
            ) from None
        finally:
            self.free.put(process)
        return torch.from_numpy(answer).view(len(ids), self.width)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill the processes and wait until they are gone."""
    for process in processes:
        process.kill()
        process.communicate()


def _read(file: IO[bytes], kind: np.dtype, count: int) -> np.ndarray:
    """`count` numbers; raises EOFError if the input ends first."""
    data = file.read(count * kind.itemsize)
    if len(data) < count * kind.itemsize:
        raise EOFError
    return np.frombuffer(bytearray(data), kind)


def _serve(model: Model, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Embed batch after batch until the input ends."""
    prepared = model.prepared() if model.engine is None else None
    while True:
        try:
            (count,) = _read(requests, _INTEGER, 1)
            lengths_S = _read(requests, _INTEGER, count)
            firsts_S = _read(requests, _INTEGER, count)
            ids = np.split(_read(requests, _INTEGER, lengths_S.sum()), np.cumsum(lengths_S)[:-1])
        except EOFError:
            return
        with torch.inference_mode():
            given = ids, firsts_S.tolist()
            pooled_SD = model.engine.pooled(*given) if model.engine else model.states(*given, prepared)[0]
            answers.write(pooled_SD.cpu().numpy().astype(_NUMBER).tobytes())
        answers.flush()


if __name__ == "__main__":
    folder, number, name = sys.argv[1:]
    torch.set_num_threads(int(number))
    loaded = load_model(folder, device="cpu", engine="onnx" if name == "onnx" else "torch").model
    assert isinstance(loaded, Model), "an ensemble starts workers for its members one by one"
    _serve(loaded, sys.stdin.buffer, sys.stdout.buffer)
