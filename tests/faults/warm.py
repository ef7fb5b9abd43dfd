"""Imported by the server that cases are forked from: trains and predicts once, so that cases start warm."""

import os
import tempfile
from pathlib import Path

ENCODER = "PLAIT_FAULTS_ENCODER"  # a tiny checkpoint


def warm_up(encoder: Path) -> None:
    import torch

    from plait.inference.predictor import load
    from plait.training.train import train
    from tiny import write_tasks

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        recipe = {**write_tasks(Path(folder) / "data", encoder), "epochs": 1, "dropout": 0.3}
        run = train(recipe, Path(folder) / "run", baselines=False).run
        load(run).predict("mood", ["a dog"])


if ENCODER in os.environ:
    warm_up(Path(os.environ.pop(ENCODER)))
