"""The objective of a task: its losses, weighted, each called with what it takes from a batch."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from plait.data.batch import VIEWS as READ_VIEWS
from plait.losses import LOSSES
from plait.losses.embedding import contrastive, info_nce, multiple_negatives, supervised_contrastive
from plait.losses.prediction import binary_cross_entropy, cross_entropy, mse
from plait.recipe.choices import LossChoice
from plait.resolve.positives import reading_of
from plait.training.objective import CHUNK, Objective, ObjectivePart, Pass

U, V = (torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
VIEWS = {"first": U, "second": V, "again": V}


def value(loss: dict, label_B: torch.Tensor, positive: float | None) -> float:
    """The value of one loss on embeddings."""
    choice = LossChoice.model_validate(loss)
    entry = LOSSES[choice.name]
    views = READ_VIEWS[reading_of(entry, 1 if choice.name == "supervised_contrastive" else 2)]
    part = ObjectivePart(choice, partial(entry.function, **choice.options), views, positive)
    return Objective((part,))(Pass(None, VIEWS), label_B).item()


def test_an_objective_is_the_weighted_sum_of_its_losses():
    yes_no = partial(binary_cross_entropy, threshold=3.0)
    half = LossChoice(name="binary_cross_entropy", weight=0.5)
    objective = Objective((ObjectivePart(LossChoice(name="mse"), mse), ObjectivePart(half, yes_no)), 2.0)
    outputs_BC, label_B = torch.tensor([[0.0], [0.0]]), torch.tensor([1.0, 3.0])
    # mse (1 + 9)/2 = 5, binary cross-entropy ln 2: 2·(5 + 0.5·ln 2)
    found = objective(Pass(outputs_BC), label_B).item()
    assert found == pytest.approx(2 * (5 + 0.5 * 0.6931472), abs=1e-5)  # float32


def test_an_objective_passes_class_weights_and_smoothing_to_its_losses():
    part = ObjectivePart(LossChoice(name="cross_entropy"), cross_entropy)
    objective = Objective((part,), 1.0, torch.tensor([1.0, 3.0]), 0.2)
    outputs_BC, label_B = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([1, 1])
    expected = nn.functional.cross_entropy(outputs_BC, label_B, weight=torch.tensor([1.0, 3.0]), label_smoothing=0.2)
    assert torch.equal(objective(Pass(outputs_BC), label_B), expected)


def test_an_objective_without_losses_is_zero():  # a head without weights on a frozen encoder
    assert Objective(())(Pass(None), torch.zeros(3)).item() == 0.0


def test_the_smallest_chunk_of_the_cached_losses_counts():
    def part(**keys) -> ObjectivePart:
        return ObjectivePart(LossChoice(name="info_nce", **keys), info_nce)

    assert Objective((part(),)).chunk is None
    assert Objective((part(cached=True),)).chunk == CHUNK
    assert Objective((part(cached=True, chunk=16), part(cached=True, chunk=8), part())).chunk == 8


def test_only_pairs_with_a_high_score_are_positives():
    scores = torch.tensor([0.0, 4.0, 5.0, 3.9, 4.5, 1.0])
    rows = [1, 2, 4]
    found = value({"name": "multiple_negatives", "positive_above": 4}, scores, 4.0)
    assert found == pytest.approx(multiple_negatives(U[rows], V[rows]).item(), abs=1e-6)


def test_only_pairs_with_the_positive_label_are_positives():
    labels = torch.tensor([2, 0, 2, 1, 2, 0])
    rows = [0, 2, 4]
    found = value({"name": "multiple_negatives", "positive_label": "entailment"}, labels, 2.0)
    assert found == pytest.approx(multiple_negatives(U[rows], V[rows]).item(), abs=1e-6)


def test_info_nce_compares_a_positive_with_the_texts_of_all_rows():
    # One pair with score 5 beside five with score 0: the sum over the 10 texts of the other pairs.
    scores = torch.tensor([0.0, 0.0, 5.0, 0.0, 0.0, 0.0])
    loss = {"name": "info_nce", "positive_above": 3, "denominator": "others", "temperature": 0.1}
    u, v = nn.functional.normalize(U.double(), dim=-1), nn.functional.normalize(V.double(), dim=-1)
    rest = sum(math.exp(u[2] @ other / 0.1) for row in (0, 1, 3, 4, 5) for other in (u[row], v[row]))
    assert value(loss, scores, 3.0) == pytest.approx(-math.log(math.exp(u[2] @ v[2] / 0.1) / rest), abs=1e-5)
    among_second = sum(math.exp(u[2] @ other / 0.1) for other in v)
    expected = -math.log(math.exp(u[2] @ v[2] / 0.1) / among_second)
    assert value({**loss, "denominator": "all"}, scores, 3.0) == pytest.approx(expected, abs=1e-5)


def test_the_first_version_of_info_nce_sees_the_positives_only():
    scores, rows = torch.tensor([0.0, 4.0, 5.0, 3.9, 4.5, 1.0]), [1, 2, 4]
    found = value({"name": "info_nce.v1", "positive_above": 4}, scores, 4.0)
    assert found == pytest.approx(info_nce(U[rows], V[rows]).item(), abs=1e-6)
    assert value({"name": "info_nce", "positive_above": 4}, scores, 4.0) > found


def test_contrastive_gets_every_pair_and_which_are_positives():
    labels = torch.tensor([1, 0, 1, 1, 0, 0])
    assert value({"name": "contrastive"}, labels, 1.0) == pytest.approx(contrastive(U, V, labels).item(), abs=1e-6)


def test_supervised_contrastive_gets_the_labels():
    labels = torch.tensor([1, 0, 1, 2, 0, 0])
    expected = supervised_contrastive(U, labels).item()
    assert value({"name": "supervised_contrastive"}, labels, None) == pytest.approx(expected, abs=1e-6)


def test_a_batch_without_positives_has_loss_zero():
    assert value({"name": "multiple_negatives", "positive_above": 4}, torch.zeros(6), 4.0) == 0.0
    assert value({"name": "info_nce", "positive_above": 4}, torch.zeros(6), 4.0) == 0.0
