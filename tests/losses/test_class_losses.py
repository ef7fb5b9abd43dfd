"""class_contrastive and class_triplet against plain loops, values by hand and other libraries."""

from functools import partial
from math import sqrt

import pytest
import torch
import torch.nn.functional as F
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.losses import TripletMarginLoss
from pytorch_metric_learning.reducers import MeanReducer
from sentence_transformers.sentence_transformer.losses import (
    BatchHardTripletLossDistanceFunction,
    BatchSemiHardTripletLoss,
)
from torch import Tensor

from loss_cases import SEEDS, draw_sides
from plait.losses.embedding import class_contrastive, class_triplet
from properties import ROUNDING, assert_same_value_and_gradients
from reference_losses import on_embeddings

LABEL_B = torch.tensor([0, 1, 0, 2, 1, 0, 1, 1])  # the fourth is the only one of its class
NEGATIVES = ("all", "hardest", "semi_hard")
X_BD = torch.tensor([[0.0], [2.0], [1.0], [5.0]])  # on a line: two of class 0, then two of class 1
X_LABEL_B = torch.tensor([0, 0, 1, 1])


def draw(seed: int) -> Tensor:
    return draw_sides(seed, rows=len(LABEL_B))[0]


def length(u_D: Tensor, v_D: Tensor, distance: str) -> Tensor:
    """The distance of two rows."""
    if distance != "euclidean":
        u_D, v_D = F.normalize(u_D, dim=-1), F.normalize(v_D, dim=-1)
    if distance == "cosine":
        return 1 - u_D @ v_D
    squared = ((u_D - v_D) ** 2).sum()
    return squared if distance == "unit_squared" else squared.sqrt()


def loop_contrastive(x_BD: Tensor, label_B: Tensor, margin: float, distance: str) -> Tensor:
    """class_contrastive, one pair after the other."""
    terms = []
    for i in range(len(x_BD)):
        for j in range(i):
            d = length(x_BD[i], x_BD[j], distance)
            terms.append((d if label_B[i] == label_B[j] else F.relu(margin - d)) ** 2 / 2)
    return torch.stack(terms).mean()


def loop_triplet(x_BD: Tensor, label_B: Tensor, margin: float, distance: str, negatives: str) -> Tensor:
    """class_triplet, one anchor and positive after the other."""
    terms = []
    for a in range(len(x_BD)):
        far = [length(x_BD[a], x_BD[n], distance) for n in range(len(x_BD)) if label_B[n] != label_B[a]]
        for p in range(len(x_BD)):
            if p == a or label_B[p] != label_B[a]:
                continue
            near = length(x_BD[a], x_BD[p], distance)
            if negatives == "all":
                chosen = far
            elif negatives == "hardest":
                chosen = [min(far)]
            else:
                farther = [d for d in far if d > near]
                chosen = [min(farther) if farther else max(far)]
            terms += [F.relu(near - d + margin) for d in chosen]
    return torch.stack(terms).mean()


@pytest.mark.parametrize(("distance", "margin"), [("unit_euclidean", 1.5), ("euclidean", 4.0), ("cosine", 0.9)])
def test_class_contrastive_equals_a_loop_over_pairs(distance, margin):
    options = {"distance": distance, "margin": margin}
    for seed in SEEDS:
        ours, theirs = partial(class_contrastive, **options), partial(loop_contrastive, **options)
        assert_same_value_and_gradients(ours, theirs, [draw(seed)], [LABEL_B])


@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize(("distance", "margin"), [("unit_squared", 0.3), ("euclidean", 1.0), ("cosine", 0.2)])
def test_class_triplet_equals_a_loop_over_anchors_and_positives(distance, margin, negatives):
    options = {"distance": distance, "margin": margin, "negatives": negatives}
    for seed in SEEDS:
        ours, theirs = partial(class_triplet, **options), partial(loop_triplet, **options)
        assert_same_value_and_gradients(ours, theirs, [draw(seed)], [LABEL_B])


def test_class_contrastive_by_hand():
    value = class_contrastive(X_BD, X_LABEL_B, margin=3.0, distance="euclidean").item()
    # d 2 and 4 within the classes; 1, 5, 1 and 3 across, of which 5 and 3 reach the margin
    assert value == pytest.approx((2 + 8 + 2 + 0 + 2 + 0) / 6, abs=1e-6)


