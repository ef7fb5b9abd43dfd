"""Graphs against the model that they were made from, on texts of many lengths.

S texts, D width.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.batch import tokenize_views
from plait.errors import WorkError
from plait.export.texts import sample_columns
from plait.export.write import GraphFile
from plait.model.apply import embed_views
from plait.model.ensemble import answer
from plait.model.model import Model
from plait.model.onnx_engine import ENCODER, POOLED, OnnxEngine, open_graph, pad

__all__ = ["Agreement", "check_graphs", "run_graph"]

LARGEST = 1e-4  # difference of unit vectors, of probabilities, and of scores as a share of their range
LEAST = 0.98  # cosine of an embedding in 8 bits
BATCH = 8  # texts in one call


@dataclass(frozen=True)
class Agreement:
    """How near an output of a graph is to what the model says."""

    graph: str
    output: str
    largest: float  # difference of two numbers; scores as a share of their range
    least_cosine: float | None = None  # of an embedding with the model's own
    mean_cosine: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Without what does not apply."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def check_graphs(model: Model, folder: Path, graphs: Sequence[GraphFile], count: int, *, int8: bool) -> list[Agreement]:
    """Run every graph on so many examples; an output that is too far from the model's stops the export."""
    found = [agreement for graph in graphs for agreement in compare(model, folder, graph, count)]
    if int8:
        far = [
            f"{one.graph}: an embedding in int8 has a cosine of {one.least_cosine:.4f} with the model's own, expected "
            f"at least {LEAST}; export this model without --int8"
            for one in found
            if one.least_cosine is not None and not one.least_cosine >= LEAST
        ]
    else:
        far = [
            f"{one.graph}: {one.output} differs from the model by {one.largest:.2g}, expected at most {LARGEST:g}"
            for one in found
            if not one.largest <= LARGEST
        ]
    if far:
        raise WorkError(*far)
    return found


def compare(model: Model, folder: Path, graph: GraphFile, count: int) -> list[Agreement]:
    """What a graph gives beside what the model gives."""
    agreements, found = [], {}
    for output, task in graph.outputs.items():
        limit = model.tasks[task].max_length if task else model.text.limit
        columns = sample_columns(count, len(model.tasks[task].text) if task else 1)
        if limit not in found:
            run = run_engine if graph.reads == ENCODER else run_graph
            found[limit] = run(model, folder, graph, columns, limit)
        agreements.append(compare_output(model, graph, output, task, columns, found[limit][output]))
    return agreements


def compare_output(
    model: Model, graph: GraphFile, output: str, task: str | None, columns: Sequence[Sequence[str]], found: np.ndarray
) -> Agreement:
    """One output of a graph beside the model's own."""
    if task is None:
        expected_SD = embed_views(model, columns, ["first"], model.text.limit)["first"].numpy()
        one_SD, other_SD = (
            vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (found, expected_SD)
        )
        cosines_S = (one_SD.astype(np.float64) * other_SD).sum(axis=1)
        largest = float(np.abs(one_SD - other_SD).max())
        return Agreement(graph.name, output, largest, float(cosines_S.min()), float(cosines_S.mean()))
    decoded, labels = answer(model, task, columns), model.tasks[task].labels
    if decoded.probabilities is None:
        return Agreement(graph.name, output, float(np.abs(found - decoded.values).max()) / (labels.high - labels.low))
    return Agreement(graph.name, output, float(np.abs(found - decoded.probabilities).max()))


def run_engine(
    model: Model, folder: Path, graph: GraphFile, columns: Sequence[Sequence[str]], limit: int
) -> dict[str, np.ndarray]:
    """The pooled embeddings (S, D) of texts as plait's own engine gives them."""
    table = tokenize_views(model.text.tokenizer, columns, ["first"], limit)["first"]
    pooled_SD = OnnxEngine(folder).pooled([table.row(row) for row in range(len(table))], table.firsts.tolist())
    return {POOLED: pooled_SD.numpy()}


def run_graph(
    model: Model, folder: Path, graph: GraphFile, columns: Sequence[Sequence[str]], limit: int
) -> dict[str, np.ndarray]:
    """The outputs of a graph for some examples, as any program would run it: batches of padded texts."""
    session = open_graph(folder / graph.name)
    tables = tokenize_views(model.text.tokenizer, columns, list(graph.inputs), limit)
    order = np.argsort(sum(table.lengths for table in tables.values()), kind="stable")
    parts = []
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        feed: dict[str, np.ndarray] = {}
        for view, names in graph.inputs.items():
            table = tables[view]
            padded = pad([table.row(row) for row in rows], table.firsts[rows].tolist())
            feed |= {name: padded[what] for what, name in names.items()}
        parts.append(session.run(list(graph.outputs), feed))
    back = np.argsort(order)
    return {name: np.concatenate([part[place] for part in parts])[back] for place, name in enumerate(graph.outputs)}
