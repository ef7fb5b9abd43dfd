"""The encoder run by ONNX Runtime, from the graphs that `plait export` wrote into a model's directory.

S inputs, T tokens of the longest, D width.
"""

import hashlib
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plait.errors import ModelError, RequestError
from plait.model.apply import embed_inputs
from plait.model.ensemble import AnyModel
from plait.model.files import sha256_of
from plait.model.model import Model
from plait.model.remember import remembered

__all__ = [
    "ENCODER",
    "FOLDER",
    "FORMAT",
    "IDS",
    "MANIFEST",
    "MASK",
    "POOLED",
    "SEGMENTS",
    "OnnxEngine",
    "choose_engine",
    "engine_of",
    "onnxruntime_or_error",
    "open_graph",
    "pad",
]

FOLDER, ENCODER, MANIFEST, FORMAT = "onnx", "encoder", "manifest.json", 1
IDS, MASK, SEGMENTS, POOLED = "input_ids", "attention_mask", "token_type_ids", "pooled"
TOKENS = 512  # in one call, padding included; more would not stay in the cache
PADDING = 0.05  # of them at most
SAMPLE = (8, 8, 12, 12, 16, 16, 24, 24, 32, 32, 48, 64, 96)  # tokens of the texts that both engines are tried with
SECONDS, ROUNDS = 0.5, 5  # of trying
AGAIN = "export the model again, or load it with the engine torch"
MARGIN = 1.05  # so much faster must it be to be worth a second copy of the weights in memory


class OnnxEngine:
    """Embeds tokenized inputs with the graph of the bare encoder; each call has one thread, calls go side by side."""

    def __init__(self, folder: Path) -> None:
        self.session = open_graph(folder / f"{ENCODER}.onnx")
        self.inputs = [given.name for given in self.session.get_inputs()]

    @property
    def lanes(self) -> int:
        """Batches that it can work on at once."""
        return torch.get_num_threads()

    def pooled(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Tensor:
        """Embeddings (S, D) of tokenized inputs."""
        found: list[np.ndarray] = []
        order: list[int] = []
        for rows in like_lengths([len(text) for text in ids]):
            tables = pad([ids[row] for row in rows], [firsts[row] for row in rows])
            found += self.session.run([POOLED], {name: tables[name] for name in self.inputs})
            order += rows
        pooled_SD = torch.from_numpy(np.concatenate(found))
        return pooled_SD[torch.tensor(order).argsort()]


def like_lengths(lengths: Sequence[int]) -> list[list[int]]:
    """Rows in groups of like length, the longest first, each with little padding and few tokens."""
    groups: list[list[int]] = []
    longest = tokens = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        padded = longest * (len(groups[-1]) + 1) if groups else 0
        if not groups or padded > TOKENS or padded - tokens - lengths[row] > PADDING * padded:
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
    """The package onnxruntime, or how to get it."""
    try:
        import onnxruntime
    except ImportError:
        raise RequestError(f'{what} needs the package onnxruntime; pip install "plait[onnx]"') from None
    return onnxruntime


def open_graph(path: Path) -> Any:
    """A session of ONNX Runtime on the CPU; a call of it works in the thread that calls."""
    onnxruntime = onnxruntime_or_error('engine "onnx"')
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def engine_of(model: AnyModel) -> str:
    """What embeds for a model that was just loaded."""
    return "onnx" if isinstance(model, Model) and isinstance(model.engine, OnnxEngine) else "torch"


def choose_engine(
    model: Model, source: str | Path, folder: Path | None, identity: str, name: str, tell: Callable[[str], None]
) -> None:
    """Let a model embed with the engine of that name; `tell` hears what `auto` took where there was a choice.

    `folder` is the model's directory, none of a plain encoder, and `identity` what tells it from other models.
    """
    graphs = folder / FOLDER if folder and (folder / FOLDER).is_dir() else None
    if name == "torch" or (name == "auto" and (graphs is None or model.device.type != "cpu")):
        return
    if graphs is None:
        raise RequestError(
            f"{source}: has no ONNX graphs; plait export {source} --to onnx --out NEW makes a copy that has them"
        )
    manifest = read_manifest(graphs, identity)
    if name == "onnx" or is_faster(model, graphs, manifest, tell):
        model.engine = open_engine(graphs, manifest)


def is_faster(model: Model, graphs: Path, manifest: Mapping[str, Any], tell: Callable[[str], None]) -> bool:
    """Whether the graphs embed faster than torch does here, as it was measured once; never graphs of 8 bits."""
    try:
        version = onnxruntime_or_error("auto").__version__
    except RequestError:
        return False
    if manifest["precision"] != "float32":
        what = f"the graphs of {graphs} are of {manifest['precision']} and answer a little differently"
        tell(f"engine: torch; {what}, --engine onnx takes them")
        return False
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    about = f"{digest} | {torch.get_num_threads()} threads | onnxruntime {version}"
    ratio = remembered("engine", about, lambda: measure_speed(model, open_engine(graphs, manifest)))
    faster: bool = ratio > MARGIN
    name = "onnx" if faster else "torch"
    tell(f"engine: {name}; when it was measured here, onnx had {ratio:.2f} times the speed of torch")
    return faster


def measure_speed(model: Model, engine: OnnxEngine) -> float:
    """How many times as fast as torch an engine embeds texts of mixed length, the median of some rounds in turns."""
    generator = np.random.default_rng(0)
    ids = [generator.integers(model.encoder.config.vocab_size, size=min(size, model.text.limit)) for size in SAMPLE]
    ratios: list[float] = []
    began = time.perf_counter()
    while len(ratios) <= ROUNDS and (len(ratios) < 2 or time.perf_counter() - began < SECONDS):
        seconds = []
        for model.engine in (None, engine):
            start = time.perf_counter()
            embed_inputs(model, ids, [len(text) for text in ids], None)
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    model.engine = None
    return statistics.median(ratios[1:])  # the first round warms up


def open_engine(graphs: Path, manifest: Mapping[str, Any]) -> OnnxEngine:
    """The engine, once every file is known to be the one that was written."""
    for name, sha256 in manifest["sha256"].items():
        if not (graphs / name).is_file():
            raise ModelError(f"{graphs}: {name} is missing; {AGAIN}")
        if sha256_of(graphs / name) != sha256:
            raise ModelError(f"{graphs}/{name}: was changed after the export; {AGAIN}")
    return OnnxEngine(graphs)


def read_manifest(graphs: Path, identity: str) -> dict[str, Any]:
    """What an export says of itself; it must be that of this model."""
    try:
        manifest = dict(json.loads((graphs / MANIFEST).read_text(encoding="utf-8")))
        found, made_from = manifest["format"], manifest["model"]
        manifest["precision"], manifest["sha256"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ModelError(f"{graphs}/{MANIFEST}: is missing or broken; {AGAIN}") from None
    if found != FORMAT:
        raise ModelError(f"{graphs}: format {found}, this plait reads {FORMAT}; update plait, or export again")
    if made_from != identity:
        raise ModelError(f"{graphs}: was made from another model than the one beside it; {AGAIN}")
    return manifest
