"""Losses on embeddings in a run: how texts are read, which pairs they use, what is refused."""

import pytest
import torch

import plait
from plait.errors import PlaitError
from plait.losses.embedding import simcse_unsupervised
from plait.training.seeds import seeded
from small_runs import forward, resolve, trainer_for


def one_task(recipe: dict, task: str, **changes) -> dict:
    return {**recipe, "tasks": {task: {**recipe["tasks"][task], **changes}}}


def test_a_loss_on_positives_is_refused_if_the_data_has_none(tiny_recipe):
    message = "near.loss: info_nce needs positive pairs, and none of 24 training rows is one; check"
    with pytest.raises(PlaitError, match=message):
        resolve(one_task(tiny_recipe(), "near", loss=["mse", {"name": "info_nce", "positive_above": 5}]))
    with pytest.raises(PlaitError, match="multiple_negatives needs at least two positive pairs, and none of 24"):
        resolve(one_task(tiny_recipe(), "near", loss=["mse", {"name": "multiple_negatives", "positive_above": 5}]))
    resolve(one_task(tiny_recipe(), "near", loss=["mse", {"name": "contrastive", "positive_above": 5}]))


def test_a_text_is_encoded_twice_with_different_dropout(tiny_recipe):
    loss = ["cross_entropy", {"name": "simcse_unsupervised", "weight": 0.1}]
    trainer = trainer_for(one_task(tiny_recipe(dropout=0.3), "mood", loss=loss))
    assert trainer.views("mood") == ("first", "again")
    trainer.model.train()
    with seeded("x", trainer.model.device):
        batch, passed = forward(trainer, "mood", range(6))
    outputs_BC, views_BD = passed.outputs_BC, passed.views_BD
    assert not torch.allclose(views_BD["first"], views_BD["again"])
    total = trainer.objectives["mood"](passed, torch.from_numpy(batch.labels))
    own = torch.nn.functional.cross_entropy(outputs_BC, torch.from_numpy(batch.labels))
    both = own + 0.1 * simcse_unsupervised(views_BD["first"], views_BD["again"])
    torch.testing.assert_close(total, both)
    trainer.model.eval()
    views_BD = trainer.model.encode(batch).views
    torch.testing.assert_close(views_BD["first"], views_BD["again"])


@pytest.mark.parametrize(
    ("task", "loss"),
    [
        ("mood", ["cross_entropy", {"name": "supervised_contrastive", "weight": 0.5}]),
        ("mood", ["cross_entropy", {"name": "class_contrastive", "margin": 0.5}]),
        ("mood", ["cross_entropy", {"name": "class_triplet", "negatives": "hardest"}]),
        ("mood", ["cross_entropy", "simcse_unsupervised"]),
        ("near", ["mse", {"name": "multiple_negatives", "weight": 0.1, "positive_above": 0.5}]),
        ("near", {"name": "info_nce", "positive_above": 0.5, "denominator": "others"}),
        ("near", {"name": "contrastive", "positive_above": 0.5}),
        ("same", ["binary_cross_entropy", "multiple_negatives"]),
        ("same", ["binary_cross_entropy", {"name": "contrastive", "margin": 0.5}]),
    ],
)
def test_every_loss_trains_and_is_scored(tiny_recipe, tmp_path, task, loss):
    result = plait.train(one_task(tiny_recipe(), task, loss=loss), tmp_path / "run", baselines=False)
    assert list(result.scores) == [task]
    again = plait.train(tmp_path / "run/recipe.yaml", tmp_path / "again", baselines=False)
    assert again.scores == result.scores


@pytest.mark.parametrize(
    ("task", "loss", "what"),
    [
        (
            "near",
            "multiple_negatives",
            "multiple_negatives needs positive_above, the score from which a pair is a positive",
        ),
        (
            "near",
            {"name": "mse", "positive_above": 1},
            "mse does not distinguish positives; remove positive_above",
        ),
        ("near", {"name": "info_nce", "positive_above": 99}, "with positive_above 99 all scores from"),
        ("same", ["binary_cross_entropy", {"name": "info_nce", "positive_above": 1}], "positive_above is for scores"),
        ("same", "multiple_negatives", "the task has no head, so there is nothing to score; remove dev"),
        ("mood", ["cross_entropy", "triplet"], "triplet cannot learn from classes; suitable: "),
        ("near", ["mse", "class_triplet"], "class_triplet cannot learn from scores; suitable: "),
        (
            "mood",
            ["cross_entropy", {"name": "info_nce", "positive_label": "good"}],
            "info_nce reads two texts or three texts, the task has 1",
        ),
    ],
)
def test_an_invalid_loss_is_refused(tiny_recipe, task, loss, what):
    with pytest.raises(PlaitError) as caught:
        resolve(one_task(tiny_recipe(), task, loss=loss))
    assert any(what in mistake for mistake in caught.value.mistakes), caught.value.mistakes
