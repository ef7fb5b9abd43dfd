"""The losses of embeddings against hand values, properties, sentence-transformers and pytorch-metric-learning.

1e-5 is what float32 leaves.
"""

from functools import partial
from math import cos, exp, log, pi, sin, sqrt

import pytest
import torch
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.losses import NTXentLoss, SupConLoss, TripletMarginLoss
from pytorch_metric_learning.reducers import MeanReducer
from sentence_transformers.sentence_transformer.losses import (
    ContrastiveLoss,
    MultipleNegativesRankingLoss,
    SiameseDistanceMetric,
    TripletDistanceMetric,
    TripletLoss,
)
from sentence_transformers.util import dot_score
from torch import Tensor

from plait.heads import HEADS, Size
from plait.losses import LOSSES
from plait.losses.embedding import (
    contrastive,
    info_nce,
    multiple_negatives,
    simcse_supervised,
    simcse_unsupervised,
    supervised_contrastive,
    triplet,
)
from plait.recipe.options import complete_options

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


def assert_same(ours, theirs, *sides: Tensor, **tolerance: float) -> None:
    """Value and gradients are equal."""
    tolerance = tolerance or ROUNDING
    torch.testing.assert_close(ours(*sides), theirs(*sides), **tolerance)
    for own, other in zip(gradients(ours, *sides), gradients(theirs, *sides), strict=True):
        torch.testing.assert_close(own, other, **tolerance)


def labelled(loss, label_B: Tensor, **options):
    """A loss of embeddings alone, its labels being given."""
    return lambda *sides: loss(*sides, label_B[: len(sides[0])], **options)


# simcse_supervised: by hand


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


# simcse_supervised: identity


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


# simcse_supervised: properties


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


# simcse_supervised: parity


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

        assert_same(ours, other, *sides)


def test_it_reads_triplets_and_learns_from_nothing_else():
    loss = LOSSES["simcse_supervised"]
    assert (loss.function, loss.reads, dict(loss.links)) == (simcse_supervised, ("triple",), {"triplets": "sigmoid"})


# All of them

SAME_B = torch.tensor([1, 0, 0, 1, 1])
LABEL_B = torch.tensor([0, 1, 0, 2, 0])  # the second and the fourth stand alone
SIDES = {  # each loss as a function of its sides, and how many it takes
    "info_nce": (info_nce, 2),
    "info_nce, others": (partial(info_nce, denominator="others"), 2),
    "simcse_unsupervised": (simcse_unsupervised, 2),
    "simcse_supervised": (simcse_supervised, 3),
    "multiple_negatives": (multiple_negatives, 2),
    "multiple_negatives, dot": (partial(multiple_negatives, similarity="dot", scale=1.0), 2),
    "contrastive": (labelled(contrastive, SAME_B), 2),
    "contrastive, euclidean": (labelled(contrastive, SAME_B, distance="euclidean", margin=5.0), 2),
    "contrastive, cosine": (labelled(contrastive, SAME_B, distance="cosine", margin=0.5), 2),
    "triplet": (partial(triplet, margin=1.0), 3),
    "triplet, euclidean": (partial(triplet, distance="euclidean", margin=3.0), 3),
    "triplet, cosine": (partial(triplet, distance="cosine", margin=0.5), 3),
    "supervised_contrastive": (labelled(supervised_contrastive, LABEL_B), 1),
}
EVERY = pytest.mark.parametrize(("loss", "count"), SIDES.values(), ids=SIDES)
OF_LENGTHS = ("dot", "euclidean")  # all others look at directions only


@EVERY
def test_the_gradients_are_those_of_finite_differences(loss, count):
    for seed in range(3):
        sides = [side.double().requires_grad_() for side in draw(seed, width=3)[:count]]
        assert torch.autograd.gradcheck(loss, sides)


@EVERY
def test_an_empty_batch_costs_nothing_and_can_be_trained_on(loss, count):
    sides = [side.requires_grad_() for side in torch.zeros(count, 0, 8).unbind()]
    value = loss(*sides)
    assert value.item() == 0 and value.shape == () and value.requires_grad
    value.backward()
    assert all(side.grad.shape == (0, 8) for side in sides)


