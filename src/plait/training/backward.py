"""One batch of one task, forward and backward.

B batch, S inputs of all views, D width.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from plait.data.batch import Batch
from plait.gradients.cached import cached_backward
from plait.model.model import Encoded, Model
from plait.training.objective import Objective, Pass
from plait.training.seeds import seeded

__all__ = ["StoredEmbeddings", "backward"]

StoredEmbeddings = Mapping[str, Mapping[str, Tensor]]  # task → view → embeddings of all rows, with a frozen encoder


def backward(model: Model, stored: StoredEmbeddings, objective: Objective, batch: Batch, seed: str) -> Tensor:
    """The loss of one batch; its gradients are added to those already there. Dropout follows from the seed."""
    label_B = torch.from_numpy(batch.labels).to(model.device)
    trains_encoder = any(parameter.requires_grad for parameter in model.encoder.parameters())
    if trains_encoder and objective.chunk is not None and objective.chunk < len(batch.rows):
        return _backward_in_chunks(model, objective, batch, label_B, seed)
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


def _backward_in_chunks(model: Model, objective: Objective, batch: Batch, label_B: Tensor, seed: str) -> Tensor:
    """The same with the graph of one chunk at a time; each chunk and the head have their own dropout seed.

    A chunk consists of inputs of similar length, whatever rows and views they belong to, so that attention has few
    groups.
    """
    chunks = batch.split_inputs(-(-len(batch.rows) // (objective.chunk or len(batch.rows))))
    places_S = torch.tensor([place for chunk in chunks for place in chunk], device=model.device).argsort()

    def encode_chunk(number: int) -> Tensor:
        inputs = chunks[number]
        with seeded(f"{seed}/{number}", model.device):
            return model.states([batch.ids[place] for place in inputs], [batch.firsts[place] for place in inputs])[0]

    def compute_loss(embeddings_SD: Tensor) -> Tensor:
        ordered_SD = embeddings_SD[places_S]
        views = {view: ordered_SD[place] for view, place in batch.views.items()}
        with seeded(f"{seed}/head", model.device):
            return objective(_forward(model, objective, batch, Encoded(views)), label_B)

    with _separate_gradients(model):
        return cached_backward([partial(encode_chunk, number) for number in range(len(chunks))], compute_loss)


@contextmanager
def _separate_gradients(model: Model) -> Iterator[None]:
    """Gradients start from zero inside; those from before are added afterwards.

    So a task's chunks are summed before they are added to other tasks, which gives the same bits as `GradientRows`. The
    token table holds most of the weights and a chunk touches few of its rows: only those are added.
    """
    before = [(parameter, parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
    for parameter, _ in before:
        parameter.grad = None
    table = model.encoder.tokens
    table.sparse, table.weight.grad = True, torch.zeros_like(table.weight)
    try:
        yield
    finally:
        table.sparse = False
    for parameter, gradient in before:
        parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)
