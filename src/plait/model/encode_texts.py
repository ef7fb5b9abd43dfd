"""A model applied to many texts: columns in, arrays and counts of truncated inputs out.

Every text is tokenized once, every distinct input is encoded once, and inputs of similar length share a batch. Nothing
here changes the model, so threads can share one. n examples, D width, C outputs, M members.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plait.data.batch import tokenize_views
from plait.data.kinds import KINDS
from plait.data.prediction_arrays import PredictionArrays
from plait.data.tokenize import TokenTable
from plait.encoder.weights import is_finite
from plait.errors import NotFiniteError
from plait.model.decode import decode
from plait.model.model import Model
from plait.model.tasks import TaskSpec
from plait.thread_pool import side_by_side

__all__ = [
    "Advance",
    "AnyModel",
    "Embedded",
    "Predicted",
    "average_predictions",
    "embed_inputs",
    "embed_tables",
    "embed_texts",
    "embed_views",
    "join_embeddings",
    "predict_columns",
    "predict_embedded",
    "predict_tables",
]

_TOKEN_BUDGET = 2048  # tokens in one batch
Advance = Callable[[int], None]  # receives the number of inputs that were just finished
_Tables = Mapping[str, TokenTable]  # view → its tokenized inputs


class AnyModel(Protocol):
    """A model, or an ensemble of several."""

    @property
    def members(self) -> tuple[Model, ...]: ...

    @property
    def tasks(self) -> Mapping[str, TaskSpec]: ...

    def limit(self, task: str | None = None) -> int: ...


@dataclass(frozen=True)
class Predicted:
    """Predictions for some examples, and how many of their inputs were truncated."""

    predictions: PredictionArrays
    inputs: int
    truncated: int


@dataclass(frozen=True)
class Embedded:
    """Embeddings of some texts, and how many of the texts were truncated."""

    vectors_nD: Tensor
    inputs: int
    truncated: int


def predict_columns(
    model: AnyModel, task: str, columns: Sequence[Sequence[str]], *, advance: Advance | None = None
) -> Predicted:
    """A task's predictions for one, two or three columns of text; an ensemble averages those of its members."""
    specs = [member.tasks[task] for member in model.members]
    tables = [
        tokenize_views(member.tokenizer, columns, spec.views, spec.max_length)
        for member, spec in zip(model.members, specs, strict=True)
    ]
    return predict_tables(model, task, tables, advance=advance)


def predict_tables(
    model: AnyModel, task: str, tables: Sequence[_Tables], *, advance: Advance | None = None
) -> Predicted:
    """The same for inputs that each member has tokenized already."""
    predictions: list[PredictionArrays] = []
    for member, given in zip(model.members, tables, strict=True):
        views = embed_tables(member, given, advance=None if predictions else advance)  # progress of the first member
        predictions.append(predict_embedded(member, task, views))
    return Predicted(average_predictions(model, task, predictions), *_truncation(tables))


def average_predictions(model: AnyModel, task: str, predictions: Sequence[PredictionArrays]) -> PredictionArrays:
    """The predictions of a model's members as one."""
    if len(predictions) == 1:
        return predictions[0]
    spec = model.tasks[task]
    return KINDS[spec.labels.kind].average(predictions, spec.threshold)


def predict_embedded(model: Model, task: str, views: Mapping[str, Tensor]) -> PredictionArrays:
    """What a task's head predicts for embeddings (n, D) of each view that were computed before."""
    spec = model.tasks[task]
    with torch.inference_mode():
        outputs_nC = model.precise_outputs(task, [views[view] for view in spec.views])
    _check_finite(outputs_nC, f"task {task!r}: the outputs of its head")
    return decode(outputs_nC.numpy(), spec)


def embed_texts(model: AnyModel, texts: Sequence[str], *, advance: Advance | None = None) -> Embedded:
    """Embeddings (n, D) for users."""
    tables = [tokenize_views(member.tokenizer, [texts], ["first"], member.limit()) for member in model.members]
    reports = [advance, *[None] * (len(model.members) - 1)]
    vectors = [
        embed_tables(member, given, advance=report)["first"]
        for member, given, report in zip(model.members, tables, reports, strict=True)
    ]
    return Embedded(join_embeddings(model, vectors), *_truncation(tables))


