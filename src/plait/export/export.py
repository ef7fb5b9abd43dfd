"""A model → a copy of its directory with ONNX graphs, checked against PyTorch before it appears."""

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
from plait.export.write import GraphFile, write_graphs
from plait.files import atomic_folder, dump_json, sha256_of
from plait.model.directory.find import find_model
from plait.model.directory.load import load_model
from plait.model.directory.record import Provenance, open_directory
from plait.model.directory.save import save_model
from plait.model.engines.onnx import GRAPH_FOLDER, GRAPH_FORMAT, GRAPH_MANIFEST, WEIGHTS, onnxruntime_or_error
from plait.model.ensemble_build import copy_model
from plait.model.model import Model
from plait.model.tasks import TaskSpec

__all__ = ["Exported", "export_onnx"]

_SAMPLE = 200  # texts to calibrate and check with


@dataclass(frozen=True)
class Exported:
    """What was written, and how closely it agrees with the model."""

    folder: Path
    precision: str
    graphs: tuple[GraphFile, ...]
    agreements: tuple[Agreement, ...]
    size: int  # bytes of the graphs and their weights


def export_onnx(source: str, out: Path, *, int8: bool = False) -> Exported:
    """Write a new directory: an unchanged copy of the model, with its graphs in the folder `onnx`."""
    onnx_or_error()
    onnxruntime_or_error("exporting")
    if out.exists():
        raise RequestError(f"--out {out}: already exists; choose another name")
    folder = find_model(source)
    directory = open_directory(folder) if folder else None
    if directory and directory.record.is_ensemble:
        raise RequestError(f"{source}: an ensemble; export its members one by one, such as {folder}/members/1")
    model = load_model(source, device="cpu").model
    assert isinstance(model, Model), "an ensemble was refused"
    if model.encoder.config.modern:
        raise RequestError(f"{source}: a modernbert encoder cannot be exported to ONNX; use it with plait itself")
    precision: Precision = Int8(largest_inputs(model, sample_texts(_SAMPLE))) if int8 else Float32()
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as place:
        if directory:
            copy_model(directory, place)
        else:
            name = source if not Path(source).is_dir() else Path(source).resolve().name
            save_model(model, place, Provenance(recipe={"encoder": name}))
        onnx = place / GRAPH_FOLDER
        graphs = write_graphs(model, onnx, precision)
        agreements = check_graphs(model, onnx, graphs, _SAMPLE, int8=int8)
        page = graph_page(model, graphs, agreements, precision.name)
        (onnx / "README.md").write_text(page, encoding="utf-8")
        files = [onnx / name for name in sorted((WEIGHTS, *(graph.name for graph in graphs)))]
        manifest = {
            "format": GRAPH_FORMAT,
            "plait": plait.__version__,
            "model": open_directory(place).identity,
            "precision": precision.name,
            "sha256": {file.name: sha256_of(file) for file in files},
            "graphs": {graph.name: _describe_graph(model, graph) for graph in graphs},
        }
        (onnx / GRAPH_MANIFEST).write_text(dump_json(manifest), encoding="utf-8")
        size = sum(file.stat().st_size for file in files)
    return Exported(out, precision.name, tuple(graphs), tuple(agreements), size)


def _describe_graph(model: Model, graph: GraphFile) -> dict[str, Any]:
    """What a program must know to run a graph."""
    return {
        "reads": graph.reads,
        "inputs": graph.inputs,
        "outputs": {
            name: _describe_task(model.tasks[task]) if task else {"limit": model.limit()}
            for name, task in graph.outputs.items()
        },
    }


def _describe_task(spec: TaskSpec) -> dict[str, Any]:
    """What the numbers of an output mean."""
    described: dict[str, Any] = {"task": spec.name, "kind": spec.labels.kind, "limit": spec.max_length}
    if spec.labels.about.is_score:
        return {**described, "range": [spec.labels.low, spec.labels.high]}
    withheld = {} if spec.abstain_below is None else {"abstain_below": spec.abstain_below}
    return {**described, "classes": list(spec.labels.names), "threshold": spec.threshold, **withheld}
