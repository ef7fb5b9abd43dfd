"""The encoder run by ONNX Runtime, with the graphs that `plait export` wrote into a model directory.

S inputs, T tokens of the longest, D width.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from plait.errors import ModelError, RequestError
from plait.files import read_json, sha256_of
from plait.measurement_cache import cached_measurement
from plait.model.directory.record import ModelDirectory, digest_of
from plait.model.encode_texts import embed_inputs
from plait.model.model import Model
from plait.names import excerpt, path_inside

__all__ = [
    "ENCODER",
    "GRAPH_FOLDER",
    "GRAPH_FORMAT",
    "GRAPH_MANIFEST",
    "IDS",
    "MASK",
    "POOLED",
    "SEGMENTS",
    "WEIGHTS",
    "OnnxEngine",
    "choose_engine",
    "onnxruntime_or_error",
    "open_graph",
    "pad",
]

GRAPH_FOLDER, GRAPH_MANIFEST, GRAPH_FORMAT = "onnx", "manifest.json", 1
ENCODER = "encoder"  # the graph of the bare encoder
WEIGHTS = "weights.bin"  # of all graphs
IDS, MASK, SEGMENTS, POOLED = "input_ids", "attention_mask", "token_type_ids", "pooled"
_CALL_TOKENS = 512  # in one call, padding included; more would not fit in the processor's cache
_MOST_PADDING = 0.05  # the largest share of padding among them
# Tokens of the texts that both engines are timed on.
_SAMPLE_LENGTHS = (8, 8, 12, 12, 16, 16, 24, 24, 32, 32, 48, 64, 96)
_TIMING_SECONDS, _TIMING_ROUNDS = 0.5, 5
_EXPORT_AGAIN = "export the model again, or load it with the engine torch"
_SPEED_MARGIN = 1.05  # how much faster it must be to be worth a second copy of the weights in memory


class OnnxEngine:
    """Embeds tokenized inputs with the graph of the bare encoder; each call uses one thread."""

    name = "onnx"

    def __init__(self, folder: Path) -> None:
        self.session = open_graph(folder / f"{ENCODER}.onnx")
        self.inputs = [given.name for given in self.session.get_inputs()]

    @property
    def lanes(self) -> int:
        """How many batches it can process at the same time."""
        return torch.get_num_threads()

    def pooled(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Tensor:
        """Embeddings (S, D) of tokenized inputs."""
        found: list[np.ndarray] = []
        order: list[int] = []
        for rows in _similar_lengths([len(text) for text in ids]):
            tables = pad([ids[row] for row in rows], [firsts[row] for row in rows])
            found += self.session.run([POOLED], {name: tables[name] for name in self.inputs})
            order += rows
        pooled_SD = torch.from_numpy(np.concatenate(found))
        return pooled_SD[torch.tensor(order).argsort()]


def _similar_lengths(lengths: Sequence[int]) -> list[list[int]]:
    """Rows in groups of similar length, longest first, each with little padding and few tokens."""
    groups: list[list[int]] = []
    longest = tokens = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        padded = longest * (len(groups[-1]) + 1) if groups else 0
        if not groups or padded > _CALL_TOKENS or padded - tokens - lengths[row] > _MOST_PADDING * padded:
            groups.append([])
            longest, tokens = lengths[row], 0
        groups[-1].append(row)
        tokens += lengths[row]
    return groups


def pad(ids: Sequence[np.ndarray], firsts: Sequence[int]) -> dict[str, np.ndarray]:
    """The tables (S, T) of ids, mask and segments that a graph takes."""
    lengths_S1 = np.array([[len(text)] for text in ids])
    place_1T = np.arange(lengths_S1.max())[None]
    mask_ST = place_1T < lengths_S1
    ids_ST = np.zeros(mask_ST.shape, np.int64)
    ids_ST[mask_ST] = np.concatenate(ids)
    segments_ST = mask_ST & (place_1T >= np.array(firsts)[:, None])
    return {IDS: ids_ST, MASK: mask_ST.astype(np.int64), SEGMENTS: segments_ST.astype(np.int64)}


def onnxruntime_or_error(what: str) -> Any:
    """The package onnxruntime, or an error that says how to install it."""
    try:
        import onnxruntime
    except ImportError:
        raise RequestError(f'{what} needs the package onnxruntime; pip install "plait[onnx]"') from None
    return onnxruntime


def open_graph(path: Path) -> Any:
    """A session of ONNX Runtime that computes in the calling thread."""
    onnxruntime = onnxruntime_or_error('engine "onnx"')
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class _GraphManifest(NamedTuple):
    """manifest.json of the graphs."""

    precision: str
    sha256: dict[str, str]
    digest: str  # of the whole manifest


def choose_engine(
    model: Model, source: str | Path, directory: ModelDirectory | None, name: str, log: Callable[[str], None]
) -> None:
    """Let a model embed with the engine of that name; `log` receives what `auto` chose, if it had a choice.

    `directory` is None for a plain encoder.
    """
    graphs = directory.folder / GRAPH_FOLDER if directory and (directory.folder / GRAPH_FOLDER).is_dir() else None
    if name == "torch" or (name == "auto" and (graphs is None or model.device.type != "cpu")):
        return
    if graphs is None or directory is None:
        raise RequestError(
            f"{source}: no ONNX graphs; plait export {source} --to onnx --out NEW writes a copy that has them"
        )
    manifest = _read_manifest(graphs, directory.identity)
    if name == "onnx" or _is_faster(model, graphs, manifest, log):
        model.engine = _open_engine(graphs, manifest)


def _is_faster(model: Model, graphs: Path, manifest: _GraphManifest, log: Callable[[str], None]) -> bool:
    """Whether the graphs embed faster than torch on this machine, measured once; int8 graphs are never chosen."""
    try:
        version = onnxruntime_or_error("auto").__version__
    except RequestError:
        return False
    if manifest.precision != "float32":
        what = f"the graphs in {graphs} are {manifest.precision}, so their predictions differ slightly"
        log(f"engine: torch; {what}; the engine onnx uses them")
        return False
    about = f"{manifest.digest} | {torch.get_num_threads()} threads | onnxruntime {version}"
    ratio = cached_measurement("engine", about, lambda: _measure_speed(model, _open_engine(graphs, manifest)))
    faster: bool = ratio > _SPEED_MARGIN
    log(f"engine: {'onnx' if faster else 'torch'}; when measured here, onnx had {ratio:.2f} times the speed of torch")
    return faster


def _measure_speed(model: Model, engine: OnnxEngine) -> float:
    """How many times as fast as torch the engine embeds texts of mixed length; median of alternating rounds."""
    generator = np.random.default_rng(0)
    lengths = [min(length, model.limit()) for length in _SAMPLE_LENGTHS]
    ids = [generator.integers(model.encoder.config.vocab_size, size=length) for length in lengths]
    ratios: list[float] = []
    began = time.perf_counter()
    while len(ratios) <= _TIMING_ROUNDS and (len(ratios) < 2 or time.perf_counter() - began < _TIMING_SECONDS):
        seconds = []
        for model.engine in (None, engine):
            start = time.perf_counter()
            embed_inputs(model, ids, lengths, None)
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    model.engine = None
    return statistics.median(ratios[1:])  # the first round warms up


def _open_engine(graphs: Path, manifest: _GraphManifest) -> OnnxEngine:
    """The engine, once its files are verified."""
    for name, sha256 in manifest.sha256.items():
        file = path_inside(graphs, name)
        if file is None or not file.is_file():
            raise ModelError(f"{graphs}: {excerpt(str(name))} is missing; {_EXPORT_AGAIN}")
        if sha256_of(file) != sha256:
            raise ModelError(f"{graphs}/{name}: modified after the export; {_EXPORT_AGAIN}")
    return OnnxEngine(graphs)


def _read_manifest(graphs: Path, identity: str) -> _GraphManifest:
    """The manifest of an export, which must belong to this model."""
    try:
        value = dict(read_json(graphs / GRAPH_MANIFEST))
        found, exported_from = value["format"], value["model"]
        manifest = _GraphManifest(value["precision"], {**value["sha256"]}, digest_of(value))
        if not {WEIGHTS, f"{ENCODER}.onnx"} <= manifest.sha256.keys():
            raise ValueError("it does not name the files of the engine")
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelError(f"{graphs}/{GRAPH_MANIFEST}: missing or damaged; {_EXPORT_AGAIN}") from None
    if found != GRAPH_FORMAT:
        raise ModelError(
            f"{graphs}: format {found}, but this plait reads {GRAPH_FORMAT}; update plait, or export again"
        )
    if exported_from != identity:
        raise ModelError(f"{graphs}: exported from a different model than the one beside it; {_EXPORT_AGAIN}")
    return manifest
