"""The best models of a run are kept beside the best one, the same ones after a kill."""

import json
import shutil
from pathlib import Path

import pytest

import plait
from plait.errors import RunError
from plait.evaluation.find import find_split
from plait.model.about import read_about
from plait.model.load import load_model
from plait.training import loop
from plait.training.keep import Standing, best_first, keep_best
from plait.training.loop import Stopped, resume


def standings(*scores: float | None) -> list[Standing]:
    return [Standing(f"epoch{place + 1}", 3 * place + 3, score) for place, score in enumerate(scores)]


def test_the_higher_score_comes_first_and_of_equal_ones_the_earlier():
    nan = float("nan")
    order = [standing.name for standing in best_first(standings(0.5, nan, 0.7, 0.7, -0.1))]
    assert order == ["epoch3", "epoch4", "epoch1", "epoch5", "epoch2"]


def test_without_scores_the_later_comes_first():
    assert [standing.name for standing in best_first(standings(None, None, None))] == ["epoch3", "epoch2", "epoch1"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_the_best_stay(tmp_path):
    kept: list[Standing] = []
    for new in standings(0.2, 0.5, 0.1, 0.4):
        kept = keep_best(tmp_path, kept, new, 2, lambda folder: folder.mkdir())
        assert names(tmp_path) == sorted(standing.name for standing in kept)
    assert [standing.name for standing in kept] == ["epoch2", "epoch4"]


def test_a_model_that_had_to_go_before_a_kill_does_not_come_back(tmp_path):
    """Killed after epoch 3 pushed out epoch 1; the run goes on from a checkpoint that still names epoch 1."""
    first, second, third = standings(0.2, 0.5, 0.4)
    for name in ("epoch2", "epoch3"):
        (tmp_path / name).mkdir()
    saved = []

    def save(folder: Path) -> None:
        saved.append(folder.name)

    assert keep_best(tmp_path, [second, first], third, 2, save) == [second, third]
    assert saved == ["epoch3"] and names(tmp_path) == ["epoch2", "epoch3"]


def test_a_run_keeps_its_best_models(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(epochs=5), tmp_path / "run", baselines=False, keep=2)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    means = {line["epoch"] + 1: line["mean"] for line in lines if line["kind"] == "scores"}
    best = sorted(means, key=lambda epoch: (-means[epoch], epoch))[:2]
    assert [folder.name for folder in result.kept_models] == [f"epoch{epoch}" for epoch in best]
    assert names(tmp_path / "run/kept") == sorted(folder.name for folder in result.kept_models)
    told = json.loads((tmp_path / "run/result.json").read_text())["kept"]
    assert told == [{"name": f"epoch{epoch}", "step": 3 * epoch, "score": means[epoch]} for epoch in best]
    assert json.loads((tmp_path / "run/run.json").read_text())["keep"] == 2
    for folder in result.kept_models:
        about = read_about(folder)
        assert sum(v[m["metric"]] for m in about["tasks"] for v in [about["scores"][m["name"]]]) / 3 == pytest.approx(
            means[about["step"] // 3]
        )
    assert (result.kept_models[0] / "heads.safetensors").read_bytes() == (
        result.model / "heads.safetensors"
    ).read_bytes()


def test_models_inside_an_epoch_are_named_by_their_step(tiny_recipe, tmp_path):
    plait.train(tiny_recipe(epochs=1, evaluate_every=2), tmp_path / "run", baselines=False, keep=9)
    assert names(tmp_path / "run/kept") == ["epoch1", "step2"]


def test_best_by_one_task_chooses_what_is_kept(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(epochs=4, best_by="near"), tmp_path / "run", baselines=False, keep=3)
    scores = [read_about(folder)["scores"]["near"]["pearson"] for folder in result.kept_models]
    assert scores == sorted(scores, reverse=True) and len(scores) == 3


def test_without_dev_data_the_last_models_are_kept(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=4)
    for task in recipe["tasks"].values():
        del task["dev"]
    plait.train(recipe, tmp_path / "run", baselines=False, keep=2)
    assert names(tmp_path / "run/kept") == ["epoch3", "epoch4"]


def test_a_kept_model_finds_the_data_of_its_run(tiny_recipe, tmp_path):
    (kept,) = plait.train(tiny_recipe(epochs=1), tmp_path / "run", baselines=False, keep=1).kept_models
    found = find_split(load_model(kept, device="cpu"), kept, read_about(kept), "dev", None)
    assert {task: len(part) for task, part in found.items()} == {"mood": 24, "same": 24, "near": 24}


@pytest.mark.parametrize("evaluations", range(1, 6))
def test_a_run_killed_after_any_evaluation_keeps_the_same_models(tiny_recipe, tmp_path, monkeypatch, evaluations):
    """The kill comes after the models were saved and removed, and before the next checkpoint."""
    recipe = tiny_recipe(epochs=5, checkpoint_every=4)
    whole = plait.train(recipe, tmp_path / "whole", baselines=False, keep=2)
    before, done = loop.Loop.evaluate, []

    def evaluate(self, name):
        before(self, name)
        done.append(name)
        if len(done) == evaluations:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop.Loop, "evaluate", evaluate)
        plait.train(recipe, tmp_path / "broken", baselines=False, keep=2)
    mended = resume(tmp_path / "broken")
    assert [folder.name for folder in mended.kept_models] == [folder.name for folder in whole.kept_models]
    assert names(tmp_path / "broken/kept") == names(tmp_path / "whole/kept")
    for folder in whole.kept_models:
        for name in ("manifest.json", "model.safetensors"):
            assert (tmp_path / "broken/kept" / folder.name / name).read_bytes() == (folder / name).read_bytes()


def test_a_run_of_before_goes_on_without_keeping(tiny_recipe, tmp_path):
    stops = iter([False, False, False, True])
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=lambda: next(stops))
    facts = json.loads((tmp_path / "run/run.json").read_text())
    del facts["keep"]
    (tmp_path / "run/run.json").write_text(json.dumps(facts))
    (checkpoint,) = (tmp_path / "run/checkpoints").iterdir()
    position = json.loads((checkpoint / "position.json").read_text())
    del position["kept"]
    (checkpoint / "position.json").write_text(json.dumps(position))
    assert resume(tmp_path / "run").kept_models == () and not (tmp_path / "run/kept").exists()


def test_what_a_kill_left_half_removed_is_taken_away(tiny_recipe, tmp_path):
    stops = iter([False, False, False, True])
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, keep=1, stop=lambda: next(stops))
    shutil.copytree(tmp_path / "run/kept/epoch1", tmp_path / "run/kept/.epoch0.123.old")
    (folder,) = resume(tmp_path / "run").kept_models
    assert names(tmp_path / "run/kept") == [folder.name]


def test_fewer_than_none_is_refused(tiny_recipe, tmp_path):
    with pytest.raises(RunError, match="keep: expected how many models to keep, found -1"):
        plait.train(tiny_recipe(), tmp_path / "run", keep=-1)
