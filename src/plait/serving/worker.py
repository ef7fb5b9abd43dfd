"""A process that holds the models and answers batch after batch.

`python -m plait.serving.worker SOCKET MODELS` reads batches from a socket that it inherits and writes their answers
until the server closes it or dies. MODELS is JSON: name → directory and engine.
"""

import contextlib
import json
import os
import socket
import sys
from typing import IO, Any

import torch

from plait.data.labels import Labels
from plait.errors import NotFiniteError, PlaitError
from plait.inference.predictor import Predictor, load
from plait.model.directory.load import EngineName
from plait.serving.answer import answer_examples
from plait.serving.examples import EMBEDDING, unpack_examples
from plait.serving.wire import pack_message, read_message

__all__ = ["answer_batch", "describe_model"]


def describe_model(predictor: Predictor) -> dict[str, Any]:
    """What the server must know about a model: what it tells clients (`about`), and how the members read texts."""
    record = predictor.loaded.record
    scores = record.provenance.scores if record else {}
    tasks = {
        name: {
            "kind": spec.kind,
            "texts": len(spec.text),
            **_labels(spec.labels),
            "threshold": spec.threshold if spec.labels.about.is_yes_no or spec.labels.about.multilabel else None,
            "abstain_below": spec.abstain_below,
            "max_length": predictor.limit(name),
            "head": spec.head_name,
            "metric": spec.metric,
            "scores": scores.get(name, {}),
        }
        for name, spec in predictor.tasks.items()
    }
    members = [
        {
            "tokenizer": member.tokenizer.json,
            "limit": member.limit(),
            "reads": {
                EMBEDDING: (["first"], member.limit()),
                **{name: (spec.views, spec.max_length) for name, spec in member.tasks.items()},
            },
        }
        for member in predictor.loaded.model.members
    ]
    about = {
        "identity": predictor.identity,
        "engine": predictor.engine,
        "dimensions": predictor.width,
        "max_length": predictor.limit(),
        "members": len(members),
        "tasks": tasks,
    }
    return {"about": about, "members": members}


def _labels(labels: Labels) -> dict[str, Any]:
    if labels.about.is_score:
        return {"labels": None, "range": [labels.low, labels.high]}
    return {"labels": list(labels.names), "range": None}


def answer_batch(predictor: Predictor, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """A batch as the server packed it → its answers."""
    answers, vectors_kD = answer_examples(predictor.loaded.model, unpack_examples(header, payload))
    return {"answers": answers}, vectors_kD.tobytes()


def _serve(sources: dict[str, tuple[str, EngineName]], requests: IO[bytes], answers: IO[bytes]) -> None:
    def write(header: dict[str, Any], payload: bytes = b"") -> None:
        answers.write(pack_message(header, payload))
        answers.flush()

    torch.set_num_threads(1)  # the server runs several workers instead
    try:
        models = {
            name: load(source, engine=engine, log=lambda message: print(message, file=sys.stderr, flush=True))
            for name, (source, engine) in sources.items()
        }
    except PlaitError as error:
        write({"mistakes": error.mistakes})
        return
    write({"models": {name: describe_model(predictor) for name, predictor in models.items()}})
    while True:
        try:
            header, payload = read_message(requests)
        except EOFError:
            return
        try:
            write(*answer_batch(models[header["model"]], header, payload))
        except NotFiniteError as error:
            write({"mistakes": error.mistakes})


if __name__ == "__main__":
    number, models = sys.argv[1:]
    with socket.socket(fileno=int(number)) as given, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _serve(json.loads(models), given.makefile("rb"), given.makefile("wb"))
    os._exit(0)  # Python's shutdown with torch takes half a second
