"""A directory → a model, after its manifest has been checked."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors.torch import load_file
from torch import nn

from plait.data.tokenize import load_tokenizer
from plait.encoder.config import read_config
from plait.encoder.find import checkpoint_files, find_checkpoint
from plait.encoder.weights import encoder_from
from plait.errors import EncoderError, ModelError, PlaitError, RequestError, did_you_mean
from plait.heads import SHARED_LAYERS
from plait.model.about import find_model, read_about
from plait.model.ensemble import AnyModel, Ensemble
from plait.model.files import sha256_of
from plait.model.model import Model, Text
from plait.model.onnx_engine import choose_engine
from plait.model.save import FORMAT
from plait.model.tasks import TaskSpec, build_head, spec_from_json

__all__ = [
    "EngineName",
    "build_model",
    "check_format",
    "check_manifest",
    "encoder_prints",
    "load_heads",
    "load_model",
    "load_plait_model",
    "load_weights",
    "manifest_of",
    "model_identity",
    "pick_device",
]

EngineName = Literal["auto", "onnx", "torch"]  # what embeds; auto is the faster one
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "added_tokens.json",
)


def pick_device(name: str) -> torch.device:
    """`auto` is the first of cuda, mps and cpu that is there."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, found in there.items() if found))
    if not there.get(name):
        raise RequestError(f"device {name!r}: this torch finds none on this machine; use auto or cpu")
    return torch.device(name)


def load_model(
    source: str | Path,
    *,
    device: str = "auto",
    engine: EngineName = "torch",
    tell: Callable[[str], None] = lambda sentence: None,
) -> AnyModel:
    """A plait model or ensemble, or a plain encoder in Hugging Face's layout, ready for inference.

    Where the engine `auto` has a choice, `tell` hears what it took.
    """
    if engine not in get_args(EngineName):
        raise RequestError(f"engine {engine!r} is unknown; {did_you_mean(engine, get_args(EngineName))}")
    if engine == "onnx" and device not in ("auto", "cpu"):
        raise RequestError(f"device {device!r}: the engine onnx works on the cpu; choose the engine torch")
    place = pick_device("cpu" if engine == "onnx" else device)
    folder = find_model(source)
    if folder is None:
        model = build_model(find_checkpoint(str(source)), {}, pooling=None, normalise=None)
    elif "members/1/manifest.json" in manifest_of(folder):  # an ensemble; plait.json says so too, once it is checked
        if engine == "onnx":
            raise RequestError(f"{source}: is an ensemble, which has no ONNX graphs; choose the engine torch")
        return Ensemble(tuple(load_plait_model(member).to(place).eval() for member in members_of(folder)))
    else:
        model = load_plait_model(folder)
    model = model.to(place).eval()
    choose_engine(model, source, folder, model_identity(folder) if folder else "", engine, tell)
    return model


def members_of(folder: Path) -> list[Path]:
    """The directories of an ensemble's members, each with the manifest that it was saved with."""
    check_manifest(folder, manifest_of(folder))
    about = read_about(folder)
    check_format(folder, about)
    return [folder / "members" / str(number + 1) for number in range(len(about["members"]))]


def model_identity(source: str | Path) -> str:
    """What tells one model from another: the digest of the fingerprints of its files."""
    folder = find_model(source)
    prints = manifest_of(folder) if folder else encoder_prints(find_checkpoint(str(source)))
    return hashlib.sha256(json.dumps(prints, sort_keys=True).encode()).hexdigest()


def encoder_prints(folder: Path) -> dict[str, str]:
    """The sha256 of each file of a checkpoint."""
    return {name: sha256_of(folder / name) for name in checkpoint_files(folder)}


def load_plait_model(folder: Path) -> Model:
    """A directory that plait wrote; where a run puts a better model there meanwhile, the better one."""
    while True:
        before = manifest_of(folder)
        try:
            model = read_plait_model(folder, before)
        except (PlaitError, OSError):
            if manifest_of(folder) == before:
                raise
        else:
            if manifest_of(folder) == before:
                return model


