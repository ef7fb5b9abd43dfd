"""Tasks with learn: false: read and scored like any other, but not trained."""

import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import PlaitError
from plait.training.baselines import FROZEN, MAJORITY, ZERO_SHOT
from plait.training.trainer import build_start_model
from small_runs import Recorder, metrics_lines, resolve, step_parts, trainer_for

HEAD = {"name": "difference_product", "hidden": 8}
SCHEDULES = {
    "sequential": {"name": "sequential", "order": ["same", "mood"]},
    "round_robin": {"name": "round_robin"},
    "sampled": {"name": "sampled", "by": "equal", "weights": {"mood": 2.0}},
    "alternate": {"name": "alternate", "epoch": "longest"},
    "together": {"name": "together", "combine": "mean"},
    "surgery": {"name": "together", "combine": "surgery", "epoch": "mood"},
}


def scored(recipe: dict, *names: str, **changes) -> dict:
    """The recipe with learn: false for some tasks; `near` has a head with weights."""
    tasks = {name: {**task, **({"learn": False} if name in names else {})} for name, task in recipe["tasks"].items()}
    tasks["near"]["head"] = HEAD
    return {**recipe, "tasks": tasks, **changes}


def mistakes_of(recipe) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        build_start_model(resolve(recipe))
    return list(caught.value.mistakes)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=list(SCHEDULES))
def test_other_tasks_train_as_if_a_scored_task_were_absent_and_its_head_stays_as_drawn(tiny_recipe, tmp_path, schedule):
    recipe = scored(tiny_recipe(), "near", schedule=schedule, epochs=1, evaluate_every=100, best_by="mood")
    recipe["schedule"] = schedule
    drawn = build_start_model(resolve(recipe)).heads["near"].state_dict()
    run = plait.train({**recipe, "steps": None}, tmp_path / "run", baselines=False)
    without = {**recipe, "tasks": {name: recipe["tasks"][name] for name in ("mood", "same")}}
    other = plait.train(without, tmp_path / "without", baselines=False)
    if schedule["name"] != "sequential":  # has one epoch per task, so the best is not always the last
        assert run.steps == other.steps == run.best_step == other.best_step
    one, two = (load_file(result.model / "model.safetensors") for result in (run, other))
    assert all(torch.equal(one[name], two[name]) for name in two)
    heads, others = (load_file(result.model / "heads.safetensors") for result in (run, other))
    assert all(torch.equal(heads[name], others[name]) for name in others)
    kept = {name: tensor for name, tensor in heads.items() if name not in others}
    assert len(kept) == len(drawn) and all(torch.equal(kept[f"heads.near.{name}"], drawn[name]) for name in drawn)


def test_a_scored_task_counts_in_the_mean_and_is_in_the_model(tiny_recipe, tmp_path):
    result = plait.train(scored(tiny_recipe(epochs=1), "same", "near"), tmp_path / "run")
    lines = metrics_lines(result.run)
    assert {task for line in lines if line["kind"] == "train" for task in line["loss"]} == {"mood"}
    (scores,) = [line for line in lines if line["kind"] == "scores"]
    metrics = {"mood": "accuracy", "same": "accuracy", "near": "pearson"}
    values = [scores["dev"][name][metric] for name, metric in metrics.items()]
    assert scores["mean"] == pytest.approx(sum(values) / 3, abs=1e-12)
    table = result.baselines["dev"]
    assert set(table[MAJORITY]) == set(table[FROZEN]) == {"mood", "same", "near"}
    assert set(table[ZERO_SHOT]) == {"same", "near"}
    model = plait.load(result.model)
    assert list(model.tasks) == ["mood", "same", "near"]
    assert model.predict("same", [("a dog", "a cat")])[0].score is not None
    card = (result.model / "README.md").read_text()
    assert "- `same` was scored but not trained (`learn: false`)." in card and "`mood` was scored" not in card


def test_a_scored_task_may_select_the_best_model(tiny_recipe, tmp_path):
    result = plait.train(scored(tiny_recipe(epochs=2), "near", best_by="near"), tmp_path / "run", baselines=False)
    lines = metrics_lines(result.run)
    found = {line["step"]: line["dev"]["near"]["pearson"] for line in lines if line["kind"] == "scores"}
    assert found[result.best_step] == max(found.values())


@pytest.mark.parametrize(
    ("schedule", "key"),
    [
        ({"name": "round_robin", "order": ["mood", "same", "near"]}, "order"),
        ({"name": "sampled", "weights": {"near": 2.0}}, "weights"),
        ({"name": "together", "epoch": "near"}, "epoch"),
    ],
)
def test_a_schedule_that_names_a_scored_task_is_refused(tiny_recipe, schedule, key):
    assert mistakes_of(scored(tiny_recipe(), "near", schedule=schedule)) == [
        f"recipe: schedule.{key}: the task 'near' is not trained, it has learn: false"
    ]


