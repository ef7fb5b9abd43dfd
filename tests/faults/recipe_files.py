"""Recipes with random damage: `plait check` lists mistakes or finds none, fast, and never with a traceback."""

import json
from pathlib import Path

from faults.bench import Bench, told
from faults.mutations import mutate_json, mutate_text

__all__ = ["check"]

ROW, MOST = "recipes", 4  # changes of a recipe
RECIPES = (
    """\
encoder: {encoder}
pooling: mean
tasks:
  mood:
    train: {data}/mood-train.csv
    dev: {data}/mood-dev.csv
    text: sentence
    label: {{column: mood, classes: [low, high]}}
    head: {{name: linear}}
    loss: [cross_entropy, {{name: soft_triple, weight: 0.1}}]
    rows: 20
    max_length: 20
  near:
    train: [{data}/near-train.csv, {data}/near-train.csv]
    dev: 0.2
    text: [one, two]
    label: {{column: near, range: [0, 5]}}
    head: {{name: cosine, scale: 5}}
    weight: 2
schedule: {{name: together, combine: surgery}}
epochs: 2
batch_size: 8
lr: 5e-5
lr_schedule: {{name: linear, warmup: 0.1}}
clip: 1.0
seed: 11711
""",
    """\
encoder: {encoder}
tasks: &tasks
  same:
    train: {{file: {data}/same-train.csv, rows: 1-20}}
    text: [one, two]
    label: same
    bad_rows: skip
profiles:
  quick: {{rows: 10}}
stages:
  - {{tasks: [same], epochs: 1, schedule: {{name: sampled, by: sqrt}}}}
  - {{steps: 10, lr: 1e-4, evaluate_every: 5}}
early_stopping: 2
calibrate: true
tracker: []
""",
)


def check(bench: Bench, number: int) -> str:
    """Change a recipe at some places and check it."""
    chance = bench.chance(ROW, number)
    data = Path(bench.recipe()["tasks"]["mood"]["train"]).parent
    text = chance.choice(RECIPES).format(encoder=bench.encoder, data=data)
    if number % 3 == 0:
        value = _parsed(text)
        for _ in range(chance.randint(1, MOST)):
            value = mutate_json(value, chance)
        text = json.dumps(value)
    else:
        for _ in range(chance.randint(1, MOST)):
            text = mutate_text(text, chance)
    path = bench.folder / "changed.yaml"
    path.write_bytes(text.encode("utf-8", "replace"))
    code, out, errors = told("check", path, "--no-trial")
    if code == 0:
        return "" if "no mistakes" in out else "neither mistakes nor none"
    lines = errors.removesuffix("\n").split("\n")
    if code not in (1, 2) or not lines or not all(line.startswith("plait: ") for line in lines if line[:1] != " "):
        return f"exit code {code}: {errors[:300]}"
    return ""


def _parsed(text: str) -> object:
    from ruamel.yaml import YAML

    return json.loads(json.dumps(YAML(typ="safe").load(text)))
