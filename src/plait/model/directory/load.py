"""A directory → a model, once its files are verified."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from plait.data.tokenize import TextTokenizer, load_tokenizer
from plait.encoder.adapters import remove_adapters
from plait.encoder.bert import Encoder
from plait.encoder.config import EncoderConfig, read_config
from plait.encoder.find import Checkpoint, find_checkpoint
from plait.encoder.pooling import POOLINGS
from plait.encoder.weights import encoder_from, is_finite
from plait.errors import EncoderError, ModelError, PlaitError, RequestError, did_you_mean
from plait.heads import SHARED_LAYERS
from plait.model.directory.find import COPY_AGAIN, find_model
from plait.model.directory.record import (
    POOLING_TENSOR,
    ModelDirectory,
    ModelRecord,
    digest_of,
    member_folder,
    open_directory,
)
from plait.model.encode_texts import AnyModel
from plait.model.engines.onnx import choose_engine
from plait.model.ensemble import Ensemble
from plait.model.model import Model
from plait.model.tasks import TaskSpec, build_head
from plait.recipe.options import complete_options
from plait.thread_pool import start_threads

__all__ = [
    "TOKENIZER_FILES",
    "EngineName",
    "LoadedModel",
    "build_model",
    "load_heads",
    "load_model",
    "load_plait_model",
    "load_weights",
    "pick_device",
]

EngineName = Literal["auto", "onnx", "torch"]  # what embeds; auto means the faster one
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


class LoadedModel:
    """A model ready for inference, and the directory that it came from."""

    def __init__(self, model: AnyModel, source: ModelDirectory | Checkpoint) -> None:
        self.model = model
        self.folder = source.folder
        self._source = source

    @property
    def record(self) -> ModelRecord | None:
        """What plait.json says; None for a plain encoder."""
        return self._source.record if isinstance(self._source, ModelDirectory) else None

    @cached_property
    def identity(self) -> str:
        """Distinguishes one model from another."""
        source = self._source
        return source.identity if isinstance(source, ModelDirectory) else digest_of(source.digests())


def pick_device(name: str) -> torch.device:
    """`auto` is the first of cuda, mps and cpu that is available; `cuda:1` is the second GPU."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, found in available.items() if found))
    kind, _, number = name.partition(":")
    if not available.get(kind):
        raise RequestError(f"device {name!r}: torch finds none on this machine; use auto or cpu")
    if number and not (kind == "cuda" and number.isdecimal() and int(number) < torch.cuda.device_count()):
        found = ", ".join(f"cuda:{index}" for index in range(torch.cuda.device_count())) if kind == "cuda" else kind
        raise RequestError(f"device {name!r}: torch finds no such device; there is {found}")
    return torch.device(name)


def load_model(
    source: str | Path,
    *,
    device: str = "auto",
    engine: EngineName = "torch",
    log: Callable[[str], None] = lambda message: None,
) -> LoadedModel:
    """A plait model or ensemble, or a plain encoder in Hugging Face's layout, ready for inference.

    Where the engine `auto` has a choice, `log` receives a sentence about it.
    """
    if engine not in get_args(EngineName):
        raise RequestError(f"unknown engine {engine!r}; {did_you_mean(engine, get_args(EngineName))}")
    if engine == "onnx" and device not in ("auto", "cpu"):
        raise RequestError(f"device {device!r}: the engine onnx runs on the cpu; choose the engine torch")
    place = pick_device("cpu" if engine == "onnx" else device)
    if place.type == "cpu" and torch.get_num_threads() > 1:
        start_threads(torch.get_num_threads())
    folder = find_model(source)
    if folder is None:
        checkpoint = find_checkpoint(str(source))
        model = build_model(checkpoint.folder, {}, pooling=None, normalise=None).to(place).eval()
        choose_engine(model, source, None, engine, log)
        return LoadedModel(model, checkpoint)
    directory = open_directory(folder)
    if directory.record.is_ensemble:
        if engine == "onnx":
            raise RequestError(f"{source}: an ensemble has no ONNX graphs; choose the engine torch")
        directory.verify()
        numbers = range(1, len(directory.record.provenance.members) + 1)
        members = (load_plait_model(member_folder(directory.folder, number))[0] for number in numbers)
        return LoadedModel(Ensemble(tuple(member.to(place).eval() for member in members)), directory)
    model, directory = load_plait_model(folder, directory)
    model = model.to(place).eval()
    choose_engine(model, source, directory, engine, log)
    return LoadedModel(model, directory)


def load_plait_model(folder: Path, directory: ModelDirectory | None = None) -> tuple[Model, ModelDirectory]:
    """A model that plait saved; if a run replaces it with a better one meanwhile, the better one.

    `directory` is its record if it was read before; a stale one is read again.
    """
    while True:
        before = folder.stat().st_ino
        fresh = directory is None
        try:
            directory = directory or open_directory(folder)
            directory.verify()
            model = _build_from(directory)
        except (PlaitError, OSError):
            if fresh and folder.is_dir() and folder.stat().st_ino == before:
                raise
        else:
            if folder.stat().st_ino == before:
                return model, directory
        directory = None


