"""The graphs of a model: one per way in which its tasks read texts, and the bare encoder.

S texts, D width.
"""

from dataclasses import dataclass
from pathlib import Path

from plait.data.batch import SINGLE_TEXT_VIEWS, VIEWS
from plait.export.encoder import Precision, add_encoder
from plait.export.graph import Graph, Weights
from plait.export.heads import add_link, add_module, add_normalize, output_columns
from plait.model.engines.onnx import ENCODER, IDS, MASK, POOLED, SEGMENTS, WEIGHTS
from plait.model.model import Model

__all__ = ["GraphFile", "write_graphs"]

_EMBEDDING = "embedding"
_TOKENS = "tokens"  # the name of an axis; with several views its prefix is theirs, since their lengths differ


@dataclass(frozen=True)
class GraphFile:
    """A graph on disk, with its inputs and outputs."""

    reads: str  # a way of reading, or `encoder`
    inputs: dict[str, dict[str, str]]  # view → IDS, MASK or SEGMENTS → the name of that input
    outputs: dict[str, str | None]  # name → the task whose prediction it is; None for an embedding

    @property
    def name(self) -> str:
        return f"{self.reads}.onnx"


def write_graphs(model: Model, folder: Path, precision: Precision) -> list[GraphFile]:
    """Write the graphs and the weights that they share into a new folder."""
    folder.mkdir()
    reads = dict.fromkeys(("single", *(spec.head_class.reads for spec in model.tasks.values())))
    with Weights(folder / WEIGHTS) as weights:
        readings = [_write_tasks(model, folder, precision, weights, way) for way in reads]
        return [*readings, _write_encoder(model, folder, precision, weights)]


def _write_encoder(model: Model, folder: Path, precision: Precision, weights: Weights) -> GraphFile:
    """The graph that plait's own engine runs: any input, a text or a pair, to its pooled embedding."""
    graph = Graph(weights)
    names = {what: graph.input(what, _TOKENS) for what in _inputs_of(model, pair=True)}
    pooled_SD = _add_view(graph, model, precision, names)
    graph.output(POOLED, pooled_SD, model.encoder.config.width)
    found = GraphFile(ENCODER, {"text": names}, {POOLED: None})
    graph.save(folder / found.name)
    return found


def _write_tasks(model: Model, folder: Path, precision: Precision, weights: Weights, reads: str) -> GraphFile:
    """The graph for all tasks with one way of reading; that for single texts also embeds."""
    graph = Graph(weights)
    inputs = {}
    for view in VIEWS[reads]:
        start = f"{view}_" if len(VIEWS[reads]) > 1 else ""
        given = _inputs_of(model, pair=view not in SINGLE_TEXT_VIEWS)
        inputs[view] = {what: graph.input(start + what, start + _TOKENS) for what in given}
    pooled = [_add_view(graph, model, precision, names) for names in inputs.values()]
    outputs: dict[str, str | None] = {}
    if reads == "single":
        embedding_SD = add_normalize(graph, pooled[0]) if model.normalise else pooled[0]
        graph.output(_EMBEDDING, embedding_SD, model.encoder.config.width)
        outputs[_EMBEDDING] = None
    if model.shared_layer is not None:
        pooled = [add_module(graph, "shared_layer", model.shared_layer, [view_SD]) for view_SD in pooled]
    taken = {_EMBEDDING, *(name for names in inputs.values() for name in names.values())}
    for task, spec in model.tasks.items():
        if spec.head_class.reads == reads:
            name = f"{task}.task" if task in taken else task
            outputs_SC = add_module(graph, f"heads.{spec.head_task}", model.head(task), pooled)
            graph.output(name, add_link(graph, outputs_SC, spec), output_columns(spec))
            outputs[name] = task
    found = GraphFile(reads, inputs, outputs)
    graph.save(folder / found.name)
    return found


def _inputs_of(model: Model, *, pair: bool) -> list[str]:
    """The inputs of a view; segments are needed only for pairs, and only if the encoder has several."""
    return [IDS, MASK, SEGMENTS] if pair and model.encoder.config.segments > 1 else [IDS, MASK]


def _add_view(graph: Graph, model: Model, precision: Precision, names: dict[str, str]) -> str:
    """The pooled embeddings (S, D) of the texts of one view."""
    given = names[IDS], names[MASK], names.get(SEGMENTS)
    return add_encoder(graph, model.encoder, model.pooling, precision, *given)
