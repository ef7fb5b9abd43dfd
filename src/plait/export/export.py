"""A model → a copy of its directory with ONNX graphs in it, checked against PyTorch before it appears."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plait
from plait.errors import RequestError
from plait.export.check import Agreement, check_graphs
from plait.export.encoder import Float32, Precision
from plait.export.graph import onnx_or_error
from plait.export.page import graph_page
from plait.export.quantize import Int8, largest_inputs
from plait.export.texts import sample_texts
from plait.export.write import WEIGHTS, GraphFile, write_graphs
from plait.model.about import About, find_model, is_ensemble, read_about
from plait.model.files import sha256_of, whole_folder
from plait.model.gather import copy_model
from plait.model.load import load_model, model_identity
from plait.model.model import Model
from plait.model.onnx_engine import FOLDER, FORMAT, MANIFEST, onnxruntime_or_error
from plait.model.save import save_model, write_json
from plait.model.tasks import TaskSpec

__all__ = ["Exported", "export_onnx"]

SAMPLE = 200  # texts that the export is checked with


@dataclass(frozen=True)
class Exported:
    """What was written, and how near it is to the model."""

    folder: Path
    precision: str
    graphs: tuple[GraphFile, ...]
    agreements: tuple[Agreement, ...]
    size: int  # bytes of the graphs and their weights


def export_onnx(source: str, out: Path, *, int8: bool = False) -> Exported:
    """Write a new directory: the model as ever, and its graphs in the folder `onnx` of it."""
    onnx_or_error()
    onnxruntime_or_error("exporting")
    if out.exists():
        raise RequestError(f"--out {out}: is there already; choose another name")
    folder = find_model(source)
    if folder and is_ensemble(read_about(folder)):
        raise RequestError(f"{source}: is an ensemble; export its members, such as {folder}/members/1, one by one")
    model = load_model(source, device="cpu")
    assert isinstance(model, Model), "an ensemble was refused"
    precision: Precision = Int8(largest_inputs(model, sample_texts(SAMPLE))) if int8 else Float32()
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(out) as place:
        if folder:
            copy_model(folder, place)
        else:
            name = source if not Path(source).is_dir() else Path(source).resolve().name
            save_model(model, place, About(recipe={"encoder": name}))
        graphs = write_graphs(model, place / FOLDER, precision)
        agreements = check_graphs(model, place / FOLDER, graphs, SAMPLE, int8=int8)
        page = graph_page(model, graphs, agreements, precision.name)
        (place / FOLDER / "README.md").write_text(page, encoding="utf-8")
        files = [place / FOLDER / name for name in sorted((WEIGHTS, *(graph.name for graph in graphs)))]
        facts = {
            "format": FORMAT,
            "plait": plait.__version__,
            "model": model_identity(place),
            "precision": precision.name,
            "sha256": {file.name: sha256_of(file) for file in files},
            "graphs": {graph.name: graph_facts(model, graph) for graph in graphs},
        }
        write_json(place / FOLDER / MANIFEST, facts)
        size = sum(file.stat().st_size for file in files)
    return Exported(out, precision.name, tuple(graphs), tuple(agreements), size)


def graph_facts(model: Model, graph: GraphFile) -> dict[str, Any]:
    """What a program must know to run a graph."""
    return {
        "reads": graph.reads,
        "inputs": graph.inputs,
        "outputs": {
            name: task_facts(model.tasks[task]) if task else {"limit": model.text.limit}
            for name, task in graph.outputs.items()
        },
    }


def task_facts(spec: TaskSpec) -> dict[str, Any]:
    """What the numbers of an answer mean."""
    facts: dict[str, Any] = {"task": spec.name, "kind": spec.labels.kind, "limit": spec.max_length}
    if spec.labels.kind == "score":
        return {**facts, "range": [spec.labels.low, spec.labels.high]}
    return {**facts, "classes": list(spec.labels.names), "threshold": spec.threshold}
