"""The losses of embeddings against hand values, properties, and sentence-transformers; 1e-5 is what float32 leaves."""

from math import exp, log

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor

from plait.heads import HEADS, Size
from plait.losses import LOSSES
from plait.losses.embedding import simcse_supervised

SEEDS = range(20)
ROUNDING = {"atol": 1e-5, "rtol": 1e-5}  # of float32 sums in another order


def draw(seed: int, rows: int = 5, width: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    anchor_BD, positive_BD, negative_BD = torch.randn(
        3, rows, width, generator=torch.Generator().manual_seed(seed)
    ).unbind()
    return anchor_BD, positive_BD, negative_BD


def gradients(loss, *sides: Tensor) -> list[Tensor]:
    sides = tuple(side.clone().requires_grad_() for side in sides)
    loss(*sides).backward()
    return [side.grad for side in sides]


# By hand


def test_one_triplet_by_hand():
    # cos(a, b) = 0.6, cos(a, c) = 0.8; at τ = 0.2 the scores are 3 and 4: −ln e³ / (e³ + e⁴) = ln(1 + e)
    a_BD, b_BD, c_BD = torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.4, 0.3]])
    assert simcse_supervised(a_BD, b_BD, c_BD, temperature=0.2).item() == pytest.approx(log(1 + exp(1)), abs=1e-5)


def test_two_triplets_by_hand():
    a_BD = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    b_BD = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    c_BD = torch.tensor([[-1.0, 0.0], [0.0, -1.0]])
    # first anchor: cosines 0.6 and 0 to the positives, −1 and 0 to the negatives; its own is the first
    # second anchor: 0.8 and 1 to the positives, 0 and −1 to the negatives; its own is the second
    first = -0.6 + log(exp(0.6) + 1 + exp(-1) + 1)
    second = -1 + log(exp(0.8) + exp(1) + 1 + exp(-1))
    value = simcse_supervised(a_BD, b_BD, c_BD, temperature=1.0).item()
    assert value == pytest.approx((first + second) / 2, abs=1e-5)


def test_the_temperature_is_a_twentieth_unless_told():
    sides = draw(0)
    assert torch.equal(simcse_supervised(*sides), simcse_supervised(*sides, temperature=0.05))


# Identity


def test_embeddings_that_are_all_alike_leave_every_choice_open():
    same_BD = torch.ones(4, 3)
    assert simcse_supervised(same_BD, same_BD, same_BD).item() == pytest.approx(log(8), abs=1e-5)  # 2·4 choices


def test_positives_that_are_the_anchors_among_unrelated_ones_cost_nothing():
    unit = torch.eye(6)
    # cosine 1 to its own and 0 to five others: ln(1 + 5·e⁻²⁰) is below what float32 tells from 0
    assert simcse_supervised(unit[:3], unit[:3], unit[3:]).item() == pytest.approx(0, abs=1e-5)


def test_of_one_triplet_it_is_the_binary_cross_entropy_of_the_nearer_head():
    head = HEADS["nearer"](Size(8, 1, 1.0, 0.0))
    for seed in SEEDS:
        sides = draw(seed, rows=1)
        expected = torch.nn.functional.softplus(-head(*sides)).squeeze()
        torch.testing.assert_close(simcse_supervised(*sides), expected, **ROUNDING)


# Properties


def test_lengths_do_not_matter():
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw(seed)
        stretched = simcse_supervised(100 * a_BD, 0.01 * b_BD, 7 * c_BD)
        torch.testing.assert_close(stretched, simcse_supervised(a_BD, b_BD, c_BD), **ROUNDING)


def test_the_order_of_the_triplets_does_not_matter():
    for seed in SEEDS:
        sides = draw(seed)
        order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(
            simcse_supervised(*(side[order] for side in sides)), simcse_supervised(*sides), **ROUNDING
        )


def test_the_order_of_the_hard_negatives_does_not_matter():  # each anchor sees all of them
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw(seed)
        torch.testing.assert_close(
            simcse_supervised(a_BD, b_BD, c_BD.flip(0)), simcse_supervised(a_BD, b_BD, c_BD), **ROUNDING
        )


def test_a_turn_of_the_whole_space_does_not_matter():
    for seed in SEEDS:
        sides = draw(seed)
        turn_DD, _ = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(seed)))
        turned = simcse_supervised(*(side @ turn_DD for side in sides))
        torch.testing.assert_close(turned, simcse_supervised(*sides), atol=1e-4, rtol=1e-5)  # two products more


def test_a_step_down_the_gradient_brings_positives_near_and_negatives_away():
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw(seed, rows=1)
        before = simcse_supervised(a_BD, b_BD, c_BD)
        _, to_b, to_c = gradients(simcse_supervised, a_BD, b_BD, c_BD)
        cosine = torch.nn.functional.cosine_similarity
        assert (cosine(a_BD, b_BD - 1e-3 * to_b) >= cosine(a_BD, b_BD) - 1e-6).all()
        assert (cosine(a_BD, c_BD - 1e-3 * to_c) <= cosine(a_BD, c_BD) + 1e-6).all()
        assert simcse_supervised(a_BD, b_BD - 1e-3 * to_b, c_BD - 1e-3 * to_c) <= before + 1e-6


def test_more_hard_negatives_only_cost_more():
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw(seed)
        far_BD = -a_BD.mean(dim=0, keepdim=True).expand(5, -1)
        near = simcse_supervised(a_BD, b_BD, a_BD)  # the anchors themselves: nothing is nearer
        assert near > simcse_supervised(a_BD, b_BD, c_BD)
        assert near > simcse_supervised(a_BD, b_BD, far_BD)


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3), (2, 4)), ((2, 3), (3, 3), (2, 3)), ((2, 3), (2, 3), (1, 3))])
def test_unequal_shapes_are_refused_with_all_of_them(shapes):
    with pytest.raises(ValueError) as caught:
        simcse_supervised(*(torch.zeros(shape) for shape in shapes))
    assert str(caught.value) == f"simcse_supervised needs equal shapes, got {', '.join(map(str, shapes))}"


# Parity


class Given(torch.nn.Module):
    """A model of sentence-transformers whose embeddings are given."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return features


@pytest.mark.parametrize("temperature", [0.05, 0.2])
def test_value_and_gradients_are_those_of_sentence_transformers(temperature):
    theirs = MultipleNegativesRankingLoss(Given(), scale=1 / temperature)
    for seed in SEEDS:
        sides = draw(seed, rows=7, width=16)

        def ours(*sides: Tensor) -> Tensor:
            return simcse_supervised(*sides, temperature=temperature)

        def other(*sides: Tensor) -> Tensor:
            return theirs([{"sentence_embedding": side} for side in sides], torch.empty(0))

        torch.testing.assert_close(ours(*sides), other(*sides), **ROUNDING)
        for own, expected in zip(gradients(ours, *sides), gradients(other, *sides), strict=True):
            torch.testing.assert_close(own, expected, **ROUNDING)


def test_it_reads_triplets_and_learns_from_nothing_else():
    loss = LOSSES["simcse_supervised"]
    assert (loss.function, loss.reads, dict(loss.links)) == (simcse_supervised, "triple", {"triplets": "sigmoid"})
