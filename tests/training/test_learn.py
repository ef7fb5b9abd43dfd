"""A task that does not learn: read and scored like any other, trained by no step."""

import json

import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import PlaitError
from plait.model.watch import Silent
from plait.training.baselines import FROZEN, MAJORITY, ZERO_SHOT
from plait.training.loop import as_recipe, train
from plait.training.settle import settle_run
from plait.training.trainer import Trainer, begin_model

HEAD = {"name": "difference_product", "hidden": 8}
SCHEDULES = {
    "sequential": {"name": "sequential", "order": ["same", "mood"]},
    "round_robin": {"name": "round_robin"},
    "sampled": {"name": "sampled", "by": "equal", "weights": {"mood": 2.0}},
    "alternate": {"name": "alternate", "epoch": "longest"},
    "together": {"name": "together", "combine": "mean"},
    "surgery": {"name": "together", "combine": "surgery", "epoch": "mood"},
}


class Notes(Silent):
    """Keeps every sentence."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, message: str) -> None:
        self.told.append(message)


def scored(recipe: dict, *names: str, **changes) -> dict:
    """The recipe with tasks that do not learn; `near` has a head with weights."""
    tasks = {name: {**task, **({"learn": False} if name in names else {})} for name, task in recipe["tasks"].items()}
    tasks["near"]["head"] = HEAD
    return {**recipe, "tasks": tasks, **changes}


def mistakes_of(recipe) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        begin_model(settle_run(as_recipe(recipe, None, None, ())))
    return list(caught.value.mistakes)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=list(SCHEDULES))
def test_the_others_learn_as_if_it_were_not_there_and_its_head_stays_as_drawn(tiny_recipe, tmp_path, schedule):
    recipe = scored(tiny_recipe(), "near", schedule=schedule, epochs=1, evaluate_every=100, best_by="mood")
    recipe["schedule"] = schedule
    drawn = begin_model(settle_run(as_recipe(recipe, None, None, ()))).heads["near"].state_dict()
    run = plait.train({**recipe, "steps": None}, tmp_path / "run", baselines=False)
    without = {**recipe, "tasks": {name: recipe["tasks"][name] for name in ("mood", "same")}}
    other = plait.train(without, tmp_path / "without", baselines=False)
    if schedule["name"] != "sequential":  # has an epoch a task, so that the best one is not always the last
        assert run.steps == other.steps == run.best_step == other.best_step
    one, two = (load_file(result.model / "model.safetensors") for result in (run, other))
    assert all(torch.equal(one[name], two[name]) for name in two)
    heads, others = (load_file(result.model / "heads.safetensors") for result in (run, other))
    assert all(torch.equal(heads[name], others[name]) for name in others)
    kept = {name: tensor for name, tensor in heads.items() if name not in others}
    assert len(kept) == len(drawn) and all(torch.equal(kept[f"heads.near.{name}"], drawn[name]) for name in drawn)


def test_it_is_scored_on_dev_counts_in_the_mean_and_stands_in_the_model(tiny_recipe, tmp_path):
    result = plait.train(scored(tiny_recipe(epochs=1), "same", "near"), tmp_path / "run")
    lines = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()]
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
    assert "- `same` was only scored, no step trained it (`learn: false`)." in card and "`mood` was only" not in card


def test_it_may_choose_the_best_model(tiny_recipe, tmp_path):
    result = plait.train(scored(tiny_recipe(epochs=2), "near", best_by="near"), tmp_path / "run", baselines=False)
    lines = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()]
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
def test_a_schedule_that_names_it_is_refused(tiny_recipe, schedule, key):
    assert mistakes_of(scored(tiny_recipe(), "near", schedule=schedule)) == [
        f"recipe: schedule.{key}: no step trains the task 'near', it has learn: false"
    ]


def test_an_order_still_names_every_task_that_learns(tiny_recipe):
    recipe = scored(tiny_recipe(), "near", schedule={"name": "round_robin", "order": ["mood"]})
    assert mistakes_of(recipe) == ["recipe: schedule.order: leaves out the task 'same'"]


def test_a_recipe_in_which_nothing_learns_is_refused(tiny_recipe):
    assert mistakes_of(scored(tiny_recipe(), "mood", "same", "near")) == [
        "recipe: tasks: every task has learn: false; there is nothing to train"
    ]


def test_frozen_weights_and_a_head_that_does_not_learn_are_nothing_to_train(tiny_recipe):
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
        "tasks.near.learn: the task has no head, so there is nothing to score either; take it away, or give it a head"
    ]


def test_it_is_not_trained_alone(tiny_recipe, tmp_path):
    notes = Notes()
    recipe = scored(tiny_recipe(epochs=1), "same")
    result = train(recipe, tmp_path / "run", baselines=False, single_task=True, watcher=notes)
    assert list(result.alone) == ["mood", "near"] and not (result.run / "alone/same").exists()
    assert "same: has learn: false, so it is not trained alone" in notes.told


@pytest.mark.parametrize("schedule", ["together", "alternate"])
def test_conflicts_are_those_of_the_tasks_that_learn(tiny_recipe, tmp_path, schedule):
    recipe = scored(tiny_recipe(epochs=1, watch_conflict=1, schedule=schedule), "same")
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert list(result.conflicts) == ["mood/near"]
    alone = scored(tiny_recipe(epochs=1, watch_conflict=1, schedule=schedule), "same", "near")
    assert Trainer(settle_run(as_recipe(alone, None, None, ())).last).watch is None


def test_on_a_frozen_encoder_its_head_stays_as_well(tiny_recipe, tmp_path):
    recipe = scored(tiny_recipe(epochs=1, train_encoder=False), "near")
    drawn = begin_model(settle_run(as_recipe(recipe, None, None, ()))).heads["near"].state_dict()
    result = plait.train(recipe, tmp_path / "run")
    heads = load_file(result.model / "heads.safetensors")
    assert drawn and all(torch.equal(heads[f"heads.near.{name}"], tensor) for name, tensor in drawn.items())


def test_a_model_that_grows_keeps_the_head_of_a_task_that_does_not_learn(tiny_recipe, tmp_path):
    first = plait.train(scored(tiny_recipe(epochs=1)), tmp_path / "first", baselines=False)
    recipe = scored(tiny_recipe(epochs=1), "near", encoder=str(first.model))
    second = plait.train(recipe, tmp_path / "second", baselines=False)
    before, after = (load_file(result.model / "heads.safetensors") for result in (first, second))
    same = {name.split(".")[1] for name in before if torch.equal(before[name], after[name])}
    assert same == {"near"}
    assert second.baselines["dev"]["before"]["near"] == first.scores["near"]["pearson"]


def test_a_stage_may_leave_a_task_out_of_its_steps(tiny_recipe, tmp_path):
    stages = [{"epochs": 1}, {"epochs": 1, "tasks": {"mood": {}, "same": {}, "near": {"learn": False}}}]
    result = plait.train(scored(tiny_recipe(epochs=None), stages=stages), tmp_path / "run", baselines=False)
    lines = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()]
    trained = [
        {task for line in lines if line.get("loss") and line["stage"] == n for task in line["loss"]} for n in (0, 1)
    ]
    assert trained == [{"mood", "same", "near"}, {"mood", "same"}]
    assert set(result.scores) == {"mood", "same", "near"}
    assert "was only scored" not in (result.model / "README.md").read_text()


def test_what_nobody_trains_on_flatters_no_score(tiny_recipe):
    recipe = tiny_recipe()
    mood = recipe["tasks"]["mood"]
    recipe["tasks"] = {"mood": mood, "again": {**mood, "dev": mood["train"]}}
    told = settle_run(as_recipe(recipe, None, None, ())).data.sentences()
    assert "again: 24 dev rows stand in train as well; their score flatters" in told
    recipe["tasks"]["again"]["learn"] = False
    told = settle_run(as_recipe(recipe, None, None, ())).data.sentences()
    assert not [sentence for sentence in told if sentence.startswith("again:")]
    assert any(sentence.startswith("mood and again share") for sentence in told)
