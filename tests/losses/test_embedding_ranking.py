"""Losses by which an anchor must find its positive: info_nce, multiple_negatives and both of SimCSE.

Against values by hand, formulas, sentence-transformers and pytorch-metric-learning; 1e-5 is the rounding of float32.
"""

from functools import partial
from math import exp, log, pi

import pytest
import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import NTXentLoss
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.util import dot_score

from loss_cases import SEEDS, draw_sides
from plait.heads import HEADS, Size
from plait.losses.embedding import info_nce, multiple_negatives, simcse_supervised, simcse_unsupervised
from properties import ROUNDING, assert_same_value_and_gradients, gradients_of
from reference_losses import on_embeddings

# a₁ = (1, 0), a₂ = (0, 1); p₁ = (0.6, 0.8), p₂ = (0, 1). Cosines: a₁ to p₁ 0.6, p₂ 0, a₂ 0; a₂ to p₂ 1, p₁ 0.8, a₁ 0.
PAIRS = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[3.0, 4.0], [0.0, 2.0]])
PAIRS_AT_5 = (log(exp(3) + 1) - 3 + log(exp(4) + exp(5)) - 5) / 2  # each finds its own among p₁ and p₂, cosines × 5


# simcse_supervised


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


def test_default_temperature_of_simcse_is_a_twentieth():
    sides = draw_sides(0)
    assert torch.equal(simcse_supervised(*sides), simcse_supervised(*sides, temperature=0.05))


def test_simcse_supervised_of_equal_embeddings_is_the_log_of_the_choices():
    same_BD = torch.ones(4, 3)
    assert simcse_supervised(same_BD, same_BD, same_BD).item() == pytest.approx(log(8), abs=1e-5)  # 2·4 choices


def test_positives_equal_to_their_anchors_among_unrelated_sentences_have_loss_zero():
    unit = torch.eye(6)
    # cosine 1 to its own and 0 to five others: float32 cannot distinguish ln(1 + 5·e⁻²⁰) from 0
    assert simcse_supervised(unit[:3], unit[:3], unit[3:]).item() == pytest.approx(0, abs=1e-5)


def test_simcse_supervised_of_one_triplet_is_the_binary_cross_entropy_of_the_nearer_head():
    head = HEADS["nearer"](Size(8, 1, 1.0, 0.0))
    for seed in SEEDS:
        sides = draw_sides(seed, rows=1)
        torch.testing.assert_close(simcse_supervised(*sides), F.softplus(-head(*sides)).squeeze(), **ROUNDING)


def test_order_of_the_hard_negatives_does_not_matter():  # each anchor is compared with all of them
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw_sides(seed)
        flipped = simcse_supervised(a_BD, b_BD, c_BD.flip(0))
        torch.testing.assert_close(flipped, simcse_supervised(a_BD, b_BD, c_BD), **ROUNDING)


def test_gradient_step_brings_positives_closer_and_moves_negatives_away():
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw_sides(seed, rows=1)
        before = simcse_supervised(a_BD, b_BD, c_BD)
        _, grad_b, grad_c = gradients_of(simcse_supervised, [a_BD, b_BD, c_BD])
        b_after_BD, c_after_BD = b_BD - 1e-3 * grad_b, c_BD - 1e-3 * grad_c
        assert (F.cosine_similarity(a_BD, b_after_BD) >= F.cosine_similarity(a_BD, b_BD) - 1e-6).all()
        assert (F.cosine_similarity(a_BD, c_after_BD) <= F.cosine_similarity(a_BD, c_BD) + 1e-6).all()
        assert simcse_supervised(a_BD, b_after_BD, c_after_BD) <= before + 1e-6


def test_closer_hard_negatives_raise_the_loss():
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw_sides(seed)
        far_BD = -a_BD.mean(dim=0, keepdim=True).expand(5, -1)
        closest = simcse_supervised(a_BD, b_BD, a_BD)  # nothing is closer than the anchors themselves
        assert closest > simcse_supervised(a_BD, b_BD, c_BD)
        assert closest > simcse_supervised(a_BD, b_BD, far_BD)


@pytest.mark.parametrize("temperature", [0.05, 0.2])
def test_simcse_supervised_equals_that_of_sentence_transformers(temperature):
    theirs = on_embeddings(MultipleNegativesRankingLoss, scale=1 / temperature)
    for seed in SEEDS:
        sides = draw_sides(seed, rows=7, width=16)
        assert_same_value_and_gradients(partial(simcse_supervised, temperature=temperature), theirs, sides)


# simcse_unsupervised


