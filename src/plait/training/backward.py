"""One batch of one task, forwards and backwards.

B batch, V views, b rows of a chunk, D width.
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
    if objective.chunk is not None and objective.chunk < len(batch.rows):
        return backward_in_chunks(model, encode, objective, batch.by_length(), objective.chunk, seed)
    label_B = torch.from_numpy(batch.labels).to(model.device)
    with seeded(f"{seed}/0", model.device):
        encoded = encode(batch)
        loss = objective(pass_on(model, objective, batch, encoded), label_B)
    if loss.requires_grad:  # a head without weights on a frozen encoder has nothing to learn
        loss.backward()
    return loss.detach()


def backward_in_chunks(
    model: Model, encode: Encode, objective: Objective, batch: Batch, size: int, seed: str
) -> Tensor:
    """The same with the graph of one chunk at a time; each chunk and the head have dropout from seeds of their own.

    Rows that stand by length make chunks with texts of few different lengths, which are attended to together.
    """
    label_B = torch.from_numpy(batch.labels).to(model.device)

    def encode_part(number: int, start: int) -> Tensor:
        with seeded(f"{seed}/{number}", model.device):
            views = encode(batch.part(start, start + size)).views
        return torch.stack([views[view] for view in batch.views], dim=1)  # (b, V, D)

    def measure(embeddings_BVD: Tensor) -> Tensor:
        views = dict(zip(batch.views, embeddings_BVD.unbind(dim=1), strict=True))
        with seeded(f"{seed}/head", model.device):
            return objective(pass_on(model, objective, batch, Encoded(views)), label_B)

    chunks = [partial(encode_part, *place) for place in enumerate(range(0, len(batch.rows), size))]
    with set_apart(model):
        return cached_backward(chunks, measure)


@contextmanager
def set_apart(model: Model) -> Iterator[None]:
    """Gradients start anew inside, and those from before are added afterwards.

    So a task's chunks are added up before they join other tasks, in the bits that `Rows` gives.
    """
    before = [(parameter, parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
    for parameter, _ in before:
        parameter.grad = None
    yield
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
