"""Examples of all kinds → answers, in one pass of the encoder.

n examples, D width, k embeddings.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plait.inference.decision import Decision
from plait.inference.predictions import Predictions
from plait.model.encode_texts import AnyModel, average_predictions, embed_inputs, join_embeddings, predict_embedded
from plait.model.model import Model
from plait.serving.examples import EMBEDDING, Example

__all__ = ["answer_examples"]

_EVERY_LABEL = Decision(abstain_below=0)  # the server abstains, as each request asks


def answer_examples(model: AnyModel, examples: Sequence[Example]) -> tuple[list[dict[str, Any]], np.ndarray]:
    """The answers to each example by task, and the embeddings (k, D) that were asked for.

    A task's answer is a prediction; that of EMBEDDING is the row of the embedding.
    """
    embedded = [_embed_member(member, number, examples) for number, member in enumerate(model.members)]
    answers: list[dict[str, Any]] = [{} for _ in examples]
    vectors_kD = np.empty((0, 0), np.float32)
    for name in dict.fromkeys(name for example in examples for name in example.reads):
        rows = [row for row, example in enumerate(examples) if name in example.reads]
        views = [
            _views_of(name, rows, examples, number, *found_nD) for number, found_nD in enumerate(embedded)
        ]  # of each member
        found: Sequence[Any]
        if name == EMBEDDING:
            vectors_kD = join_embeddings(model, [each[0] for each in views]).numpy()
            found = range(len(rows))
        else:
            spec = model.tasks[name]
            arrays = [
                predict_embedded(member, name, dict(zip(member.tasks[name].views, each, strict=True)))
                for member, each in zip(model.members, views, strict=True)
            ]
            every = Predictions(spec, average_predictions(model, name, arrays), decision=_EVERY_LABEL)
            found = [asdict(one) for one in every]
        for row, answer in zip(rows, found, strict=True):
            answers[row][name] = answer
    return answers, vectors_kD


def _embed_member(member: Model, number: int, examples: Sequence[Example]) -> tuple[Tensor, list[list[int]]]:
    """The embedding of every distinct input of a member, and which of them the inputs of each example are."""
    places: dict[tuple[bytes, int], int] = {}
    distinct: list[tuple[np.ndarray, int]] = []
    inputs: list[list[int]] = []
    for example in examples:
        start = sum(example.counts[:number])
        mine = slice(start, start + example.counts[number])
        inputs.append([])
        for ids, first in zip(example.ids[mine], example.firsts[mine], strict=True):
            key = ids.tobytes(), first
            if key not in places:
                places[key] = len(distinct)
                distinct.append((ids, first))
            inputs[-1].append(places[key])
    return embed_inputs(member, [ids for ids, _ in distinct], [first for _, first in distinct], None), inputs


def _views_of(
    name: str, rows: Sequence[int], examples: Sequence[Example], member: int, found_nD: Tensor, inputs: list[list[int]]
) -> list[Tensor]:
    """The embeddings of each view of some examples."""
    reads = [(inputs[row], examples[row].reads[name][member]) for row in rows]
    views = len(reads[0][1])
    return [found_nD[torch.tensor([own[read[view]] for own, read in reads])] for view in range(views)]
