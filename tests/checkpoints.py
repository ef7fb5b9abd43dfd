"""Checkpoints with other tensors or another config."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def changed_copy(folder: Path, place: Path, change: Change = dict, config: Mapping[str, Any] | None = None) -> Path:
    """A copy of a checkpoint with other tensors and other keys in its config.json."""
    shutil.copytree(folder, place)
    save_file(change(load_file(folder / "model.safetensors")), place / "model.safetensors")
    raw = json.loads((folder / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**raw, **(config or {})}))
    return place
