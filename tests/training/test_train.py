"""Whole runs on the tiny encoder: what they write, what they choose, what they refuse to resume."""

import re
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import NotFiniteError, PlaitError, RecipeError, RunError
from plait.progress import SilentProgress
from plait.training import trainer
from plait.training.train import Stopped, resume
from small_runs import Recorder, metrics_lines, result_json, stop_after, trainer_for


def test_a_run_writes_all_its_files(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    files = {"recipe.yaml", "run.json", "metrics.jsonl", "baselines.json", "baselines.npz", "result.json"}
    assert names == {".lock", "best", *files}
    lines = metrics_lines(tmp_path / "run")
    assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if line["kind"] == "scores"] == [3, 6]
    assert set(result.scores) == {"mood", "same", "near"}


def test_the_learning_rate_restarts_for_each_task_of_a_sequential_schedule(tiny_recipe):
    def rates(**settings):
        trainer = trainer_for(tiny_recipe(epochs=2, lr_schedule="cosine", **settings))
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


def test_equal_seeds_give_equal_weights_and_other_seeds_do_not(tiny_recipe, tmp_path):
    digests = []
    for name, seed in (("first", 1), ("second", 1), ("third", 2)):
        plait.train(tiny_recipe(seed=seed), tmp_path / name, baselines=False)
        digests.append(result_json(tmp_path / name)["last_weights_sha256"])
    assert digests[0] == digests[1] != digests[2]


def test_training_reduces_the_loss_of_every_task(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=20, lr=1e-2, dropout=0.0, clip=None)
    recipe["tasks"]["near"]["weight"] = 0.05  # a squared error of up to 25 beside two cross-entropies
    plait.train(recipe, tmp_path / "run", baselines=False)
    lines = metrics_lines(tmp_path / "run")
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    for task in ("mood", "same", "near"):
        first, last = (sum(loss[task] for loss in part) for part in (losses[:3], losses[-3:]))
        assert last < 0.8 * first, task


def test_the_best_model_is_the_one_with_the_best_dev_score(tiny_recipe, tmp_path):
    progress = Recorder()
    result = plait.train(tiny_recipe(epochs=6, best_by="near"), tmp_path / "run", baselines=False, progress=progress)
    scores = {record["step"]: record["dev"]["near"]["pearson"] for record in progress.evaluations}
    assert scores[result.best_step] == max(scores.values()) == result.scores["near"]["pearson"]
    model = plait.load(result.model)
    rows = [line.split(",") for line in (tmp_path / "data/near-dev.csv").read_text().splitlines()[1:]]
    columns = [[row[0] for row in rows], [row[1] for row in rows]]
    predicted_n = model.predict_columns("near", columns).predictions.values
    assert np.corrcoef(predicted_n, [float(row[2]) for row in rows])[0, 1] == pytest.approx(
        max(scores.values()), abs=1e-6
    )


def test_early_stopping_with_evaluation_by_steps(tiny_recipe, tmp_path):
    progress = Recorder()
    recipe = tiny_recipe(epochs=50, lr=1e-9, evaluate_every=2, early_stopping=3)
    result = plait.train(recipe, tmp_path / "run", baselines=False, progress=progress)
    assert [record["step"] for record in progress.evaluations[:3]] == [
        2,
        3,
        4,
    ]  # every 2 steps, and at the end of an epoch
    assert result.steps < 150 and any("stopping early" in note for note in progress.notes)


def test_a_run_ends_after_the_given_steps(tiny_recipe, tmp_path):
    assert plait.train(tiny_recipe(epochs=None, steps=5), tmp_path / "run", baselines=False).steps == 5


def test_without_dev_data_the_last_model_is_the_best(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    for task in recipe["tasks"].values():
        del task["dev"]
    result = plait.train(recipe, tmp_path / "run")
    assert result.best_step == result.steps == 6 and result.scores == {}
    assert len(plait.load(result.model).tasks) == 3


def test_a_frozen_encoder_stays_unchanged(tiny_recipe, tiny_bert, tmp_path):
    result = plait.train(tiny_recipe(train_encoder=False), tmp_path / "run", baselines=False)
    before, after = (load_file(folder / "model.safetensors") for folder in (tiny_bert, result.model))
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]), name


def test_a_frozen_run_equals_one_that_encodes_every_batch(tiny_recipe, tmp_path):
    """Stored embeddings are what the encoder gives without dropout; only the order of additions differs."""
    recipe = tiny_recipe(train_encoder=False, dropout=0.0)
    stored, encoded = trainer_for(recipe), trainer_for(recipe)
    stored.store_embeddings(SilentProgress())
    for number, planned in enumerate(stored.plan.epoch_plan(0)):
        assert stored.step(number, planned) == pytest.approx(encoded.step(number, planned), abs=1e-5)


def test_changed_data_refuses_to_resume_and_shows_the_difference(tiny_recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=stop_after(3))
    path = tmp_path / "data/mood-train.csv"
    path.write_text(path.read_text() + "one more row,low\n")
    with pytest.raises(RunError, match=r"the data has changed: mood\.train\.0\.sha256") as caught:
        resume(tmp_path / "run")
    assert "mood.train.0.rows: 24 → 25" in str(caught.value)


