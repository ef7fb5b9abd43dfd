"""A model → its directory: Hugging Face's layout, sentence-transformers' modules, and plait's own files."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

import plait
from plait.encoder.config import POOLING_KEYS
from plait.encoder.weights import to_checkpoint
from plait.model.about import About
from plait.model.card import model_card
from plait.model.files import save_tensors, sha256_of, whole_folder
from plait.model.model import Model
from plait.model.tasks import spec_to_json

__all__ = ["FORMAT", "save_model", "write_json"]

FORMAT = 1


def save_model(model: Model, folder: Path, about: About) -> None:
    """Write the directory whole; a reader sees the old one or the new one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder) as place:
        write_encoder(model, place)
        save_tensors(head_tensors(model), place / "heads.safetensors")
        write_json(
            place / "plait.json",
            {
                "format": FORMAT,
                "plait": plait.__version__,
                "pooling": model.pooling,
                "normalise": model.normalise,
                "shared_layer": about.recipe.get("shared_layer"),
                "tasks": [spec_to_json(spec) for spec in model.tasks.values()],
                "step": about.step,
                "scores": about.scores,
                "baselines": about.baselines,
                "recipe": about.recipe,
                "data": about.data,
                "kept": about.kept,
                **({"members": about.members} if about.members else {}),
            },
        )
        (place / "README.md").write_text(model_card(model, about), encoding="utf-8")
        read = sorted(path for path in place.rglob("*") if path.is_file() and path.name != "README.md")
        write_json(
            place / "manifest.json", {"sha256": {path.relative_to(place).as_posix(): sha256_of(path) for path in read}}
        )


def write_encoder(model: Model, place: Path) -> None:
    """The encoder alone, as transformers and sentence-transformers load it."""
    config = model.encoder.config
    names = {"bert": "BertModel", "roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel"}
    architecture = names.get(config.model_type, "CamembertModel")
    write_json(place / "config.json", {**config.raw, "architectures": [architecture], "dtype": "float32"})
    save_tensors(to_checkpoint(model.encoder), place / "model.safetensors", metadata={"format": "pt"})
    for name, content in model.text.files.items():
        (place / name).write_bytes(content)
    write_json(place / "sentence_bert_config.json", {"max_seq_length": model.text.limit, "do_lower_case": False})
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    (place / "1_Pooling").mkdir()
    tokens = POOLING_KEYS["cls" if model.pooling == "pooler" else model.pooling]
    write_json(
        place / "1_Pooling/config.json",
        {"word_embedding_dimension": config.width, **{key: key == tokens for key in POOLING_KEYS.values()}},
    )
    if model.pooling == "pooler":  # tanh(linear([CLS])) is a layer of its own there
        modules.append(("Dense", "2_Dense"))
        write_dense(model.encoder.pooler, place / "2_Dense")
    if model.normalise:
        modules.append(("Normalize", f"{len(modules)}_Normalize"))
    write_json(
        place / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(modules)
        ],
    )


def write_dense(pooler: nn.Linear | None, place: Path) -> None:
    """The pooler as sentence-transformers' Dense module."""
    assert pooler is not None, "a model that pools with its pooler has one"
    place.mkdir()
    sizes = {"in_features": pooler.in_features, "out_features": pooler.out_features, "bias": True}
    write_json(place / "config.json", {**sizes, "activation_function": "torch.nn.modules.activation.Tanh"})
    tensors = {f"linear.{name}": tensor.detach().cpu().contiguous() for name, tensor in pooler.state_dict().items()}
    save_tensors(tensors, place / "model.safetensors", metadata={"format": "pt"})


def head_tensors(model: Model) -> dict[str, Tensor]:
    """The weights of the heads and of the shared layer."""
    parts: dict[str, Mapping[str, Tensor]] = {"heads": model.heads.state_dict()}
    if model.shared_layer is not None:
        parts["shared_layer"] = model.shared_layer.state_dict()
    tensors = {f"{part}.{name}": tensor for part, state in parts.items() for name, tensor in state.items()}
    return {name: tensor.detach().cpu().contiguous().to(torch.float32) for name, tensor in tensors.items()}


def write_json(path: Path, value: object) -> None:
    """Readable JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
