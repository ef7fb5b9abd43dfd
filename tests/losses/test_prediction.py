"""Losses on predictions against values by hand and the plain formulas; 1e-5 is the rounding of float32 sums."""

from math import log

import pytest
import torch
from torch import Tensor

from loss_cases import SEEDS
from plait.losses.prediction import binary_cross_entropy, cross_entropy, distil, mse, threshold_problem
from properties import ROUNDING


def draw(seed: int, classes: int, rows: int = 7) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    outputs_BC = 3 * torch.randn(rows, classes, generator=generator)
    return outputs_BC, torch.randint(max(2, classes), (rows,), generator=generator)


def column(*values: float) -> Tensor:
    return torch.tensor(values).unsqueeze(-1)


def gradient(loss, outputs_BC: Tensor, label_B: Tensor, *rest, **options) -> Tensor:
    outputs_BC = outputs_BC.clone().requires_grad_()
    loss(outputs_BC, label_B, *rest, **options).backward()
    return outputs_BC.grad


# cross_entropy


def test_cross_entropy_by_hand():
    outputs_BC, label_B = torch.tensor([[0.0, log(3)], [0.0, 0.0]]), torch.tensor([1, 0])
    # softmax (1/4, 3/4) and (1/2, 1/2): (−ln 3/4 − ln 1/2) / 2
    value = cross_entropy(outputs_BC, label_B, None, 0.0).item()
    assert value == pytest.approx((log(4 / 3) + log(2)) / 2, abs=1e-5)


def test_cross_entropy_with_class_weights_by_hand():
    outputs_BC, label_B = torch.tensor([[0.0, log(3)], [0.0, 0.0]]), torch.tensor([1, 0])
    # the first row has weight 3, the second 1: (3·ln 4/3 + 1·ln 2) / 4
    value = cross_entropy(outputs_BC, label_B, torch.tensor([1.0, 3.0]), 0.0).item()
    assert value == pytest.approx((3 * log(4 / 3) + log(2)) / 4, abs=1e-5)


def test_cross_entropy_with_label_smoothing_by_hand():
    # targets (0.1, 0.9) on softmax (1/4, 3/4): 0.1·ln 4 + 0.9·ln 4/3
    value = cross_entropy(torch.tensor([[0.0, log(3)]]), torch.tensor([1]), None, 0.2).item()
    assert value == pytest.approx(0.1 * log(4) + 0.9 * log(4 / 3), abs=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_equal_logits_is_the_log_of_the_classes(smoothing):
    label_B = torch.arange(5)
    value = cross_entropy(torch.full((5, 5), 2.5), label_B, None, smoothing).item()
    assert value == pytest.approx(log(5), abs=1e-5)


def test_cross_entropy_equals_minus_the_log_of_the_softmax():
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 4)
        chosen_B = torch.softmax(outputs_BC.double(), dim=1)[torch.arange(7), label_B]
        torch.testing.assert_close(
            cross_entropy(outputs_BC, label_B, None, 0.0).double(), -chosen_B.log().mean(), **ROUNDING
        )


def test_shifting_all_logits_of_a_row_does_not_change_cross_entropy():
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 4)
        shift_B1 = torch.randn(7, 1, generator=torch.Generator().manual_seed(seed))
        moved = cross_entropy(outputs_BC + shift_B1, label_B, None, 0.1)
        torch.testing.assert_close(cross_entropy(outputs_BC, label_B, None, 0.1), moved, **ROUNDING)


def test_cross_entropy_raises_the_correct_logit_and_lowers_the_others():
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 4)
        gradient_BC = gradient(cross_entropy, outputs_BC, label_B, None, 0.0)
        correct_BC = torch.nn.functional.one_hot(label_B, 4)
        torch.testing.assert_close(gradient_BC, (outputs_BC.softmax(dim=1) - correct_BC) / 7, **ROUNDING)
        assert (gradient_BC[correct_BC == 1] < 0).all() and (gradient_BC[correct_BC == 0] > 0).all()


def test_equal_class_weights_do_not_change_cross_entropy():
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 4)
        for smoothing in (0.0, 0.2):
            plain = cross_entropy(outputs_BC, label_B, None, smoothing)
            torch.testing.assert_close(
                cross_entropy(outputs_BC, label_B, torch.full((4,), 3.0), smoothing), plain, **ROUNDING
            )


def test_cross_entropy_of_extreme_logits_is_finite():
    outputs_BC = torch.tensor([[1e4, -1e4], [1e4, -1e4]])
    # correct: 0; wrong: the distance of the logits, 2e4; the mean is 1e4
    assert cross_entropy(outputs_BC, torch.tensor([0, 1]), None, 0.0).item() == 1e4
    assert torch.isfinite(gradient(cross_entropy, outputs_BC, torch.tensor([0, 1]), None, 0.0)).all()


