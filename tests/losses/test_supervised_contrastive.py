"""supervised_contrastive against values by hand, cross-entropy and pytorch-metric-learning."""

from functools import partial
from math import exp, log

import pytest
import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import SupConLoss

from loss_cases import SEEDS, draw_sides
from plait.losses.embedding import supervised_contrastive
from properties import ROUNDING, assert_same_value_and_gradients

LABEL_B = torch.tensor([0, 1, 0, 2, 0])  # the second and the fourth are the only ones of their class
X_BD = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]])  # cosines: 1–2 0.6, 1–3 0, 2–3 0.8


def test_supervised_contrastive_by_hand():
    value = supervised_contrastive(X_BD, torch.tensor([0, 0, 1]), temperature=0.2).item()
    first, second = log(exp(3) + 1) - 3, log(exp(3) + exp(4)) - 3  # the third has no positive
    assert value == pytest.approx((first + second) / 2, abs=1e-5)  # float32


def test_log_probabilities_of_several_positives_are_averaged():
    value = supervised_contrastive(X_BD, torch.tensor([5, 5, 5]), temperature=0.2).item()
    first = log(exp(3) + 1) - (3 + 0) / 2
    second = log(exp(3) + exp(4)) - (3 + 4) / 2
    third = log(1 + exp(4)) - (0 + 4) / 2
    assert value == pytest.approx((first + second + third) / 3, abs=1e-5)


def test_equal_embeddings_have_the_log_of_the_number_of_others():
    for label_B in (torch.zeros(6), torch.tensor([0, 0, 0, 1, 1, 1]), LABEL_B.repeat(2)[:6]):
        assert supervised_contrastive(torch.ones(6, 3), label_B).item() == pytest.approx(log(5), abs=1e-5)


def test_batch_in_which_no_class_occurs_twice_has_loss_zero_and_can_be_trained_on():
    x_BD = draw_sides(0)[0].requires_grad_()
    value = supervised_contrastive(x_BD, torch.arange(5))
    value.backward()
    assert value.item() == 0 and torch.equal(x_BD.grad, torch.zeros(5, 8))


def test_names_of_the_classes_do_not_matter():
    for seed in SEEDS:
        x_BD = draw_sides(seed)[0]
        renamed = supervised_contrastive(x_BD, torch.tensor([7, -3, 7, 100, 7]))
        assert torch.equal(renamed, supervised_contrastive(x_BD, LABEL_B))


def test_classes_of_two_sentences_give_the_cross_entropy_of_finding_the_partner():
    # B classes of two sentences each: every sentence finds the other of its class among 2B − 1.
    for seed in SEEDS:
        first_BD, second_BD, _ = draw_sides(seed)
        both_BD, own_B = F.normalize(torch.cat([first_BD, second_BD]), dim=-1), torch.arange(5)
        scores_BB = (both_BD @ both_BD.T / 0.3).fill_diagonal_(float("-inf"))
        expected = F.cross_entropy(scores_BB, torch.arange(10).roll(5))
        torch.testing.assert_close(supervised_contrastive(both_BD, own_B.repeat(2)), expected, **ROUNDING)


@pytest.mark.parametrize("temperature", [0.1, 0.3])
@pytest.mark.parametrize("label_B", [LABEL_B, torch.tensor([0, 1, 1, 0, 0])])
def test_supervised_contrastive_equals_that_of_pytorch_metric_learning(temperature, label_B):
    ours, theirs = partial(supervised_contrastive, temperature=temperature), SupConLoss(temperature=temperature)
    for seed in SEEDS:
        assert_same_value_and_gradients(ours, theirs, draw_sides(seed)[:1], [label_B])
