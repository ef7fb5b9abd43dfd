"""Batches of one or several tasks, forward and backward.

B batch, S inputs of all views, D width.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from plait.data.batch import Batch, share_inputs
from plait.gradients.parts import backward_in_parts
from plait.model.model import Encoded, EncodedPart, Model
from plait.training.lanes import Lanes
from plait.training.objective import Objective, Pass
from plait.training.seeds import seeded, seeded_encoder
from plait.world import World

__all__ = ["StoredEmbeddings", "backward"]

StoredEmbeddings = Mapping[str, Mapping[str, Tensor]]  # task → view → embeddings of all rows, with a frozen encoder


def backward(
    model: Model,
    lanes: Lanes,
    stored: StoredEmbeddings,
    objectives: Mapping[str, Objective],
    batches: Sequence[Batch],
    seed: str,
    world: World | None = None,
) -> list[Tensor]:
    """The loss of each batch; their gradients are added to those already there. Dropout follows from the seed.

    Several lanes encode all inputs of all batches in one pass. Of several processes, each adds the gradients of its
    part of the batches; the first also those of the weights after the encoder, which all of them compute.
    """
    world = world or World()
    own = [objectives[batch.task] for batch in batches]
    trains_encoder = any(parameter.requires_grad for parameter in model.encoder.parameters())
    chunks = max(-(-len(batch.rows) // (one.chunk or len(batch.rows))) for one, batch in zip(own, batches, strict=True))
    with lanes.separate_gradients():
        if trains_encoder and chunks * lanes.count * world.size > 1:
            losses = _backward_in_parts(model, lanes, own, share_inputs(batches), seed, chunks, world)
        else:
            losses = [
                _backward_whole(model, stored, one, batch, f"{seed}/{batch.task}")
                for one, batch in zip(own, batches, strict=True)
            ]
        if not world.is_main:
            _clear_after_encoder(model, own)
    return losses


def _backward_whole(model: Model, stored: StoredEmbeddings, objective: Objective, batch: Batch, seed: str) -> Tensor:
    """A batch in one graph."""
    with seeded(f"{seed}/0", model.device):
        encoded = _look_up(stored[batch.task], batch, model) if batch.task in stored else model.encode(batch)
        loss = _measure(model, objective, batch, encoded)
    if loss.requires_grad:  # a head without weights on a frozen encoder has nothing to learn
        loss.backward()
    return loss.detach()


def _clear_after_encoder(model: Model, objectives: Sequence[Objective]) -> None:
    """Set the gradients of everything but the encoder to zero."""
    encoder = {id(parameter) for parameter in model.encoder.parameters()}
    later = [parameter for parameter in model.parameters() if id(parameter) not in encoder]
    losses = [module for objective in objectives for _, module in objective.modules()]
    later += [parameter for module in losses for parameter in module.parameters()]
    for parameter in later:
        if parameter.grad is not None:
            parameter.grad.zero_()


def _look_up(stored: Mapping[str, Tensor], batch: Batch, model: Model) -> Encoded:
    """A batch whose embeddings were computed before."""
    rows = list(batch.rows)
    return Encoded({view: embedded_nD[rows].to(model.device) for view, embedded_nD in stored.items()})


def _measure(model: Model, objective: Objective, batch: Batch, encoded: Encoded) -> Tensor:
    """The loss of an encoded batch."""
    label_B = torch.from_numpy(batch.labels).to(model.device)
    return objective(_forward(model, objective, batch, encoded), label_B)


def _forward(model: Model, objective: Objective, batch: Batch, encoded: Encoded) -> Pass:
    """What the losses need from an encoded batch; the head runs only if one of them needs its outputs."""
    views, outputs_BC = encoded.views, None
    if objective.predicts:
        outputs_BC = model.outputs(batch.task, [views[view] for view in model.tasks[batch.task].views])
    projected = model.project(batch.task, views) if objective.projects else {}
    token_view = objective.token_view
    tokens = model.tokens(encoded, batch.views[token_view]) if token_view else None
    teacher_BC = objective.teacher.outputs_nC[list(batch.rows)] if objective.teacher else None
    return Pass(outputs_BC, views, projected, tokens, teacher_BC)


def _backward_in_parts(
    model: Model,
    lanes: Lanes,
    objectives: Sequence[Objective],
    batches: Sequence[Batch],
    seed: str,
    chunks: int,
    world: World,
) -> list[Tensor]:
    """The same, encoded in parts by the lanes of all processes; each part and head has its own dropout seed.

    The batches share their inputs. A part consists of inputs of similar length, whatever batches, rows and views they
    belong to, so that attention has few groups. Each chunk of a cached loss is shared by the lanes, and only the graph
    of one chunk is in memory at a time.
    """
    inputs = batches[0]  # those of all batches
    parts = inputs.split_inputs(chunks * lanes.count * world.size)
    places_S = torch.tensor([place for part in parts for place in part], device=model.device).argsort()
    own = world.share(len(parts))
    keeps_tokens = any(objective.token_view for objective in objectives)
    tasks = "+".join(batch.task for batch in batches)
    losses: list[Tensor] = []

    def encode_part(lane: int, number: int) -> Tensor:
        ids, firsts = inputs.inputs(parts[number])
        with seeded_encoder(f"{seed}/{tasks}/{number}", model.device):
            pooled_SD, states_ND, _ = model.states(ids, firsts, lanes.encoders[lane])
        return torch.cat([pooled_SD, states_ND]) if keeps_tokens else pooled_SD

    def rows_of(numbers: Iterable[int]) -> int:
        """How many rows the encoded parts have: the embeddings, and the states of tokens if a loss needs them."""
        tokens = sum(len(inputs.ids[place]) for number in numbers for place in parts[number])
        return sum(len(parts[number]) for number in numbers) + (tokens if keeps_tokens else 0)

    def exchange(encoded: Sequence[Tensor]) -> tuple[Tensor, int]:
        none_SD = model.encoder.tokens.weight.new_zeros(0, model.encoder.config.width)
        rows_SD = torch.cat([none_SD, *encoded])
        counts = [rows_of(World(rank, world.size).share(len(parts))) for rank in range(world.size)]
        return world.gather_rows(rows_SD, counts), sum(counts[: world.rank])

    def compute_loss(rows_SD: Tensor) -> Tensor:
        """From the embeddings of all parts; each is followed by the states of its tokens if a loss needs them."""
        pooled_SD, with_tokens = rows_SD, []
        if keeps_tokens:
            packed = [model.pack(*inputs.inputs(part)) for part in parts]
            sizes = [size for part, one in zip(parts, packed, strict=True) for size in (len(part), len(one.ids_N))]
            pieces = rows_SD.split(sizes)
            pooled_SD = torch.cat(pieces[::2])
            with_tokens = [EncodedPart(part, pieces[2 * n + 1], packed[n]) for n, part in enumerate(parts)]
        ordered_SD = pooled_SD[places_S]
        for objective, batch in zip(objectives, batches, strict=True):
            views = {view: ordered_SD[place] for view, place in batch.views.items()}
            with seeded(f"{seed}/{batch.task}/head", model.device):
                losses.append(_measure(model, objective, batch, Encoded(views, with_tokens)))
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    encode = [partial(encode_part, place % lanes.count, number) for place, number in enumerate(own)]
    backward_in_parts(encode, compute_loss, kept=lanes.count, run=lanes.run, exchange=exchange)
    return [loss.detach() for loss in losses]
