"""What a checkpoint says about itself: its sizes, its token limit, its pooling."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.encoder.architectures import ARCHITECTURES, Architecture, ModernBert, shown_value
from plait.errors import EncoderError
from plait.names import path_inside

__all__ = ["POOLING_KEYS", "EncoderConfig", "read_config", "read_optional_json", "read_settings"]

# plait's poolings → their keys in sentence-transformers' config.
POOLING_KEYS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
_LARGEST = {  # sizes that an encoder of this family could have
    "vocab_size": 10_000_000,
    "width": 100_000,
    "layers": 1000,
    "heads": 1000,
    "hidden": 1_000_000,
    "positions": 10_000_000,
}
_UNBOUNDED = 1_000_000  # tokenizers without a limit write 1e30


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes of an encoder, and how sentence-transformers would use it."""

    model_type: str
    vocab_size: int
    width: int
    layers: int
    heads: int
    hidden: int
    positions: int
    first_position: int  # RoBERTa's positions begin after its padding id
    segments: int  # 0: the encoder does not distinguish the texts of a pair
    norm_eps: float
    dropout: float
    attention_dropout: float
    limit: int  # the longest input, in tokens
    pooling: str | None  # None: the checkpoint does not say
    normalise: bool
    raw: dict[str, Any]  # config.json unchanged, to be written back
    mix_dropout: float | None = None  # of the output of attention; None: that of the other layers
    distance_buckets: int = 0  # MPNet: learned scores of distances between tokens
    modern: ModernBert | None = None

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.model_type]


def read_config(folder: Path) -> EncoderConfig:
    """The config of a checkpoint in Hugging Face's layout, and of sentence-transformers' files if there are any."""
    raw = read_optional_json(folder / "config.json")
    if raw is None:
        raise EncoderError(f"{folder}: no config.json; expected a checkpoint in Hugging Face's layout")
    if not isinstance(raw, dict):
        raise EncoderError(f"{folder}/config.json: expected a JSON object, found a {type(raw).__name__}")
    kind = raw.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        problem = f"model_type {kind!r} is not supported" if kind else "config.json has no model_type"
        raise EncoderError(
            f"{folder}: {problem}; supported: {', '.join(ARCHITECTURES)}; "
            "choose an encoder of one of these kinds, such as minilm, bert-base-uncased or roberta-base"
        )
    architecture = ARCHITECTURES[kind]
    for key, supported in architecture.supported.items():
        if raw.get(key, supported) != supported:
            shown = json.dumps(supported).strip('"')
            raise EncoderError(f"{folder}: {key} {raw[key]!r} is not supported; supported: {shown}")
    pooling, normalise = _read_modules(folder)
    try:
        sizes = {field: raw[key] for field, key in architecture.sizes.items()}
        sound = [type(size) is int and 0 < size <= _LARGEST[field] for field, size in sizes.items()]
        if not all(sound) or sizes["width"] % sizes["heads"]:
            shown = ", ".join(f"{key} {shown_value(raw[key])}" for key in architecture.sizes.values())
            raise EncoderError(f"{folder}/config.json: inconsistent sizes: {shown}")
        fields = architecture.read(raw)
        return EncoderConfig(
            model_type=kind,
            limit=_read_limit(folder, sizes["positions"] - fields["first_position"]),
            pooling=pooling,
            normalise=normalise,
            raw=raw,
            **sizes,
            **fields,
        )
    except KeyError as missing:
        raise EncoderError(f"{folder}/config.json: no {missing}") from None
    except ValueError as error:
        raise EncoderError(f"{folder}/config.json: {error}") from None
    except (TypeError, AttributeError, ZeroDivisionError) as error:
        raise EncoderError(f"{folder}/config.json: not that of a {kind} encoder: {error}") from None


def _read_limit(folder: Path, most: int) -> int:
    """The smallest limit among those of the weights, the tokenizer and sentence-transformers."""
    limits: list[float] = [most]
    for name, key in (("tokenizer_config.json", "model_max_length"), ("sentence_bert_config.json", "max_seq_length")):
        if (limit := read_settings(folder / name).get(key)) is not None:
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 1:
                raise EncoderError(f"{folder}/{name}: {key}: expected a number of tokens, found {shown_value(limit)}")
            limits.append(limit)
    return int(min(limits))


def _read_modules(folder: Path) -> tuple[str | None, bool]:
    """The pooling that the checkpoint names, and whether its embeddings are normalised to length 1."""
    if (own := read_optional_json(folder / "plait.json")) is not None:  # a model that plait saved
        if not isinstance(own, dict) or not isinstance(own.get("pooling"), str):
            raise EncoderError(f"{folder}/plait.json: names no pooling; copy the whole model directory again")
        return own["pooling"], own.get("normalise") is True
    modules = read_optional_json(folder / "modules.json")
    if modules is None:
        return None, False
    if read_settings(folder / "config_sentence_transformers.json").get("default_prompt_name"):
        raise EncoderError(f"{folder}/config_sentence_transformers.json: a default prompt is not supported")
    try:
        kinds = {module["type"].rsplit(".", 1)[-1]: module["path"] for module in modules}
    except (AttributeError, KeyError, TypeError):
        raise EncoderError(f"{folder}/modules.json: expected a list of modules, each with type and path") from None
    unknown = set(kinds) - {"Transformer", "Pooling", "Normalize"}
    if unknown:
        raise EncoderError(f"{folder}/modules.json: {', '.join(sorted(unknown))} is not supported")
    if "Pooling" not in kinds:
        return None, "Normalize" in kinds
    if (place := path_inside(folder, kinds["Pooling"])) is None:
        raise EncoderError(
            f"{folder}/modules.json: {shown_value(kinds['Pooling'])} is not a folder inside the directory"
        )
    pooling = read_settings(place / "config.json")
    named = pooling.get("pooling_mode")
    if named is not None:
        found = [str(name) for name in named] if isinstance(named, list) else [str(named)]
    else:
        found = [name for name, key in POOLING_KEYS.items() if pooling.get(key)]
        others = [key for key, on in pooling.items() if on is True and key.startswith("pooling_mode_")]
        found += [key for key in others if key not in POOLING_KEYS.values()]
    if len(found) != 1 or found[0] not in ("cls", "mean", "max"):
        raise EncoderError(
            f"{folder}: pooling {', '.join(found) or 'none'} is not supported; supported: cls, mean, max"
        )
    return found[0], "Normalize" in kinds


def read_optional_json(path: Path) -> Any:
    """The content of a JSON file; None if there is no such file."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise EncoderError(f"{path}: is not valid JSON: nested too deeply") from None
    except ValueError as error:
        raise EncoderError(f"{path}: is not valid JSON: {error}") from None


def read_settings(path: Path) -> dict[str, Any]:
    """The keys of a JSON file with settings; none if there is no such file."""
    value = read_optional_json(path)
    if value is not None and not isinstance(value, dict):
        raise EncoderError(f"{path}: expected a JSON object, found a {type(value).__name__}")
    return value or {}
