"""Whether tasks pull against each other: measured without a change of the training, and told at the end."""

import json
from pathlib import Path

import pytest
import torch

import plait
from plait.gradients.conflict import cosines, sum_up
from plait.gradients.rows import Rows
from plait.training.backward import pass_on
from plait.training.loop import Stopped, as_recipe, resume
from plait.training.settle import settle_recipe
from plait.training.trainer import Trainer

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


def records(run: Path, kind: str) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def digest(run: Path) -> str:
    return json.loads((run / "result.json").read_text())["last_weights_sha256"]


def test_cosines_by_hand():
    gram_KK = torch.tensor([[4.0, -3.0, 2.0], [-3.0, 9.0, 0.0], [2.0, 0.0, 1.0]])
    assert cosines(gram_KK, ["a", "b", "c"]) == {"a/b": -0.5, "a/c": 1.0, "b/c": 0.0}
    assert cosines(torch.tensor([[4.0]]), ["a"]) == {}


def test_the_cosine_with_a_gradient_of_zero_or_one_that_is_not_finite_is_none():
    gram_KK = torch.tensor([[4.0, 0.0, float("nan")], [0.0, 0.0, 0.0], [float("nan"), 0.0, float("inf")]])
    assert cosines(gram_KK, ["a", "b", "c"]) == {"a/b": None, "a/c": None, "b/c": None}


def test_cosines_do_not_depend_on_scale():
    g_KP = torch.randn(3, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    plain = cosines(g_KP @ g_KP.T, "abc")
    for scale in (1e-6, 1e15):
        assert cosines(scale**2 * (g_KP @ g_KP.T), "abc") == pytest.approx(plain, abs=2e-6)  # rounded to 6 digits


def test_cosines_are_summed_up_by_hand():
    measured = [{"a/b": -0.5, "a/c": None}, {"a/b": 0.25, "a/c": 0.5}, {"a/b": 0.0, "a/c": None}, {"a/b": -0.75}]
    assert sum_up(measured) == {
        "a/b": {"mean": -0.25, "negative": 0.5, "count": 4},
        "a/c": {"mean": 0.5, "negative": 0.0, "count": 1},
    }
    assert sum_up([]) == {}


@pytest.mark.parametrize("name", SCHEDULES)
def test_watching_changes_no_bit_of_the_training(name, tiny_recipe, tmp_path):
    recipe = tiny_recipe(schedule=SCHEDULES[name], dropout=0.3)
    plain = plait.train(recipe, tmp_path / "plain", baselines=False)
    watched = plait.train({**recipe, "watch_conflict": 2}, tmp_path / "watched", baselines=False)
    assert digest(tmp_path / "watched") == digest(tmp_path / "plain")
    for kind in ("train", "scores"):
        assert records(tmp_path / "watched", kind) == records(tmp_path / "plain", kind)
    found = records(tmp_path / "watched", "conflict")
    assert [record["step"] for record in found] == list(range(2, watched.steps + 1, 2))
    assert all(list(record) == ["kind", "step", "cosines"] and list(record["cosines"]) == PAIRS for record in found)
    assert all(-1 <= cosine <= 1 for record in found for cosine in record["cosines"].values())
    assert len({record["cosines"]["mood/same"] for record in found}) == len(found), "the same number again and again"
    assert watched.conflicts == sum_up(record["cosines"] for record in found)
    assert records(tmp_path / "plain", "conflict") == [] and plain.conflicts == {}


def test_the_cosines_are_those_of_the_tasks_gradients(tiny_recipe):
    """Worked out again by one backward pass a task, at the weights before the step."""
    recipe = tiny_recipe(watch_conflict=1, dropout=0.0)
    made = Trainer(settle_recipe(as_recipe(recipe, None, None, ())))
    for module in made.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for layer in made.model.encoder.layers:
        layer.attention_dropout = 0.0
    planned = next(made.plan.epoch_plan(0))
    gradients = []
    for batch in made.batches(planned):
        passed = pass_on(made.model, made.objectives[batch.task], batch, made.encode(batch))
        loss = made.objectives[batch.task](passed, torch.from_numpy(batch.labels))
        shared = [parameter for name, parameter in made.model.named_parameters() if name.startswith("encoder.")]
        found = torch.autograd.grad(loss, shared, allow_unused=True)
        gradients.append(torch.cat([part.flatten() for part in found if part is not None]).double())
    g_KP = torch.nn.functional.normalize(torch.stack(gradients), dim=1)
    expected = [(g_KP[i] @ g_KP[j]).item() for i, j in ((0, 1), (0, 2), (1, 2))]
    made.step(0, planned)
    assert list(made.cosines.values()) == pytest.approx(expected, abs=1e-5)  # float32


def test_a_step_that_is_not_watched_has_no_cosines(tiny_recipe):
    trainer = Trainer(settle_recipe(as_recipe(tiny_recipe(watch_conflict=2), None, None, ())))
    watched = []
    for number, planned in enumerate(trainer.plan.epoch_plan(0)):
        trainer.step(number, planned)
        watched.append(bool(trainer.cosines))
    assert watched == [False, True, False]


@pytest.mark.parametrize("schedule", ["sum", "surgery", "sampled"])
def test_a_run_that_goes_on_watches_as_if_it_had_never_stopped(schedule, tiny_recipe, tmp_path):
    recipe = tiny_recipe(schedule=SCHEDULES[schedule], watch_conflict=2)
    unbroken = plait.train(recipe, tmp_path / "unbroken", baselines=False)
    stops = iter([False, False, True])
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "broken", baselines=False, stop=lambda: next(stops))
    mended = resume(tmp_path / "broken")
    assert mended.conflicts == unbroken.conflicts
    assert (tmp_path / "broken/metrics.jsonl").read_bytes() == (tmp_path / "unbroken/metrics.jsonl").read_bytes()
    assert digest(tmp_path / "broken") == digest(tmp_path / "unbroken")


def test_with_a_frozen_encoder_or_a_single_task_there_is_nothing_to_watch(tiny_recipe, tmp_path):
    recipe = tiny_recipe(watch_conflict=1, epochs=1)
    alone = {**recipe, "tasks": {"mood": recipe["tasks"]["mood"]}}
    for name, keys in (("frozen", {**recipe, "train_encoder": False}), ("alone", alone)):
        result = plait.train(keys, tmp_path / name, baselines=False)
        assert result.conflicts == {} and records(tmp_path / name, "conflict") == []


def test_where_a_step_trains_one_task_every_watching_takes_the_next_batches(tiny_recipe, monkeypatch):
    trainer = Trainer(settle_recipe(as_recipe(tiny_recipe(schedule="sampled", watch_conflict=2), None, None, ())))
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


def test_the_baselines_are_not_watched(tiny_recipe, tmp_path, monkeypatch):
    """A frozen encoder has a shared layer that learns."""
    measured = []
    measure = Rows.measure
    monkeypatch.setattr(Rows, "measure", lambda rows: measured.append(rows) or measure(rows))
    tasks = tiny_recipe()["tasks"]
    recipe = tiny_recipe(watch_conflict=1, epochs=1, shared_layer="tanh", tasks={k: tasks[k] for k in ("mood", "same")})
    result = plait.train(recipe, tmp_path / "run")
    assert len(measured) == len(records(tmp_path / "run", "conflict")) == result.steps == 3
