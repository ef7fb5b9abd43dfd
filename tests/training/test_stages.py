"""From one stage to the next: what carries over, and what starts again."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import RecipeError
from plait.model.directory.load import load_model
from plait.model.directory.record import open_directory
from plait.runs.origins import find_split
from plait.schedules import Plan, TaskRows
from plait.training.stage import StageRun
from plait.training.trainer import Trainer, build_start_model
from small_runs import metrics_lines, resolve, result_json, weights_digest


def tensors(folder) -> dict[str, torch.Tensor]:
    return {**load_file(folder / "model.safetensors"), **load_file(folder / "heads.safetensors")}


def only_first(recipe: dict) -> dict:
    """The first stage as a run of its own."""
    stage = recipe["stages"][0]
    tasks = {name: recipe["tasks"][name] for name in stage["tasks"]}
    return {**recipe, **stage, "tasks": tasks, "stages": None}


class Weights:
    """Records the weights of the model and the size of the optimizer's state when each stage begins."""

    def __init__(self, monkeypatch):
        self.digests, self.states = [], []
        before = StageRun.run_steps

        def run_steps(stage):
            self.digests.append(weights_digest(stage.trainer.model))
            self.states.append(len(stage.trainer.optimizer.state))
            before(stage)

        monkeypatch.setattr(StageRun, "run_steps", run_steps)


# ---------------------------------------------------------------- one stage


def test_a_run_with_one_stage_equals_a_run_without_stages(tiny_recipe, tmp_path):
    plain = plait.train(tiny_recipe(), tmp_path / "plain", baselines=False)
    one = plait.train({**tiny_recipe(), "stages": [{}]}, tmp_path / "one", baselines=False)
    assert result_json(plain.run)["last_weights_sha256"] == result_json(one.run)["last_weights_sha256"]
    for name in ("metrics.jsonl", "recipe.yaml", "best/manifest.json"):
        assert (plain.run / name).read_bytes() == (one.run / name).read_bytes()
    assert one.stages == ()


# ---------------------------------------------------------------- from one stage to the next


def test_the_first_stage_equals_its_own_run(staged, tmp_path):
    recipe = staged()
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    first = [{**line, "stage": 0} for line in metrics_lines(alone.run)]
    assert [line for line in metrics_lines(result.run) if line["stage"] == 0] == first
    assert result.stages[0].scores == alone.scores and result.stages[0].best_step == alone.best_step


@pytest.mark.parametrize("dev", [True, False])
def test_the_second_stage_starts_from_the_best_or_last_weights_with_a_new_optimizer(staged, tmp_path, monkeypatch, dev):
    recipe = staged(seed=2)
    if not dev:
        del recipe["tasks"]["near"]["dev"]
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    assert (alone.best_step < alone.steps) == dev, "the best model must not be the last one, or this test shows nothing"
    found = Weights(monkeypatch)
    result = plait.train(recipe, tmp_path / "run", baselines=False)

    resolved = resolve(recipe)
    model = build_start_model(resolved)
    assert found.digests[0] == weights_digest(model)
    small = load_model(alone.model, device="cpu").model
    model.encoder.load_state_dict(small.encoder.state_dict())
    model.heads["near"].load_state_dict(small.heads["near"].state_dict())
    assert found.digests[1] == weights_digest(model) and found.states == [0, 0]

    trainer = Trainer(resolved.stages[-1], model)
    steps = [planned for epoch in range(len(trainer.plan.epochs)) for planned in trainer.plan.epoch_plan(epoch)]
    losses = [trainer.step(number, planned) for number, planned in enumerate(steps)]
    assert losses == [
        line["loss"] for line in metrics_lines(result.run) if line["kind"] == "train" and line["stage"] == 1
    ]
    assert weights_digest(model) == result_json(result.run)["last_weights_sha256"]


def test_steps_are_counted_over_all_stages_and_lines_name_their_stage(staged, tmp_path):
    result = plait.train(staged(), tmp_path / "run", baselines=False)
    train = [line for line in metrics_lines(result.run) if line["kind"] == "train"]
    assert [line["step"] for line in train] == list(range(1, 19)) and result.steps == 18
    assert [line["stage"] for line in train] == 12 * [0] + 6 * [1]
    assert [line["epoch"] for line in train] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [0] * 3 + [1] * 3
    assert [stage.steps for stage in result.stages] == [12, 6]
    assert result.best_step > 12 and result.stages[0].best_step <= 12


def test_a_stage_does_not_train_heads_of_other_stages(staged, tmp_path):
    head = {"head": {"name": "difference_product"}}
    recipe = staged(second={"epochs": 1})
    recipe["tasks"]["near"] |= head
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    after = tensors(plait.train(recipe, tmp_path / "run", baselines=False).model)
    before = tensors(alone.model)
    heads = [name for name in before if name.startswith("heads.near.")]
    assert heads and all(torch.equal(before[name], after[name]) for name in heads)
    resolved = resolve(recipe)
    model = build_start_model(resolved)
    for stage, expected in zip(resolved.stages, ({"near"}, {"mood", "same"}), strict=True):
        trained = {id(p) for group in Trainer(stage, model).optimizer.param_groups for p in group["params"]}
        assert {name for name, head in model.heads.items() if {id(p) for p in head.parameters()} & trained} == expected
    assert not torch.equal(before["encoder.layer.0.output.dense.weight"], after["encoder.layer.0.output.dense.weight"])


