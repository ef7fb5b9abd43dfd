"""The best models of a run are kept beside the very best one; after a kill, the same ones."""

import json
import shutil
from pathlib import Path

import pytest

import plait
from plait.errors import RunError
from plait.model.directory.record import open_directory
from plait.runs.best_models import RankedModel, rank_models, update_best_models
from plait.runs.directory import RunDirectory
from plait.runs.origins import find_split
from plait.training import stage
from plait.training.train import Stopped, resume
from small_runs import metrics_lines, result_json, stop_after


def ranked(*scores: float | None) -> list[RankedModel]:
    return [RankedModel(f"epoch{place + 1}", 3 * place + 3, score) for place, score in enumerate(scores)]


def test_higher_scores_come_first_then_earlier_steps():
    nan = float("nan")
    order = [model.name for model in rank_models(ranked(0.5, nan, 0.7, 0.7, -0.1))]
    assert order == ["epoch3", "epoch4", "epoch1", "epoch5", "epoch2"]


def test_without_scores_later_models_come_first():
    assert [model.name for model in rank_models(ranked(None, None, None))] == ["epoch3", "epoch2", "epoch1"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_the_best_models_stay(tmp_path):
    kept: list[RankedModel] = []
    for new in ranked(0.2, 0.5, 0.1, 0.4):
        kept = update_best_models(tmp_path, kept, new, 2, lambda folder: folder.mkdir())
        assert names(tmp_path) == sorted(model.name for model in kept)
    assert [model.name for model in kept] == ["epoch2", "epoch4"]


def test_a_model_deleted_before_a_kill_does_not_come_back(tmp_path):
    """Killed after epoch 3 replaced epoch 1; the run resumes from a checkpoint that still names epoch 1."""
    first, second, third = ranked(0.2, 0.5, 0.4)
    for name in ("epoch2", "epoch3"):
        (tmp_path / name).mkdir()
    saved = []

    def save(folder: Path) -> None:
        saved.append(folder.name)

    assert update_best_models(tmp_path, [second, first], third, 2, save) == [second, third]
    assert saved == ["epoch3"] and names(tmp_path) == ["epoch2", "epoch3"]


def test_a_run_keeps_its_best_models(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(epochs=5), tmp_path / "run", baselines=False, keep=2)
    lines = metrics_lines(tmp_path / "run")
    means = {line["epoch"] + 1: line["mean"] for line in lines if line["kind"] == "scores"}
    best = sorted(means, key=lambda epoch: (-means[epoch], epoch))[:2]
    assert [folder.name for folder in result.kept_models] == [f"epoch{epoch}" for epoch in best]
    assert names(tmp_path / "run/kept") == sorted(folder.name for folder in result.kept_models)
    assert result_json(tmp_path / "run")["kept"] == [
        {"name": f"epoch{epoch}", "step": 3 * epoch, "score": means[epoch]} for epoch in best
    ]
    assert RunDirectory(tmp_path / "run").record.keep == 2
    for folder in result.kept_models:
        record = open_directory(folder).record
        scores = [record.provenance.scores[task][metric] for task, metric in record.metrics.items()]
        assert sum(scores) / 3 == pytest.approx(means[record.provenance.step // 3])
    assert (result.kept_models[0] / "heads.safetensors").read_bytes() == (
        result.model / "heads.safetensors"
    ).read_bytes()


def test_models_within_an_epoch_are_named_after_their_step(tiny_recipe, tmp_path):
    plait.train(tiny_recipe(epochs=1, evaluate_every=2), tmp_path / "run", baselines=False, keep=9)
    assert names(tmp_path / "run/kept") == ["epoch1", "step2"]


def test_best_by_decides_which_models_are_kept(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(epochs=4, best_by="near"), tmp_path / "run", baselines=False, keep=3)
    scores = [open_directory(folder).record.provenance.scores["near"]["pearson"] for folder in result.kept_models]
    assert scores == sorted(scores, reverse=True) and len(scores) == 3


def test_without_dev_data_the_last_models_are_kept(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=4)
    for task in recipe["tasks"].values():
        del task["dev"]
    plait.train(recipe, tmp_path / "run", baselines=False, keep=2)
    assert names(tmp_path / "run/kept") == ["epoch3", "epoch4"]


def test_a_kept_model_finds_the_data_of_its_run(tiny_recipe, tmp_path):
    (kept,) = plait.train(tiny_recipe(epochs=1), tmp_path / "run", baselines=False, keep=1).kept_models
    found = find_split(open_directory(kept).record, kept, "dev", None)
    assert {task: len(part) for task, part in found.items()} == {"mood": 24, "same": 24, "near": 24}


@pytest.mark.parametrize("evaluations", range(1, 6))
def test_a_run_killed_after_any_evaluation_keeps_the_same_models(tiny_recipe, tmp_path, monkeypatch, evaluations):
    """The kill comes after the models were saved and removed, and before the next checkpoint."""
    recipe = tiny_recipe(epochs=5, checkpoint_every=4)
    whole = plait.train(recipe, tmp_path / "whole", baselines=False, keep=2)
    before, done = stage.StageRun.evaluate, []

    def evaluate(self, name):
        before(self, name)
        done.append(name)
        if len(done) == evaluations:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stage.StageRun, "evaluate", evaluate)
        plait.train(recipe, tmp_path / "resumed", baselines=False, keep=2)
    resumed = resume(tmp_path / "resumed")
    assert [folder.name for folder in resumed.kept_models] == [folder.name for folder in whole.kept_models]
    assert names(tmp_path / "resumed/kept") == names(tmp_path / "whole/kept")
    for folder in whole.kept_models:
        for name in ("manifest.json", "model.safetensors"):
            assert (tmp_path / "resumed/kept" / folder.name / name).read_bytes() == (folder / name).read_bytes()


def test_a_run_from_before_models_were_kept_resumes(tiny_recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=stop_after(4))
    facts = json.loads((tmp_path / "run/run.json").read_text())
    for key in ("keep", "digests", "sha256"):
        del facts[key]
    (tmp_path / "run/run.json").write_text(json.dumps(facts))
    (checkpoint,) = (tmp_path / "run/checkpoints").iterdir()
    position = json.loads((checkpoint / "position.json").read_text())
    del position["kept"], position["metrics"]
    (checkpoint / "manifest.json").unlink()
    (checkpoint / "position.json").write_text(json.dumps(position))
    assert resume(tmp_path / "run").kept_models == () and not (tmp_path / "run/kept").exists()


def test_a_model_that_a_kill_left_half_deleted_is_removed(tiny_recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, keep=1, stop=stop_after(4))
    shutil.copytree(tmp_path / "run/kept/epoch1", tmp_path / "run/kept/.epoch0.123.old")
    (folder,) = resume(tmp_path / "run").kept_models
    assert names(tmp_path / "run/kept") == [folder.name]


def test_a_negative_number_of_models_is_refused(tiny_recipe, tmp_path):
    with pytest.raises(RunError, match="the argument `keep`: expected a number of models, found -1"):
        plait.train(tiny_recipe(), tmp_path / "run", keep=-1)
