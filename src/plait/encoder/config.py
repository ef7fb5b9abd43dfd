"""What a checkpoint says about itself: its sizes, its token limit, its pooling."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.errors import EncoderError

__all__ = ["POOLING_KEYS", "SUPPORTED", "EncoderConfig", "read_config", "read_optional_json"]

SUPPORTED = ("bert", "roberta", "xlm-roberta", "camembert")  # values of model_type
# plait's poolings → their keys in sentence-transformers' config.
POOLING_KEYS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
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
    if kind not in SUPPORTED:
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
        if not all(type(size) is int and size > 0 for size in sizes) or raw["hidden_size"] % raw["num_attention_heads"]:
            shown = ", ".join(f"{key} {size!r}" for key, size in zip(_SIZES, sizes, strict=True))
            raise EncoderError(f"{folder}/config.json: inconsistent sizes: {shown}")
        padding = raw.get("pad_token_id")
        first_position = 0 if kind == "bert" else (1 if padding is None else padding) + 1
        positions = raw["max_position_embeddings"]
        return EncoderConfig(
            model_type=kind,
            vocab_size=raw["vocab_size"],
            width=raw["hidden_size"],
            layers=raw["num_hidden_layers"],
            heads=raw["num_attention_heads"],
            hidden=raw["intermediate_size"],
            positions=positions,
            first_position=first_position,
            segments=raw.get("type_vocab_size", 2),
            norm_eps=raw.get("layer_norm_eps", 1e-12),
            dropout=raw.get("hidden_dropout_prob", 0.1),
            attention_dropout=raw.get("attention_probs_dropout_prob", 0.1),
            limit=_read_limit(folder, positions - first_position),
            pooling=pooling,
            normalise=normalise,
            raw=raw,
        )
    except KeyError as missing:
        raise EncoderError(f"{folder}/config.json: no {missing}") from None


def _read_limit(folder: Path, most: int) -> int:
    """The smallest limit among those of the weights, the tokenizer and sentence-transformers."""
    tokenizer = (read_optional_json(folder / "tokenizer_config.json") or {}).get("model_max_length") or _UNBOUNDED
    sentences = (read_optional_json(folder / "sentence_bert_config.json") or {}).get("max_seq_length") or _UNBOUNDED
    return int(min(most, tokenizer, sentences))


def _read_modules(folder: Path) -> tuple[str | None, bool]:
    """The pooling that the checkpoint names, and whether its embeddings are normalised to length 1."""
    if (own := read_optional_json(folder / "plait.json")) is not None:  # a model that plait saved
        return own["pooling"], own["normalise"]
    modules = read_optional_json(folder / "modules.json")
    if modules is None:
        return None, False
    if (read_optional_json(folder / "config_sentence_transformers.json") or {}).get("default_prompt_name"):
        raise EncoderError(f"{folder}/config_sentence_transformers.json: a default prompt is not supported")
    try:
        kinds = {module["type"].rsplit(".", 1)[-1]: module["path"] for module in modules}
    except (KeyError, TypeError):
        raise EncoderError(f"{folder}/modules.json: expected a list of modules, each with type and path") from None
    unknown = set(kinds) - {"Transformer", "Pooling", "Normalize"}
    if unknown:
        raise EncoderError(f"{folder}/modules.json: {', '.join(sorted(unknown))} is not supported")
    if "Pooling" not in kinds:
        return None, "Normalize" in kinds
    pooling = read_optional_json(folder / kinds["Pooling"] / "config.json") or {}
    named = pooling.get("pooling_mode")
    if named is not None:
        found = [named] if isinstance(named, str) else list(named)
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
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise EncoderError(f"{path}: is not valid JSON: {error}") from None