def test_a_stage_with_a_frozen_encoder_keeps_that_of_the_stage_before(staged, tmp_path):
    recipe = staged(second={"train_encoder": False})
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    before, after = (load_file(folder / "model.safetensors") for folder in (alone.model, result.model))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_each_stage_has_its_own_batches_and_dropout(staged):
    rows = {"mood": TaskRows(np.arange(20), 4, 1.0)}
    plans = [Plan(rows, lambda batches, epochs, seed: [[("mood",)] * 5], 1, 7, stage) for stage in (0, 1)]
    first, second = (list(plan.epoch_plan(0)) for plan in plans)
    assert first != second and sorted(sum((r for s in first for _, r in s), ())) == list(range(20))
    recipe = staged(first={"tasks": ["mood"]}, second={"tasks": {"near": {}, "same": {}, "mood": {}}})
    resolved = resolve(recipe)
    model = build_start_model(resolved)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    losses = []
    for stage in resolved.stages:
        model.load_state_dict(state)
        losses.append(Trainer(stage, model).step(0, [("mood", (0, 1, 2))])["mood"])
    assert losses[0] != losses[1]


def test_patience_and_the_best_score_start_again_in_each_stage(staged, tmp_path):
    quick = {"epochs": 30, "early_stopping": 1}
    result = plait.train(staged(first=quick, second=quick, seed=3), tmp_path / "run", baselines=False)
    for number, stage in enumerate(result.stages):
        scores = [line for line in metrics_lines(result.run) if line["kind"] == "scores" and line["stage"] == number]
        means = [line["mean"] for line in scores]
        assert stage.best_score == max(means) == means[-2] >= means[-1]
        assert stage.best_step == scores[-2]["step"] and len(means) < 30


# ---------------------------------------------------------------- tasks of several stages


def test_a_head_carries_over_to_the_same_task_of_a_later_stage(staged, tmp_path, monkeypatch):
    recipe = staged(first={"tasks": ["mood"]}, second={"tasks": ["mood", "same", "near"]})
    alone = plait.train(only_first(recipe), tmp_path / "first", baselines=False)
    heads = []
    before = StageRun.run_steps

    def run_steps(stage):
        heads.append(stage.trainer.model.heads["mood"].linear.weight.detach().clone())
        before(stage)

    monkeypatch.setattr(StageRun, "run_steps", run_steps)
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert torch.equal(heads[1], load_file(alone.model / "heads.safetensors")["heads.mood.linear.weight"])
    assert not torch.equal(heads[1], load_file(result.model / "heads.safetensors")["heads.mood.linear.weight"])
    assert result.kept == ()


def test_the_classes_of_the_first_stage_apply_to_later_ones(staged, tmp_path):
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "mood.csv").write_text("text,feeling\na good film,high\na bad film,low\na dull day,low\n")
    other = {"train": str(folder / "mood.csv"), "text": "text", "label": "feeling", "dev": []}
    recipe = staged(first={"tasks": {"mood": other, "near": {}}, "epochs": 1})
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    spec = plait.load(result.model).tasks["mood"]
    assert spec.labels.classes == ("high", "low") and spec.text == ("sentence",)
    files = [file["name"] for file in open_directory(result.model).record.provenance.data["mood"]["train"]]
    assert files == ["mood-train.csv", "mood.csv"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"head": "concat"},
            r"stages\.1\.tasks\.same: .*a different head: \('difference_product\.v1'.*, here \('concat\.v1'",
        ),
        (
            {"label": {"column": "same", "kind": "classes"}},
            r"stages\.1\.tasks\.same: .*a different kind of label: yes_no",
        ),
    ],
)
def test_tasks_with_the_same_name_must_agree(staged, tmp_path, change, message):
    recipe = staged(first={"tasks": ["same", "near"]}, second={"tasks": {"mood": {}, "same": change}})
    with pytest.raises(RecipeError, match=message):
        plait.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_tasks_of_earlier_stages_are_scored_but_do_not_select_the_model(staged, tmp_path):
    result = plait.train(staged(), tmp_path / "run", baselines=False)
    scores = [line for line in metrics_lines(result.run) if line["kind"] == "scores"]
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
    record = open_directory(result.model).record
    assert list(record.tasks) == ["near", "mood", "same"]
    found = find_split(record, result.model, "dev", None)
    assert {name: len(part) for name, part in found.items()} == {"near": 24, "mood": 24, "same": 24}
    moved = shutil.copytree(result.model, tmp_path / "moved")
    assert set(find_split(record, moved, "dev", tmp_path / "data")) == {"near", "mood", "same"}
    assert plait.load(moved).predict("near", [("a dog", "a cat")])[0].score is not None