# binary_cross_entropy


def test_binary_cross_entropy_by_hand():
    # sigmoid(ln 3) = 3/4: yes costs −ln 3/4, no costs −ln 1/4; sigmoid(0) = 1/2 costs ln 2
    value = binary_cross_entropy(column(log(3), log(3), 0.0), torch.tensor([1, 0, 1]), None, 0.0).item()
    assert value == pytest.approx((log(4 / 3) + log(4) + log(2)) / 3, abs=1e-5)


def test_binary_cross_entropy_with_class_weights_by_hand():
    # (no, yes) have weights (1, 3): (3·ln 4/3 + 1·ln 4) / 4
    outputs_BC, label_B = column(log(3), log(3)), torch.tensor([1, 0])
    value = binary_cross_entropy(outputs_BC, label_B, torch.tensor([1.0, 3.0]), 0.0).item()
    assert value == pytest.approx((3 * log(4 / 3) + log(4)) / 4, abs=1e-5)


def test_binary_cross_entropy_with_label_smoothing_by_hand():
    # yes becomes 0.9: 0.9·ln 4/3 + 0.1·ln 4; no becomes 0.1: 0.1·ln 4/3 + 0.9·ln 4
    outputs_BC = column(log(3))
    yes = binary_cross_entropy(outputs_BC, torch.tensor([1]), None, 0.2).item()
    no = binary_cross_entropy(outputs_BC, torch.tensor([0]), None, 0.2).item()
    assert [yes, no] == pytest.approx([0.9 * log(4 / 3) + 0.1 * log(4), 0.1 * log(4 / 3) + 0.9 * log(4)], abs=1e-5)


def test_binary_cross_entropy_one_vs_rest_by_hand():
    # class 0: no at 1/2, ln 2; class 1: yes at 3/4, ln 4/3; class 2: no at 1/4, ln 4/3; the mean of the three
    value = binary_cross_entropy(torch.tensor([[0.0, log(3), -log(3)]]), torch.tensor([1]), None, 0.0).item()
    assert value == pytest.approx((log(2) + 2 * log(4 / 3)) / 3, abs=1e-5)


def test_class_weights_of_one_vs_rest_apply_to_rows():
    outputs_BC, label_B = torch.tensor([[0.0, log(3)], [0.0, log(3)]]), torch.tensor([1, 0])
    # row 0: (ln 2 + ln 4/3) / 2, weight 3; row 1: (ln 2 + ln 4) / 2, weight 1
    value = binary_cross_entropy(outputs_BC, label_B, torch.tensor([1.0, 3.0]), 0.0).item()
    assert value == pytest.approx((3 * (log(2) + log(4 / 3)) / 2 + (log(2) + log(4)) / 2) / 4, abs=1e-5)


def test_multilabel_binary_cross_entropy_by_hand():
    # row 0, labels 0 and 1: ln 2 (at 1/2) and ln 4/3 (yes at 3/4); row 1, no label: ln 2 and ln 4
    outputs_BC, label_BC = torch.tensor([[0.0, log(3)], [0.0, log(3)]]), torch.tensor([[1, 1], [0, 0]])
    value = binary_cross_entropy(outputs_BC, label_BC, None, 0.0).item()
    assert value == pytest.approx((log(2) + log(4 / 3) + log(2) + log(4)) / 4, abs=1e-5)


def test_multilabel_with_one_label_per_row_equals_one_vs_rest():
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 4)
        one_hot_BC = torch.nn.functional.one_hot(label_B, 4)
        multilabel = binary_cross_entropy(outputs_BC, one_hot_BC, None, 0.1)
        torch.testing.assert_close(multilabel, binary_cross_entropy(outputs_BC, label_B, None, 0.1), **ROUNDING)


def test_multilabel_binary_cross_entropy_is_the_mean_over_labels():
    for seed in SEEDS:
        outputs_BC, _ = draw(seed, 4)
        label_BC = torch.randint(2, (7, 4), generator=torch.Generator().manual_seed(seed))
        alone = [binary_cross_entropy(outputs_BC[:, [c]], label_BC[:, c], None, 0.1) for c in range(4)]
        together = binary_cross_entropy(outputs_BC, label_BC, None, 0.1)
        torch.testing.assert_close(together, torch.stack(alone).mean(), **ROUNDING)


