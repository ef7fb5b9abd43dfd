"""Runs with several stages: what they save, refuse and report."""

import re
import shutil

import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import NotFiniteError, RecipeError, RunError
from plait.model.directory.load import load_weights
from plait.model.directory.record import open_directory
from plait.recipe.read import read_recipe
from plait.resolve.run import resolve_run
from plait.resolve.variants import VARIANTS
from plait.runs.directory import RunDirectory
from plait.training.train import Stopped, resume
from plait.training.trainer import build_start_model
from small_runs import Recorder, metrics_lines, resolve, result_json, stop_after, weights_digest


def tensors(folder) -> dict[str, torch.Tensor]:
    return {**load_file(folder / "model.safetensors"), **load_file(folder / "heads.safetensors")}


def test_the_recipe_of_a_run_is_complete_and_reads_back_equal(staged, tmp_path):
    result = plait.train(staged(epochs=1), tmp_path / "run", baselines=False)
    resolved = resolve(staged(epochs=1))
    again = read_recipe(result.run / "recipe.yaml", VARIANTS)
    assert again == resolved.recipe == resolve_run(again).recipe
    saved = RunDirectory(result.run).record.recipe
    assert saved == again.model_dump(mode="json") and "tasks" not in saved
    assert [list(stage["tasks"]) for stage in saved["stages"]] == [["near"], ["mood", "same"]]
    portable = open_directory(result.model).record.provenance.recipe
    assert portable["stages"][0]["tasks"]["near"]["train"] == ["near-train.csv"]


def test_baselines_are_measured_for_the_last_stage_only(staged, tmp_path):
    result = plait.train(staged(epochs=1), tmp_path / "run")
    assert {task for scores in result.baselines["dev"].values() for task in scores} == {"mood", "same"}


def test_models_of_earlier_stages_are_not_kept(staged, tmp_path):
    with pytest.raises(Stopped):
        plait.train(staged(), tmp_path / "run", baselines=False, keep=5, stop=stop_after(6))
    assert (tmp_path / "run/best").is_dir() and not (tmp_path / "run/kept").exists()


def test_models_of_the_last_stage_are_kept(staged, tmp_path):
    result = plait.train(staged(first={"epochs": 2}), tmp_path / "run", baselines=False, keep=5)
    assert sorted(path.name for path in (tmp_path / "run/kept").iterdir()) == ["epoch1", "epoch2"]
    assert all(open_directory(folder).record.provenance.step > 6 for folder in result.kept_models)


def test_each_task_of_the_last_stage_is_trained_alone_after_the_earlier_stages(staged, tmp_path):
    recipe = staged(epochs=1)
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    assert list(result.single_task) == ["mood", "same"]
    own = {**recipe, "tasks": {name: recipe["tasks"][name] for name in ("near", "mood")}}
    own["stages"] = [recipe["stages"][0], {"tasks": ["mood"]}]
    mood = plait.train(own, tmp_path / "mood", baselines=False)
    assert (
        result_json(mood.run)["last_weights_sha256"]
        == result_json(tmp_path / "run/single_task/mood")["last_weights_sha256"]
    )
    assert result.single_task["mood"] == mood.scores["mood"]["accuracy"]


def test_a_stage_with_nothing_to_train_is_refused_before_the_run_begins(staged, tmp_path):
    recipe = staged(first={"tasks": ["mood", "same"]}, second={"tasks": ["near"], "train_encoder": False})
    with pytest.raises(RecipeError, match=r"^stages\.1\.train_encoder: the encoder is frozen and no head has weights"):
        plait.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_mistakes_in_the_data_of_all_stages_are_reported_together(staged, tmp_path):
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


def test_a_run_with_changed_data_of_an_earlier_stage_is_refused(staged, tmp_path):
    recipe = staged(first={"tasks": {"mood": {"dev": str(tmp_path / "dev.csv")}, "near": {}}})
    shutil.copy(tmp_path / "data/mood-train.csv", tmp_path / "dev.csv")
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=stop_after(14))
    shutil.copy(tmp_path / "data/mood-dev.csv", tmp_path / "dev.csv")
    with pytest.raises(RunError, match=r"the data has changed: stages\.0\.mood\.dev\.0\.sha256"):
        resume(tmp_path / "run")


