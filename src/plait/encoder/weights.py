"""Checkpoints in Hugging Face's layout, in and out; safetensors only."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from plait.encoder.bert import Encoder
from plait.encoder.config import EncoderConfig, read_json
from plait.errors import EncoderError

__all__ = ["encoder_from", "load_encoder", "read_tensors", "to_checkpoint"]

PASSED_OVER = re.compile(r"^(cls|lm_head|classifier)\.|(^|\.)position_ids$")
OLD_NAMES = {"gamma": "weight", "beta": "bias"}
EMBEDDINGS = {
    "tokens": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "segments": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "pooler": "pooler.dense",
}
LAYERS = {
    "mix": "attention.output.dense",
    "mix_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "narrow_norm": "output.LayerNorm",
}
QKV = ("query", "key", "value")


class Unfilled(TorchFunctionMode):
    """New modules leave their weights unfilled; filling weights that have no memory would import torch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass over the functions that fill a tensor."""
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def encoder_from(folder: Path, config: EncoderConfig, *, pooler: bool) -> Encoder:
    """The encoder of a checkpoint; a pooler is kept where there is one, and needed where the pooling says so."""
    return load_encoder(read_tensors(folder), config, pooler=pooler, where=folder)


def load_encoder(tensors: Mapping[str, Tensor], config: EncoderConfig, *, pooler: bool, where: Path) -> Encoder:
    """An encoder with these weights; any missing, extra or wrongly shaped tensor is named."""
    found: dict[str, Tensor] = {}
    mistakes = []
    for name, tensor in tensors.items():
        if PASSED_OVER.search(name):
            continue
        if clean_name(name) in found:
            mistakes.append(f"{where}: tensor {name} stands there twice, with and without its prefix")
        found[clean_name(name)] = tensor
    has_pooler = any(name.startswith("pooler.") for name in found)
    with torch.device("meta"), Unfilled():
        encoder = Encoder(config, pooler=pooler or has_pooler)
    wanted = checkpoint_shapes(encoder)
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
    if mistakes:
        raise EncoderError(*sorted(mistakes))
    state = {}
    for name in encoder.state_dict():
        parts = [found[source].to(torch.float32) for source in sources_of(name)]
        state[name] = torch.cat(parts) if len(parts) > 1 else parts[0].clone()
    encoder.load_state_dict(state, assign=True)
    return encoder.requires_grad_()


def to_checkpoint(encoder: Encoder) -> dict[str, Tensor]:
    """The weights under the names of Hugging Face's layout, ready to be saved."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in encoder.state_dict().items():
        sources = sources_of(name)
        parts = tensor.chunk(len(sources)) if len(sources) > 1 else (tensor,)
        tensors |= {
            source: part.detach().cpu().contiguous().clone() for source, part in zip(sources, parts, strict=True)
        }
    return tensors


def checkpoint_shapes(encoder: Encoder) -> dict[str, torch.Size]:
    """The names and shapes that a checkpoint of this encoder must have."""
    shapes = {}
    for name, tensor in encoder.state_dict().items():
        sources = sources_of(name)
        for source in sources:
            shapes[source] = torch.Size([tensor.shape[0] // len(sources), *tensor.shape[1:]])
    return shapes


def sources_of(name: str) -> list[str]:
    """The tensors of a checkpoint that make one of ours: three for the joint query, key and value."""
    module, kind = name.rsplit(".", 1)
    if not module.startswith("layers."):
        return [f"{EMBEDDINGS[module]}.{kind}"]
    _, layer, part = module.split(".")
    if part == "qkv":
        return [f"encoder.layer.{layer}.attention.self.{side}.{kind}" for side in QKV]
    return [f"encoder.layer.{layer}.{LAYERS[part]}.{kind}"]


def clean_name(name: str) -> str:
    """A tensor's name without the model's prefix, and with today's word for gamma and beta."""
    name = re.sub(r"^(bert|roberta)\.", "", name)
    stem, _, last = name.rpartition(".")
    return f"{stem}.{OLD_NAMES[last]}" if last in OLD_NAMES else name


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Every tensor of model.safetensors, or of the parts that its index names."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        files = [single]
    elif index.is_file():
        try:
            files = [folder / name for name in sorted(set(read_json(index)["weight_map"].values()))]
        except (TypeError, KeyError, AttributeError):
            raise EncoderError(f"{index}: has no weight_map of tensors to files") from None
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
