"""Compares exported graphs with the model, on texts of many lengths.

S texts, D width.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.batch import tokenize_views
from plait.errors import ExecutionError
from plait.export.texts import sample_columns
from plait.export.write import GraphFile
from plait.model.decode import within_range
from plait.model.encode_texts import embed_views, predict_columns
from plait.model.engines.onnx import ENCODER, POOLED, OnnxEngine, open_graph, pad
from plait.model.model import Model

__all__ = ["Agreement", "check_graphs"]

_LARGEST_DIFFERENCE = 1e-4  # between unit vectors, between probabilities, between scores as a share of their range
_LOWEST_COSINE = 0.98  # between an int8 embedding and the model's own
_BATCH = 8  # texts in one call


@dataclass(frozen=True)
class Agreement:
    """How closely one output of a graph agrees with the model."""

    graph: str
    output: str
    largest: float  # the largest difference between two numbers; scores as a share of their range
    least_cosine: float | None = None  # between an embedding and the model's own
    mean_cosine: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields that apply."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def check_graphs(model: Model, folder: Path, graphs: Sequence[GraphFile], count: int, *, int8: bool) -> list[Agreement]:
    """Run every graph on `count` examples; fails if an output differs too much from the model's."""
    found = [agreement for graph in graphs for agreement in _compare_graph(model, folder, graph, count)]
    if int8:
        far = [
            f"{one.graph}: the cosine between an int8 embedding and the model's own is {one.least_cosine:.4f}, "
            f"expected at least {_LOWEST_COSINE}; export this model without --int8"
            for one in found
            if one.least_cosine is not None and not one.least_cosine >= _LOWEST_COSINE
        ]
    else:
        far = [
            f"{one.graph}: {one.output} differs from the model by {one.largest:.2g}, "
            f"expected at most {_LARGEST_DIFFERENCE:g}"
            for one in found
            if not one.largest <= _LARGEST_DIFFERENCE
        ]
    if far:
        raise ExecutionError(*far)
    return found


def _compare_graph(model: Model, folder: Path, graph: GraphFile, count: int) -> list[Agreement]:
    """Every output of a graph compared with the model's own."""
    agreements, found = [], {}
    for output, task in graph.outputs.items():
        limit = model.limit(task)
        columns = sample_columns(count, len(model.tasks[task].text) if task else 1)
        if limit not in found:
            run = _run_engine if graph.reads == ENCODER else _run_graph
            found[limit] = run(model, folder, graph, columns, limit)
        agreements.append(_compare_output(model, graph, output, task, columns, found[limit][output]))
    return agreements


def _compare_output(
    model: Model, graph: GraphFile, output: str, task: str | None, columns: Sequence[Sequence[str]], found: np.ndarray
) -> Agreement:
    if task is None:
        expected_SD = embed_views(model, columns, ["first"], model.limit())["first"].numpy()
        one_SD, other_SD = (
            vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (found, expected_SD)
        )
        cosines_S = (one_SD.astype(np.float64) * other_SD).sum(axis=1)
        largest = float(np.abs(one_SD - other_SD).max())
        return Agreement(graph.name, output, largest, float(cosines_S.min()), float(cosines_S.mean()))
    expected, labels = predict_columns(model, task, columns).predictions, model.tasks[task].labels
    if expected.probabilities is None:
        scores_S = within_range(expected, model.tasks[task]).values
        return Agreement(graph.name, output, float(np.abs(found - scores_S).max()) / (labels.high - labels.low))
    return Agreement(graph.name, output, float(np.abs(found - expected.probabilities).max()))


def _run_engine(
    model: Model, folder: Path, graph: GraphFile, columns: Sequence[Sequence[str]], limit: int
) -> dict[str, np.ndarray]:
    """The pooled embeddings (S, D) of some texts from plait's own engine."""
    table = tokenize_views(model.tokenizer, columns, ["first"], limit)["first"]
    pooled_SD = OnnxEngine(folder).pooled([table.row(row) for row in range(len(table))], table.firsts.tolist())
    return {POOLED: pooled_SD.numpy()}


def _run_graph(
    model: Model, folder: Path, graph: GraphFile, columns: Sequence[Sequence[str]], limit: int
) -> dict[str, np.ndarray]:
    """The outputs of a graph for some examples, run as any program would: in batches of padded texts."""
    session = open_graph(folder / graph.name)
    tables = tokenize_views(model.tokenizer, columns, list(graph.inputs), limit)
    order = np.argsort(sum(table.lengths for table in tables.values()), kind="stable")
    parts = []
    for start in range(0, len(order), _BATCH):
        rows = order[start : start + _BATCH]
        feed: dict[str, np.ndarray] = {}
        for view, names in graph.inputs.items():
            table = tables[view]
            padded = pad([table.row(row) for row in rows], table.firsts[rows].tolist())
            feed |= {name: padded[what] for what, name in names.items()}
        parts.append(session.run(list(graph.outputs), feed))
    back = np.argsort(order)
    return {name: np.concatenate([part[place] for part in parts])[back] for place, name in enumerate(graph.outputs)}
