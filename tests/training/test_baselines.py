"""Baselines: a constant answer, the zero-shot cosine, heads on a frozen encoder."""

import numpy as np
import pytest

from plait.progress import SilentProgress
from plait.training.baselines import FROZEN, MAJORITY, ZERO_SHOT, _best_threshold, measure_baselines
from small_runs import resolve


def measured(recipe: dict) -> dict:
    return measure_baselines(resolve(recipe), SilentProgress())


def test_every_task_has_its_baselines(tiny_recipe):
    table = measured(tiny_recipe())
    assert set(table) == {"dev"}
    assert set(table["dev"][MAJORITY]) == set(table["dev"][FROZEN]) == {"mood", "same", "near"}
    assert set(table["dev"][ZERO_SHOT]) == {"same", "near"}  # a single text has no cosine


def test_the_majority_comes_from_train_and_a_constant_correlates_with_nothing(tiny_recipe, tmp_path):
    table = measured(tiny_recipe())["dev"]
    train, dev = (
        [line.rsplit(",", 1)[1] for line in (tmp_path / f"data/mood-{split}.csv").read_text().splitlines()[1:]]
        for split in ("train", "dev")
    )
    most_common = max(sorted(set(train)), key=train.count)
    assert table[MAJORITY]["mood"] == dev.count(most_common) / len(dev)
    assert table[MAJORITY]["near"] == 0.0


def test_zero_shot_cosine_of_a_cosine_head_is_the_frozen_encoder(tiny_recipe):
    table = measured(tiny_recipe())["dev"]
    assert table[ZERO_SHOT]["near"] == pytest.approx(table[FROZEN]["near"], abs=0.02)  # the head clips at 0


def test_a_recipe_without_weights_to_train_still_has_baselines(tiny_recipe):
    recipe = tiny_recipe()
    recipe["tasks"] = {"near": recipe["tasks"]["near"]}
    assert set(measured(recipe)["dev"]) == {MAJORITY, ZERO_SHOT, FROZEN}


def test_the_best_threshold_by_hand():
    cosines = np.array([0.9, 0.8, 0.7, 0.2])
    assert _best_threshold(cosines, np.array([1, 1, 0, 0])) == 0.8
    assert _best_threshold(cosines, np.array([1, 0, 1, 1])) == 0.2  # three of four are yes: always say yes
    assert _best_threshold(cosines, np.array([0, 0, 0, 0])) == float("inf")  # never say yes


def test_no_other_threshold_is_correct_more_often():
    generator = np.random.default_rng(0)
    for _ in range(50):
        cosines, labels = generator.normal(size=30).round(1), generator.integers(0, 2, 30)
        correct = [np.mean((cosines >= other) == labels) for other in [*cosines, np.inf]]
        best = np.mean((cosines >= _best_threshold(cosines, labels)) == labels)
        assert best >= max(correct) - 1e-12
