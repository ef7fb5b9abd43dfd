"""One batch of one task, forward and backward.

B batch, S inputs of all views, D width.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from plait.data.batch import Batch
from plait.encoder.packing import Packed
from plait.gradients.parts import backward_in_parts
from plait.model.model import Encoded, EncodedPart, Model
from plait.training.lanes import Lanes
from plait.training.objective import Objective, Pass
from plait.training.seeds import seeded, seeded_encoder

__all__ = ["StoredEmbeddings", "backward"]

StoredEmbeddings = Mapping[str, Mapping[str, Tensor]]  # task → view → embeddings of all rows, with a frozen encoder


def backward(
    model: Model, lanes: Lanes, stored: StoredEmbeddings, objective: Objective, batch: Batch, seed: str
) -> Tensor:
    """The loss of one batch; its gradients are added to those already there. Dropout follows from the seed."""
    label_B = torch.from_numpy(batch.labels).to(model.device)
    trains_encoder = any(parameter.requires_grad for parameter in model.encoder.parameters())
    chunks = -(-len(batch.rows) // objective.chunk) if objective.chunk else 1
    with lanes.separate_gradients():
        if trains_encoder and chunks * lanes.count > 1:
            return _backward_in_parts(model, lanes, objective, batch, label_B, seed, chunks)
        with seeded(f"{seed}/0", model.device):
            encoded = _look_up(stored[batch.task], batch, model) if batch.task in stored else model.encode(batch)
            loss = objective(_forward(model, objective, batch, encoded), label_B)
        if loss.requires_grad:  # a head without weights on a frozen encoder has nothing to learn
            loss.backward()
        return loss.detach()


def _look_up(stored: Mapping[str, Tensor], batch: Batch, model: Model) -> Encoded:
    """A batch whose embeddings were computed before."""
    rows = list(batch.rows)
    return Encoded({view: embedded_nD[rows].to(model.device) for view, embedded_nD in stored.items()})


def _forward(model: Model, objective: Objective, batch: Batch, encoded: Encoded) -> Pass:
    """What the losses need from an encoded batch; the head runs only if one of them needs its outputs."""
    views, outputs_BC = encoded.views, None
    if objective.predicts:
        outputs_BC = model.outputs(batch.task, [views[view] for view in model.tasks[batch.task].views])
    projected = model.project(batch.task, views) if objective.projects else {}
    token_view = objective.token_view
    tokens = model.tokens(encoded, batch.views[token_view]) if token_view else None
    return Pass(outputs_BC, views, projected, tokens)


def _backward_in_parts(
    model: Model, lanes: Lanes, objective: Objective, batch: Batch, label_B: Tensor, seed: str, chunks: int
) -> Tensor:
    """The same, encoded in parts by the lanes; each part and the head have their own dropout seed.

    A part consists of inputs of similar length, whatever rows and views they belong to, so that attention has few
    groups. Each chunk of a cached loss is shared by the lanes, and only the graph of one chunk is in memory at a time.
    """
    parts = batch.split_inputs(chunks * lanes.count)
    places_S = torch.tensor([place for part in parts for place in part], device=model.device).argsort()
    packed: dict[int, Packed] = {}

    def encode_part(number: int) -> Tensor:
        ids, firsts = zip(*((batch.ids[place], batch.firsts[place]) for place in parts[number]), strict=True)
        with seeded_encoder(f"{seed}/{number}", model.device):
            pooled_SD, states_ND, packed[number] = model.states(ids, firsts, lanes.encoders[number % lanes.count])
        return torch.cat([pooled_SD, states_ND]) if objective.token_view else pooled_SD

    def compute_loss(rows_SD: Tensor) -> Tensor:
        """From the embeddings of all parts; each is followed by the states of its tokens if a loss needs them."""
        pooled_SD, with_tokens = rows_SD, []
        if objective.token_view:
            sizes = [size for number, part in enumerate(parts) for size in (len(part), len(packed[number].ids_N))]
            pieces = rows_SD.split(sizes)
            pooled_SD = torch.cat(pieces[::2])
            with_tokens = [EncodedPart(part, pieces[2 * n + 1], packed[n]) for n, part in enumerate(parts)]
        ordered_SD = pooled_SD[places_S]
        views = {view: ordered_SD[place] for view, place in batch.views.items()}
        with seeded(f"{seed}/head", model.device):
            return objective(_forward(model, objective, batch, Encoded(views, with_tokens)), label_B)

    encode = [partial(encode_part, number) for number in range(len(parts))]
    return backward_in_parts(encode, compute_loss, kept=lanes.count, run=lanes.run)