def test_simcse_unsupervised_is_info_nce_of_the_two_passes():
    first_BD, second_BD, _ = draw_sides(0)
    assert torch.equal(simcse_unsupervised(first_BD, second_BD), info_nce(first_BD, second_BD, temperature=0.05))
    assert simcse_unsupervised(*PAIRS, temperature=0.2).item() == pytest.approx(PAIRS_AT_5, abs=1e-5)


def test_simcse_unsupervised_without_dropout_among_unrelated_sentences_is_zero():
    unit = torch.eye(4)
    assert simcse_unsupervised(unit, unit).item() == pytest.approx(0, abs=1e-5)  # ln(1 + 3·e⁻²⁰)


# info_nce


def test_info_nce_by_hand():
    first, second = log(exp(3) + 1) - 3, log(exp(4) + exp(5)) - 5  # at τ = 0.2
    assert info_nce(*PAIRS, temperature=0.2).item() == pytest.approx((first + second) / 2, abs=1e-5)


def test_info_nce_against_the_others_by_hand():
    first, second = log(1 + 1) - 3, log(exp(4) + 1) - 5  # p₂ and a₂; p₁ and a₁
    value = info_nce(*PAIRS, temperature=0.2, denominator="others").item()
    assert value == pytest.approx((first + second) / 2, abs=1e-5)


def test_info_nce_of_equal_embeddings_is_the_log_of_the_choices():
    same_BD = torch.ones(4, 3)
    assert info_nce(same_BD, same_BD).item() == pytest.approx(log(4), abs=1e-5)
    # the positive against 3 of each side
    assert info_nce(same_BD, same_BD, denominator="others").item() == pytest.approx(log(6), abs=1e-5)


def test_info_nce_against_the_others_equals_the_formula():
    for seed in SEEDS:
        a_BD, p_BD, _ = (F.normalize(side.double(), dim=-1) for side in draw_sides(seed))
        total = 0.0
        for i in range(5):
            rest = [h for j in range(5) if j != i for h in (a_BD[j], p_BD[j])]
            total -= log(exp(a_BD[i] @ p_BD[i] / 0.5) / sum(exp(a_BD[i] @ h / 0.5) for h in rest))
        value = info_nce(a_BD, p_BD, temperature=0.5, denominator="others").item()
        assert value == pytest.approx(total / 5, abs=1e-12)


def test_info_nce_against_the_others_with_the_positive_put_back_equals_that_of_sentence_transformers():
    # On a wheel all rows are alike, so the mean is each row's: −log p/(p + o) = softplus(−log p/o).
    angles = torch.arange(6, dtype=torch.float64) * 2 * pi / 6
    a_BD = torch.stack([angles.cos(), angles.sin()], dim=1)
    p_BD = torch.stack([(angles + 0.3).cos(), (angles + 0.3).sin()], dim=1)
    directions = ("query_to_doc", "query_to_query")
    theirs = on_embeddings(MultipleNegativesRankingLoss, scale=2.0, directions=directions)
    ours = F.softplus(info_nce(a_BD, p_BD, temperature=0.5, denominator="others"))
    torch.testing.assert_close(ours, theirs(a_BD, p_BD))


@pytest.mark.parametrize("temperature", [0.05, 0.3])
def test_info_nce_equals_that_of_pytorch_metric_learning(temperature):
    theirs = NTXentLoss(temperature=temperature)
    own_B, other_B = torch.arange(5), torch.arange(5)  # if both were one object it would treat both sides as one
    for seed in SEEDS:
        assert_same_value_and_gradients(
            partial(info_nce, temperature=temperature),
            lambda a_BD, p_BD: theirs(a_BD, own_B, ref_emb=p_BD, ref_labels=other_B),
            draw_sides(seed)[:2],
        )


def test_closer_positives_lower_the_loss():
    for seed in SEEDS:
        a_BD, p_BD, _ = draw_sides(seed)
        for denominator in ("all", "others"):
            loss = partial(info_nce, denominator=denominator)
            _, grad_p_BD = gradients_of(loss, [a_BD, p_BD])
            assert loss(a_BD, p_BD - 1e-3 * grad_p_BD) < loss(a_BD, p_BD)