def join_embeddings(model: AnyModel, vectors: Sequence[Tensor]) -> Tensor:
    """Embeddings (n, D) for users from those of each member: unit vectors where the model normalises.

    An ensemble concatenates its members' unit vectors and divides by √M: a unit vector again, and the cosine of two
    texts is the mean of the members' cosines.
    """
    if len(vectors) > 1:
        return torch.cat([F.normalize(part_nD, dim=-1) for part_nD in vectors], dim=-1) / math.sqrt(len(vectors))
    (member,), (vectors_nD,) = model.members, vectors
    return F.normalize(vectors_nD, dim=-1) if member.normalise else vectors_nD


def embed_views(
    model: Model, columns: Sequence[Sequence[str]], views: Sequence[str], limit: int, *, advance: Advance | None = None
) -> dict[str, Tensor]:
    """Embeddings (n, D) of each view of one, two or three columns of text, as heads read them."""
    return embed_tables(model, tokenize_views(model.tokenizer, columns, views, limit), advance=advance)


def embed_tables(model: Model, tables: _Tables, *, advance: Advance | None = None) -> dict[str, Tensor]:
    """Embeddings (n, D) of each view, on the CPU; equal inputs are encoded once."""
    places: dict[bytes, int] = {}
    distinct: list[tuple[np.ndarray, int]] = []
    rows: dict[str, list[int]] = {}
    for view, table in tables.items():
        rows[view] = []
        for number, first in enumerate(table.firsts.tolist()):
            ids = table.row(number)
            key = ids.tobytes() + first.to_bytes(4, "little")
            if key not in places:
                places[key] = len(distinct)
                distinct.append((ids, first))
            rows[view].append(places[key])
    embedded_nD = embed_inputs(model, [ids for ids, _ in distinct], [first for _, first in distinct], advance)
    return {view: embedded_nD[rows[view]] for view in tables}


def embed_inputs(model: Model, ids: Sequence[np.ndarray], firsts: Sequence[int], advance: Advance | None) -> Tensor:
    """Embeddings (n, D) of tokenized inputs, on the CPU."""
    assert not model.training, "call model.eval() first: inference never changes the mode of a model"
    embedded_nD = torch.empty(len(ids), model.encoder.config.width)
    engine = model.engine
    prepared = model.prepared() if engine is None else None
    lanes = engine.lanes if engine else torch.get_num_threads() if model.device.type == "cpu" else 1

    def embed_batch(rows: list[int]) -> None:
        given = [ids[row] for row in rows], [firsts[row] for row in rows]
        with torch.inference_mode():  # holds for one thread
            embedded_nD[rows] = (engine.pooled(*given) if engine else model.states(*given, prepared)[0]).cpu()

    for rows in side_by_side(embed_batch, _batches([len(text) for text in ids], lanes), lanes):
        if advance:
            advance(len(rows))
    _check_finite(embedded_nD, "the embeddings")
    return embedded_nD


def _check_finite(rows_nC: Tensor, what: str) -> None:
    """Raise an error in place of an answer that is not a number."""
    if not is_finite(rows_nC):
        count = int((~rows_nC.isfinite()).any(dim=-1).sum())
        raise NotFiniteError(
            f"{what} are infinite or NaN for {count:,} of {len(rows_nC):,} inputs; its weights are too large, train it "
            "again with a lower lr"
        )


def _truncation(tables: Sequence[_Tables]) -> tuple[int, int]:
    """The number of inputs, and of truncated ones for the member that truncates most."""
    flags = [np.concatenate([table.is_truncated for table in given.values()]) for given in tables]
    return max(((len(each), int(each.sum())) for each in flags), key=lambda count: count[1])


def _batches(lengths: Sequence[int], lanes: int) -> list[list[int]]:
    """Rows by length, longest first, in batches within the token budget, and at least one batch per lane."""
    budget = min(_TOKEN_BUDGET, -(-sum(lengths) // lanes))
    batches: list[list[int]] = []
    room = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or lengths[row] > room:
            batches.append([])
            room = budget
        batches[-1].append(row)
        room -= lengths[row]
    return batches
