"""Baselines: a constant answer, the zero-shot cosine, heads on a frozen encoder."""

import numpy as np
import pytest

import plait
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RunError
from plait.progress import SilentProgress
from plait.runs.directory import RunDirectory
from plait.training.baselines import FROZEN, MAJORITY, ZERO_SHOT, _best_threshold, predict_baselines, score_baselines
from small_runs import metrics_lines, resolve


def measured(recipe: dict) -> dict:
    resolved = resolve(recipe)
    return score_baselines(resolved, predict_baselines(resolved, {}, SilentProgress()))


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


def test_yes_and_no_as_two_scores_have_the_zero_shot_accuracy_of_yes_and_no(tiny_recipe):
    recipe = tiny_recipe()
    same = recipe["tasks"]["same"]
    scores = {"column": same["label"], "range": [0, 5], "map": {0: 1, 1: 4.5}}
    recipe["tasks"] = {"same": same, "mapped": {**same, "label": scores, "head": "cosine", "metric": "accuracy"}}
    zero_shot = measured(recipe)["dev"][ZERO_SHOT]
    assert zero_shot["mapped"] == zero_shot["same"] > 0.5


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


def test_with_heads_that_start_frozen_the_baseline_is_step_0(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(head_start="frozen", epochs=1), tmp_path / "run")
    (start,) = [line for line in metrics_lines(tmp_path / "run") if line["step"] == 0]
    metrics = {"mood": "accuracy", "same": "accuracy", "near": "pearson"}
    for task, metric in metrics.items():
        assert result.baselines["dev"][FROZEN][task] == pytest.approx(start["dev"][task][metric], abs=1e-6)


def test_a_finished_run_says_what_it_gained_over_the_best_baseline(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(), tmp_path / "run")
    assert set(result.gains) == {"mood", "same", "near"}
    for task, gain in result.gains.items():
        known = {name: scores[task] for name, scores in result.baselines["dev"].items() if task in scores}
        assert gain.baseline_score == pytest.approx(max(known.values()))
        assert known[gain.baseline] == gain.baseline_score
        metric = "pearson" if task == "near" else "accuracy"
        assert gain.score == pytest.approx(result.scores[task][metric], abs=1e-6)
        assert gain.low <= gain.difference <= gain.high
    assert RunDirectory(tmp_path / "run").read_result().gains == result.gains
    assert plait.train(tiny_recipe(), tmp_path / "without", baselines=False).gains == {}


def test_predictions_of_baselines_are_read_as_they_were_written(tmp_path):
    run = RunDirectory(tmp_path)
    assert run.read_baseline_predictions() == {}
    chances = np.array([[0.2, 0.8], [0.9, 0.1]])
    answers = {
        "dev": {
            FROZEN: {"a/b": PredictionArrays(np.array([1, 0]), chances), "near": PredictionArrays(np.ones(2), None)}
        }
    }
    run.write_baseline_predictions(answers)
    run.write_baselines({"dev": {FROZEN: {"near": 0.5}}})
    assert run.read_baselines() == {"dev": {FROZEN: {"near": 0.5}}}
    found = run.read_baseline_predictions()
    assert list(found["dev"][FROZEN]) == ["a/b", "near"]
    assert np.array_equal(found["dev"][FROZEN]["a/b"].probabilities, chances)
    assert found["dev"][FROZEN]["near"].probabilities is None
    (tmp_path / "baselines.npz").write_bytes(b"damaged")
    with pytest.raises(RunError, match=r"baselines\.npz: missing or damaged; delete baselines\.json and "):
        run.read_baseline_predictions()
    (tmp_path / "baselines.json").write_text((tmp_path / "baselines.json").read_text().replace("0.5", "0.6"))
    with pytest.raises(RunError, match=r"baselines\.json: damaged; delete "):
        run.read_baselines()