@pytest.mark.parametrize("threshold", [3.0, 3.3])
def test_scores_from_the_threshold_on_count_as_yes(threshold):
    # 3.3 is not a float32: a score written 3.3 must still count as ≥ 3.3
    scores_B = torch.tensor([threshold - 0.1, threshold, threshold + 0.1])
    outputs_BC = column(0.3, -1.0, 2.0)
    by_score = binary_cross_entropy(outputs_BC, scores_B, None, 0.1, threshold=threshold)
    assert torch.equal(by_score, binary_cross_entropy(outputs_BC, torch.tensor([0, 1, 1]), None, 0.1))


def test_class_weights_on_scores_follow_the_side_of_the_threshold():
    scores_B, weights_C, outputs_BC = torch.tensor([0.0, 5.0]), torch.tensor([1.0, 3.0]), column(log(3), log(3))
    # no costs ln 4 with weight 1, yes costs ln 4/3 with weight 3
    value = binary_cross_entropy(outputs_BC, scores_B, weights_C, 0.0, threshold=3.0).item()
    assert value == pytest.approx((log(4) + 3 * log(4 / 3)) / 4, abs=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_binary_cross_entropy_of_logits_at_zero_is_the_log_of_two(smoothing):
    one = binary_cross_entropy(column(0.0, 0.0), torch.tensor([0, 1]), None, smoothing).item()
    three = binary_cross_entropy(torch.zeros(3, 3), torch.arange(3), None, smoothing).item()
    assert [one, three] == pytest.approx([log(2)] * 2, abs=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_binary_cross_entropy_of_one_logit_equals_cross_entropy_of_zero_and_that_logit(smoothing):
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 1)
        two_BC = torch.cat([torch.zeros_like(outputs_BC), outputs_BC], dim=1)
        binary = binary_cross_entropy(outputs_BC, label_B, None, smoothing)
        torch.testing.assert_close(binary, cross_entropy(two_BC, label_B, None, smoothing), **ROUNDING)


def test_flipping_sign_and_label_does_not_change_binary_cross_entropy():
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 1)
        flipped = binary_cross_entropy(-outputs_BC, 1 - label_B, None, 0.1)
        torch.testing.assert_close(binary_cross_entropy(outputs_BC, label_B, None, 0.1), flipped, **ROUNDING)


def test_one_vs_rest_is_the_mean_over_classes():
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 4)
        alone = [binary_cross_entropy(outputs_BC[:, [c]], (label_B == c).long(), None, 0.1) for c in range(4)]
        together = binary_cross_entropy(outputs_BC, label_B, None, 0.1)
        torch.testing.assert_close(together, torch.stack(alone).mean(), **ROUNDING)


def test_binary_cross_entropy_raises_yes_and_lowers_no():
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, 1)
        gradient_B = gradient(binary_cross_entropy, outputs_BC, label_B, None, 0.0).squeeze(-1)
        torch.testing.assert_close(gradient_B, (outputs_BC.sigmoid().squeeze(-1) - label_B) / 7, **ROUNDING)
        assert torch.equal(gradient_B < 0, label_B == 1)


@pytest.mark.parametrize("classes", [1, 4])
def test_equal_class_weights_do_not_change_binary_cross_entropy(classes):
    for seed in SEEDS:
        outputs_BC, label_B = draw(seed, classes)
        plain = binary_cross_entropy(outputs_BC, label_B, None, 0.2)
        weights_C = torch.full((max(2, classes),), 3.0)
        torch.testing.assert_close(binary_cross_entropy(outputs_BC, label_B, weights_C, 0.2), plain, **ROUNDING)


def test_binary_cross_entropy_of_extreme_logits_is_finite():
    outputs_BC, label_B = column(1e4, -1e4, 1e4, -1e4), torch.tensor([1, 0, 0, 1])
    # correct: 0, wrong: the logit itself; the mean of 0, 0, 1e4, 1e4
    assert binary_cross_entropy(outputs_BC, label_B, None, 0.0).item() == 5e3
    assert torch.isfinite(gradient(binary_cross_entropy, outputs_BC, label_B, None, 0.0)).all()


# mse


def test_mse_by_hand():
    # ((1 − 2)² + (4 − 2)²) / 2
    assert mse(column(1.0, 4.0), torch.tensor([2.0, 2.0]), None, 0.0).item() == 2.5


def test_mse_of_the_labels_themselves_is_zero():
    scores_B = torch.tensor([0.0, 2.4, 5.0])
    assert mse(scores_B.unsqueeze(-1), scores_B, None, 0.0).item() == 0.0