def test_tables_in_a_stage_become_files_of_the_run(staged, tmp_path):
    table = [{"words": f"a {word} day", "kind": kind} for word, kind in [("good", "x"), ("bad", "y")] * 6]
    task = {"train": table, "text": "words", "label": "kind"}
    recipe = staged(first={"tasks": {"near": {}, "mood": {**task, "dev": table[:4]}}, "epochs": 1}, epochs=1)
    recipe["stages"][1]["tasks"] = {"other": {**task, "dev": table}, "same": {}}
    recipe["tasks"].pop("mood")
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    names = sorted(path.name for path in (tmp_path / "run/tables").iterdir())
    assert names == ["1.mood-dev.jsonl", "1.mood-train.jsonl", "2.other-dev.jsonl", "2.other-train.jsonl"]
    assert set(result.scores) == {"near", "mood", "other", "same"}
    recipe["stages"][0]["tasks"]["mood"] = {**task, "dev": object()}
    with pytest.raises(plait.PlaitError, match=r"stages\.0\.tasks\.mood\.dev: expected a file, a data frame or a list"):
        plait.train(recipe, tmp_path / "second")


def test_progress_is_reported_by_stage(staged, tmp_path):
    progress = Recorder()
    with pytest.raises(Stopped, match="stopped after step 14"):
        plait.train(staged(), tmp_path / "run", baselines=False, progress=progress, stop=stop_after(14))
    assert progress.parts == [("training, stage 1 of 2", 12, 0), ("training, stage 2 of 2", 6, 0)]
    assert "stage 2 of 2 starts from the best model of the previous stage" in progress.notes
    assert [record["stage"] for record in progress.evaluations] == [0, 0, 0, 0]
    progress = Recorder()
    resume(tmp_path / "run", progress=progress)
    assert progress.parts == [("training, stage 2 of 2", 6, 2)]
    assert "resuming after step 2 of 6 in stage 2 of 2" in progress.notes


def test_a_stage_after_one_without_dev_data_starts_from_its_last_model(staged, tmp_path):
    progress = Recorder()
    first = {"tasks": {"near": {"dev": []}}, "epochs": 1}
    plait.train(staged(first=first, epochs=1), tmp_path / "run", baselines=False, progress=progress)
    assert "stage 2 of 2 starts from the last model of the previous stage" in progress.notes


def test_dev_texts_that_an_earlier_stage_trains_on_are_reported(staged, tmp_path):
    progress = Recorder()
    leak = {"tasks": {"mood": {"train": str(tmp_path / "data/mood-dev.csv"), "dev": []}, "near": {}}, "epochs": 1}
    plait.train(staged(first=leak, epochs=1), tmp_path / "run", baselines=False, progress=progress)
    (note,) = [note for note in progress.notes if note.startswith("mood and mood (stage 2) share")]
    assert re.search(r"\d+ of which one trains on and the other holds out", note)


# ---------------------------------------------------------------- warm start


def test_a_warm_start_with_stages(tiny_recipe, staged, tmp_path):
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
    scores = [line for line in metrics_lines(result.run) if line["kind"] == "scores"]
    assert [set(line["kept"]) for line in scores] == [{"mood", "same"}, {"near", "same"}]
    assert RunDirectory(result.run).record.kept.keys() == {"same"}


def test_weights_loaded_from_a_model_directory_are_equal_bit_by_bit(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, shared_layer="tanh", pooling="cls")
    recipe["tasks"].pop("near")
    for task in recipe["tasks"].values():
        del task["dev"]  # so that the last model is saved
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    model = build_start_model(resolve(recipe))
    last = result_json(result.run)["last_weights_sha256"]
    assert weights_digest(model) != last
    load_weights(model, result.model)
    assert weights_digest(model) == last
