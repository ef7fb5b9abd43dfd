"""A model → its directory: Hugging Face's layout, sentence-transformers' modules, and plait's own files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plait.encoder.config import POOLING_KEYS
from plait.encoder.pooling import POOLINGS
from plait.encoder.weights import to_checkpoint
from plait.files import atomic_folder, dump_json, save_tensors, sha256_of
from plait.model.card import model_card
from plait.model.directory.find import MANIFEST, RECORD
from plait.model.directory.record import POOLING_TENSOR, ModelRecord, Provenance
from plait.model.model import Model

__all__ = ["save_model", "write_manifest", "write_record"]


def save_model(model: Model, folder: Path, provenance: Provenance) -> None:
    """Write the directory atomically: a reader sees the old model or the new one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder) as place:
        _write_encoder(model, place)
        save_tensors(_head_tensors(model), place / "heads.safetensors")
        shared_layer = provenance.recipe.get("shared_layer")
        write_record(place, ModelRecord(model.tasks, provenance, model.pooling, model.normalise, shared_layer))
        (place / "README.md").write_text(model_card(model, provenance), encoding="utf-8")
        read = sorted(path for path in place.rglob("*") if path.is_file() and path.name != "README.md")
        write_manifest(place, read)


def write_record(folder: Path, record: ModelRecord) -> None:
    """plait.json."""
    _write_json(folder / RECORD, record.to_json())


def write_manifest(folder: Path, files: list[Path]) -> None:
    """manifest.json: the sha256 of the files that loading reads."""
    _write_json(folder / MANIFEST, {"sha256": {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}})


def _write_json(path: Path, value: Any) -> None:
    path.write_text(dump_json(value), encoding="utf-8")


def _write_encoder(model: Model, place: Path) -> None:
    """The encoder alone, as transformers and sentence-transformers load it."""
    config = model.encoder.config
    changes = {"architectures": [config.architecture.model], "dtype": "float32"}
    _write_json(place / "config.json", {**config.raw, **changes})
    save_tensors(to_checkpoint(model.encoder), place / "model.safetensors", metadata={"format": "pt"})
    for name, content in model.tokenizer_files.items():
        (place / name).write_bytes(content)
    _write_json(place / "sentence_bert_config.json", {"max_seq_length": model.limit(), "do_lower_case": False})
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    (place / "1_Pooling").mkdir()
    pooling = POOLINGS[model.pooling]
    _write_json(
        place / "1_Pooling/config.json",
        {
            "word_embedding_dimension": config.width,
            **_pooling_keys(model.pooling),
        },
    )
    if pooling.dense:  # tanh(linear([CLS])) is a separate module there
        modules.append(("Dense", "2_Dense"))
        _write_dense(model.encoder.pooler, place / "2_Dense")
    if model.normalise:
        modules.append(("Normalize", f"{len(modules)}_Normalize"))
    _write_json(
        place / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(modules)
        ],
    )


def _pooling_keys(name: str) -> dict[str, Any]:
    """The pooling in sentence-transformers' config; it has no learned weights, and refuses a mode that it lacks."""
    own = POOLINGS[name].tokens
    return {key: key == POOLING_KEYS[own] for key in POOLING_KEYS.values()} if own else {"pooling_mode": name}


def _write_dense(pooler: nn.Linear | None, place: Path) -> None:
    """The pooler as sentence-transformers' Dense module."""
    assert pooler is not None, "a model that pools with its pooler has one"
    place.mkdir()
    sizes = {"in_features": pooler.in_features, "out_features": pooler.out_features, "bias": True}
    _write_json(place / "config.json", {**sizes, "activation_function": "torch.nn.modules.activation.Tanh"})
    tensors = {f"linear.{name}": tensor.detach().cpu().contiguous() for name, tensor in pooler.state_dict().items()}
    save_tensors(tensors, place / "model.safetensors", metadata={"format": "pt"})


def _head_tensors(model: Model) -> dict[str, Tensor]:
    """The weights of the heads, of the shared layer and of the pooling."""
    parts: dict[str, Mapping[str, Tensor]] = {"heads": model.heads.state_dict()}
    if model.shared_layer is not None:
        parts["shared_layer"] = model.shared_layer.state_dict()
    tensors = {f"{part}.{name}": tensor for part, state in parts.items() for name, tensor in state.items()}
    if model.encoder.token_scores is not None:
        tensors[POOLING_TENSOR] = model.encoder.token_scores
    return {name: tensor.detach().cpu().contiguous().to(torch.float32) for name, tensor in tensors.items()}
