"""`conflict_every`: how much the tasks' gradients conflict, measured without changing the training."""

import json
from pathlib import Path

import pytest
import torch

import plait
from plait.gradients.conflict import summarize
from plait.gradients.rows import GradientRows
from plait.training.backward import backward
from plait.training.lanes import Lanes
from plait.training.train import Stopped, resume
from tiny_trainer import batches_of, build_trainer

SCHEDULES = {
    "sum": {"name": "together", "combine": "sum"},
    "mean": {"name": "together", "combine": "mean"},
    "surgery": {"name": "together", "combine": "surgery"},
    "sampled": {"name": "sampled", "by": "equal"},
    "sequential": {"name": "sequential"},
    "round_robin": {"name": "round_robin"},
    "alternate": {"name": "alternate"},
}
PAIRS = ["mood/same", "mood/near", "same/near"]


def metrics_lines(run: Path, kind: str) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def last_weights(run: Path) -> str:
    return json.loads((run / "result.json").read_text())["last_weights_sha256"]


@pytest.mark.parametrize("name", SCHEDULES)
def test_measuring_changes_no_bit_of_the_training(name, tiny_recipe, tmp_path):
    recipe = tiny_recipe(schedule=SCHEDULES[name], dropout=0.3)
    plain = plait.train(recipe, tmp_path / "plain", baselines=False)
    measured = plait.train({**recipe, "conflict_every": 2}, tmp_path / "measured", baselines=False)
    assert last_weights(tmp_path / "measured") == last_weights(tmp_path / "plain")
    for kind in ("train", "scores"):
        assert metrics_lines(tmp_path / "measured", kind) == metrics_lines(tmp_path / "plain", kind)
    lines = metrics_lines(tmp_path / "measured", "conflict")
    assert [line["step"] for line in lines] == list(range(2, measured.steps + 1, 2))
    assert all(list(line) == ["kind", "step", "cosines"] and list(line["cosines"]) == PAIRS for line in lines)
    assert all(-1 <= cosine <= 1 for line in lines for cosine in line["cosines"].values())
    assert len({line["cosines"]["mood/same"] for line in lines}) == len(lines), "the same number again and again"
    assert measured.conflicts == summarize(line["cosines"] for line in lines)
    assert metrics_lines(tmp_path / "plain", "conflict") == [] and plain.conflicts == {}


def test_cosines_are_those_of_the_tasks_gradients(tiny_recipe):
    """Computed again with one backward pass per task, at the weights before the step."""
    trainer = build_trainer(tiny_recipe(conflict_every=1, dropout=0.0))
    for module in trainer.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for layer in trainer.model.encoder.layers:
        layer.attention_dropout = 0.0
    planned = next(trainer.plan.epoch_plan(0))
    rows = []
    for batch in batches_of(trainer, planned):
        trainer.model.zero_grad(set_to_none=True)
        backward(trainer.model, Lanes(trainer.model), {}, trainer.objectives, [batch], "seed")
        found = [parameter.grad for parameter in trainer.model.encoder.parameters()]
        rows.append(torch.cat([gradient.flatten() for gradient in found if gradient is not None]).double())
    g_KP = torch.nn.functional.normalize(torch.stack(rows), dim=1)
    expected = [(g_KP[i] @ g_KP[j]).item() for i, j in ((0, 1), (0, 2), (1, 2))]
    trainer.step(0, planned)
    assert list(trainer.cosines.values()) == pytest.approx(expected, abs=1e-5)  # float32


def test_step_that_is_not_measured_has_no_cosines(tiny_recipe):
    trainer = build_trainer(tiny_recipe(conflict_every=2))
    measured = []
    for number, planned in enumerate(trainer.plan.epoch_plan(0)):
        trainer.step(number, planned)
        measured.append(bool(trainer.cosines))
    assert measured == [False, True, False]


@pytest.mark.parametrize("schedule", ["sum", "surgery", "sampled"])
def test_resumed_run_measures_as_if_it_had_never_stopped(schedule, tiny_recipe, tmp_path):
    recipe = tiny_recipe(schedule=SCHEDULES[schedule], conflict_every=2)
    unbroken = plait.train(recipe, tmp_path / "unbroken", baselines=False)
    stops = iter([False, False, True])
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "broken", baselines=False, stop=lambda: next(stops))
    resumed = resume(tmp_path / "broken")
    assert resumed.conflicts == unbroken.conflicts
    assert (tmp_path / "broken/metrics.jsonl").read_bytes() == (tmp_path / "unbroken/metrics.jsonl").read_bytes()
    assert last_weights(tmp_path / "broken") == last_weights(tmp_path / "unbroken")


def test_frozen_encoder_or_single_task_has_nothing_to_measure(tiny_recipe, tmp_path):
    recipe = tiny_recipe(conflict_every=1, epochs=1)
    single = {**recipe, "tasks": {"mood": recipe["tasks"]["mood"]}}
    for name, keys in (("frozen", {**recipe, "train_encoder": False}), ("single", single)):
        result = plait.train(keys, tmp_path / name, baselines=False)
        assert result.conflicts == {} and metrics_lines(tmp_path / name, "conflict") == []


def test_with_one_task_per_step_every_measurement_takes_the_next_batch_of_each_task(tiny_recipe, monkeypatch):
    trainer = build_trainer(tiny_recipe(schedule="sampled", conflict_every=2))
    planned = list(trainer.plan.epoch_plan(0))
    drawn = []
    find = trainer.plan.batch_rows

    def batch_rows(task: str, count: int) -> tuple[int, ...]:
        drawn.append((task, count))
        return find(task, count)

    monkeypatch.setattr(trainer.plan, "batch_rows", batch_rows)
    for number, step in enumerate(planned[:6]):
        trainer.step(number, step)
    assert drawn == [(task, count) for count in range(3) for task in ("mood", "same", "near")]


def test_baselines_are_not_measured(tiny_recipe, tmp_path, monkeypatch):
    """Even though a frozen encoder may have a shared layer that learns."""
    measured = []
    measure = GradientRows.measure
    monkeypatch.setattr(GradientRows, "measure", lambda rows: measured.append(rows) or measure(rows))
    tasks = tiny_recipe()["tasks"]
    recipe = tiny_recipe(conflict_every=1, epochs=1, shared_layer="tanh", tasks={k: tasks[k] for k in ("mood", "same")})
    result = plait.train(recipe, tmp_path / "run")
    assert len(measured) == len(metrics_lines(tmp_path / "run", "conflict")) == result.steps == 3
