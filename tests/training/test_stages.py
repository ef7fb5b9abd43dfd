"""A run of several stages: what carries over from one to the next, and what begins anew."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import NotFiniteError, RecipeError, RunError
from plait.evaluation.find import find_split
from plait.model.about import read_about
from plait.model.load import load_model, load_weights
from plait.model.watch import Silent
from plait.recipe.read import read_recipe
from plait.schedules import Plan, TaskRows
from plait.training.loop import Stopped, as_recipe, resume
from plait.training.result import weights_digest
from plait.training.settle import settle_run
from plait.training.stage import Loop
from plait.training.tables import TABLES
from plait.training.trainer import Trainer, begin_model


@pytest.fixture
def staged(tiny_recipe):
    """First `near` for four epochs, then `mood` and `same` for two; keyword arguments change the two stages."""

    def make(first=None, second=None, **changes):
        recipe = tiny_recipe(dropout=0.3, lr=1e-2, **changes)
        stages = [{"tasks": ["near"], "epochs": 4, **(first or {})}, {"tasks": ["mood", "same"], **(second or {})}]
        return {**recipe, "stages": stages}

    return make


def lines_of(run) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def told(run) -> dict:
    return json.loads((run / "result.json").read_text())


def tensors(folder) -> dict[str, torch.Tensor]:
    return {**load_file(folder / "model.safetensors"), **load_file(folder / "heads.safetensors")}


def only_first(recipe: dict) -> dict:
    """The first stage as a run of its own."""
    stage = recipe["stages"][0]
    tasks = {name: recipe["tasks"][name] for name in stage["tasks"]}
    return {**recipe, **stage, "tasks": tasks, "stages": None}


class Weights:
    """The weights of the model, and the state of the optimizer, when each stage begins."""

    def __init__(self, monkeypatch):
        self.digests, self.states = [], []
        before = Loop.go

        def go(loop):
            self.digests.append(weights_digest(loop.trainer.model))
            self.states.append(len(loop.trainer.optimizer.state))
            before(loop)

        monkeypatch.setattr(Loop, "go", go)


# ---------------------------------------------------------------- one stage


def test_a_run_of_one_stage_has_the_bits_of_a_run_without_stages(tiny_recipe, tmp_path):
    plain = plait.train(tiny_recipe(), tmp_path / "plain", baselines=False)
    one = plait.train({**tiny_recipe(), "stages": [{}]}, tmp_path / "one", baselines=False)
    assert told(plain.run)["last_weights_sha256"] == told(one.run)["last_weights_sha256"]
    for name in ("metrics.jsonl", "recipe.yaml", "best/manifest.json"):
        assert (plain.run / name).read_bytes() == (one.run / name).read_bytes()
    assert one.stages == ()


# ---------------------------------------------------------------- from one stage to the next


def test_the_first_stage_is_what_a_run_of_its_own_would_be(staged, tmp_path):
    recipe = staged()
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    first = [{**line, "stage": 0} for line in lines_of(alone.run)]
    assert [line for line in lines_of(result.run) if line["stage"] == 0] == first
    assert result.stages[0]["scores"] == alone.scores and result.stages[0]["best_step"] == alone.best_step


@pytest.mark.parametrize("dev", [True, False])
def test_the_second_stage_begins_with_the_best_or_last_weights_and_everything_else_anew(
    staged, tmp_path, monkeypatch, dev
):
    recipe = staged(seed=2)
    if not dev:
        del recipe["tasks"]["near"]["dev"]
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    assert (alone.best_step < alone.steps) == dev, "the best model is not the last one, or this test shows nothing"
    found = Weights(monkeypatch)
    result = plait.train(recipe, tmp_path / "run", baselines=False)

    settled = settle_run(as_recipe(recipe, None, None, ()))
    model = begin_model(settled)
    assert found.digests[0] == weights_digest(model)
    small = load_model(alone.model, device="cpu")
    model.encoder.load_state_dict(small.encoder.state_dict())
    model.heads["near"].load_state_dict(small.heads["near"].state_dict())
    assert found.digests[1] == weights_digest(model) and found.states == [0, 0]

    trainer = Trainer(settled.last, model)
    steps = [planned for epoch in range(len(trainer.plan.epochs)) for planned in trainer.plan.epoch_plan(epoch)]
    losses = [trainer.step(number, planned) for number, planned in enumerate(steps)]
    assert losses == [line["loss"] for line in lines_of(result.run) if line["kind"] == "train" and line["stage"] == 1]
    assert weights_digest(model) == told(result.run)["last_weights_sha256"]


def test_steps_count_on_and_lines_name_their_stage(staged, tmp_path):
    result = plait.train(staged(), tmp_path / "run", baselines=False)
    train = [line for line in lines_of(result.run) if line["kind"] == "train"]
    assert [line["step"] for line in train] == list(range(1, 19)) and result.steps == 18
    assert [line["stage"] for line in train] == 12 * [0] + 6 * [1]
    assert [line["epoch"] for line in train] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [0] * 3 + [1] * 3
    assert [stage["steps"] for stage in result.stages] == [12, 6]
    assert result.best_step > 12 and result.stages[0]["best_step"] <= 12


def test_a_stage_trains_nothing_of_the_tasks_that_it_does_not_have(staged, tmp_path):
    head = {"head": {"name": "difference_product"}}
    recipe = staged(second={"epochs": 1})
    recipe["tasks"]["near"] |= head
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    after = tensors(plait.train(recipe, tmp_path / "run", baselines=False).model)
    before = tensors(alone.model)
    heads = [name for name in before if name.startswith("heads.near.")]
    assert heads and all(torch.equal(before[name], after[name]) for name in heads)
    settled = settle_run(as_recipe(recipe, None, None, ()))
    model = begin_model(settled)
    for stage, expected in zip(settled.stages, ({"near"}, {"mood", "same"}), strict=True):
        trained = {id(p) for group in Trainer(stage, model).optimizer.param_groups for p in group["params"]}
        assert {name for name, head in model.heads.items() if {id(p) for p in head.parameters()} & trained} == expected
    assert not torch.equal(before["encoder.layer.0.output.dense.weight"], after["encoder.layer.0.output.dense.weight"])


def test_a_stage_with_a_frozen_encoder_leaves_it_as_the_stage_before_made_it(staged, tmp_path):
    recipe = staged(second={"train_encoder": False})
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    before, after = (load_file(folder / "model.safetensors") for folder in (alone.model, result.model))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_batches_and_the_dropout_of_a_stage_are_its_own(staged):
    rows = {"mood": TaskRows(np.arange(20), 4, 1.0)}
    plans = [Plan(rows, lambda batches, epochs, seed: [[("mood",)] * 5], 1, 7, stage) for stage in (0, 1)]
    first, second = (list(plan.epoch_plan(0)) for plan in plans)
    assert first != second and sorted(sum((r for s in first for _, r in s), ())) == list(range(20))
    recipe = staged(first={"tasks": ["mood"]}, second={"tasks": {"near": {}, "same": {}, "mood": {}}})
    settled = settle_run(as_recipe(recipe, None, None, ()))
    model = begin_model(settled)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    losses = []
    for stage in settled.stages:
        model.load_state_dict(state)
        losses.append(Trainer(stage, model).step(0, [("mood", (0, 1, 2))])["mood"])
    assert losses[0] != losses[1]


def test_patience_and_the_best_score_begin_anew(staged, tmp_path):
    quick = {"epochs": 30, "early_stopping": 1}
    result = plait.train(staged(first=quick, second=quick, seed=3), tmp_path / "run", baselines=False)
    for number, stage in enumerate(result.stages):
        scores = [line for line in lines_of(result.run) if line["kind"] == "scores" and line["stage"] == number]
        means = [line["mean"] for line in scores]
        assert stage["best_score"] == max(means) == means[-2] >= means[-1]
        assert stage["best_step"] == scores[-2]["step"] and len(means) < 30


# ---------------------------------------------------------------- tasks of several stages


def test_a_head_carries_over_to_the_task_of_that_name(staged, tmp_path, monkeypatch):
    recipe = staged(first={"tasks": ["mood"]}, second={"tasks": ["mood", "same", "near"]})
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    heads = []
    before = Loop.go

    def go(loop):
        heads.append(loop.trainer.model.heads["mood"].linear.weight.detach().clone())
        before(loop)

    monkeypatch.setattr(Loop, "go", go)
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert torch.equal(heads[1], load_file(alone.model / "heads.safetensors")["heads.mood.linear.weight"])
    assert not torch.equal(heads[1], load_file(result.model / "heads.safetensors")["heads.mood.linear.weight"])
    assert result.kept == ()


def test_the_classes_of_the_first_stage_hold_for_the_later_one(staged, tmp_path):
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "mood.csv").write_text("text,feeling\na good film,high\na bad film,low\na dull day,low\n")
    other = {"train": str(folder / "mood.csv"), "text": "text", "label": "feeling", "dev": []}
    recipe = staged(first={"tasks": {"mood": other, "near": {}}, "epochs": 1})
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    spec = plait.load(result.model).tasks["mood"]
    assert spec.labels.classes == ("high", "low") and spec.text == ("sentence",)
    files = [file["name"] for file in read_about(result.model)["data"]["mood"]["train"]]
    assert files == ["mood-train.csv", "mood.csv"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": "concat"}, r"stages\.1\.tasks\.same: .*another head: \('difference_product'.*, here \('concat'"),
        ({"label": {"column": "same", "kind": "classes"}}, r"stages\.1\.tasks\.same: .*another kind of label: yes_no"),
    ],
)
def test_tasks_of_one_name_must_agree(staged, tmp_path, change, message):
    recipe = staged(first={"tasks": ["same", "near"]}, second={"tasks": {"mood": {}, "same": change}})
    with pytest.raises(RecipeError, match=message):
        plait.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_tasks_of_stages_before_are_scored_and_do_not_choose_the_model(staged, tmp_path):
    result = plait.train(staged(), tmp_path / "run", baselines=False)
    scores = [line for line in lines_of(result.run) if line["kind"] == "scores"]
    assert [(list(line["dev"]), list(line["kept"])) for line in scores] == 4 * [(["near"], [])] + 2 * [
        (["mood", "same"], ["near"])
    ]
    for line in scores[4:]:
        assert line["mean"] == (line["dev"]["mood"]["accuracy"] + line["dev"]["same"]["accuracy"]) / 2
    assert result.kept == ("near",) and set(result.scores) == {"near", "mood", "same"}
    best = next(line for line in scores if line["step"] == result.best_step)
    assert result.scores["near"] == best["kept"]["near"]


def test_the_model_has_the_tasks_of_all_stages_and_finds_their_data(staged, tmp_path):
    result = plait.train(staged(epochs=1), tmp_path / "run", baselines=False)
    model = load_model(result.model, device="cpu")
    assert list(model.tasks) == ["near", "mood", "same"]
    found = find_split(model, result.run, read_about(result.model), "dev", None)
    assert {name: len(part) for name, part in found.items()} == {"near": 24, "mood": 24, "same": 24}
    moved = shutil.copytree(result.model, tmp_path / "moved")
    assert set(find_split(model, moved, read_about(moved), "dev", tmp_path / "data")) == {"near", "mood", "same"}
    assert plait.load(moved).predict("near", [("a dog", "a cat")])[0].score is not None


# ---------------------------------------------------------------- the run


def test_the_recipe_of_a_run_is_complete_and_reads_back_as_it_was(staged, tmp_path):
    result = plait.train(staged(epochs=1), tmp_path / "run", baselines=False)
    settled = settle_run(as_recipe(staged(epochs=1), None, None, ()))
    again = read_recipe(result.run / "recipe.yaml", TABLES)
    assert again == settled.recipe == settle_run(again).recipe
    kept = json.loads((result.run / "run.json").read_text())
    assert kept["recipe"] == again.model_dump(mode="json") and "tasks" not in kept["recipe"]
    assert [list(stage["tasks"]) for stage in kept["recipe"]["stages"]] == [["near"], ["mood", "same"]]
    assert read_about(result.model)["recipe"]["stages"][0]["tasks"]["near"]["train"] == ["near-train.csv"]


def test_baselines_are_of_the_last_stage_alone(staged, tmp_path):
    result = plait.train(staged(epochs=1), tmp_path / "run")
    assert {task for scores in result.baselines["dev"].values() for task in scores} == {"mood", "same"}


def test_models_of_stages_before_the_last_are_not_kept(staged, tmp_path):
    stops = iter([False] * 5 + [True])
    with pytest.raises(Stopped):
        plait.train(staged(), tmp_path / "run", baselines=False, keep=5, stop=lambda: next(stops))
    assert (tmp_path / "run/best").is_dir() and not (tmp_path / "run/kept").exists()


def test_models_of_the_last_stage_are_kept(staged, tmp_path):
    result = plait.train(staged(first={"epochs": 2}), tmp_path / "run", baselines=False, keep=5)
    assert sorted(path.name for path in (tmp_path / "run/kept").iterdir()) == ["epoch1", "epoch2"]
    assert all(read_about(folder)["step"] > 6 for folder in result.kept_models)


def test_each_task_of_the_last_stage_is_trained_alone_after_the_stages_before(staged, tmp_path):
    recipe = staged(epochs=1)
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    assert list(result.alone) == ["mood", "same"]
    own = {**recipe, "tasks": {name: recipe["tasks"][name] for name in ("near", "mood")}}
    own["stages"] = [recipe["stages"][0], {"tasks": ["mood"]}]
    mood = plait.train(own, tmp_path / "mood", baselines=False)
    assert told(mood.run)["last_weights_sha256"] == told(tmp_path / "run/alone/mood")["last_weights_sha256"]
    assert result.alone["mood"] == mood.scores["mood"]["accuracy"]


def test_a_stage_in_which_nothing_learns_is_refused_before_there_is_a_run(staged, tmp_path):
    recipe = staged(first={"tasks": ["mood", "same"]}, second={"tasks": ["near"], "train_encoder": False})
    with pytest.raises(RecipeError, match=r"^stages\.1\.train_encoder: the encoder is frozen and no head has weights"):
        plait.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_mistakes_in_the_data_of_all_stages_are_told_at_once(staged, tmp_path):
    recipe = staged(early_stopping=2, first={"tasks": {"near": {"dev": []}}}, second={"best_by": "same"})
    recipe["tasks"]["same"]["label"] = "one"
    with pytest.raises(RecipeError) as caught:
        plait.train(recipe, tmp_path / "run")
    assert caught.value.mistakes[0] == "early_stopping: needs dev data, and no task has any (in stages.0)"
    assert any("stages.1" in mistake or mistake.startswith("tasks.same") for mistake in caught.value.mistakes[1:])


def test_a_number_that_is_not_finite_names_its_stage(staged, tmp_path):
    with pytest.raises(NotFiniteError) as caught:
        plait.train(staged(second={"lr": 1e30, "clip": None}), tmp_path / "run", baselines=False)
    assert caught.value.mistakes[0] == "in stage 2 of 2:"
    assert re.match(r"step [2-6]: the (loss|gradient) is ", caught.value.mistakes[1])


def test_a_run_does_not_go_on_with_other_data_of_an_earlier_stage(staged, tmp_path):
    recipe = staged(first={"tasks": {"mood": {"dev": str(tmp_path / "dev.csv")}, "near": {}}})
    shutil.copy(tmp_path / "data/mood-train.csv", tmp_path / "dev.csv")
    stops = iter([False] * 13 + [True])
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=lambda: next(stops))
    shutil.copy(tmp_path / "data/mood-dev.csv", tmp_path / "dev.csv")
    with pytest.raises(RunError, match=r"the data was changed: stages\.0\.mood\.dev\.0\.sha256"):
        resume(tmp_path / "run")


def test_tables_in_a_stage_are_files_of_the_run(staged, tmp_path):
    table = [{"words": f"a {word} day", "kind": kind} for word, kind in [("good", "x"), ("bad", "y")] * 6]
    task = {"train": table, "text": "words", "label": "kind"}
    recipe = staged(first={"tasks": {"near": {}, "mood": {**task, "dev": table[:4]}}, "epochs": 1}, epochs=1)
    recipe["stages"][1]["tasks"] = {"other": {**task, "dev": table}, "same": {}}
    recipe["tasks"].pop("mood")
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    names = sorted(path.name for path in (tmp_path / "run/given").iterdir())
    assert names == ["1.mood-dev.jsonl", "1.mood-train.jsonl", "2.other-dev.jsonl", "2.other-train.jsonl"]
    assert set(result.scores) == {"near", "mood", "other", "same"}
    recipe["stages"][0]["tasks"]["mood"] = {**task, "dev": object()}
    with pytest.raises(plait.PlaitError, match=r"stages\.0\.tasks\.mood\.dev: expected a file, a data frame or a list"):
        plait.train(recipe, tmp_path / "second")


class Told(Silent):
    """Remembers what a run says."""

    def __init__(self):
        self.parts, self.notes, self.records = [], [], []

    def begin(self, what, total, done=0):
        self.parts.append((what, total, done))

    def note(self, message):
        self.notes.append(message)

    def scores(self, record):
        self.records.append(record)


def test_progress_is_told_stage_by_stage(staged, tmp_path):
    watcher = Told()
    stops = iter([False] * 13 + [True])
    with pytest.raises(Stopped, match="stopped after step 14"):
        plait.train(staged(), tmp_path / "run", baselines=False, watcher=watcher, stop=lambda: next(stops))
    assert watcher.parts == [("training, stage 1 of 2", 12, 0), ("training, stage 2 of 2", 6, 0)]
    assert "stage 2 of 2 begins with the best model of the stage before it" in watcher.notes
    assert [record["stage"] for record in watcher.records] == [0, 0, 0, 0]
    watcher = Told()
    resume(tmp_path / "run", watcher=watcher)
    assert watcher.parts == [("training, stage 2 of 2", 6, 2)]
    assert "going on after step 2 of 6 in stage 2 of 2" in watcher.notes


def test_after_a_stage_without_dev_data_the_last_model_is_told(staged, tmp_path):
    watcher = Told()
    first = {"tasks": {"near": {"dev": []}}, "epochs": 1}
    plait.train(staged(first=first, epochs=1), tmp_path / "run", baselines=False, watcher=watcher)
    assert "stage 2 of 2 begins with the last model of the stage before it" in watcher.notes


def test_texts_of_a_dev_set_that_an_earlier_stage_trains_on_are_told(staged, tmp_path):
    watcher = Told()
    leak = {"tasks": {"mood": {"train": str(tmp_path / "data/mood-dev.csv"), "dev": []}, "near": {}}, "epochs": 1}
    plait.train(staged(first=leak, epochs=1), tmp_path / "run", baselines=False, watcher=watcher)
    (note,) = [note for note in watcher.notes if note.startswith("mood and mood (stage 2) share")]
    assert re.search(r"\d+ of them trained on by one and held out by the other", note)


# ---------------------------------------------------------------- growing


def test_a_plait_model_grows_in_stages(tiny_recipe, staged, tmp_path):
    first = plait.train(tiny_recipe(epochs=1), tmp_path / "first", baselines=False)
    recipe = {**staged(epochs=1), "encoder": str(first.model), "freeze": ["mood"]}
    recipe["stages"][0] |= {"epochs": 1}
    recipe["stages"][1]["tasks"] = ["mood"]
    recipe["tasks"].pop("same")
    result = plait.train(recipe, tmp_path / "second", baselines=False)
    before, after = tensors(first.model), tensors(result.model)
    heads = [name for name in before if name.startswith(("heads.mood.", "heads.same."))]
    assert len(heads) > 2 and all(torch.equal(before[name], after[name]) for name in heads)
    assert set(result.kept) == {"near", "same"} and set(result.baselines["dev"]["before"]) == {"near", "same", "mood"}
    scores = [line for line in lines_of(result.run) if line["kind"] == "scores"]
    assert [set(line["kept"]) for line in scores] == [{"mood", "same"}, {"near", "same"}]
    assert json.loads((result.run / "run.json").read_text())["kept"].keys() == {"same"}


def test_the_weights_of_a_model_directory_go_into_a_model_bit_by_bit(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, shared_layer="tanh", pooling="cls")
    recipe["tasks"].pop("near")
    for task in recipe["tasks"].values():
        del task["dev"]  # so that the last model is saved
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    model = begin_model(settle_run(as_recipe(recipe, None, None, ())))
    last = told(result.run)["last_weights_sha256"]
    assert weights_digest(model) != last
    load_weights(model, result.model)
    assert weights_digest(model) == last