@pytest.mark.parametrize("denominator", ["all", "others"])
@pytest.mark.parametrize("negatives", ["batch", "labelled"])
@pytest.mark.parametrize("hardest", [None, 1, 3, 99])
@pytest.mark.parametrize("triplets", [False, True])
def test_info_nce_equals_the_formula_for_every_choice_of_negatives(denominator, negatives, hardest, triplets):
    same = [True, False, True, False, True]
    for seed in SEEDS:
        a_BD, p_BD, n_BD = (F.normalize(side.double(), dim=-1) for side in draw_sides(seed))
        total = 0.0
        for i in (0, 2, 4):
            rows = [j for j in range(5) if j != i and not (negatives == "labelled" and same[j])]
            others = [p_BD[j] for j in rows] + ([a_BD[j] for j in rows] if denominator == "others" else [])
            others += list(n_BD) if triplets else []
            found = sorted((float(a_BD[i] @ h) / 0.5 for h in others), reverse=True)[:hardest]
            own = float(a_BD[i] @ p_BD[i]) / 0.5
            total += log(sum(map(exp, found)) + (exp(own) if denominator == "all" else 0)) - own
        third = (n_BD,) if triplets else ()
        options = {"temperature": 0.5, "denominator": denominator, "negatives": negatives, "hardest": hardest}
        value = info_nce(a_BD, p_BD, torch.tensor(same), *third, **options).item()
        assert value == pytest.approx(total / 3, abs=1e-12)


@pytest.mark.parametrize("denominator", ["all", "others"])
def test_info_nce_without_negatives_is_zero_with_gradients_of_zero(denominator):
    a_BD, p_BD, _ = draw_sides(0)
    for same in ([False] * 5, [True] * 5):  # no anchors; no pair that is labelled as different
        loss = partial(info_nce, anchor_B=torch.tensor(same), negatives="labelled", denominator=denominator)
        assert loss(a_BD, p_BD).item() == 0.0
        assert all(grad_BD.abs().max() == 0 for grad_BD in gradients_of(loss, [a_BD, p_BD]))


# multiple_negatives


def test_multiple_negatives_by_hand():
    # cosine × 5: as info_nce at τ = 0.2
    assert multiple_negatives(*PAIRS, scale=5.0).item() == pytest.approx(PAIRS_AT_5, abs=1e-5)
    # dot × 0.5: a₁ to p₁ 1.5, p₂ 0; a₂ to p₁ 2, p₂ 1
    first, second = log(exp(1.5) + 1) - 1.5, log(exp(2) + exp(1)) - 1
    value = multiple_negatives(*PAIRS, scale=0.5, similarity="dot").item()
    assert value == pytest.approx((first + second) / 2, abs=1e-5)


def test_multiple_negatives_of_zeros_is_the_log_of_the_batch_size():
    zero_BD = torch.zeros(7, 3)
    assert multiple_negatives(zero_BD, zero_BD, similarity="dot").item() == pytest.approx(log(7), abs=1e-5)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_multiple_negatives_equals_that_of_sentence_transformers(similarity):
    other = {"similarity_fct": dot_score} if similarity == "dot" else {}
    scale = 20.0 if similarity == "cosine" else 0.5
    theirs = on_embeddings(MultipleNegativesRankingLoss, scale=scale, **other)
    options = {} if similarity == "cosine" else {"scale": 0.5, "similarity": "dot"}
    for seed in SEEDS:
        assert_same_value_and_gradients(partial(multiple_negatives, **options), theirs, draw_sides(seed, rows=7)[:2])


# Hard negatives


def test_hard_negatives_join_the_candidates():
    for seed in SEEDS:
        a_BD, p_BD, n_BD = draw_sides(seed)
        expected = simcse_supervised(a_BD, p_BD, n_BD, temperature=0.1)
        torch.testing.assert_close(info_nce(a_BD, p_BD, None, n_BD, temperature=0.1), expected)
        torch.testing.assert_close(multiple_negatives(a_BD, p_BD, n_BD, scale=10.0), expected)


def test_info_nce_against_the_others_and_hard_negatives_by_hand():
    # Cosines as above; n₁ = (0, 1), n₂ = (1, 0). The others of a₁: a₂ 0, p₂ 0, n₁ 0, n₂ 1; of a₂: a₁ 0, p₁ 0.8, n₁ 1,
    # n₂ 0.
    negative_BD = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    value = info_nce(*PAIRS, None, negative_BD, temperature=0.2, denominator="others").item()
    expected = (log(3 + exp(5)) - 3 + log(2 + exp(4) + exp(5)) - 5) / 2
    assert value == pytest.approx(expected, abs=1e-5)


def test_single_triplet_is_compared_with_its_hard_negative():
    anchor_BD, positive_BD, negative_BD = torch.tensor([[[1.0, 0.0]], [[0.6, 0.8]], [[0.0, 1.0]]])
    value = info_nce(anchor_BD, positive_BD, None, negative_BD, temperature=0.2, denominator="others").item()
    assert value == pytest.approx(-3.0, abs=1e-5)  # 0 against 0.6 / 0.2
