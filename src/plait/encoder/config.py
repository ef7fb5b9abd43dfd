"""What a checkpoint says about itself: its sizes, its token limit, its pooling."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.errors import EncoderError
from plait.names import excerpt, path_inside

__all__ = ["POOLING_KEYS", "SUPPORTED", "EncoderConfig", "read_config", "read_optional_json", "read_settings"]

SUPPORTED = ("bert", "roberta", "xlm-roberta", "camembert")  # values of model_type
# plait's poolings → their keys in sentence-transformers' config.
POOLING_KEYS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
_SIZES = {  # and the largest that an encoder of this family could have
    "vocab_size": 10_000_000,
    "hidden_size": 100_000,
    "num_hidden_layers": 1000,
    "num_attention_heads": 1000,
    "intermediate_size": 1_000_000,
    "max_position_embeddings": 10_000_000,
}
_OTHERS: dict[
    str, tuple[type[int] | type[float], float, float, float]
] = {  # keys with a default → its type, the default, the smallest and the largest value
    "type_vocab_size": (int, 2, 1, 1000),
    "layer_norm_eps": (float, 1e-12, 0.0, 1.0),
    "hidden_dropout_prob": (float, 0.1, 0.0, 0.999),
    "attention_probs_dropout_prob": (float, 0.1, 0.0, 0.999),
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
    segments: int
    norm_eps: float
    dropout: float
    attention_dropout: float
    limit: int  # the longest input, in tokens
    pooling: str | None  # None: the checkpoint does not say
    normalise: bool
    raw: dict[str, Any]  # config.json unchanged, to be written back


def read_config(folder: Path) -> EncoderConfig:
    """The config of a checkpoint in Hugging Face's layout, and of sentence-transformers' files if there are any."""
    raw = read_optional_json(folder / "config.json")
    if raw is None:
        raise EncoderError(f"{folder}: no config.json; expected a checkpoint in Hugging Face's layout")
    if not isinstance(raw, dict):
        raise EncoderError(f"{folder}/config.json: expected a JSON object, found a {type(raw).__name__}")
    kind = raw.get("model_type")
    if not isinstance(kind, str) or kind not in SUPPORTED:
        problem = f"model_type {kind!r} is not supported" if kind else "config.json has no model_type"
        raise EncoderError(
            f"{folder}: {problem}; supported: {', '.join(SUPPORTED)}; "
            "choose an encoder of one of these kinds, such as minilm, bert-base-uncased or roberta-base"
        )
    if raw.get("hidden_act", "gelu") != "gelu":
        raise EncoderError(f"{folder}: hidden_act {raw['hidden_act']!r} is not supported; supported: gelu")
    if raw.get("position_embedding_type", "absolute") != "absolute":
        found = raw["position_embedding_type"]
        raise EncoderError(f"{folder}: position_embedding_type {found!r} is not supported; supported: absolute")
    pooling, normalise = _read_modules(folder)
    try:
        sizes = [raw[key] for key in _SIZES]
        sound = [type(size) is int and 0 < size <= most for size, most in zip(sizes, _SIZES.values(), strict=True)]
        if not all(sound) or raw["hidden_size"] % raw["num_attention_heads"]:
            shown = ", ".join(f"{key} {_shown(size)}" for key, size in zip(_SIZES, sizes, strict=True))
            raise EncoderError(f"{folder}/config.json: inconsistent sizes: {shown}")
        positions = raw["max_position_embeddings"]
        others = {key: _read_number(folder, raw, key) for key in _OTHERS}
        first_position = 0 if kind == "bert" else _padding(folder, raw, positions) + 1
        return EncoderConfig(
            model_type=kind,
            vocab_size=raw["vocab_size"],
            width=raw["hidden_size"],
            layers=raw["num_hidden_layers"],
            heads=raw["num_attention_heads"],
            hidden=raw["intermediate_size"],
            positions=positions,
            first_position=first_position,
            segments=int(others["type_vocab_size"]),
            norm_eps=others["layer_norm_eps"],
            dropout=others["hidden_dropout_prob"],
            attention_dropout=others["attention_probs_dropout_prob"],
            limit=_read_limit(folder, positions - first_position),
            pooling=pooling,
            normalise=normalise,
            raw=raw,
        )
    except KeyError as missing:
        raise EncoderError(f"{folder}/config.json: no {missing}") from None


def _read_number(folder: Path, raw: dict[str, Any], key: str) -> float:
    """A number of config.json that may be missing."""
    kind, default, least, most = _OTHERS[key]
    value: float = raw.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, kind)) or not least <= value <= most:
        what = "an integer" if kind is int else "a number"
        raise EncoderError(
            f"{folder}/config.json: {key}: expected {what} from {least} to {most}, found {_shown(value)}"
        )
    return value


def _padding(folder: Path, raw: dict[str, Any], positions: int) -> int:
    """The padding id, after which RoBERTa's positions begin."""
    value = raw.get("pad_token_id")
    value = 1 if value is None else value
    if type(value) is not int or not 0 <= value < positions - 1:
        raise EncoderError(f"{folder}/config.json: pad_token_id: expected a token's number, found {_shown(value)}")
    return value


def _shown(value: object) -> str:
    """A value in a message, which may be very long."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    return repr(value) if isinstance(value, int | float | None) else excerpt(repr(value))


def _read_limit(folder: Path, most: int) -> int:
    """The smallest limit among those of the weights, the tokenizer and sentence-transformers."""
    limits: list[float] = [most]
    for name, key in (("tokenizer_config.json", "model_max_length"), ("sentence_bert_config.json", "max_seq_length")):
        if (limit := read_settings(folder / name).get(key)) is not None:
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 1:
                raise EncoderError(f"{folder}/{name}: {key}: expected a number of tokens, found {_shown(limit)}")
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
        raise EncoderError(f"{folder}/modules.json: {_shown(kinds['Pooling'])} is not a folder inside the directory")
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
