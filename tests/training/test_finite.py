"""Numbers that are not finite stop a run, and are neither saved nor answered."""

import pytest
import torch

import plait
from plait.encoder.weights import is_finite
from plait.errors import NotFiniteError
from plait.training import stage
from plait.training.train import Stopped
from small_runs import metrics_lines, stop_after, trainer_for


@pytest.fixture
def recipe(tiny_recipe):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"] = {"mood": recipe["tasks"]["mood"]}
    return recipe


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_single_value_is_found(value):
    tensor = torch.randn(40, 30)
    assert is_finite(tensor) and is_finite(tensor[:0]) and is_finite(torch.tensor([1]))
    tensor[17, 3] = value
    assert not is_finite(tensor) and not is_finite(tensor[17, 3]) and not is_finite(tensor.to(torch.bfloat16))


@pytest.mark.parametrize("lr", [1e6, 1e30])
def test_one_step_at_a_rate_that_is_far_too_high_ends_in_a_message(recipe, tmp_path, lr):
    with pytest.raises(NotFiniteError) as caught:
        plait.train({**recipe, "lr": lr, "steps": 1, "epochs": None}, tmp_path / "run", baselines=False)
    assert caught.value.exit_code == 1
    assert str(caught.value).startswith(
        "after step 1: encoder.tokens.weight and 28 others became infinite, NaN or larger"
    )
    assert [line["kind"] for line in metrics_lines(tmp_path / "run")] == ["train"]
    assert not (tmp_path / "run/best").exists() and not (tmp_path / "run/checkpoints").exists()


def test_weights_are_checked_before_they_are_scored_or_saved(recipe, tmp_path, monkeypatch):
    step = stage.Trainer.step

    def break_a_weight(trainer, number, planned):
        losses = step(trainer, number, planned)
        with torch.no_grad():
            trainer.model.encoder.tokens.weight[3, 2] = float("nan")  # a word that no row has
        return losses

    monkeypatch.setattr(stage.Trainer, "step", break_a_weight)
    problem = r"after step 1: encoder\.tokens\.weight became infinite, NaN or larger than 100000; nothing was saved, "
    with pytest.raises(NotFiniteError, match=problem):
        plait.train({**recipe, "evaluate_every": 1}, tmp_path / "scored", baselines=False)
    with pytest.raises(NotFiniteError, match=problem):  # a stop saves a checkpoint
        plait.train(recipe, tmp_path / "saved", baselines=False, stop=stop_after(1))
    assert not (tmp_path / "scored/best").exists() and not (tmp_path / "saved/checkpoints").exists()


def test_the_state_of_the_optimizer_is_checked(recipe):
    trainer = trainer_for(recipe)
    trainer.step(0, next(iter(trainer.plan.epoch_plan(0))))
    trainer.check_weights(1)
    next(iter(trainer.optimizer.state.values()))["exp_avg_sq"][0] = float("inf")
    with pytest.raises(NotFiniteError, match="after step 1: the state of the optimizer became infinite, NaN or larger"):
        trainer.check_weights(1)


def test_an_answer_that_is_not_finite_is_an_error(recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train({**recipe, "evaluate_every": 1}, tmp_path / "run", baselines=False, stop=stop_after(1))
    model = plait.load(tmp_path / "run/best")
    assert model.predict("mood", ["good"])[0].label
    (network,) = model.loaded.model.members
    with torch.no_grad():
        network.heads["mood"].linear.weight.fill_(3e38)
        network.heads["mood"].linear.bias.fill_(float("inf"))
    with pytest.raises(NotFiniteError, match=r"task 'mood': the outputs of its head are infinite or NaN for 1 of 1"):
        model.predict("mood", ["good"])
    with torch.no_grad():
        network.encoder.norm.weight.fill_(float("nan"))
    network.train().eval()  # drops what was prepared for inference
    with pytest.raises(NotFiniteError, match="the embeddings are infinite or NaN for 1 of 1 inputs"):
        model.embed(["good"])


def test_a_model_whose_score_is_undefined_is_never_the_best(recipe, tmp_path, monkeypatch):
    means = iter([0.5, float("nan"), 0.4, float("nan")])
    monkeypatch.setattr(stage, "mean_score", lambda scores: next(means))
    result = plait.train({**recipe, "epochs": 4}, tmp_path / "run", baselines=False, keep=2)
    assert result.best_step == 3 and [folder.name for folder in result.kept_models] == ["epoch1", "epoch3"]
    assert plait.load(result.model).loaded.record.provenance.step == 3
