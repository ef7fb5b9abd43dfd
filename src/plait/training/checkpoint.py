"""Where a run stands: weights, optimizer, position and best score, in a folder that appears whole. No pickle."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from plait.errors import RunError
from plait.model.files import save_tensors, whole_folder
from plait.model.save import write_json
from plait.training.keep import Standing
from plait.training.optimizer import load_state, state_tensors

__all__ = ["Position", "load_checkpoint", "newest_checkpoint", "read_position", "save_checkpoint"]


@dataclass
class Position:
    """How far a run has come."""

    stage: int = 0
    epoch: int = 0  # the one that the next step belongs to
    step_in_epoch: int = 0
    step: int = 0  # steps done
    best_step: int | None = None
    best_score: float | None = None
    patience: int = 0  # evaluations since the best
    stopped_early: bool = False
    seconds: float = 0.0  # spent so far
    kept: list[Standing] = field(default_factory=list)  # models that are kept, best first
    began: int = 0  # steps done before this stage
    finished: list[dict[str, Any]] = field(default_factory=list)  # what is to be told of the stages before this one

    @property
    def step_in_stage(self) -> int:
        """Steps done of this stage."""
        return self.step - self.began

    def next_stage(self, facts: dict[str, Any]) -> "Position":
        """The beginning of the next stage; `facts` are to be told of this one."""
        finished = [*self.finished, facts]
        return Position(self.stage + 1, step=self.step, seconds=self.seconds, began=self.step, finished=finished)


Learning = Mapping[str, nn.Module]  # what learns, by the start of its weights' names: "" or a path that ends with /


def save_checkpoint(folder: Path, learning: Learning, optimizer: torch.optim.Optimizer, position: Position) -> None:
    """Write a checkpoint, then remove the older ones."""
    target = folder / f"step-{position.step:08d}"
    with whole_folder(target) as place:
        tensors = {
            prefix + name: tensor.detach().cpu().contiguous()
            for prefix, module in learning.items()
            for name, tensor in module.state_dict().items()
        }
        save_tensors(tensors, place / "weights.safetensors")
        save_tensors(state_tensors(all_parameters(learning), optimizer), place / "optimizer.safetensors")
        write_json(place / "position.json", asdict(position))
    for old in folder.glob("step-*"):
        if old != target:
            shutil.rmtree(old)


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to go on from; none before the first was written."""
    return max(folder.glob("step-*"), default=None)


def read_position(place: Path) -> Position:
    """How far the run of a checkpoint has come."""
    with damage_told(place):
        position = json.loads((place / "position.json").read_text(encoding="utf-8"))
        kept = [Standing(**standing) for standing in position.pop("kept", ())]
        return Position(**position, kept=kept)


def all_parameters(learning: Learning) -> dict[str, nn.Parameter]:
    """Every weight that may learn, by name."""
    return {
        prefix + name: parameter for prefix, module in learning.items() for name, parameter in module.named_parameters()
    }


def load_checkpoint(place: Path, learning: Learning, optimizer: torch.optim.Optimizer) -> Position:
    """Put everything back as it was."""
    with damage_told(place):
        tensors = load_file(place / "weights.safetensors")
        for prefix, module in learning.items():
            # By the names that are wanted: a task's own name may hold a "/" as well.
            own = {name: tensors.pop(prefix + name) for name in module.state_dict() if prefix + name in tensors}
            module.load_state_dict(own)
        if tensors:
            raise ValueError(f"unknown weights: {', '.join(sorted(tensors))}")
        load_state(all_parameters(learning), optimizer, load_file(place / "optimizer.safetensors"))
    return read_position(place)


@contextmanager
def damage_told(place: Path) -> Iterator[None]:
    """Whatever cannot be read of a checkpoint is told in one sentence."""
    try:
        yield
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(f"{place}: is damaged ({reason}); delete it to begin the run again") from None
