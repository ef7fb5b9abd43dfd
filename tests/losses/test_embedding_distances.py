"""Losses on distances, contrastive and triplet, against values by hand and the losses of other libraries.

1e-5 is the rounding of float32.
"""

from functools import partial
from math import cos, pi, sin, sqrt

import pytest
import torch
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.losses import TripletMarginLoss
from pytorch_metric_learning.reducers import MeanReducer
from sentence_transformers.sentence_transformer.losses import (
    ContrastiveLoss,
    SiameseDistanceMetric,
    TripletDistanceMetric,
    TripletLoss,
)
from torch import Tensor

from loss_cases import SEEDS, draw_sides
from plait.losses.embedding import contrastive, triplet
from properties import assert_same_value_and_gradients
from reference_losses import on_embeddings

SAME_B = torch.tensor([1, 0, 0, 1, 1])

# contrastive


def test_contrastive_by_hand():
    first_BD, second_BD = torch.tensor([[3.0, 0.0], [3.0, 0.0]]), torch.tensor([[0.0, 4.0], [0.0, 4.0]])
    same_B = torch.tensor([1, 0])
    # d = 5: ½·25 if the same, ½·(7 − 5)² if not; √2 on unit vectors; 1 by cosine
    value = contrastive(first_BD, second_BD, same_B, distance="euclidean", margin=7.0).item()
    assert value == pytest.approx((12.5 + 2) / 2, abs=1e-5)
    value = contrastive(first_BD, second_BD, same_B, margin=2.0).item()
    assert value == pytest.approx((1 + (2 - sqrt(2)) ** 2 / 2) / 2, abs=1e-5)
    value = contrastive(first_BD, second_BD, same_B, distance="cosine", margin=1.5).item()
    assert value == pytest.approx((0.5 + 0.125) / 2, abs=1e-5)


def test_correct_pairs_have_loss_and_gradient_zero():
    unit = torch.eye(4)
    same_B = torch.tensor([True, True, False, False])
    second_BD = torch.stack([unit[0], 3 * unit[1], -unit[2], unit[1]])  # √2 and 2 apart, more than the margin of 1
    first_BD = unit.clone().requires_grad_()
    value = contrastive(first_BD, second_BD, same_B)
    value.backward()
    assert value.item() == 0 and torch.equal(first_BD.grad, torch.zeros(4, 4))


def test_different_sentences_at_one_point_cost_half_the_squared_margin():
    value = contrastive(torch.ones(1, 3), torch.ones(1, 3), torch.tensor([0]), margin=0.6).item()
    assert value == pytest.approx(0.18, abs=1e-5)


@pytest.mark.parametrize("distance", ["unit_euclidean", "euclidean", "cosine"])
def test_contrastive_is_symmetric(distance):
    for seed in SEEDS:
        first_BD, second_BD, _ = draw_sides(seed)
        value = contrastive(first_BD, second_BD, SAME_B, distance=distance)
        assert torch.equal(value, contrastive(second_BD, first_BD, SAME_B, distance=distance))


@pytest.mark.parametrize(
    ("distance", "metric", "margin"),
    [
        ("cosine", SiameseDistanceMetric.COSINE_DISTANCE, 0.5),
        ("euclidean", SiameseDistanceMetric.EUCLIDEAN, 5.0),
    ],
)
def test_contrastive_equals_that_of_sentence_transformers(distance, metric, margin):
    theirs = on_embeddings(ContrastiveLoss, SAME_B, distance_metric=metric, margin=margin)
    ours = partial(contrastive, same_B=SAME_B, distance=distance, margin=margin)
    for seed in SEEDS:
        assert_same_value_and_gradients(ours, theirs, draw_sides(seed)[:2])


# triplet

every_distance = pytest.mark.parametrize("distance", ["unit_squared", "euclidean", "cosine"])


def at_angle(degrees: float) -> Tensor:
    return torch.tensor([[cos(degrees * pi / 180), sin(degrees * pi / 180)]])


def test_triplet_by_hand():
    a_BD, p_BD, n_BD = 2 * at_angle(0), 3 * at_angle(60), at_angle(90)
    # squared on unit vectors: 2 − 2·cos 60° = 1 and 2; cosine: 0.5 and 1; euclidean: √(4 + 9 − 6) and √5
    assert triplet(a_BD, p_BD, n_BD, margin=1.5).item() == pytest.approx(0.5, abs=1e-5)
    assert triplet(a_BD, p_BD, n_BD, margin=1.5, distance="cosine").item() == pytest.approx(1, abs=1e-5)
    value = triplet(a_BD, p_BD, n_BD, distance="euclidean").item()
    assert value == pytest.approx(sqrt(7) - sqrt(5) + 0.2, abs=1e-5)


def test_triplet_averages_over_all_triplets_even_those_with_loss_zero():
    a_BD, p_BD, n_BD = (
        torch.cat(sides) for sides in ((at_angle(0),) * 2, (at_angle(60), at_angle(0)), (at_angle(90),) * 2)
    )
    assert triplet(a_BD, p_BD, n_BD, margin=1.5).item() == pytest.approx(0.25, abs=1e-5)


@every_distance
def test_positive_equal_to_the_negative_costs_the_margin(distance):
    for seed in SEEDS:
        a_BD, p_BD, _ = draw_sides(seed)
        assert triplet(a_BD, p_BD, p_BD, margin=0.7, distance=distance).item() == pytest.approx(0.7, abs=1e-5)


@every_distance
def test_both_orders_of_a_triplet_cost_twice_the_margin_while_within_it(distance):
    loss = partial(triplet, margin=50.0, distance=distance)
    for seed in SEEDS:
        a_BD, p_BD, n_BD = draw_sides(seed)
        assert (loss(a_BD, p_BD, n_BD) + loss(a_BD, n_BD, p_BD)).item() == pytest.approx(100, abs=1e-4)


@pytest.mark.parametrize(
    ("distance", "metric"), [("cosine", TripletDistanceMetric.COSINE), ("euclidean", TripletDistanceMetric.EUCLIDEAN)]
)
def test_triplet_equals_that_of_sentence_transformers(distance, metric):
    theirs = on_embeddings(TripletLoss, distance_metric=metric, triplet_margin=0.5)
    for seed in SEEDS:
        assert_same_value_and_gradients(partial(triplet, margin=0.5, distance=distance), theirs, draw_sides(seed))


def test_triplet_equals_that_of_pytorch_metric_learning():
    theirs = TripletMarginLoss(margin=0.2, distance=LpDistance(power=2), reducer=MeanReducer())
    places = tuple(torch.arange(15).view(3, 5))

    def on_sides(*sides_BD: Tensor) -> Tensor:
        return theirs(torch.cat(sides_BD), indices_tuple=places)

    for seed in SEEDS:
        assert_same_value_and_gradients(triplet, on_sides, draw_sides(seed))
