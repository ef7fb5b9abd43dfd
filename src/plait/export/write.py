"""The graphs of a model: one for each way of reading that a task has, one that embeds texts, and the bare encoder.

S texts, D width.
"""

from dataclasses import dataclass
from pathlib import Path

from plait.data.batch import ALONE, VIEWS
from plait.export.encoder import Precision, add_encoder
from plait.export.graph import Graph, Weights
from plait.export.heads import add_link, add_module, columns_of, normalize
from plait.model.model import Model
from plait.model.onnx_engine import ENCODER, IDS, MASK, POOLED, SEGMENTS

__all__ = ["EMBEDDING", "WEIGHTS", "GraphFile", "write_graphs"]

WEIGHTS = "weights.bin"
EMBEDDING = "embedding"
TOKENS = "tokens"  # the name of an axis; views may have different numbers of them


@dataclass(frozen=True)
class GraphFile:
    """A graph that was written: the inputs of each view that it reads, and what it gives."""

    reads: str  # a way of reading, or `encoder`
    inputs: dict[str, dict[str, str]]  # view → what is given of it (IDS, MASK, SEGMENTS) → the name of that input
    outputs: dict[str, str | None]  # name → the task that it answers; None for the embedding

    @property
    def name(self) -> str:
        """Its file."""
        return f"{self.reads}.onnx"


def write_graphs(model: Model, folder: Path, precision: Precision) -> list[GraphFile]:
    """Write the graphs and their common weights into a new folder."""
    folder.mkdir()
    reads = dict.fromkeys(("single", *(spec.reads for spec in model.tasks.values())))
    with Weights(folder / WEIGHTS) as weights:
        readings = [write_reading(model, folder, precision, weights, way) for way in reads]
        return [*readings, write_encoder(model, folder, precision, weights)]


def write_encoder(model: Model, folder: Path, precision: Precision, weights: Weights) -> GraphFile:
    """The graph that plait's own engine runs: any text, alone or joined, to its pooled embedding."""
    graph = Graph(weights)
    names = {what: graph.input(what, TOKENS) for what in inputs_of(model, joined=True)}
    pooled_SD = add_view(graph, model, precision, names)
    graph.output(POOLED, pooled_SD, model.encoder.config.width)
    found = GraphFile(ENCODER, {"text": names}, {POOLED: None})
    graph.save(folder / found.name)
    return found


def write_reading(model: Model, folder: Path, precision: Precision, weights: Weights, reads: str) -> GraphFile:
    """The graph of one way of reading: the answers of all tasks that read so, and the embedding of single texts."""
    graph = Graph(weights)
    inputs = {}
    for view in VIEWS[reads]:
        start = f"{view}_" if len(VIEWS[reads]) > 1 else ""
        given = inputs_of(model, joined=view not in ALONE)
        inputs[view] = {what: graph.input(start + what, start + TOKENS) for what in given}
    pooled = [add_view(graph, model, precision, names) for names in inputs.values()]
    outputs: dict[str, str | None] = {}
    if reads == "single":
        embedding_SD = normalize(graph, pooled[0]) if model.normalise else pooled[0]
        graph.output(EMBEDDING, embedding_SD, model.encoder.config.width)
        outputs[EMBEDDING] = None
    if model.shared_layer is not None:
        pooled = [add_module(graph, "shared_layer", model.shared_layer, [view_SD]) for view_SD in pooled]
    taken = {EMBEDDING, *(name for names in inputs.values() for name in names.values())}
    for task, spec in model.tasks.items():
        if spec.reads == reads:
            name = f"{task}.task" if task in taken else task
            outputs_SC = add_module(graph, f"heads.{task}", model.heads[task], pooled)
            graph.output(name, add_link(graph, outputs_SC, spec), columns_of(spec))
            outputs[name] = task
    found = GraphFile(reads, inputs, outputs)
    graph.save(folder / found.name)
    return found


def inputs_of(model: Model, *, joined: bool) -> list[str]:
    """What is given of a view: its tokens, which of them are no padding, and their segments where two are joined."""
    return [IDS, MASK, SEGMENTS] if joined and model.encoder.config.segments > 1 else [IDS, MASK]


def add_view(graph: Graph, model: Model, precision: Precision, names: dict[str, str]) -> str:
    """The pooled embeddings (S, D) of the texts of one view."""
    given = names[IDS], names[MASK], names.get(SEGMENTS)
    return add_encoder(graph, model.encoder, model.pooling, precision, *given)
