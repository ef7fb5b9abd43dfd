"""`chunk`: batches that are encoded in parts have the gradients of the whole batch."""

import pytest
import torch

import plait
from plait.errors import RecipeError
from plait.training.backward import backward
from plait.training.lanes import Lanes
from small_runs import batch_of, resolve, result_json, trainer_for


def gradients(trainer, task: str, lanes: int) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of eight rows, and its gradients; without dropout, since its masks follow from the parts."""
    model = trainer.model.eval()
    batch = batch_of(trainer, task, range(8))
    (loss,) = backward(model, Lanes(model, lanes), {}, trainer.objectives, [batch], "seed")
    found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return loss.item(), found


@pytest.mark.parametrize(
    ("task", "adapt", "lanes"), [("mood", None, 1), ("mood", "lora", 2), ("same", None, 2), ("near", "lora", 1)]
)
def test_loss_and_gradients_are_those_of_the_whole_batch(task, adapt, lanes, tiny_recipe):
    recipe = tiny_recipe(adapt=adapt)
    recipe["tasks"]["mood"]["class_weights"] = "balanced"
    recipe["tasks"]["near"]["loss"] = ["mse", {"name": "multiple_negatives", "positive_above": 0.1}]
    whole = gradients(trainer_for(recipe), task, lanes=1)
    parts = gradients(trainer_for({**recipe, "chunk": 3}), task, lanes=lanes)
    assert parts[0] == pytest.approx(whole[0], abs=1e-6)
    assert parts[1].keys() == whole[1].keys()
    for name, gradient in whole[1].items():
        torch.testing.assert_close(parts[1][name], gradient, rtol=0, atol=2e-5, msg=name)  # float32, in another order


def test_smaller_of_chunk_and_that_of_a_cached_loss_counts(tiny_recipe):
    recipe = tiny_recipe()
    cached = {"name": "multiple_negatives", "positive_above": 0.1, "cached": True, "chunk": 5}
    recipe["tasks"]["near"]["loss"] = ["mse", cached]
    for chunk, expected in ((None, (None, 5)), (3, (3, 3)), (6, (6, 5))):
        objectives = trainer_for({**recipe, "chunk": chunk}).objectives
        assert (objectives["mood"].chunk, objectives["near"].chunk) == expected


def test_one_chunk_changes_no_bit(tiny_recipe, tmp_path):
    digests = []
    for chunk in (None, 8):
        plait.train(tiny_recipe(chunk=chunk, epochs=1), tmp_path / f"{chunk}", baselines=False)
        digests.append(result_json(tmp_path / f"{chunk}")["last_weights_sha256"])
    assert digests[0] == digests[1]


def test_it_needs_an_encoder_that_is_trained(tiny_recipe):
    with pytest.raises(RecipeError, match="chunk: is about training the encoder; drop it"):
        resolve(tiny_recipe(chunk=4, train_encoder=False))
