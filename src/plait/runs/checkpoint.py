"""Checkpoints: weights, optimizer state, position and best score, in a folder that appears atomically. No pickle.

The last two stay, so that a damaged one can be replaced by the one before.
"""

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from plait.errors import RunError, is_out_of_memory
from plait.files import atomic_folder, dump_json, read_json, save_tensors, sha256_of
from plait.runs.best_models import RankedModel
from plait.runs.records import MetricsMark, StageResult

__all__ = ["Position", "find_checkpoints", "load_checkpoint", "read_position", "save_checkpoint", "verify_checkpoint"]

_MANIFEST, _WEIGHTS, _OPTIMIZER, _POSITION = (
    "manifest.json",
    "weights.safetensors",
    "optimizer.safetensors",
    "position.json",
)
Modules = Mapping[str, nn.Module]  # prefix of the weights' names, "" or a path that ends with / → what is trained


@dataclass
class Position:
    """How far a run has come."""

    stage: int = 0
    epoch: int = 0  # of the next step
    step_in_epoch: int = 0
    step: int = 0  # steps done
    best_step: int | None = None
    best_score: float | None = None
    patience: int = 0  # evaluations since the best
    stopped_early: bool = False
    seconds: float = 0.0  # spent so far
    kept: list[RankedModel] = field(default_factory=list)  # best first
    began: int = 0  # steps done before this stage
    finished: list[StageResult] = field(default_factory=list)  # of earlier stages
    metrics: MetricsMark | None = None  # the lines of metrics.jsonl before the checkpoint; None before 0.2

    @property
    def step_in_stage(self) -> int:
        return self.step - self.began

    def next_stage(self, result: StageResult) -> "Position":
        """The beginning of the next stage; `result` is that of this one."""
        finished = [*self.finished, result]
        return Position(self.stage + 1, step=self.step, seconds=self.seconds, began=self.step, finished=finished)


def save_checkpoint(folder: Path, modules: Modules, optimizer: torch.optim.Optimizer, position: Position) -> None:
    """Write a checkpoint, then delete all but the one before it."""
    target = folder / f"step-{position.step:08d}"
    text = dump_json(asdict(position)).encode()
    folder.mkdir(exist_ok=True)
    with atomic_folder(target) as place:
        weights = {
            prefix + name: tensor for prefix, module in modules.items() for name, tensor in module.state_dict().items()
        }
        digests = {
            _WEIGHTS: save_tensors(weights, place / _WEIGHTS),
            _OPTIMIZER: save_tensors(_optimizer_tensors(_parameters(modules), optimizer), place / _OPTIMIZER),
            _POSITION: hashlib.sha256(text).hexdigest(),
        }
        (place / _POSITION).write_bytes(text)
        (place / _MANIFEST).write_text(dump_json({"sha256": digests}), encoding="utf-8")
    before = [old for old in find_checkpoints(folder) if old.name < target.name]
    for old in find_checkpoints(folder):
        if old not in (target, *before[:1]):
            shutil.rmtree(old)


def find_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted(folder.glob("step-*"), reverse=True)


def verify_checkpoint(place: Path, *, needs_manifest: bool) -> None:
    """Refuse a checkpoint with missing or modified files; those of an older plait have no manifest."""
    if not needs_manifest and not (place / _MANIFEST).exists():
        return
    with _report_damage(place):
        digests = {**read_json(place / _MANIFEST)["sha256"]}
        if digests.keys() != {_WEIGHTS, _OPTIMIZER, _POSITION}:
            raise ValueError(f"{_MANIFEST} does not name its files")
        for name, sha256 in digests.items():
            if sha256_of(place / name) != sha256:
                raise ValueError(f"{name} was modified")


def read_position(place: Path) -> Position:
    """How far the run of a checkpoint has come."""
    with _report_damage(place):
        position = dict(read_json(place / _POSITION))
        kept = [RankedModel(**model) for model in position.pop("kept", ())]
        finished = [StageResult(**stage) for stage in position.pop("finished", ())]
        metrics = MetricsMark(**found) if (found := position.pop("metrics", None)) else None
        return Position(**position, kept=kept, finished=finished, metrics=metrics)


def load_checkpoint(place: Path, modules: Modules, optimizer: torch.optim.Optimizer) -> None:
    """Restore weights and optimizer."""
    with _report_damage(place):
        tensors = load_file(place / _WEIGHTS)
        for prefix, module in modules.items():
            # Look up the expected names: a task's own name may contain a "/" as well.
            own = {name: tensors.pop(prefix + name) for name in module.state_dict() if prefix + name in tensors}
            module.load_state_dict(own)
        if tensors:
            raise ValueError(f"unknown weights: {', '.join(sorted(tensors))}")
        _load_optimizer(_parameters(modules), optimizer, load_file(place / _OPTIMIZER))


def _parameters(modules: Modules) -> dict[str, nn.Parameter]:
    """Every weight by name."""
    return {
        prefix + name: parameter for prefix, module in modules.items() for name, parameter in module.named_parameters()
    }


def _optimizer_tensors(parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state; each tensor is named after its weight and its role."""
    return {
        f"{name}/{role}": value
        for name, parameter in parameters.items()
        for role, value in optimizer.state.get(parameter, {}).items()
    }


def _load_optimizer(
    parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    for key, value in tensors.items():
        name, role = key.rsplit("/", 1)
        on_cpu = role == "step" and parameters[name].device.type == "cpu"
        device = torch.device("cpu") if on_cpu else parameters[name].device
        optimizer.state[parameters[name]][role] = value.to(device, copy=True)


@contextmanager
def _report_damage(place: Path) -> Iterator[None]:
    """Turn whatever is wrong with a checkpoint into one message."""
    try:
        yield
    except FileNotFoundError as error:
        raise RunError(f"{place}: damaged ({Path(error.filename or place).name} is missing)") from None
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(f"{place}: damaged ({reason})") from None