@pytest.mark.parametrize("name", ["info_nce", "info_nce, others", "simcse_unsupervised", "multiple_negatives",
                                  "multiple_negatives, dot", "supervised_contrastive"])  # fmt: skip
def test_one_row_has_nothing_to_be_told_from(name):
    loss, count = SIDES[name]
    sides = [side.requires_grad_() for side in draw(0, rows=1)[:count]]
    value = loss(*sides)
    assert value.item() == 0 and value.requires_grad
    value.backward()
    assert all(torch.equal(side.grad, torch.zeros(1, 8)) for side in sides)


@EVERY
def test_of_equal_embeddings_the_gradients_are_finite(loss, count):
    same_BD = torch.ones(5, 8)
    for gradient_BD in gradients(loss, *[same_BD] * count):
        assert gradient_BD.isfinite().all()


@pytest.mark.parametrize("name", [name for name in SIDES if not name.endswith(OF_LENGTHS)])
def test_directions_alone_matter(name):
    loss, count = SIDES[name]
    for seed in SEEDS:
        sides = draw(seed)[:count]
        stretched = loss(*(factor * side for factor, side in zip((100, 0.01, 7), sides, strict=False)))
        torch.testing.assert_close(stretched, loss(*sides), **ROUNDING)


@EVERY
def test_a_turn_of_all_embeddings_does_not_matter(loss, count):
    for seed in SEEDS:
        sides = draw(seed)[:count]
        turn_DD, _ = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(seed)))
        turned = loss(*(side @ turn_DD for side in sides))
        torch.testing.assert_close(turned, loss(*sides), atol=1e-4, rtol=1e-5)  # two products more


@pytest.mark.parametrize("name", [name for name in SIDES if not name.startswith(("contrastive", "supervised"))])
def test_the_order_of_the_rows_does_not_matter(name):
    loss, count = SIDES[name]
    for seed in SEEDS:
        sides = draw(seed)[:count]
        order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(loss(*(side[order] for side in sides)), loss(*sides), **ROUNDING)


@pytest.mark.parametrize("name", ["contrastive", "supervised_contrastive"])
def test_the_order_of_the_labelled_rows_does_not_matter(name):
    _, count = SIDES[name]
    loss, label_B = (contrastive, SAME_B) if name == "contrastive" else (supervised_contrastive, LABEL_B)
    for seed in SEEDS:
        sides = draw(seed)[:count]
        order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
        ordered = loss(*(side[order] for side in sides), label_B[order])
        torch.testing.assert_close(ordered, loss(*sides, label_B), **ROUNDING)


@pytest.mark.parametrize("loss", [info_nce, simcse_unsupervised, multiple_negatives])
def test_unequal_sides_are_refused_with_both_shapes(loss):
    with pytest.raises(ValueError) as caught:
        loss(torch.zeros(2, 3), torch.zeros(3, 3))
    assert str(caught.value) == f"{loss.__name__} needs equal shapes, got (2, 3), (3, 3)"


def test_unequal_sides_of_triplets_and_labelled_pairs_are_refused():
    with pytest.raises(ValueError, match=r"^triplet needs equal shapes, got \(2, 3\), \(2, 3\), \(2, 4\)$"):
        triplet(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"^contrastive needs equal shapes, got \(2, 3\), \(2, 4\)$"):
        contrastive(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2))


@pytest.mark.parametrize("shape", [(3,), (2, 1), ()])
def test_labels_that_are_not_one_a_row_are_refused(shape):
    message = f"needs one label a row, got labels {shape} for embeddings (2, 3)"
    with pytest.raises(ValueError) as caught:
        contrastive(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(shape))
    assert str(caught.value) == f"contrastive {message}"
    with pytest.raises(ValueError) as caught:
        supervised_contrastive(torch.zeros(2, 3), torch.zeros(shape))
    assert str(caught.value) == f"supervised_contrastive {message}"