def read_plait_model(folder: Path, manifest: Mapping[str, str]) -> Model:
    """Check every file and build the model from them."""
    check_manifest(folder, manifest)
    about = read_about(folder)
    check_format(folder, about)
    specs = {spec["name"]: spec_from_json(spec) for spec in about["tasks"]}
    model = build_model(
        folder,
        specs,
        pooling=about["pooling"],
        normalise=about["normalise"],
        shared_layer=about["shared_layer"],
    )
    load_heads(model, folder, list(specs))
    return model


def check_format(folder: Path, about: Mapping[str, Any]) -> None:
    """Refuse what another plait wrote in a way that this one does not know."""
    if about.get("format") != FORMAT:
        raise ModelError(f"{folder}: format {about.get('format')}, this plait reads {FORMAT}; update plait")


def load_heads(model: Model, folder: Path, tasks: Sequence[str]) -> None:
    """Put the weights of these tasks' heads, and of the shared layer, from a model directory into a model."""
    tensors = load_file(folder / "heads.safetensors")
    parts: dict[str, nn.Module] = {f"heads.{task}.": model.heads[task] for task in tasks}
    if model.shared_layer is not None:
        parts["shared_layer."] = model.shared_layer
    for start, module in parts.items():
        state = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
        try:
            module.load_state_dict(state)
        except RuntimeError as error:
            raise ModelError(f"{folder}/heads.safetensors: {str(error).splitlines()[-1].strip()}") from None


def load_weights(model: Model, folder: Path) -> None:
    """Put the weights of a model directory into a model that has the same encoder and tasks, bit by bit."""
    encoder = encoder_from(folder, model.encoder.config, pooler=model.pooling == "pooler")
    model.encoder.load_state_dict(encoder.state_dict())
    load_heads(model, folder, list(model.heads))


def manifest_of(folder: Path) -> dict[str, str]:
    """The sha256 of each file that loading reads, as it was when the model was saved."""
    path = folder / "manifest.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelError(f"{path}: is missing or broken; copy the model directory again, whole") from None


def check_manifest(folder: Path, manifest: Mapping[str, str]) -> None:
    """Every file that loading reads is the one that was written."""
    mistakes = []
    for name, sha256 in manifest.items():
        if not (folder / name).is_file():
            mistakes.append(f"{folder}: {name} is missing; copy the model directory again, whole")
        elif sha256_of(folder / name) != sha256:
            mistakes.append(f"{folder}/{name}: was changed after the model was saved; copy it again")
    if mistakes:
        raise ModelError(*mistakes)


def build_model(
    folder: Path,
    specs: Mapping[str, TaskSpec],
    *,
    pooling: str | None,
    normalise: bool | None,
    dropout: float = 0.0,
    shared_layer: Any = None,
    precision: str = "float32",
) -> Model:
    """A model on the weights of a checkpoint, with new heads; None means as the checkpoint says of itself."""
    config = read_config(folder)
    pooling = pooling or config.pooling or "mean"
    tokenizer = load_tokenizer(folder)
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if largest >= config.vocab_size:
        raise EncoderError(
            f"{folder}: its tokenizer has the id {largest}, its embeddings end at {config.vocab_size - 1}; "
            "they do not belong together"
        )
    files = {name: (folder / name).read_bytes() for name in TOKENIZER_FILES if (folder / name).is_file()}
    files["tokenizer.json"] = tokenizer.to_str().encode()
    layer = None
    if shared_layer is not None:
        name, options = (shared_layer, {}) if isinstance(shared_layer, str) else (shared_layer["name"], shared_layer)
        if name not in SHARED_LAYERS:
            raise ModelError(f"shared layer {name!r} is unknown; {did_you_mean(name, SHARED_LAYERS)}")
        layer = SHARED_LAYERS[name](config.width, **{key: value for key, value in options.items() if key != "name"})
    return Model(
        encoder_from(folder, config, pooler=pooling == "pooler"),
        Text(tokenizer, config.limit, files),
        specs,
        {name: build_head(spec, config.width, dropout) for name, spec in specs.items()},
        pooling=pooling,
        normalise=config.normalise if normalise is None else normalise,
        shared_layer=layer,
        precision=precision,
    )
