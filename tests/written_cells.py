"""Result cells that are written by hand, so that nothing is trained."""

import json
from collections.abc import Mapping

import numpy as np
from ruamel.yaml import YAML

from plait.experiments.cells import Cell, Experiment
from plait.resolve.saved import as_saved

LABELS = {"mood": np.arange(40) % 2, "near": np.linspace(0, 5, 40), "same": np.arange(40) % 2}
KINDS = {"mood": "classes", "near": "score", "same": "yes_no"}
METRICS = {"mood": "accuracy", "near": "pearson", "same": "accuracy"}
ROWS = {"mood": 24, "near": 24, "same": 24}


def write_cell(experiment: Experiment, cell: Cell, scores: Mapping[str, float], **changes: object) -> None:
    """Write a cell.json with the cell's current recipe; keyword arguments change it."""
    recipe = experiment.recipe(cell)
    record = {
        "scores": dict(scores),
        "metrics": {task: METRICS[task] for task in scores},
        "kinds": {task: KINDS[task] for task in scores},
        "encoder": recipe.encoder,
        "rows": {task: ROWS[task] for task in scores},
        "epochs": [stage.epochs for stage in recipe.stage_recipes()],
        "seconds": 1.0,
        "recipe": as_saved(recipe),
    }
    experiment.folder(cell).mkdir(parents=True)
    (experiment.folder(cell) / "cell.json").write_text(json.dumps({**record, **changes}), encoding="utf-8")


def write_scored(experiment: Experiment, cell: Cell, wrong: int, labels: Mapping[str, np.ndarray], **changes: object):
    """Write a cell whose first `wrong` predictions are wrong."""
    answers, scores = {}, {}
    for task, labels_n in labels.items():
        predicted_n = labels_n.copy()
        predicted_n[:wrong] = 1 - predicted_n[:wrong] if task != "near" else 5 - predicted_n[:wrong]
        answers[f"{task}/labels"], answers[f"{task}/values"] = labels_n, predicted_n
        scores[task] = (
            float(np.corrcoef(labels_n, predicted_n)[0, 1])
            if task == "near"
            else float(np.mean(labels_n == predicted_n))
        )
    write_cell(experiment, cell, scores, **changes)
    np.savez(experiment.folder(cell) / "answers.npz", **answers)


def one_task(experiment: Experiment, row: str, task: str, **keys: object) -> None:
    """Give a row a recipe with a single task."""
    folder, yaml = experiment.suite.folder, YAML(typ="safe")
    recipe = yaml.load(folder / "base.yaml")
    yaml.dump({**recipe, "tasks": {task: {**recipe["tasks"][task], **keys}}}, folder / f"{row}.yaml")
