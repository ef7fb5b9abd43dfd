"""`pooling: weighted`, from the recipe to the saved model and the runs that start from it."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import plait
from plait.encoder.pooling import POOLINGS
from plait.errors import ModelError, RecipeError
from plait.files import read_json, sha256_of
from plait.model.directory.load import build_model, load_model
from plait.model.ensemble_build import build_ensemble, build_soup
from plait.training.train import Stopped, resume
from small_runs import resolve, result_json, stop_after, trainer_for
from tiny import sentences

TEXTS = sentences(30, seed=3)


@pytest.fixture
def train(tiny_recipe, tmp_path):
    """Trains a model with weighted pooling."""

    def run(name: str, **keys) -> plait.Result:
        recipe = tiny_recipe(**{"pooling": "weighted", "epochs": 1, "head_lr": 1e-2, **keys})
        return plait.train(recipe, tmp_path / name, baselines=False)

    return run


def scores_of(model) -> torch.Tensor:
    return load_file(model / "heads.safetensors")["pooling.token_scores"]


def test_it_starts_as_the_mean(tiny_bert):
    weighted, mean = (build_model(tiny_bert, {}, pooling=how, normalise=False).eval() for how in ("weighted", "mean"))
    ids = [np.array([2, 5, 6, 3]), np.array([2, 7, 3]), np.array([2, 9, 8, 3])]
    with torch.inference_mode():
        found, expected = (model.states(ids, [4, 3, 4])[0] for model in (weighted, mean))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)  # float32, added in another order


def test_both_ways_to_write_it_train_the_same_model(train):
    plain, mapping = train("plain"), train("mapping", pooling={"name": "weighted"})
    assert scores_of(plain.model).abs().max() > 0
    assert torch.equal(scores_of(plain.model), scores_of(mapping.model))
    assert read_json(plain.model / "plait.json")["pooling"] == "weighted"
    assert resolve(str(plain.run / "recipe.yaml")).recipe.pooling.name == "weighted"


def test_options_that_it_does_not_have_are_refused(tiny_recipe):
    with pytest.raises(RecipeError, match=r"pooling\.weighted: unknown key 'heads'"):
        resolve(tiny_recipe(pooling={"name": "weighted", "heads": 2}))


def test_scores_learn_at_the_rate_of_the_heads_and_do_not_decay(tiny_recipe):
    trainer = trainer_for(tiny_recipe(pooling="weighted", lr=1e-3, head_lr=0.5))
    scores_D = trainer.model.encoder.token_scores
    (group,) = [
        group for group in trainer.optimizer.param_groups if any(found is scores_D for found in group["params"])
    ]
    assert (group["base_lr"], group["weight_decay"]) == (0.5, 0.0)


def test_a_frozen_encoder_keeps_the_mean(train):
    assert scores_of(train("run", train_encoder=False).model).abs().max() == 0


def test_the_saved_model_embeds_as_the_trained_one_and_the_manifest_protects_the_scores(train):
    best = train("run").model
    loaded, plain = load_model(best, device="cpu").model, load_model(best, device="cpu").model
    with torch.no_grad():
        plain.encoder.token_scores.zero_()
    ids, firsts = [np.array([2, 5, 6, 7, 3])], [5]
    with torch.inference_mode():
        prepared, own, mean = (
            model.states(ids, firsts, encoder)[0]
            for model, encoder in ((loaded, loaded.prepared()), (loaded, None), (plain, None))
        )
    torch.testing.assert_close(prepared, own, rtol=0, atol=1e-5)
    assert (own - mean).abs().max() > 1e-4
    tensors = load_file(best / "heads.safetensors")
    save_file({**tensors, "pooling.token_scores": tensors["pooling.token_scores"] + 1}, best / "heads.safetensors")
    with pytest.raises(ModelError, match=r"heads\.safetensors: modified after the model was saved"):
        plait.load(best)


def test_a_model_without_its_scores_is_refused(train):
    best = train("run").model
    tensors = load_file(best / "heads.safetensors")
    del tensors["pooling.token_scores"]
    save_file(tensors, best / "heads.safetensors")
    manifest = best / "manifest.json"
    old = next(sha for name, sha in read_json(manifest)["sha256"].items() if name == "heads.safetensors")
    manifest.write_text(manifest.read_text().replace(old, sha256_of(best / "heads.safetensors")))
    with pytest.raises(ModelError, match=r"heads.safetensors: no pooling.token_scores of shape \[16\]"):
        plait.load(best)


def test_an_interrupted_run_ends_with_equal_weights(tiny_recipe, tmp_path):
    recipe = tiny_recipe(pooling="weighted", epochs=2, checkpoint_every=1, dropout=0.3)
    plait.train(recipe, tmp_path / "uninterrupted", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "resumed", baselines=False, stop=stop_after(3))
    resume(tmp_path / "resumed")
    expected, found = (result_json(tmp_path / run) for run in ("uninterrupted", "resumed"))
    assert found["last_weights_sha256"] == expected["last_weights_sha256"]


def test_a_warm_start_continues_with_the_scores(train, tmp_path, tiny_recipe):
    first = train("first").model
    second = train("second", encoder=str(first), pooling="weighted", train_encoder=False).model
    assert torch.equal(scores_of(second), scores_of(first))
    third = train("third", encoder=str(first), steps=1, epochs=None, lr=1e-9, head_lr=1e-9).model
    torch.testing.assert_close(scores_of(third), scores_of(first), rtol=0, atol=1e-6)
    with pytest.raises(RecipeError, match="pooling: the model uses weighted pooling, and its heads rely on it"):
        train("fourth", encoder=str(first), pooling="mean")


def test_soups_average_the_scores_and_ensembles_keep_them(train, tmp_path):
    models = [train(str(seed), seed=seed).model for seed in (1, 2)]
    build_soup([str(model) for model in models], tmp_path / "soup")
    mean_D = (scores_of(models[0]) + scores_of(models[1])) / 2
    torch.testing.assert_close(scores_of(tmp_path / "soup"), mean_D, rtol=0, atol=1e-7)
    build_ensemble([str(model) for model in models], tmp_path / "both")
    for number, model in enumerate(models, 1):
        assert torch.equal(scores_of(tmp_path / f"both/members/{number}"), scores_of(model))
    assert plait.load(tmp_path / "both").embed(TEXTS).shape == (30, 32)


def test_only_weighted_pooling_has_scores(tiny_bert):
    for how, pooling in POOLINGS.items():
        encoder = build_model(tiny_bert, {}, pooling=how, normalise=False).encoder
        assert (encoder.token_scores is not None) == pooling.scored == (how == "weighted")