def test_class_triplet_by_hand():
    # anchor 0: positive 2, negatives 1, 5; anchor 2: positive 2, negatives 1, 3; anchor 1: positive 4, negatives 1, 1;
    # anchor 5: positive 4, negatives 5, 3
    found = {
        negatives: class_triplet(X_BD, X_LABEL_B, margin=1.0, distance="euclidean", negatives=negatives).item()
        for negatives in NEGATIVES
    }
    assert found["all"] == pytest.approx((2 + 0 + 2 + 0 + 4 + 4 + 0 + 2) / 8, abs=1e-6)
    assert found["hardest"] == pytest.approx((2 + 2 + 4 + 2) / 4, abs=1e-6)
    assert found["semi_hard"] == pytest.approx((0 + 0 + 4 + 0) / 4, abs=1e-6)  # 5, 3, then no farther one: 1; 5


def test_unit_vectors_are_compared_by_default():
    x_BD, label_B = torch.tensor([[3.0, 0.0], [0.0, 0.5], [-2.0, 0.0]]), torch.tensor([0, 0, 1])
    # lengths √2 (same), 2 and √2; squared 2, 4 and 2
    value = class_contrastive(x_BD, label_B, margin=2).item()
    assert value == pytest.approx((1 + (2 - sqrt(2)) ** 2 / 2) / 3, abs=1e-6)
    assert class_triplet(x_BD, label_B, margin=0.5, negatives="all").item() == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("label_B", [torch.zeros(5), torch.arange(5)], ids=["one class", "five classes"])
def test_class_triplet_without_positives_or_negatives_is_zero_and_can_be_trained_on(negatives, label_B):
    x_BD = draw_sides(0)[0].requires_grad_()
    value = class_triplet(x_BD, label_B, negatives=negatives)
    value.backward()
    assert value.item() == 0 and torch.equal(x_BD.grad, torch.zeros(5, 8))


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_a_row_without_others_of_its_class_is_a_negative_only(negatives):
    loss = partial(class_triplet, margin=50.0, distance="euclidean", negatives=negatives)
    x_BD, label_B = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1])
    assert loss(x_BD, label_B).item() == pytest.approx(((1 - 3) + (1 - 2)) / 2 + 50, abs=1e-5)


def test_class_contrastive_of_one_class_is_half_the_mean_square_and_of_one_row_zero():
    value = class_contrastive(X_BD, torch.zeros(4), distance="euclidean").item()
    assert value == pytest.approx((4 + 1 + 25 + 1 + 9 + 16) / 2 / 6, abs=1e-6)
    x_BD = torch.ones(1, 3, requires_grad=True)
    value = class_contrastive(x_BD, torch.tensor([0]))
    value.backward()
    assert value.item() == 0 and torch.equal(x_BD.grad, torch.zeros(1, 3))


@pytest.mark.parametrize("distance", ["unit_euclidean", "euclidean"])
def test_equal_embeddings_of_a_class_have_gradient_zero(distance):
    x_BD = torch.ones(3, 4, requires_grad=True)
    value = class_contrastive(x_BD, torch.zeros(3), distance=distance)
    value.backward()
    assert value.item() == 0 and torch.equal(x_BD.grad, torch.zeros(3, 4))


def test_nearly_equal_long_embeddings_keep_their_distance():
    # by products of float32, 1000² − 2·1000·1000.01 + 1000.01² would lose it
    x_BD = torch.tensor([[1000.0], [1000.0078125]])
    value = class_contrastive(x_BD, torch.zeros(2), distance="euclidean").item()
    assert value == pytest.approx(0.0078125**2 / 2, rel=1e-5)


@pytest.mark.parametrize(
    ("distance", "metric"),
    [
        ("cosine", BatchHardTripletLossDistanceFunction.cosine_distance),
        ("euclidean", BatchHardTripletLossDistanceFunction.euclidean_distance),
    ],
)
def test_semi_hard_negatives_are_those_of_sentence_transformers(distance, metric):
    label_B = torch.tensor([0, 1, 0, 1, 1, 0, 2, 2])
    theirs = on_embeddings(BatchSemiHardTripletLoss, label_B, distance_metric=metric, margin=0.5)
    ours = partial(class_triplet, label_B=label_B, margin=0.5, distance=distance)
    for seed in SEEDS:
        assert_same_value_and_gradients(ours, theirs, [draw(seed)])


def test_all_triplets_are_those_of_pytorch_metric_learning():
    theirs = TripletMarginLoss(margin=0.2, distance=LpDistance(power=2), reducer=MeanReducer())
    for seed in SEEDS:
        assert_same_value_and_gradients(partial(class_triplet, negatives="all"), theirs, [draw(seed)], [LABEL_B])


def test_all_triplets_are_at_most_as_hard_as_the_hardest():
    for seed in SEEDS:
        every, hardest = (class_triplet(draw(seed), LABEL_B % 2, negatives=name) for name in ("all", "hardest"))
        assert every <= hardest + ROUNDING["atol"]