def test_mse_grows_with_the_square_of_the_error_and_pulls_towards_the_label():
    for seed in SEEDS:
        error_BC, _ = draw(seed, 1)
        label_B = torch.linspace(0, 5, 7)
        outputs_BC = label_B.unsqueeze(-1) + error_BC
        torch.testing.assert_close(mse(outputs_BC, label_B, None, 0.0), (error_BC**2).mean(), **ROUNDING)
        thrice = mse(label_B.unsqueeze(-1) + 3 * error_BC, label_B, None, 0.0)
        torch.testing.assert_close(thrice, 9 * mse(outputs_BC, label_B, None, 0.0), **ROUNDING)
        torch.testing.assert_close(gradient(mse, outputs_BC, label_B, None, 0.0), 2 * error_BC / 7, **ROUNDING)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (1, 1)])
def test_mse_refuses_anything_but_one_output_per_row(shape):
    with pytest.raises(ValueError, match=rf"got \({', '.join(map(str, shape))},?\) for 3 labels"):
        mse(torch.zeros(shape), torch.zeros(3), None, 0.0)


# The threshold of binary_cross_entropy

NEEDS = "scores need a threshold, the score from which an example counts as yes"


@pytest.mark.parametrize(
    ("kind", "threshold", "problem"),
    [
        ("yes_no", None, None),
        ("classes", None, None),
        ("multilabel", None, None),
        ("score", 3.0, None),
        ("score", 5.0, None),  # only the top counts as yes
        ("score", None, NEEDS),
        ("yes_no", 0.5, "yes_no labels take no threshold, the score from which an example counts as yes"),
        ("score", 0.0, "with a threshold of 0 all scores from 0 to 5 fall on one side"),
        ("score", 5.5, "with a threshold of 5.5 all scores from 0 to 5 fall on one side"),
    ],
)
def test_threshold_must_suit_the_labels(kind, threshold, problem):
    assert threshold_problem(kind, {"threshold": threshold}, (0.0, 5.0) if kind == "score" else None) == problem


def test_threshold_without_a_known_range_is_accepted():
    assert threshold_problem("score", {"threshold": 9.0}, None) is None
    assert threshold_problem("score", {}, None) == NEEDS


# distil


@pytest.mark.parametrize(("link", "classes"), [("softmax", 4), ("each", 4), ("sigmoid", 1), ("identity", 1)])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_distil_of_equal_outputs_is_zero_with_gradient_zero(link, classes, temperature):
    for seed in SEEDS:
        outputs_BC, _ = draw(seed, classes)
        assert distil(outputs_BC, outputs_BC, link, temperature=temperature).item() == pytest.approx(0, abs=1e-6)
        slope_BC = gradient(distil, outputs_BC, outputs_BC, link, temperature=temperature)
        torch.testing.assert_close(slope_BC, torch.zeros_like(slope_BC), atol=1e-6, rtol=0)


def test_distil_of_classes_by_hand():
    teacher_BC, outputs_BC = torch.tensor([[0.0, log(3)]]), torch.tensor([[0.0, 0.0]])
    # (1/4, 3/4) against (1/2, 1/2): 1/4·ln 1/2 + 3/4·ln 3/2
    value = distil(outputs_BC, teacher_BC, "softmax").item()
    assert value == pytest.approx(0.25 * log(0.5) + 0.75 * log(1.5), abs=1e-5)


def test_distil_softens_both_sides():
    teacher_BC, outputs_BC = torch.tensor([[0.0, 2 * log(3)]]), torch.tensor([[0.0, 0.0]])
    # halved, the outputs are those above; times 2²
    value = distil(outputs_BC, teacher_BC, "softmax", temperature=2.0).item()
    assert value == pytest.approx(4 * (0.25 * log(0.5) + 0.75 * log(1.5)), abs=1e-5)


def test_distil_of_yes_and_no_by_hand():
    # the teacher says yes with 3/4, the head with 1/2: as with two classes
    assert distil(column(0.0), column(log(3)), "sigmoid").item() == pytest.approx(
        0.25 * log(0.5) + 0.75 * log(1.5), abs=1e-5
    )


def test_distil_of_scores_is_the_squared_difference():
    assert distil(column(1.0, 4.0), column(2.0, 2.0), "identity").item() == pytest.approx(2.5)


def test_distil_does_not_depend_on_a_constant_in_the_teachers_outputs():
    for seed in SEEDS:
        outputs_BC, _ = draw(seed, 5)
        teacher_BC, _ = draw(seed + 100, 5)
        torch.testing.assert_close(
            distil(outputs_BC, teacher_BC + 7, "softmax"), distil(outputs_BC, teacher_BC, "softmax"), **ROUNDING
        )


def test_distil_needs_equal_shapes():
    with pytest.raises(ValueError, match=r"distil needs equal shapes, got \(2, 1\) and \(2, 3\)"):
        distil(torch.zeros(2, 1), torch.zeros(2, 3), "softmax")
