"""Pickled checkpoints, and what `plait convert` made of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from plait.errors import EncoderError
from plait.model.convert import convert

State = dict[str, Tensor]
WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"


def weights_of(folder: Path) -> State:
    return load_file(folder / "model.safetensors")


def settings_of(folder: Path, place: Path) -> Path:
    """A copy of a checkpoint without its weights."""
    return Path(shutil.copytree(folder, place, ignore=shutil.ignore_patterns("*.safetensors")))


def assert_equal_weights(folder: Path, expected: State) -> None:
    found = weights_of(folder)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == torch.float32 and torch.equal(found[name], tensor), name


def mistake_of(source: Path, out: Path, **options: Any) -> str:
    """The only message of a conversion that must fail and leave nothing behind."""
    before = set(out.parent.iterdir())
    with pytest.raises(EncoderError) as caught:
        convert(source, out, **options)
    assert set(out.parent.iterdir()) == before
    (mistake,) = caught.value.mistakes
    assert "\n" not in mistake
    return mistake


def shard(folder: Path, state: State, names: tuple[str, str] = ("one.bin", "two.bin")) -> Path:
    """A state dict in two files and an index, in Hugging Face's layout."""
    files = {name: names[number % 2] for number, name in enumerate(state)}
    for file in names:
        torch.save({name: tensor for name, tensor in state.items() if files[name] == file}, folder / file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return folder
