"""Heads that start from the solution on the frozen encoder."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression, Ridge

import plait
from plait.runs.directory import RunDirectory
from plait.training import warm_heads
from plait.training.train import Stopped, resume
from plait.training.warm_heads import _minimize, _Problem, solve_layer
from small_runs import metrics_lines, result_json, stop_after

N, WIDTH = 60, 7


@pytest.fixture
def data():
    """Inputs far from 0 and of another scale than 1, and classes that depend on them."""
    chance = np.random.default_rng(3)
    inputs = chance.normal(size=(N, WIDTH))
    classes = (inputs @ chance.normal(size=(WIDTH, 3)) + 0.5 * chance.normal(size=(N, 3))).argmax(axis=1)
    return torch.from_numpy(inputs * 0.03 + 5), torch.from_numpy(classes)


def test_the_solution_is_that_of_logistic_regression(data):
    inputs, classes = data
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std()
    weight, bias = _minimize(_Problem(F.cross_entropy, 3, free=0), inputs, classes, penalty=0.01)
    known = LogisticRegression(C=1 / (2 * 0.01 * N), tol=1e-10, max_iter=10_000).fit(inputs.numpy(), classes.numpy())
    probabilities = (inputs @ weight.T + bias).softmax(dim=1).numpy()
    assert probabilities == pytest.approx(known.predict_proba(inputs.numpy()), abs=1e-4)


def test_the_solution_is_that_of_ridge_regression(data):
    inputs, _ = data
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std()
    scores = inputs[:, 0] * 2 + 1
    problem = _Problem(lambda outputs, label: F.mse_loss(outputs[:, 0], label), 1, free=0)
    weight, bias = _minimize(problem, inputs, scores, penalty=0.1)
    known = Ridge(alpha=0.1 * N).fit(inputs.numpy(), scores.numpy())
    assert weight[0].numpy() == pytest.approx(known.coef_, abs=1e-4)
    assert bias.item() == pytest.approx(known.intercept_, abs=1e-4)


def test_free_inputs_are_not_penalised(data):
    inputs, _ = data
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std()
    scores = inputs[:, 0] * 2 + inputs[:, 1]
    problem = _Problem(lambda outputs, label: F.mse_loss(outputs[:, 0], label), 1, free=1)
    weight, _ = _minimize(problem, inputs, scores, penalty=1e6)
    slope = torch.linalg.lstsq(inputs[:, :1], scores.unsqueeze(1)).solution.item()
    assert weight[0, 0].item() == pytest.approx(slope, abs=1e-4)
    assert weight[0, 1:].abs().max() < 1e-4


def test_a_layer_is_solved_for_inputs_of_any_scale(data):
    inputs, classes = data
    folds = [list(range(start, N, 5)) for start in range(5)]
    weight, bias = solve_layer(3, inputs, classes, F.cross_entropy, folds)
    right = ((inputs @ weight.T + bias).argmax(dim=1) == classes).float().mean()
    assert right > 0.8


def test_cross_validation_chooses_a_strong_penalty_for_noise():
    chance = torch.Generator().manual_seed(5)
    inputs, classes = torch.randn(40, 30, generator=chance).double(), torch.randint(2, (40,), generator=chance)
    folds = [list(range(start, 40, 5)) for start in range(5)]
    weight, bias = solve_layer(2, inputs, classes, F.cross_entropy, folds)
    probabilities = (inputs @ weight.T + bias).softmax(dim=1)
    assert (probabilities - 0.5).abs().max() < 0.2


@pytest.mark.parametrize("head", ["difference_product", "joined", "concat"])
def test_step_0_is_scored_with_the_solved_heads(tiny_recipe, tmp_path, head):
    recipe = tiny_recipe(head_start="frozen", epochs=1)
    recipe["tasks"]["same"]["head"] = head
    plait.train(recipe, tmp_path / "run", baselines=False)
    first, *_ = [line for line in metrics_lines(tmp_path / "run") if line["kind"] == "scores"]
    assert first["step"] == 0 and set(first["dev"]) == {"mood", "same", "near"}
    random = tiny_recipe(epochs=1)
    random["tasks"]["same"]["head"] = head
    plait.train(random, tmp_path / "random", baselines=False)
    losses = [
        next(line for line in metrics_lines(tmp_path / name) if line["kind"] == "train")["loss"]
        for name in ("run", "random")
    ]
    assert losses[0]["mood"] < losses[1]["mood"]
    if head != "joined":  # of so few pairs in one input the frozen encoder says next to nothing
        assert losses[0]["same"] < losses[1]["same"]


def test_the_model_before_the_first_step_can_be_the_best(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(head_start="frozen", lr=1.0, head_lr=1.0), tmp_path / "run", baselines=False)
    assert RunDirectory(result.run).read_result().best_step == 0
    assert set(result.scores) == {"mood", "same", "near"}


def test_heads_of_tasks_learned_in_an_earlier_stage_are_not_solved_again(tiny_recipe, tmp_path):
    recipe = tiny_recipe(head_start="frozen", epochs=1)
    del recipe["tasks"]["near"]
    recipe["stages"] = [{"tasks": ["mood"]}, {"tasks": ["mood", "same"]}]
    plait.train(recipe, tmp_path / "run", baselines=False)
    scores = [line for line in metrics_lines(tmp_path / "run") if line["kind"] == "scores"]
    best = max((line for line in scores if line["stage"] == 0), key=lambda line: (line["mean"], line["step"]))
    start = next(line for line in scores if line["stage"] == 1)
    assert start["dev"]["mood"] == best["dev"]["mood"]


@pytest.mark.parametrize("steps", [1, 4])
def test_a_run_with_solved_heads_resumes_with_equal_bits(tiny_recipe, tmp_path, steps):
    recipe = tiny_recipe(head_start="frozen", checkpoint_every=2)
    whole = plait.train(recipe, tmp_path / "whole", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=stop_after(steps))
    resumed = resume(tmp_path / "run")
    digests = {RunDirectory(result.run).read_result().last_weights_sha256 for result in (whole, resumed)}
    assert len(digests) == 1
    assert metrics_lines(tmp_path / "run") == metrics_lines(tmp_path / "whole")


def test_heads_are_solved_once_for_the_baselines_and_the_start(tiny_recipe, tmp_path, monkeypatch):
    solved = []

    def count(*arguments, **keys):
        solved.append(arguments)
        return solve_layer(*arguments, **keys)

    monkeypatch.setattr(warm_heads, "solve_layer", count)
    recipe = tiny_recipe(head_start="frozen", epochs=1)
    plait.train(recipe, tmp_path / "with")
    once = len(solved)
    plait.train(recipe, tmp_path / "without", baselines=False)
    assert len(solved) == 2 * once > 0
    digests = [result_json(tmp_path / name)["last_weights_sha256"] for name in ("with", "without")]
    assert digests[0] == digests[1]