@pytest.mark.parametrize(
    ("loss", "given", "mistake"),
    [
        (info_nce, {"temperature": 0}, ".temperature: expected greater than 0, found 0"),
        (info_nce, {"denominator": "some"}, ".denominator: expected 'all' or 'others', found 'some'"),
        (simcse_unsupervised, {"temperature": -1}, ".temperature: expected greater than 0, found -1"),
        (multiple_negatives, {"scale": 0}, ".scale: expected greater than 0, found 0"),
        (multiple_negatives, {"similarity": "l2"}, ".similarity: expected 'cosine' or 'dot', found 'l2'"),
        (contrastive, {"margin": 0}, ".margin: expected greater than 0, found 0"),
        (triplet, {"margin": -0.1}, ".margin: expected greater than or equal to 0, found -0.1"),
        (supervised_contrastive, {"temperature": 0}, ".temperature: expected greater than 0, found 0"),
    ],
)
def test_options_out_of_bounds_are_refused_as_a_recipe_reads_them(loss, given, mistake):
    assert complete_options(loss, given)[1] == [mistake]


# info_nce

# a₁ = (1, 0), a₂ = (0, 1); p₁ = (0.6, 0.8), p₂ = (0, 1). Cosines: a₁ to p₁ 0.6, p₂ 0, a₂ 0; a₂ to p₂ 1, p₁ 0.8, a₁ 0.
PAIRS = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[3.0, 4.0], [0.0, 2.0]])


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


def test_others_is_the_sum_of_the_formula():
    for seed in SEEDS:
        a_BD, p_BD, _ = (torch.nn.functional.normalize(side.double(), dim=-1) for side in draw(seed))
        total = 0.0
        for i in range(5):
            rest = [h for j in range(5) if j != i for h in (a_BD[j], p_BD[j])]
            total -= log(exp(a_BD[i] @ p_BD[i] / 0.5) / sum(exp(a_BD[i] @ h / 0.5) for h in rest))
        value = info_nce(a_BD, p_BD, temperature=0.5, denominator="others").item()
        assert value == pytest.approx(total / 5, abs=1e-12)


def test_with_the_positive_put_back_others_is_what_sentence_transformers_has():
    # On a wheel all rows are alike, so the mean is each row's: −log p/(p + o) = softplus(−log p/o).
    angles = torch.arange(6, dtype=torch.float64) * 2 * pi / 6
    a_BD = torch.stack([angles.cos(), angles.sin()], dim=1)
    p_BD = torch.stack([(angles + 0.3).cos(), (angles + 0.3).sin()], dim=1)
    theirs = MultipleNegativesRankingLoss(Given(), scale=2.0, directions=("query_to_doc", "query_to_query"))
    expected = theirs([{"sentence_embedding": a_BD}, {"sentence_embedding": p_BD}], torch.empty(0))
    ours = torch.nn.functional.softplus(info_nce(a_BD, p_BD, temperature=0.5, denominator="others"))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("temperature", [0.05, 0.3])
def test_info_nce_is_that_of_pytorch_metric_learning(temperature):
    theirs = NTXentLoss(temperature=temperature)
    own_B, other_B = torch.arange(5), torch.arange(5)  # given one object twice it would take both sides for one
    for seed in SEEDS:
        assert_same(
            partial(info_nce, temperature=temperature),
            lambda a_BD, p_BD: theirs(a_BD, own_B, ref_emb=p_BD, ref_labels=other_B),
            *draw(seed)[:2],
        )


def test_a_nearer_positive_costs_less():
    for seed in SEEDS:
        a_BD, p_BD, _ = draw(seed)
        for denominator in ("all", "others"):
            before = info_nce(a_BD, p_BD, denominator=denominator)
            _, to_p_BD = gradients(partial(info_nce, denominator=denominator), a_BD, p_BD)
            assert info_nce(a_BD, p_BD - 1e-3 * to_p_BD, denominator=denominator) < before


# simcse_unsupervised, multiple_negatives