def test_truncated_texts_are_reported(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"]["mood"]["max_length"] = 5
    progress = Recorder()
    plait.train(recipe, tmp_path / "run", baselines=False, progress=progress)
    assert any(re.fullmatch(r"mood: \d+ of 24 training inputs are truncated to 5 tokens", x) for x in progress.notes)


@pytest.mark.parametrize("pooling", ["cls", "pooler", "max", "weighted"])
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


def test_bf16_trains_close_to_float32(tiny_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "_computes_in_bf16", lambda device: True)  # emulated where it has to be
    losses = []
    for precision in ("float32", "bf16"):
        plait.train(tiny_recipe(precision=precision, epochs=1, dropout=0.0), tmp_path / precision, baselines=False)
        lines = [line for line in metrics_lines(tmp_path / precision) if line["kind"] == "train"]
        losses.append([value for line in lines for value in line["loss"].values()])
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_bf16_is_for_training_alone(tiny_recipe, monkeypatch):
    monkeypatch.setattr(trainer, "_computes_in_bf16", lambda device: True)
    model = trainer_for(tiny_recipe(precision="bf16")).model
    ids = [np.array([2, 5, 6, 3])]
    seen = []
    model.encoder.layers[0].widen.register_forward_hook(lambda module, given, output: seen.append(output.dtype))
    for training in (True, False):
        model.train(training).states(ids, [4])
    assert seen == [torch.bfloat16, torch.float32]


def test_bf16_without_hardware_is_refused(tiny_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "_computes_in_bf16", lambda device: False)
    with pytest.raises(RecipeError, match="this cpu has no instructions for bf16; use precision: auto or float32"):
        plait.train(tiny_recipe(precision="bf16"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("has_bf16", "expected"), [(True, "bf16"), (False, "float32")])
def test_auto_is_bf16_where_the_hardware_has_it(tiny_recipe, monkeypatch, has_bf16, expected):
    monkeypatch.setattr(trainer, "_computes_in_bf16", lambda device: has_bf16)
    assert trainer_for(tiny_recipe(precision="auto")).model.precision == expected
    assert trainer_for(tiny_recipe()).model.precision == "float32"


@pytest.mark.parametrize("began_with_bf16", [True, False])
def test_a_resumed_run_keeps_its_precision_where_it_can(tiny_recipe, tmp_path, monkeypatch, began_with_bf16):
    monkeypatch.setattr(trainer, "_computes_in_bf16", lambda device: began_with_bf16)
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(precision="auto"), tmp_path / "run", baselines=False, stop=stop_after(2))
    monkeypatch.setattr(trainer, "_computes_in_bf16", lambda device: not began_with_bf16)
    used, recorder = [], Recorder()
    monkeypatch.setattr(trainer.Trainer, "step", lambda self, *given: used.append(self.model.precision) or {})
    resume(tmp_path / "run", progress=recorder)
    assert set(used) == {"float32"}
    expected = ["begun in bf16, which this cpu lacks: resuming in float32"] if began_with_bf16 else []
    assert [note for note in recorder.notes if "begun" in note] == expected


def test_a_loss_that_is_not_finite_stops_the_run(tiny_recipe, tmp_path):
    with pytest.raises(NotFiniteError, match=r"step \d+: the (loss|gradient) is (inf|nan).*rows \d+"):
        plait.train(tiny_recipe(lr=1e30, clip=None, epochs=20), tmp_path / "run", baselines=False)


def test_a_changed_encoder_refuses_to_resume(tiny_recipe, tiny_bert, tmp_path):
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_bert, encoder)
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(encoder=str(encoder)), tmp_path / "run", baselines=False, stop=stop_after(2))
    config = encoder / "config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(RunError, match=r"the encoder has changed: config\.json"):
        resume(tmp_path / "run")


def test_a_run_resumes_with_moved_data(tiny_recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=stop_after(2))
    (tmp_path / "data").rename(tmp_path / "moved")
    assert resume(tmp_path / "run", data=tmp_path / "moved").steps == 6


def test_a_model_folder_named_like_a_bundled_encoder_is_used(tiny_recipe, tmp_path, monkeypatch):
    result = plait.train(tiny_recipe(epochs=1), tmp_path / "run", baselines=False)
    shutil.copytree(result.model, tmp_path / "minilm")
    monkeypatch.chdir(tmp_path)
    expected = plait.load(result.model).embed(["a dog"])
    for name in ("minilm", "./minilm"):
        assert np.array_equal(plait.load(name).embed(["a dog"]), expected)


def test_a_missing_device_is_refused(tiny_recipe, tmp_path):
    if not torch.cuda.is_available():
        for device in ("cuda", "cuda:1"):
            with pytest.raises(PlaitError, match=f"device '{device}': torch finds none"):
                plait.train(tiny_recipe(device=device), tmp_path / "run")
