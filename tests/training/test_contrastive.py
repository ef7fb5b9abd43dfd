"""Losses of embeddings inside a run: which pairs enter them, how texts are read, what is refused."""

from functools import partial

import pytest
import torch

import plait
from plait.data.batch import VIEWS as READ_VIEWS
from plait.data.batch import make_batch
from plait.errors import PlaitError
from plait.losses import LOSSES
from plait.losses.embedding import (
    contrastive,
    info_nce,
    multiple_negatives,
    simcse_unsupervised,
    supervised_contrastive,
)
from plait.recipe.read import recipe_from
from plait.recipe.schema import LossChoice
from plait.recipe.tree import Tree
from plait.training.backward import pass_on
from plait.training.objective import Objective, Part, Pass, way_of
from plait.training.seeds import seeded
from plait.training.settle import settle, settle_recipe
from plait.training.tables import TABLES
from plait.training.trainer import Trainer

U, V = (torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
VIEWS = {"first": U, "second": V, "again": V}


def value(loss: dict, label_B: torch.Tensor, positive: float | None) -> float:
    choice = LossChoice.model_validate(loss)
    entry = LOSSES[choice.name]
    views = READ_VIEWS[way_of(entry, 1 if choice.name == "supervised_contrastive" else 2)]
    part = Part(choice, partial(entry.function, **choice.options), views, positive)
    return Objective((part,))(Pass(None, VIEWS), label_B).item()


def test_only_pairs_with_a_high_score_are_positives():
    scores = torch.tensor([0.0, 4.0, 5.0, 3.9, 4.5, 1.0])
    rows = [1, 2, 4]
    found = value({"name": "multiple_negatives", "positive_above": 4}, scores, 4.0)
    assert found == pytest.approx(multiple_negatives(U[rows], V[rows]).item(), abs=1e-6)


def test_only_pairs_of_the_label_are_positives():
    labels = torch.tensor([2, 0, 2, 1, 2, 0])
    rows = [0, 2, 4]
    found = value({"name": "info_nce", "positive_label": "entailment", "temperature": 0.1}, labels, 2.0)
    assert found == pytest.approx(info_nce(U[rows], V[rows], temperature=0.1).item(), abs=1e-6)


def test_contrastive_sees_every_pair_and_which_are_the_same():
    labels = torch.tensor([1, 0, 1, 1, 0, 0])
    assert value({"name": "contrastive"}, labels, 1.0) == pytest.approx(contrastive(U, V, labels).item(), abs=1e-6)


def test_supervised_contrastive_sees_the_labels():
    labels = torch.tensor([1, 0, 1, 2, 0, 0])
    expected = supervised_contrastive(U, labels).item()
    assert value({"name": "supervised_contrastive"}, labels, None) == pytest.approx(expected, abs=1e-6)


def test_a_batch_without_positives_costs_nothing():
    assert value({"name": "multiple_negatives", "positive_above": 4}, torch.zeros(6), 4.0) == 0.0


def trainer_for(tiny_recipe, task: str, **changes) -> Trainer:
    recipe = tiny_recipe(dropout=0.3)
    recipe["tasks"] = {task: {**recipe["tasks"][task], **changes}}
    return Trainer(settle_recipe(recipe_from(Tree(recipe), TABLES)))


def test_a_loss_of_positives_that_the_training_data_lacks_is_refused(tiny_recipe):
    told = "info_nce needs at least two positive pairs, and of 24 training rows none is one"
    with pytest.raises(PlaitError, match=f"near.loss: {told}"):
        trainer_for(tiny_recipe, "near", loss=["mse", {"name": "info_nce", "positive_above": 5}])
    trainer_for(tiny_recipe, "near", loss=["mse", {"name": "contrastive", "positive_above": 5}])


def test_a_text_is_read_twice_under_different_dropout(tiny_recipe):
    trainer = trainer_for(tiny_recipe, "mood", loss=["cross_entropy", {"name": "simcse_unsupervised", "weight": 0.1}])
    assert trainer.views("mood") == ("first", "again")
    batch = make_batch("mood", range(6), trainer.settled.tasks["mood"].train.labels, trainer.tokens["mood"])
    trainer.model.train()
    with seeded("x", trainer.model.device):
        passed = pass_on(trainer.model, trainer.objectives["mood"], batch, trainer.encode(batch))
    outputs_BC, views_BD = passed.outputs_BC, passed.views_BD
    assert not torch.allclose(views_BD["first"], views_BD["again"])
    total = trainer.objectives["mood"](passed, torch.from_numpy(batch.labels))
    own = torch.nn.functional.cross_entropy(outputs_BC, torch.from_numpy(batch.labels))
    both = own + 0.1 * simcse_unsupervised(views_BD["first"], views_BD["again"])
    torch.testing.assert_close(total, both)
    trainer.model.eval()
    views_BD = trainer.encode(batch).views
    torch.testing.assert_close(views_BD["first"], views_BD["again"])


@pytest.mark.parametrize(
    ("task", "loss"),
    [
        ("mood", ["cross_entropy", {"name": "supervised_contrastive", "weight": 0.5}]),
        ("mood", ["cross_entropy", "simcse_unsupervised"]),
        ("near", ["mse", {"name": "multiple_negatives", "weight": 0.1, "positive_above": 0.5}]),
        ("near", {"name": "info_nce", "positive_above": 0.5, "denominator": "others"}),
        ("near", {"name": "contrastive", "positive_above": 0.5}),
        ("same", ["binary_cross_entropy", "multiple_negatives"]),
        ("same", ["binary_cross_entropy", {"name": "contrastive", "margin": 0.5}]),
    ],
)
def test_every_loss_trains_and_is_scored(tiny_recipe, tmp_path, task, loss):
    recipe = tiny_recipe(epochs=2)
    recipe["tasks"] = {task: {**recipe["tasks"][task], "loss": loss}}
    result = plait.train(recipe, tmp_path / "run", baselines=False)
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
        ("near", {"name": "mse", "positive_above": 1}, "mse does not ask which pairs are positives"),
        ("near", {"name": "info_nce", "positive_above": 99}, "with positive_above 99 all scores from"),
        ("same", ["binary_cross_entropy", {"name": "info_nce", "positive_above": 1}], "positive_above is for scores"),
        ("same", "multiple_negatives", "the task has no head, so there is nothing to score; take dev away"),
        ("mood", ["cross_entropy", "triplet"], "triplet cannot learn from classes labels"),
        (
            "mood",
            ["cross_entropy", {"name": "info_nce", "positive_label": "good"}],
            "info_nce reads two texts or three texts, the task has 1",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tiny_recipe, task, loss, what):
    recipe = tiny_recipe()
    recipe["tasks"] = {task: {**recipe["tasks"][task], "loss": loss}}
    with pytest.raises(PlaitError) as caught:
        settle(recipe_from(Tree(recipe), TABLES), 40)
    assert any(what in mistake for mistake in caught.value.mistakes), caught.value.mistakes
