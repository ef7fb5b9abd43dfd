"""One batch of one task, forwards and backwards.

B batch, S inputs of all views, D width.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from plait.data.batch import Batch
from plait.gradients.cached import cached_backward
from plait.model.model import Encoded, Model
from plait.training.objective import Objective, Pass
from plait.training.seeds import seeded

__all__ = ["Encode", "backward", "pass_on"]

Encode = Callable[[Batch], Encoded]


def backward(model: Model, encode: Encode, objective: Objective, batch: Batch, seed: str) -> Tensor:
    """The loss of one batch, its gradients added to those that are there; dropout comes from the seed."""
    label_B = torch.from_numpy(batch.labels).to(model.device)
    learns = any(parameter.requires_grad for parameter in model.encoder.parameters())
    if learns and objective.chunk is not None and objective.chunk < len(batch.rows):
        return backward_in_chunks(model, objective, batch, label_B, seed)
    with seeded(f"{seed}/0", model.device):
        encoded = encode(batch)
        loss = objective(pass_on(model, objective, batch, encoded), label_B)
    if loss.requires_grad:  # a head without weights on a frozen encoder has nothing to learn
        loss.backward()
    return loss.detach()


def backward_in_chunks(model: Model, objective: Objective, batch: Batch, label_B: Tensor, seed: str) -> Tensor:
    """The same with the graph of one chunk at a time; each chunk and the head have dropout from seeds of their own.

    A chunk is made of inputs of like length, whatever rows and views they belong to, so that attention has few groups.
    """
    chunks = batch.cut(-(-len(batch.rows) // (objective.chunk or len(batch.rows))))
    places_S = torch.tensor([place for chunk in chunks for place in chunk], device=model.device).argsort()

    def encode_chunk(number: int) -> Tensor:
        inputs = chunks[number]
        with seeded(f"{seed}/{number}", model.device):
            return model.states([batch.ids[place] for place in inputs], [batch.firsts[place] for place in inputs])[0]

    def measure(embeddings_SD: Tensor) -> Tensor:
        ordered_SD = embeddings_SD[places_S]
        views = {view: ordered_SD[place] for view, place in batch.views.items()}
        with seeded(f"{seed}/head", model.device):
            return objective(pass_on(model, objective, batch, Encoded(views)), label_B)

    with set_apart(model):
        return cached_backward([partial(encode_chunk, number) for number in range(len(chunks))], measure)


@contextmanager
def set_apart(model: Model) -> Iterator[None]:
    """Gradients start anew inside, and those from before are added afterwards.

    So a task's chunks are added up before they join other tasks, in the bits that `Rows` gives. The table of tokens is
    most of the weights, and a chunk touches few of its rows: only those are added.
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


def pass_on(model: Model, objective: Objective, batch: Batch, encoded: Encoded) -> Pass:
    """What the losses look at, from an encoded batch: the head works only where one of them looks at its outputs."""
    views, outputs_BC = encoded.views, None
    if objective.predicts:
        outputs_BC = model.outputs(batch.task, [views[view] for view in model.tasks[batch.task].views])
    projected = model.project(batch.task, views) if objective.projects else {}
    seen = objective.token_view
    return Pass(outputs_BC, views, projected, model.tokens(encoded, batch.views[seen]) if seen else None)
