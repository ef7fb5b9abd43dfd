"""`ARCHITECTURES`: the kinds of encoder, by `model_type`; what their checkpoints call things, and how they are built.

A new kind is an entry here, and the modules that it needs beyond those of `bert.py` and `modernbert.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plait.names import excerpt

__all__ = ["ARCHITECTURES", "Architecture", "ModernBert", "shown_value"]

_BUCKETS = 32  # of distances in MPNet; transformers computes with 32 whatever the config says
Raw = Mapping[str, Any]  # config.json
_SIZES: Mapping[str, str] = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "positions": "max_position_embeddings",
}


@dataclass(frozen=True)
class ModernBert:
    """What only ModernBERT has; each layer sees all tokens of a text or those in a window."""

    windows: tuple[int | None, ...]  # of each layer: how many tokens it sees to either side; None: all
    periods: tuple[float, ...]  # of each layer: the base of its rotations (Su 2021)
    attention_bias: bool
    hidden_bias: bool
    norm_bias: bool
    hidden_dropout: float


@dataclass(frozen=True)
class Architecture:
    """A kind of checkpoint."""

    model: str  # the class that loads it in transformers
    prefix: str  # of its tensors if the checkpoint has a head as well
    modules: Mapping[str, str]  # our modules → their names in a checkpoint
    layers: str  # the name of the list of layers
    layer: Mapping[str, tuple[str, ...]]  # our modules of a layer → their names; several if their rows are joined
    heads: tuple[str, ...]  # tensors that are not part of the encoder begin with one of these
    read: Callable[[Raw], dict[str, Any]]  # config.json → fields of EncoderConfig; ValueError if it is not supported
    sizes: Mapping[str, str] = field(default_factory=lambda: _SIZES)  # fields of EncoderConfig → keys of config.json
    supported: Mapping[str, Any] = field(default_factory=dict)  # keys of config.json → their only supported value


def _read_bert(raw: Raw) -> dict[str, Any]:
    segments = int(_number(raw, "type_vocab_size", 2, 1, 1000, whole=True))
    return {"first_position": 0, "segments": segments, **_read_norms_and_dropout(raw)}


def _read_roberta(raw: Raw) -> dict[str, Any]:
    padding = raw.get("pad_token_id")
    padding = 1 if padding is None else padding
    if type(padding) is not int or not 0 <= padding < raw["max_position_embeddings"] - 1:
        raise ValueError(f"pad_token_id: expected a token's number, found {shown_value(padding)}")
    return {**_read_bert(raw), "first_position": padding + 1}


def _read_mpnet(raw: Raw) -> dict[str, Any]:
    return {"first_position": 2, "segments": 0, "distance_buckets": _BUCKETS, **_read_norms_and_dropout(raw)}


def _read_distilbert(raw: Raw) -> dict[str, Any]:
    return {
        "first_position": 0,
        "segments": 0,
        "norm_eps": 1e-12,
        "dropout": _share(raw, "dropout", 0.1),
        "attention_dropout": _share(raw, "attention_dropout", 0.1),
        "mix_dropout": 0.0,
    }


def _read_modernbert(raw: Raw) -> dict[str, Any]:
    every = int(_number(raw, "global_attn_every_n_layers", 3, 1, 1000, whole=True))
    layers, local = raw["num_hidden_layers"], int(_number(raw, "local_attention", 128, 1, 10_000_000, whole=True))
    kinds = raw.get("layer_types") or ["sliding_attention" if n % every else "full_attention" for n in range(layers)]
    windows = {"full_attention": None, "sliding_attention": local // 2}
    if len(kinds) != layers or not set(kinds) <= set(windows):
        raise ValueError(f"layer_types: expected {layers} of {', '.join(windows)}, found {', '.join(map(str, kinds))}")
    if raw["hidden_size"] // raw["num_attention_heads"] % 2:
        raise ValueError("rotations need attention heads of even width")
    periods = _read_periods(raw)
    return {
        "first_position": 0,
        "segments": 0,
        "norm_eps": _number(raw, "norm_eps", 1e-5, 0.0, 1.0),
        "dropout": _share(raw, "embedding_dropout", 0.0),
        "attention_dropout": _share(raw, "attention_dropout", 0.0),
        "modern": ModernBert(
            windows=tuple(windows[kind] for kind in kinds),
            periods=tuple(periods[kind] for kind in kinds),
            attention_bias=_flag(raw, "attention_bias"),
            hidden_bias=_flag(raw, "mlp_bias"),
            norm_bias=_flag(raw, "norm_bias"),
            hidden_dropout=_share(raw, "mlp_dropout", 0.0),
        ),
    }


def _read_periods(raw: Raw) -> dict[str, float]:
    """The base of the rotations in each kind of layer, as transformers 5 or 4 wrote it."""
    periods = {
        "full_attention": raw.get("global_rope_theta") or 160_000.0,
        "sliding_attention": raw.get("local_rope_theta") or raw.get("global_rope_theta") or 10_000.0,
    }
    given = raw.get("rope_parameters") or {}
    for kind in periods:
        rope = {"rope_type": "default", **(raw.get("rope_scaling") or {}), **(given.get(kind) or {})}
        found = rope.get("type", rope["rope_type"])  # the older name
        if found != "default":
            raise ValueError(f"rope_type {found!r} is not supported; supported: default")
        periods[kind] = _number({"rope_theta": rope.get("rope_theta") or periods[kind]}, "rope_theta", 0, 1, 1e12)
    return periods


def _read_norms_and_dropout(raw: Raw) -> dict[str, Any]:
    return {
        "norm_eps": _number(raw, "layer_norm_eps", 1e-12, 0.0, 1.0),
        "dropout": _share(raw, "hidden_dropout_prob", 0.1),
        "attention_dropout": _share(raw, "attention_probs_dropout_prob", 0.1),
    }


def _share(raw: Raw, key: str, default: float) -> float:
    return _number(raw, key, default, 0.0, 0.999)


def _flag(raw: Raw, key: str) -> bool:
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key}: expected true or false, found {shown_value(value)}")
    return value


def _number(raw: Raw, key: str, default: float, least: float, most: float, *, whole: bool = False) -> float:
    """A number of config.json that may be missing."""
    value: float = raw.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not least <= value <= most:
        what = "an integer" if whole else "a number"
        raise ValueError(f"{key}: expected {what} from {least} to {most}, found {shown_value(value)}")
    return value


def shown_value(value: object) -> str:
    """A value in a message, which may be very long."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    return repr(value) if isinstance(value, int | float | None) else excerpt(repr(value))


