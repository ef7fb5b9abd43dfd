"""A process that holds the models and answers batch after batch.

`python -m plait.serving.worker OPTIONS` reads batches from standard input and writes their answers to standard output
until the input ends, which also happens when the server dies. OPTIONS is JSON: the models with their engines.
"""

import json
import os
import sys
from typing import IO, Any

import torch

from plait.data.labels import Labels
from plait.errors import PlaitError
from plait.inference.predictor import Predictor, load
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
            "threshold": spec.threshold if spec.kind in ("yes_no", "multilabel") else None,
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


def _serve(options: dict[str, Any], requests: IO[bytes], answers: IO[bytes]) -> None:
    def write(header: dict[str, Any], payload: bytes = b"") -> None:
        answers.write(pack_message(header, payload))
        answers.flush()

    torch.set_num_threads(1)  # the server runs several workers instead
    try:
        models = {
            name: load(source, engine=engine, log=lambda message: print(message, file=sys.stderr, flush=True))
            for name, (source, engine) in options["models"].items()
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
        write(*answer_batch(models[header["model"]], header, payload))


if __name__ == "__main__":
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    _serve(json.loads(sys.argv[1]), sys.stdin.buffer, pipe)
    os._exit(0)  # Python's shutdown with torch takes half a second
