"""The versions of the variants that a recipe names."""

import json

import pytest

import plait
from plait.heads import HEADS
from plait.losses import LOSSES
from plait.resolve.variants import VARIANTS, pin_versions, shorten_versions, variant_versions
from plait.runs.directory import RunDirectory
from plait.training.given_recipe import as_recipe
from plait.training.train import Stopped, resume
from small_runs import resolve, result_json, stop_after
from versions import add_newer_linear


def head_of(recipe, task: str = "mood") -> str:
    return recipe.tasks[task].head.name


def test_every_variant_that_a_recipe_uses_is_recorded_with_its_version(tiny_recipe):
    assert variant_versions(resolve(tiny_recipe()).recipe) == {
        "schedule together": "together.v1",
        "head linear": "linear.v1",
        "loss cross_entropy": "cross_entropy.v1",
        "metric accuracy": "accuracy.v1",
        "head difference_product": "difference_product.v1",
        "loss binary_cross_entropy": "binary_cross_entropy.v1",
        "head cosine": "cosine.v1",
        "loss mse": "mse.v1",
        "metric pearson": "pearson.v1",
    }


def test_versions_of_all_stages_are_recorded(tiny_recipe):
    stages = [{"tasks": ["near"], "schedule": "alternate"}, {"tasks": ["mood", "same"]}]
    found = variant_versions(resolve(tiny_recipe(stages=stages)).recipe)
    assert {"schedule alternate", "schedule together", "head cosine", "head linear"} <= found.keys()


def test_pinning_the_current_versions_changes_nothing(tiny_recipe):  # identity
    recipe = resolve(tiny_recipe()).recipe
    assert pin_versions(recipe, variant_versions(recipe)) == recipe
    assert pin_versions(recipe, {}) == recipe


def test_a_bare_name_is_pinned_to_the_recorded_version(tiny_recipe, newer_linear):
    recipe = resolve(tiny_recipe()).recipe
    assert variant_versions(recipe)["head linear"] == "linear.v2"
    assert head_of(pin_versions(recipe, {"head linear": "linear.v1"})) == "linear.v1"
    assert head_of(pin_versions(recipe, {"head linear": "linear.v2"})) == "linear"
    assert head_of(pin_versions(recipe, {})) == "linear.v1"  # a run of plait 0.1 recorded no versions


def test_a_version_in_the_recipe_is_kept(tiny_recipe, newer_linear):
    given = tiny_recipe()
    given["tasks"]["mood"]["head"] = "linear.v1"
    recipe = resolve(given).recipe
    assert variant_versions(recipe)["head linear"] == "linear.v1"
    assert head_of(pin_versions(recipe, {"head linear": "linear.v2"})) == "linear.v1"


def test_only_the_newest_version_is_shortened(tiny_recipe, newer_linear):
    given = tiny_recipe()
    for name, short in (("linear.v1", "linear.v1"), ("linear.v2", "linear"), ("linear", "linear")):
        given["tasks"]["mood"]["head"] = name
        assert head_of(shorten_versions(resolve(given).recipe)) == short


def test_every_registered_variant_can_be_named_with_its_version():
    for registry, table in ((HEADS, VARIANTS.heads), (LOSSES, VARIANTS.losses)):
        for name in registry:
            assert registry.versioned(name) in table and table[registry.versioned(name)] is table[name]


def stopped_run(recipe: dict, folder) -> None:
    with pytest.raises(Stopped):
        plait.train(recipe, folder, baselines=False, stop=stop_after(2))


@pytest.mark.parametrize("give_recipe", [False, True], ids=["saved recipe", "given recipe"])
def test_a_run_that_began_with_version_1_resumes_with_version_1(tiny_recipe, tmp_path, monkeypatch, give_recipe):
    whole = plait.train(tiny_recipe(), tmp_path / "whole", baselines=False)
    stopped_run(tiny_recipe(), tmp_path / "run")
    with monkeypatch.context() as patch:
        add_newer_linear(patch)
        # The given recipe does not name the head: its default is the newest version, and the run needs the first.
        result = resume(tmp_path / "run", recipe=as_recipe(tiny_recipe(), None, None, ()) if give_recipe else None)
        assert plait.load(result.model).tasks["mood"].head == "linear.v1"
        other = plait.train(tiny_recipe(), tmp_path / "other", baselines=False)
        assert plait.load(other.model).tasks["mood"].head == "linear.v2"
    assert result_json(result.run)["last_weights_sha256"] == result_json(whole.run)["last_weights_sha256"]
    assert result_json(other.run)["last_weights_sha256"] != result_json(whole.run)["last_weights_sha256"]


def test_a_run_records_its_versions_and_one_of_plait_0_1_has_version_1(tiny_recipe, tmp_path, newer_linear):
    stopped_run(tiny_recipe(), tmp_path / "run")
    path = tmp_path / "run/run.json"
    value = json.loads(path.read_text())
    assert value["variants"]["head linear"] == "linear.v2"
    assert RunDirectory(tmp_path / "run").record.variants == value["variants"]
    del value["variants"], value["sha256"], value["digests"]  # which 0.1 did not have
    path.write_text(json.dumps(value))
    assert RunDirectory(tmp_path / "run").record.variants == {}