def test_an_order_must_contain_every_trained_task(tiny_recipe):
    recipe = scored(tiny_recipe(), "near", schedule={"name": "round_robin", "order": ["mood"]})
    assert mistakes_of(recipe) == ["recipe: schedule.order: the task 'same' is missing"]


def test_a_recipe_that_trains_nothing_is_refused(tiny_recipe):
    assert mistakes_of(scored(tiny_recipe(), "mood", "same", "near")) == [
        "recipe: tasks: every task has learn: false; there is nothing to train"
    ]


def test_a_frozen_encoder_with_only_scored_heads_has_nothing_to_train(tiny_recipe):
    recipe = scored(tiny_recipe(train_encoder=False), "mood", "same")
    recipe["tasks"]["near"]["head"] = "cosine"
    assert mistakes_of(recipe) == [
        "train_encoder: the encoder is frozen and no head has weights: nothing to train",
    ]


def test_without_a_head_there_is_nothing_to_score_either(tiny_recipe):
    recipe = tiny_recipe()
    train = recipe["tasks"]["near"]["train"]
    recipe["tasks"]["near"] = {
        "train": train,
        "text": ["one", "two"],
        "loss": "multiple_negatives",
        "learn": False,
    }
    assert mistakes_of(recipe) == [
        "tasks.near.learn: the task has no head, so there is nothing to score either; remove it, or give it a head"
    ]


def test_a_scored_task_is_not_trained_alone(tiny_recipe, tmp_path):
    progress = Recorder()
    recipe = scored(tiny_recipe(epochs=1), "same")
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True, progress=progress)
    assert list(result.single_task) == ["mood", "near"] and not (result.run / "single_task/same").exists()
    assert "same: not trained alone, it has learn: false" in progress.notes


@pytest.mark.parametrize("schedule", ["together", "alternate"])
def test_conflicts_are_measured_between_trained_tasks_only(tiny_recipe, tmp_path, schedule):
    recipe = scored(tiny_recipe(epochs=1, conflict_every=1, schedule=schedule), "same")
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert list(result.conflicts) == ["mood/near"]
    single = trainer_for(scored(tiny_recipe(epochs=1, conflict_every=1, schedule=schedule), "same", "near"))
    assert step_parts(single).rows is None  # one trained task has no conflict to measure


def test_the_head_of_a_scored_task_stays_unchanged_on_a_frozen_encoder(tiny_recipe, tmp_path):
    recipe = scored(tiny_recipe(epochs=1, train_encoder=False), "near")
    drawn = build_start_model(resolve(recipe)).heads["near"].state_dict()
    result = plait.train(recipe, tmp_path / "run")
    heads = load_file(result.model / "heads.safetensors")
    assert drawn and all(torch.equal(heads[f"heads.near.{name}"], tensor) for name, tensor in drawn.items())


def test_a_warm_start_keeps_the_head_of_a_scored_task(tiny_recipe, tmp_path):
    first = plait.train(scored(tiny_recipe(epochs=1)), tmp_path / "first", baselines=False)
    recipe = scored(tiny_recipe(epochs=1), "near", encoder=str(first.model))
    second = plait.train(recipe, tmp_path / "second", baselines=False)
    before, after = (load_file(result.model / "heads.safetensors") for result in (first, second))
    same = {name.split(".")[1] for name in before if torch.equal(before[name], after[name])}
    assert same == {"near"}
    assert second.baselines["dev"]["before"]["near"] == first.scores["near"]["pearson"]


def test_a_stage_may_only_score_a_task(tiny_recipe, tmp_path):
    stages = [{"epochs": 1}, {"epochs": 1, "tasks": {"mood": {}, "same": {}, "near": {"learn": False}}}]
    result = plait.train(scored(tiny_recipe(epochs=None), stages=stages), tmp_path / "run", baselines=False)
    lines = metrics_lines(result.run)
    trained = [
        {task for line in lines if line.get("loss") and line["stage"] == n for task in line["loss"]} for n in (0, 1)
    ]
    assert trained == [{"mood", "same", "near"}, {"mood", "same"}]
    assert set(result.scores) == {"mood", "same", "near"}
    assert "was scored but not trained" not in (result.model / "README.md").read_text()


def test_training_rows_of_a_scored_task_do_not_count_as_leaked(tiny_recipe):
    recipe = tiny_recipe()
    mood = recipe["tasks"]["mood"]
    recipe["tasks"] = {"mood": mood, "again": {**mood, "dev": mood["train"]}}
    notes = resolve(recipe).data.data_notes()
    assert len([sentence for sentence in notes if sentence.startswith("again: 24 dev rows ")]) == 1
    recipe["tasks"]["again"]["learn"] = False
    notes = resolve(recipe).data.data_notes()
    assert not [sentence for sentence in notes if sentence.startswith("again:")]
    assert any(sentence.startswith("mood and again share") for sentence in notes)
