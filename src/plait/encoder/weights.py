"""Checkpoints in Hugging Face's layout, in and out; safetensors only."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from plait.encoder.architectures import Architecture
from plait.encoder.bert import Encoder
from plait.encoder.config import EncoderConfig, read_optional_json
from plait.encoder.cpu.linear import CpuLinear
from plait.errors import EncoderError
from plait.names import excerpt, path_inside

__all__ = ["TOKEN_SCORES", "encoder_from", "is_finite", "largest", "load_encoder", "read_tensors", "to_checkpoint"]

TOKEN_SCORES = "token_scores"  # of weighted pooling
_POSITION_IDS = re.compile(r"(^|\.)position_ids$")  # a buffer of 0, 1, 2, …
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}


class _SkipInitialization(TorchFunctionMode):
    """New modules do not initialize their weights; on the meta device that would import torch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def encoder_from(folder: Path, config: EncoderConfig, *, pooler: bool) -> Encoder:
    """The encoder of a checkpoint, with its pooler if it has one; `pooler` demands that it does."""
    return load_encoder(read_tensors(folder), config, pooler=pooler, where=folder)


def load_encoder(tensors: Mapping[str, Tensor], config: EncoderConfig, *, pooler: bool, where: Path) -> Encoder:
    """An encoder with these weights; the error lists every missing, unexpected or wrongly shaped tensor."""
    architecture = config.architecture
    if pooler and "pooler" not in architecture.modules:
        raise EncoderError(
            f"{where}: a {config.model_type} encoder has no pooler; choose another pooling, such as mean"
        )
    found: dict[str, Tensor] = {}
    mistakes = []
    for name, tensor in tensors.items():
        if name.startswith(architecture.heads) or _POSITION_IDS.search(name):
            continue
        current = _current_name(name, architecture)
        if current in found:
            mistakes.append(f"{where}: tensor {name} occurs twice, with and without its prefix")
        found[current] = tensor
    has_pooler = any(name.startswith("pooler.") for name in found)
    with torch.device("meta"), _SkipInitialization():
        encoder = Encoder(config, pooler=pooler or has_pooler)
    wanted = _expected_shapes(encoder)
    mistakes += [
        f"{where}: no tensor {name}, expected shape {list(wanted[name])}" for name in wanted.keys() - found.keys()
    ]
    mistakes += [
        f"{where}: tensor {name} of shape {list(found[name].shape)} has no place in a {config.model_type} encoder"
        for name in found.keys() - wanted.keys()
    ]
    mistakes += [
        f"{where}: tensor {name} has shape {list(found[name].shape)}, expected {list(wanted[name])}"
        for name in wanted.keys() & found.keys()
        if found[name].shape != wanted[name]
    ]
    mistakes += [
        f"{where}: tensor {name} has NaN or infinite values; get the checkpoint again, or choose another"
        for name in wanted.keys() & found.keys()
        if not is_finite(found[name])
    ]
    if mistakes:
        raise EncoderError(*sorted(mistakes))
    state = {}
    for name in encoder.state_dict():
        parts = [found[source].to(torch.float32) for source in _checkpoint_names(name, architecture)]
        state[name] = torch.cat(parts) if len(parts) > 1 else parts[0].clone()
    encoder.load_state_dict(state, assign=True)
    return encoder.requires_grad_()


def is_finite(tensor: Tensor) -> bool:
    """Whether no value is NaN or infinite."""
    return largest(tensor) < math.inf


def largest(tensor: Tensor) -> float:
    """The largest magnitude, in one pass that allocates nothing; inf if any value is NaN or infinite."""
    if not tensor.numel() or not tensor.is_floating_point():
        return 0.0
    low, high = (float(end) for end in torch.aminmax(tensor.detach()))
    return max(-low, high) if math.isfinite(low) and math.isfinite(high) else math.inf


def to_checkpoint(encoder: Encoder) -> dict[str, Tensor]:
    """The weights under the names of Hugging Face's layout, as copies on the CPU that can be saved.

    Adapters are merged. The layout has no name for token scores; they are saved with the heads.
    """
    tensors: dict[str, Tensor] = {}
    linears = {f"{name}.weight": module for name, module in encoder.named_modules() if isinstance(module, CpuLinear)}
    for name, tensor in encoder.state_dict().items():
        if name == TOKEN_SCORES or ".adapter." in name:
            continue
        tensor = linears[name].merged_weight() if name in linears else tensor
        sources = _checkpoint_names(name, encoder.config.architecture)
        parts = tensor.chunk(len(sources)) if len(sources) > 1 else (tensor,)
        tensors |= {
            source: part.detach().cpu().contiguous().clone() for source, part in zip(sources, parts, strict=True)
        }
    return tensors


def _expected_shapes(encoder: Encoder) -> dict[str, torch.Size]:
    """Names and shapes of the tensors in a checkpoint of this encoder."""
    shapes = {}
    for name, tensor in encoder.state_dict().items():
        sources = _checkpoint_names(name, encoder.config.architecture)
        for source in sources:
            shapes[source] = torch.Size([tensor.shape[0] // len(sources), *tensor.shape[1:]])
    return shapes


def _checkpoint_names(name: str, architecture: Architecture) -> list[str]:
    """The names in a checkpoint for one of our tensors: three if query, key and value are separate there."""
    module, kind = name.rsplit(".", 1)
    if not module.startswith("layers."):
        return [f"{architecture.modules[module]}.{kind}"]
    _, number, part = module.split(".")
    return [f"{architecture.layers}.{number}.{source}.{kind}" for source in architecture.layer[part]]


def _current_name(name: str, architecture: Architecture) -> str:
    """A tensor's name without the model's prefix, and with weight and bias for the older gamma and beta."""
    stem, _, last = name.removeprefix(architecture.prefix).rpartition(".")
    return f"{stem}.{_OLD_NAMES.get(last, last)}" if stem else last


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of model.safetensors, or of the shards that its index lists."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        files = [single]
    elif index.is_file():
        try:
            names = sorted(set(read_optional_json(index)["weight_map"].values()))
        except (TypeError, KeyError, AttributeError):
            raise EncoderError(f"{index}: has no weight_map of tensors to files") from None
        if outside := [name for name in names if path_inside(folder, name) is None]:
            raise EncoderError(f"{index}: {excerpt(str(outside[0]))!r} is not a file inside the directory")
        files = [folder / name for name in names]
    else:
        others = sorted(path.name for path in folder.glob("*") if path.suffix in (".bin", ".pt", ".pth"))
        hint = f", only {others[0]}; plait convert {folder} --out NEW turns it into safetensors" if others else ""
        raise EncoderError(f"{folder}: no model.safetensors{hint}")
    tensors: dict[str, Tensor] = {}
    for path in files:
        try:
            tensors |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise EncoderError(f"{path}: cannot be read as safetensors: {error}") from None
    return tensors