_EMBEDDINGS = {
    "tokens": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "norm": "embeddings.LayerNorm",
}
_BERT_LAYER = {
    "qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "mix": ("attention.output.dense",),
    "mix_norm": ("attention.output.LayerNorm",),
    "widen": ("intermediate.dense",),
    "narrow": ("output.dense",),
    "narrow_norm": ("output.LayerNorm",),
}


def _bert_like(model: str, prefix: str, read: Callable[[Raw], dict[str, Any]]) -> Architecture:
    """An architecture whose checkpoints have BERT's names."""
    return Architecture(
        model,
        prefix,
        modules={**_EMBEDDINGS, "segments": "embeddings.token_type_embeddings", "pooler": "pooler.dense"},
        layers="encoder.layer",
        layer=_BERT_LAYER,
        heads=("cls.", "lm_head.", "classifier."),
        read=read,
        supported={"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False},
    )


ARCHITECTURES: Mapping[str, Architecture] = {
    "bert": _bert_like("BertModel", "bert.", _read_bert),
    "roberta": _bert_like("RobertaModel", "roberta.", _read_roberta),
    "xlm-roberta": _bert_like("XLMRobertaModel", "roberta.", _read_roberta),
    "camembert": _bert_like("CamembertModel", "roberta.", _read_roberta),
    "mpnet": Architecture(
        "MPNetModel",
        "mpnet.",
        modules={
            **_EMBEDDINGS,
            "distances.scores": "encoder.relative_attention_bias",
            "pooler": "pooler.dense",
        },
        layers="encoder.layer",
        layer={
            **_BERT_LAYER,
            "qkv": ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
            "mix": ("attention.attn.o",),
            "mix_norm": ("attention.LayerNorm",),
        },
        heads=("lm_head.", "classifier."),
        read=_read_mpnet,
        supported={"hidden_act": "gelu", "relative_attention_num_buckets": _BUCKETS},
    ),
    "distilbert": Architecture(
        "DistilBertModel",
        "distilbert.",
        modules=_EMBEDDINGS,
        layers="transformer.layer",
        layer={
            "qkv": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            "mix": ("attention.out_lin",),
            "mix_norm": ("sa_layer_norm",),
            "widen": ("ffn.lin1",),
            "narrow": ("ffn.lin2",),
            "narrow_norm": ("output_layer_norm",),
        },
        heads=("vocab_", "pre_classifier.", "classifier.", "qa_outputs."),
        read=_read_distilbert,
        sizes={**_SIZES, "width": "dim", "layers": "n_layers", "heads": "n_heads", "hidden": "hidden_dim"},
        supported={"activation": "gelu"},
    ),
    "modernbert": Architecture(
        "ModernBertModel",
        "model.",
        modules={"tokens": "embeddings.tok_embeddings", "norm": "embeddings.norm", "last_norm": "final_norm"},
        layers="layers",
        layer={
            "qkv_norm": ("attn_norm",),
            "qkv": ("attn.Wqkv",),
            "mix": ("attn.Wo",),
            "widen_norm": ("mlp_norm",),
            "widen": ("mlp.Wi",),
            "narrow": ("mlp.Wo",),
        },
        heads=("head.", "decoder.", "classifier."),
        read=_read_modernbert,
        supported={"hidden_activation": "gelu"},
    ),
}
