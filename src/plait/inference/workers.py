"""Processes that each hold a copy of a model's encoder and embed tokenized inputs for it.

`python -m plait.inference.workers MODEL THREADS` is one of them. It reads batches from its standard input and answers
with their embeddings, in plain arrays, until the input ends, as it does when whoever asked is gone.
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

from plait.encoder.find import find_checkpoint
from plait.errors import RequestError, WorkError
from plait.model.about import find_model
from plait.model.ensemble import AnyModel
from plait.model.load import load_model
from plait.model.model import Model

__all__ = ["Workers", "use_workers"]

INTEGER, NUMBER = np.dtype("<i4"), np.dtype("<f4")


def use_workers(model: AnyModel, source: str | Path, count: int) -> None:
    """Let so many processes encode for a model, or for each member of an ensemble."""
    if count < 1:
        raise RequestError(f"workers: expected how many processes shall encode, found {count}")
    folder = find_model(source) or find_checkpoint(str(source))
    if isinstance(model, Model):
        model.engine = Workers(folder, count, model.encoder.config.width)
    else:
        for number, member in enumerate(model.members, 1):
            member.engine = Workers(folder / "members" / str(number), count, member.encoder.config.width)


class Workers:
    """An engine that hands each batch to the next process that is free."""

    def __init__(self, source: Path, count: int, width: int) -> None:
        self.width = width
        self.lanes = count
        threads = max(1, torch.get_num_threads() // count)
        command = [sys.executable, "-m", "plait.inference.workers", str(source), str(threads)]
        processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            for _ in range(count)
        ]
        self.free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in processes:
            self.free.put(process)
        weakref.finalize(self, stop, processes)

    def pooled(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Tensor:
        """Embeddings (S, D) of tokenized inputs, by one of the processes."""
        process = self.free.get()
        try:
            assert process.stdin and process.stdout, "both are pipes"
            for part in ([len(ids)], [len(text) for text in ids], firsts, np.concatenate(ids)):
                process.stdin.write(np.asarray(part, INTEGER).tobytes())
            process.stdin.flush()
            answer = read(process.stdout, NUMBER, len(ids) * self.width)
        except (BrokenPipeError, EOFError):
            raise WorkError(
                f"a worker stopped (exit code {process.wait()}), perhaps for want of memory; ask for fewer workers"
            ) from None
        finally:
            self.free.put(process)
        return torch.from_numpy(answer).view(len(ids), self.width)


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Let them end, and wait for it."""
    for process in processes:
        process.kill()
        process.communicate()


def read(file: IO[bytes], kind: np.dtype, count: int) -> np.ndarray:
    """So many numbers."""
    data = file.read(count * kind.itemsize)
    if len(data) < count * kind.itemsize:
        raise EOFError
    return np.frombuffer(bytearray(data), kind)


def answer_all(model: Model, questions: IO[bytes], answers: IO[bytes]) -> None:
    """Embed batch after batch until no more come."""
    model.prepare()
    while True:
        try:
            (count,) = read(questions, INTEGER, 1)
            lengths_S = read(questions, INTEGER, count)
            firsts_S = read(questions, INTEGER, count)
            ids = np.split(read(questions, INTEGER, lengths_S.sum()), np.cumsum(lengths_S)[:-1])
        except EOFError:
            return
        with torch.inference_mode():
            answers.write(model.pooled(ids, firsts_S.tolist()).cpu().numpy().astype(NUMBER).tobytes())
        answers.flush()


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    loaded = load_model(sys.argv[1], device="cpu")
    assert isinstance(loaded, Model), "an ensemble asks for its members one by one"
    answer_all(loaded, sys.stdin.buffer, sys.stdout.buffer)
