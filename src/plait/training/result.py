"""What a finished run has to tell."""

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from plait.gradients.conflict import sum_up
from plait.model.about import read_about
from plait.model.files import whole_file
from plait.model.model import Model
from plait.model.save import write_json
from plait.training.checkpoint import Position
from plait.training.run import Run
from plait.training.settle import Settled, SettledRun

__all__ = ["Result", "finish", "result_of", "stage_facts", "weights_digest"]


@dataclass(frozen=True)
class Result:
    """A finished run."""

    run: Path
    model: Path  # the best model's directory
    scores: dict[str, Any]  # task → metric → value, of the best model on dev
    baselines: dict[str, Any]  # split → baseline → task → value
    best_step: int
    steps: int
    seconds: float  # of training and evaluation, pauses left out
    kept: tuple[str, ...] = ()  # tasks of the model it grew from, or of stages before the last: scored, not trained
    alone: dict[str, float] = field(default_factory=dict)  # task → its metric on dev when it is trained alone
    kept_models: tuple[Path, ...] = ()  # the best models' directories, best first, where so many were asked for
    conflicts: dict[str, dict[str, float]] = field(default_factory=dict)  # by pair of tasks, if the last stage watched
    stages: tuple[dict[str, Any], ...] = ()  # of several: what stage_facts tells of each


def finish(run: Run, settled: SettledRun, model: Model, position: Position, baselines: dict[str, Any]) -> None:
    """Write the result, and drop the checkpoint that nobody needs any more."""
    last = stage_facts(run, settled.last, position)
    result = {
        "best_step": position.best_step,
        "best_score": position.best_score,
        "steps": position.step,
        "seconds": position.seconds,
        "threads": torch.get_num_threads(),
        "scores": last["scores"],
        "baselines": baselines,
        "conflicts": last["conflicts"],
        "last_weights_sha256": weights_digest(model),
        "kept": [asdict(standing) for standing in position.kept],
    }
    if position.stage:
        result["stages"] = [*position.finished, last]
    with whole_file(run.result) as aside:
        write_json(aside, result)
    shutil.rmtree(run.checkpoints, ignore_errors=True)


def stage_facts(run: Run, stage: Settled, position: Position) -> dict[str, Any]:
    """What is to be told of a stage at its end."""
    records = (record for record in run.recorded("conflict") if record.get("stage", 0) == stage.stage)
    return {
        "tasks": list(stage.tasks),
        "steps": position.step_in_stage,
        "best_step": position.best_step,
        "best_score": position.best_score,
        "scores": read_about(run.best)["scores"],
        "conflicts": sum_up(record["cosines"] for record in records),
    }


def result_of(run: Run, settled: SettledRun, alone: dict[str, float]) -> Result:
    """What a finished run has to tell."""
    told = json.loads(run.result.read_text(encoding="utf-8"))
    return Result(
        run=run.folder,
        model=run.best,
        scores=told["scores"],
        baselines=told["baselines"],
        best_step=told["best_step"] or 0,
        steps=told["steps"],
        seconds=told["seconds"],
        kept=tuple(settled.last.kept),
        alone=alone,
        kept_models=tuple(run.kept / standing["name"] for standing in told.get("kept", ())),
        conflicts=told.get("conflicts", {}),
        stages=tuple(told.get("stages", ())),
    )


def weights_digest(model: Model) -> str:
    """The sha256 of all weights: two runs with equal digests end with the same bits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