def test_simcse_unsupervised_is_info_nce_of_the_two_passes():
    first_BD, second_BD, _ = draw(0)
    assert torch.equal(simcse_unsupervised(first_BD, second_BD), info_nce(first_BD, second_BD, temperature=0.05))
    value = simcse_unsupervised(*PAIRS, temperature=0.2).item()
    assert value == pytest.approx((log(exp(3) + 1) - 3 + log(exp(4) + exp(5)) - 5) / 2, abs=1e-5)


def test_simcse_unsupervised_without_dropout_among_unrelated_ones_costs_nothing():
    unit = torch.eye(4)
    assert simcse_unsupervised(unit, unit).item() == pytest.approx(0, abs=1e-5)  # ln(1 + 3·e⁻²⁰)


def test_multiple_negatives_by_hand():
    # cosine × 5: as info_nce at τ = 0.2
    value = multiple_negatives(*PAIRS, scale=5.0).item()
    assert value == pytest.approx((log(exp(3) + 1) - 3 + log(exp(4) + exp(5)) - 5) / 2, abs=1e-5)
    # dot × 0.5: a₁ to p₁ 1.5, p₂ 0; a₂ to p₁ 2, p₂ 1
    first, second = log(exp(1.5) + 1) - 1.5, log(exp(2) + exp(1)) - 1
    value = multiple_negatives(*PAIRS, scale=0.5, similarity="dot").item()
    assert value == pytest.approx((first + second) / 2, abs=1e-5)


def test_multiple_negatives_of_zeros_is_the_log_of_the_batch():
    zero_BD = torch.zeros(7, 3)
    assert multiple_negatives(zero_BD, zero_BD, similarity="dot").item() == pytest.approx(log(7), abs=1e-5)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_multiple_negatives_is_that_of_sentence_transformers(similarity):
    other = {"similarity_fct": dot_score} if similarity == "dot" else {}
    theirs = MultipleNegativesRankingLoss(Given(), scale=20.0 if similarity == "cosine" else 0.5, **other)
    options = {} if similarity == "cosine" else {"scale": 0.5, "similarity": "dot"}
    for seed in SEEDS:
        assert_same(
            partial(multiple_negatives, **options),
            lambda *sides: theirs([{"sentence_embedding": side} for side in sides], torch.empty(0)),
            *draw(seed, rows=7)[:2],
        )


# Hard negatives


def test_hard_negatives_join_those_that_a_positive_is_found_among():
    for seed in SEEDS:
        a_BD, p_BD, n_BD = draw(seed)
        expected = simcse_supervised(a_BD, p_BD, n_BD, temperature=0.1)
        torch.testing.assert_close(info_nce(a_BD, p_BD, n_BD, temperature=0.1), expected)
        torch.testing.assert_close(multiple_negatives(a_BD, p_BD, n_BD, scale=10.0), expected)


def test_info_nce_against_the_others_and_hard_negatives_by_hand():
    # Cosines as above; n₁ = (0, 1), n₂ = (1, 0). Against a₁'s positive stand a₂ 0, p₂ 0, n₁ 0, n₂ 1; of a₂: a₁ 0,
    # p₁ 0.8, n₁ 1, n₂ 0.
    negative_BD = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    value = info_nce(*PAIRS, negative_BD, temperature=0.2, denominator="others").item()
    expected = (log(3 + exp(5)) - 3 + log(2 + exp(4) + exp(5)) - 5) / 2
    assert value == pytest.approx(expected, abs=1e-5)


def test_one_triplet_has_its_hard_negative_to_tell_apart():
    anchor_BD, positive_BD, negative_BD = torch.tensor([[[1.0, 0.0]], [[0.6, 0.8]], [[0.0, 1.0]]])
    value = info_nce(anchor_BD, positive_BD, negative_BD, temperature=0.2, denominator="others").item()
    assert value == pytest.approx(-3.0, abs=1e-5)  # 0 against 0.6 / 0.2


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