def _build_from(directory: ModelDirectory) -> Model:
    record = directory.record
    model = build_model(
        directory.folder,
        record.tasks,
        pooling=record.pooling,
        normalise=record.normalise,
        shared_layer=record.shared_layer,
    )
    load_heads(model, directory.folder, list(record.tasks))
    return model


def load_heads(model: Model, folder: Path, tasks: Sequence[str]) -> None:
    """Load the weights of these tasks' heads, of the shared layer and of the pooling from a model directory."""
    try:
        tensors = load_file(folder / "heads.safetensors")
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder}/heads.safetensors: cannot be read as safetensors: {error}; {COPY_AGAIN}") from None
    if broken := [name for name, tensor in tensors.items() if not is_finite(tensor)]:
        raise ModelError(*(f"{folder}/heads.safetensors: {name} has NaN or infinite values" for name in broken))
    if (scores_D := model.encoder.token_scores) is not None:
        found_D = tensors.get(POOLING_TENSOR)
        if found_D is None or found_D.shape != scores_D.shape:
            raise ModelError(f"{folder}/heads.safetensors: no {POOLING_TENSOR} of shape {list(scores_D.shape)}")
        with torch.no_grad():
            scores_D.copy_(found_D)
    owners = dict.fromkeys(model.tasks[task].head_task for task in tasks)
    parts: dict[str, nn.Module] = {f"heads.{task}.": model.heads[task] for task in owners}
    if model.shared_layer is not None:
        parts["shared_layer."] = model.shared_layer
    for start, module in parts.items():
        state = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
        try:
            module.load_state_dict(state)
        except RuntimeError as error:
            raise ModelError(f"{folder}/heads.safetensors: {str(error).splitlines()[-1].strip()}") from None


def load_weights(model: Model, folder: Path) -> None:
    """Load all weights of a model directory, once verified, into a model with the same encoder and tasks.

    The model has no adapters then: they were merged when it was saved.
    """
    open_directory(folder).verify()
    remove_adapters(model.encoder)
    encoder = _load_encoder(folder, model.encoder.config, model.pooling)
    model.encoder.load_state_dict(encoder.state_dict())
    load_heads(model, folder, list(model.tasks))


def build_model(
    folder: Path,
    specs: Mapping[str, TaskSpec],
    *,
    pooling: str | None,
    normalise: bool | None,
    dropout: float = 0.0,
    shared_layer: Any = None,
) -> Model:
    """A model on the weights of a checkpoint, with new heads; None means what the checkpoint itself says."""
    config = read_config(folder)
    pooling = pooling or config.pooling or "mean"
    tokenizer = TextTokenizer(load_tokenizer(folder), config.limit)
    if tokenizer.largest_id >= config.vocab_size:
        raise EncoderError(
            f"{folder}: the tokenizer has the id {tokenizer.largest_id}, the embeddings end at "
            f"{config.vocab_size - 1}; they do not belong together"
        )
    files = {name: (folder / name).read_bytes() for name in TOKENIZER_FILES if (folder / name).is_file()}
    layer = _build_shared_layer(shared_layer, config.width)  # before the heads: both are drawn from one seed
    return Model(
        _load_encoder(folder, config, pooling),
        tokenizer,
        specs,
        {name: build_head(spec, config.width, dropout) for name, spec in specs.items() if not spec.same_as},
        pooling=pooling,
        normalise=config.normalise if normalise is None else normalise,
        shared_layer=layer,
        tokenizer_files={**files, "tokenizer.json": tokenizer.json.encode()},
    )


def _load_encoder(folder: Path, config: EncoderConfig, pooling: str) -> Encoder:
    """The encoder of a checkpoint, with the layers that the pooling needs."""
    encoder = encoder_from(folder, config, pooler=POOLINGS[pooling].dense)
    if POOLINGS[pooling].scored:
        encoder.add_token_scores()
    return encoder


def _build_shared_layer(choice: Any, width: int) -> nn.Module | None:
    """The layer before all heads, as a recipe names it."""
    if choice is None:
        return None
    name, options = (choice, {}) if isinstance(choice, str) else (str(choice.get("name")), choice)
    if name not in SHARED_LAYERS:
        raise ModelError(f"unknown shared layer {name!r}; {did_you_mean(name, SHARED_LAYERS)}")
    given = {key: value for key, value in options.items() if key != "name"}
    completed, mistakes = complete_options(SHARED_LAYERS[name], given)
    if mistakes:
        raise ModelError(*(f"shared layer {name}{mistake}" for mistake in mistakes))
    return SHARED_LAYERS[name](width, **completed)
