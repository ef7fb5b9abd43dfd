"""A whole run on a tiny encoder."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import NotFiniteError, PlaitError, RunError
from plait.model.watch import Silent
from plait.training.loop import Stopped, as_recipe, resume
from plait.training.run import Run
from plait.training.settle import settle_recipe
from plait.training.trainer import Trainer


def test_a_run_writes_everything_it_promises(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {".lock", "recipe.yaml", "run.json", "metrics.jsonl", "baselines.json", "best", "result.json"}
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if line["kind"] == "scores"] == [3, 6]
    assert set(result.scores) == {"mood", "same", "near"}


class Notes(Silent):
    """Remembers what a run says."""

    def __init__(self):
        self.notes = []
        self.evaluations = []

    def note(self, message):
        self.notes.append(message)

    def scores(self, record):
        self.evaluations.append(record)


def test_one_task_after_the_other_has_a_learning_rate_that_runs_anew_for_each(tiny_recipe):
    def rates(**settings):
        trainer = Trainer(
            settle_recipe(as_recipe(tiny_recipe(epochs=2, lr_schedule="cosine", **settings), None, None, ()))
        )
        steps = [step for epoch in range(len(trainer.plan.epochs)) for step in trainer.plan.epoch_plan(epoch)]
        found = []
        for number, step in enumerate(steps):
            trainer.step(number, step)
            found.append(trainer.optimizer.param_groups[0]["lr"])
        return found

    together = rates(schedule="round_robin")
    assert together == sorted(together, reverse=True)
    apart = rates(schedule="sequential")
    assert [rate for rate in apart if rate == apart[0]] == [apart[0]] * 3 and min(apart) > 0


def test_the_same_recipe_gives_the_same_bits_and_another_seed_others(tiny_recipe, tmp_path):
    digests = []
    for name, seed in (("first", 1), ("second", 1), ("third", 2)):
        plait.train(tiny_recipe(seed=seed), tmp_path / name, baselines=False)
        digests.append(json.loads((tmp_path / name / "result.json").read_text())["last_weights_sha256"])
    assert digests[0] == digests[1] != digests[2]


def test_training_learns(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=20, lr=1e-2, dropout=0.0, clip=None)
    recipe["tasks"]["near"]["weight"] = 0.05  # a squared error of up to 25 beside two cross-entropies
    plait.train(recipe, tmp_path / "run", baselines=False)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    for task in ("mood", "same", "near"):
        first, last = (sum(loss[task] for loss in part) for part in (losses[:3], losses[-3:]))
        assert last < 0.8 * first, task


def test_the_best_model_is_the_one_with_the_best_dev_score(tiny_recipe, tmp_path):
    watcher = Notes()
    result = plait.train(tiny_recipe(epochs=6, best_by="near"), tmp_path / "run", baselines=False, watcher=watcher)
    scores = {record["step"]: record["dev"]["near"]["pearson"] for record in watcher.evaluations}
    assert scores[result.best_step] == max(scores.values()) == result.scores["near"]["pearson"]
    model = plait.load(result.model)
    rows = [line.split(",") for line in (tmp_path / "data/near-dev.csv").read_text().splitlines()[1:]]
    predicted = [prediction.score for prediction in model.predict("near", [(row[0], row[1]) for row in rows])]
    assert np.corrcoef(predicted, [float(row[2]) for row in rows])[0, 1] == pytest.approx(
        max(scores.values()), abs=1e-6
    )


def test_early_stopping_and_evaluation_by_steps(tiny_recipe, tmp_path):
    watcher = Notes()
    recipe = tiny_recipe(epochs=50, lr=1e-9, evaluate_every=2, early_stopping=3)
    result = plait.train(recipe, tmp_path / "run", baselines=False, watcher=watcher)
    assert [record["step"] for record in watcher.evaluations[:3]] == [2, 3, 4]  # every 2 steps, and at the epoch's end
    assert result.steps < 150 and any("stopping early" in note for note in watcher.notes)


def test_a_run_by_steps_ends_there(tiny_recipe, tmp_path):
    assert plait.train(tiny_recipe(epochs=None, steps=5), tmp_path / "run", baselines=False).steps == 5


def test_without_dev_data_the_last_weights_are_kept(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    for task in recipe["tasks"].values():
        del task["dev"]
    result = plait.train(recipe, tmp_path / "run")
    assert result.best_step == result.steps == 6 and result.scores == {}
    assert len(plait.load(result.model).tasks) == 3


def test_a_frozen_encoder_stays_as_it_was(tiny_recipe, tiny_bert, tmp_path):
    result = plait.train(tiny_recipe(train_encoder=False), tmp_path / "run", baselines=False)
    before, after = (load_file(folder / "model.safetensors") for folder in (tiny_bert, result.model))
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]), name


def test_a_frozen_run_equals_one_that_encodes_every_batch(tiny_recipe, tmp_path):
    """Stored embeddings are what the encoder gives without dropout; only the order of additions differs."""
    recipe = tiny_recipe(train_encoder=False, dropout=0.0)
    settled = settle_recipe(as_recipe(recipe, None, None, ()))
    stored, encoded = Trainer(settled), Trainer(settled)
    stored.store_embeddings(Silent())
    for number, planned in enumerate(stored.plan.epoch_plan(0)):
        assert stored.step(number, planned) == pytest.approx(encoded.step(number, planned), abs=1e-5)


def test_changed_data_refuses_to_resume_and_shows_the_difference(tiny_recipe, tmp_path):
    stops = iter([False, False, True])
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=lambda: next(stops))
    path = tmp_path / "data/mood-train.csv"
    path.write_text(path.read_text() + "one more row,low\n")
    with pytest.raises(RunError, match=r"the data was changed: mood\.train\.0\.sha256") as caught:
        resume(tmp_path / "run")
    assert "mood.train.0.rows: 24 → 25" in str(caught.value)


def test_texts_that_are_cut_are_told(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"]["mood"]["max_length"] = 5
    watcher = Notes()
    plait.train(recipe, tmp_path / "run", baselines=False, watcher=watcher)
    assert any(note.startswith("mood: ") and note.endswith("are cut at 5 tokens") for note in watcher.notes)


@pytest.mark.parametrize("pooling", ["cls", "pooler", "max"])
@pytest.mark.parametrize("shared_layer", [None, {"name": "tanh", "dropout": 0.2}])
def test_every_head_trains_saves_and_loads(tiny_recipe, tmp_path, pooling, shared_layer):
    recipe = tiny_recipe(pooling=pooling, shared_layer=shared_layer, epochs=1, normalise=True)
    pair = recipe["tasks"]["same"]
    near = "concat" if shared_layer else "cosine"
    recipe["tasks"]["near"]["head"] = near
    for head in ("concat", "joined", "joined_both", "difference"):
        recipe["tasks"][head] = {**pair, "head": head, "class_weights": "balanced", "label_smoothing": 0.1}
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    model = plait.load(result.model)
    assert np.linalg.norm(model.embed(["the dog ran"]), axis=1) == pytest.approx(1, abs=1e-6)
    again = plait.load(result.model).predict("joined_both", [("a dog", "a cat")])
    assert model.predict("joined_both", [("a dog", "a cat")]) == again
    for task, values in result.scores.items():
        assert values, task


def test_bfloat16_trains(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(precision="bfloat16"), tmp_path / "run", baselines=False)
    assert all(np.isfinite(list(values.values())).all() for values in result.scores.values())


def test_a_loss_that_is_not_finite_stops_the_run(tiny_recipe, tmp_path):
    with pytest.raises(NotFiniteError, match=r"step \d+: the (loss|gradient) is (inf|nan).*rows \d+"):
        plait.train(tiny_recipe(lr=1e30, clip=None, epochs=20), tmp_path / "run", baselines=False)


def test_a_changed_encoder_refuses_to_resume(tiny_recipe, tiny_bert, tmp_path):
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_bert, encoder)
    stops = iter([False, True])
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(encoder=str(encoder)), tmp_path / "run", baselines=False, stop=lambda: next(stops))
    config = encoder / "config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(RunError, match=r"the encoder was changed: config\.json"):
        resume(tmp_path / "run")


def test_a_run_goes_on_with_data_that_moved(tiny_recipe, tmp_path):
    stops = iter([False, True])
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=lambda: next(stops))
    (tmp_path / "data").rename(tmp_path / "moved")
    assert resume(tmp_path / "run", data=tmp_path / "moved").steps == 6


def test_what_is_refused_leaves_no_run_behind(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["mood"]["max_length"] = 2
    with pytest.raises(PlaitError, match=r"tasks\.mood\.max_length: expected 3 to 42 tokens for this encoder, found 2"):
        plait.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["empty", "link", "here"])
def test_a_run_may_fill_an_empty_folder(tiny_recipe, tmp_path, monkeypatch, kind):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    monkeypatch.chdir(tmp_path / "empty")
    result = plait.train(tiny_recipe(epochs=1), "." if kind == "here" else tmp_path / kind, baselines=False)
    assert (tmp_path / "empty/best/plait.json").is_file() and (tmp_path / "link").is_symlink()
    assert result.steps == 3


def test_a_folder_with_other_things_is_refused(tiny_recipe, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"is not empty, it has thesis\.tex"):
        plait.train(tiny_recipe(), tmp_path / "full")


def test_two_processes_cannot_train_one_run(tiny_recipe, tmp_path):
    stops = iter([False, True])
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=lambda: next(stops))
    with Run(tmp_path / "run").locked(), pytest.raises(RunError, match="another process is training this run"):
        resume(tmp_path / "run")


def test_a_model_in_a_folder_named_like_a_bundled_encoder_is_itself(tiny_recipe, tmp_path, monkeypatch):
    result = plait.train(tiny_recipe(epochs=1), tmp_path / "run", baselines=False)
    shutil.copytree(result.model, tmp_path / "minilm")
    monkeypatch.chdir(tmp_path)
    expected = plait.load(result.model).embed(["a dog"])
    for name in ("minilm", "./minilm"):
        assert np.array_equal(plait.load(name).embed(["a dog"]), expected)


def test_a_device_that_is_not_there_is_refused(tiny_recipe, tmp_path):
    if not torch.cuda.is_available():
        with pytest.raises(PlaitError, match="device 'cuda': this torch finds none"):
            plait.train(tiny_recipe(device="cuda"), tmp_path / "run")