def test_contrastive_of_pairs_that_are_as_they_should_be_costs_nothing():
    unit = torch.eye(4)
    same_B = torch.tensor([True, True, False, False])
    second_BD = torch.stack([unit[0], 3 * unit[1], -unit[2], unit[1]])  # √2 and 2 apart, more than the margin of 1
    first_BD = unit.clone().requires_grad_()
    value = contrastive(first_BD, second_BD, same_B)
    value.backward()
    assert value.item() == 0 and torch.equal(first_BD.grad, torch.zeros(4, 4))


def test_two_that_differ_and_lie_on_one_point_cost_half_the_squared_margin():
    value = contrastive(torch.ones(1, 3), torch.ones(1, 3), torch.tensor([0]), margin=0.6).item()
    assert value == pytest.approx(0.18, abs=1e-5)


def test_which_side_is_first_does_not_matter():
    for seed in SEEDS:
        first_BD, second_BD, _ = draw(seed)
        for distance in ("unit_euclidean", "euclidean", "cosine"):
            forth = contrastive(first_BD, second_BD, SAME_B, distance=distance)
            assert torch.equal(forth, contrastive(second_BD, first_BD, SAME_B, distance=distance))


@pytest.mark.parametrize(
    ("distance", "metric", "margin"),
    [
        ("cosine", SiameseDistanceMetric.COSINE_DISTANCE, 0.5),
        ("euclidean", SiameseDistanceMetric.EUCLIDEAN, 5.0),
    ],
)
def test_contrastive_is_that_of_sentence_transformers(distance, metric, margin):
    theirs = ContrastiveLoss(Given(), distance_metric=metric, margin=margin)
    for seed in SEEDS:
        assert_same(
            labelled(contrastive, SAME_B, distance=distance, margin=margin),
            lambda *sides: theirs([{"sentence_embedding": side} for side in sides], SAME_B),
            *draw(seed)[:2],
        )


# triplet


def turned(degrees: float) -> Tensor:
    return torch.tensor([[cos(degrees * pi / 180), sin(degrees * pi / 180)]])


def test_triplet_by_hand():
    a_BD, p_BD, n_BD = 2 * turned(0), 3 * turned(60), turned(90)
    # squared on unit vectors: 2 − 2·cos 60° = 1 and 2; cosine: 0.5 and 1; euclidean: √(4 + 9 − 6) and √5
    assert triplet(a_BD, p_BD, n_BD, margin=1.5).item() == pytest.approx(0.5, abs=1e-5)
    assert triplet(a_BD, p_BD, n_BD, margin=1.5, distance="cosine").item() == pytest.approx(1, abs=1e-5)
    value = triplet(a_BD, p_BD, n_BD, distance="euclidean").item()
    assert value == pytest.approx(sqrt(7) - sqrt(5) + 0.2, abs=1e-5)


def test_triplet_is_the_mean_over_triplets_with_those_that_cost_nothing():
    a_BD, p_BD, n_BD = (torch.cat(sides) for sides in ((turned(0),) * 2, (turned(60), turned(0)), (turned(90),) * 2))
    assert triplet(a_BD, p_BD, n_BD, margin=1.5).item() == pytest.approx(0.25, abs=1e-5)


def test_a_positive_that_is_the_negative_costs_the_margin():
    for seed in SEEDS:
        a_BD, p_BD, _ = draw(seed)
        for distance in ("unit_squared", "euclidean", "cosine"):
            assert triplet(a_BD, p_BD, p_BD, margin=0.7, distance=distance).item() == pytest.approx(0.7, abs=1e-5)


def test_the_two_orders_of_a_triplet_cost_twice_the_margin_while_both_are_within_it():
    for seed in SEEDS:
        a_BD, p_BD, n_BD = draw(seed)
        for distance in ("unit_squared", "euclidean", "cosine"):
            loss = partial(triplet, margin=50.0, distance=distance)
            assert (loss(a_BD, p_BD, n_BD) + loss(a_BD, n_BD, p_BD)).item() == pytest.approx(100, abs=1e-4)


@pytest.mark.parametrize(
    ("distance", "metric"), [("cosine", TripletDistanceMetric.COSINE), ("euclidean", TripletDistanceMetric.EUCLIDEAN)]
)
def test_triplet_is_that_of_sentence_transformers(distance, metric):
    theirs = TripletLoss(Given(), distance_metric=metric, triplet_margin=0.5)
    for seed in SEEDS:
        assert_same(
            partial(triplet, margin=0.5, distance=distance),
            lambda *sides: theirs([{"sentence_embedding": side} for side in sides], torch.empty(0)),
            *draw(seed),
        )


def test_triplet_is_that_of_pytorch_metric_learning():
    theirs = TripletMarginLoss(margin=0.2, distance=LpDistance(power=2), reducer=MeanReducer())
    places = tuple(torch.arange(15).view(3, 5))
    for seed in SEEDS:
        assert_same(triplet, lambda *sides: theirs(torch.cat(sides), indices_tuple=places), *draw(seed))


# supervised_contrastive


def test_supervised_contrastive_by_hand():
    x_BD = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]])  # cosines: 1–2 0.6, 1–3 0, 2–3 0.8
    value = supervised_contrastive(x_BD, torch.tensor([0, 0, 1]), temperature=0.2).item()
    first, second = log(exp(3) + 1) - 3, log(exp(3) + exp(4)) - 3  # the third has no positive
    assert value == pytest.approx((first + second) / 2, abs=1e-5)


def test_of_several_positives_the_log_probabilities_are_averaged():
    x_BD = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    value = supervised_contrastive(x_BD, torch.tensor([5, 5, 5]), temperature=0.2).item()
    first = log(exp(3) + 1) - (3 + 0) / 2
    second = log(exp(3) + exp(4)) - (3 + 4) / 2
    third = log(1 + exp(4)) - (0 + 4) / 2
    assert value == pytest.approx((first + second + third) / 3, abs=1e-5)


def test_supervised_contrastive_of_equal_embeddings_is_the_log_of_the_others():
    for label_B in (torch.zeros(6), torch.tensor([0, 0, 0, 1, 1, 1]), LABEL_B.repeat(2)[:6]):
        assert supervised_contrastive(torch.ones(6, 3), label_B).item() == pytest.approx(log(5), abs=1e-5)


def test_a_batch_in_which_no_class_comes_twice_costs_nothing_and_can_be_trained_on():
    x_BD = draw(0)[0].requires_grad_()
    value = supervised_contrastive(x_BD, torch.arange(5))
    value.backward()
    assert value.item() == 0 and torch.equal(x_BD.grad, torch.zeros(5, 8))


def test_the_names_of_the_classes_do_not_matter():
    for seed in SEEDS:
        x_BD = draw(seed)[0]
        named = supervised_contrastive(x_BD, torch.tensor([7, -3, 7, 100, 7]))
        assert torch.equal(named, supervised_contrastive(x_BD, LABEL_B))


def test_with_pairs_of_classes_it_is_info_nce_from_both_sides_of_all_sentences():
    # B classes of two sentences each: every sentence finds the other of its class among 2B − 1.
    for seed in SEEDS:
        first_BD, second_BD, _ = draw(seed)
        both_BD, own_B = torch.nn.functional.normalize(torch.cat([first_BD, second_BD]), dim=-1), torch.arange(5)
        scores_BB = (both_BD @ both_BD.T / 0.3).fill_diagonal_(float("-inf"))
        expected = torch.nn.functional.cross_entropy(scores_BB, torch.arange(10).roll(5))
        torch.testing.assert_close(supervised_contrastive(both_BD, own_B.repeat(2)), expected, **ROUNDING)


@pytest.mark.parametrize("temperature", [0.1, 0.3])
@pytest.mark.parametrize("label_B", [LABEL_B, torch.tensor([0, 1, 1, 0, 0])])
def test_supervised_contrastive_is_that_of_pytorch_metric_learning(temperature, label_B):
    theirs = SupConLoss(temperature=temperature)
    for seed in SEEDS:
        x_BD = draw(seed)[0]
        assert_same(
            labelled(supervised_contrastive, label_B, temperature=temperature),
            lambda side_BD: theirs(side_BD, label_B),
            x_BD,
        )
