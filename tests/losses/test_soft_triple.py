"""soft_triple against values by hand, identities, properties and pytorch-metric-learning."""

from math import exp, log, sqrt

import pytest
import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import SoftTripleLoss

from plait.losses.proxies import SoftTriple
from properties import ROUNDING
from proxy_cases import (
    CLASSES,
    EXACT,
    PER_CLASS,
    SEEDS,
    TOKENS,
    WIDTH,
    assert_all_close,
    build_soft_triple,
    draw_tokens,
    generator,
    value_and_gradients,
    with_proxies,
)

# By hand


def test_one_proxy_per_class_by_hand():
    loss = with_proxies(SoftTriple(2, 2, generator(0), proxies=1, lam=2.0, delta=0.25), [[[3.0, 4.0]], [[0.0, 9.0]]])
    # x = (1, 0): S' = 0.6 and 0; of class 0: 2·(0.6 − 0.25) = 0.7 against 0; of class 1: 2·(0 − 0.25) against 1.2
    first, second = log(exp(0.7) + 1) - 0.7, log(exp(-0.5) + exp(1.2)) + 0.5
    value = loss(torch.tensor([[5.0, 0.0], [5.0, 0.0]]), torch.tensor([0, 1])).item()
    assert value == pytest.approx((first + second) / 2, abs=1e-5)


def test_two_proxies_per_class_by_hand():
    proxies = [[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]]
    loss = with_proxies(SoftTriple(2, 2, generator(0), proxies=2, gamma=0.5, lam=3.0, delta=0.1), proxies)
    # x = (1, 0): the weights of similarities 1 and 0 are e² and 1, those of −1 and 0 are e⁻² and 1
    own, other = exp(2) / (exp(2) + 1), -exp(-2) / (exp(-2) + 1)
    expected = log(1 + exp(3 * other - 3 * (own - 0.1)))
    assert loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0])).item() == pytest.approx(expected, abs=1e-5)


def test_tau_by_hand():
    # right angles are √2, opposites 2 apart: √2 + √2 + 2 in one class, 0 + √2 + √2 in the other; C·K·(K − 1) = 12
    proxies = [[[1.0, 0.0], [0.0, 5.0], [-1.0, 0.0]], [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]]
    states_ND, label_N = torch.tensor([[1.0, 2.0]]), torch.tensor([0])
    without, with_tau = (
        with_proxies(SoftTriple(2, 2, generator(0), proxies=3, tau=tau), proxies)(states_ND, label_N).item()
        for tau in (0.0, 0.6)
    )
    assert with_tau - without == pytest.approx(0.6 * (4 * sqrt(2) + 2) / 12, abs=1e-5)


# Identities


def test_single_class_has_loss_zero():
    loss = SoftTriple(1, WIDTH, generator(0), proxies=PER_CLASS, delta=0.0).double()
    label_N = torch.zeros(TOKENS, dtype=torch.int64)
    value, grad_states_ND, _ = value_and_gradients(loss, loss, draw_tokens(0)[0], label_N)
    assert value.item() == 0 and grad_states_ND.abs().max() == 0


def test_equal_proxies_give_the_log_of_the_classes():
    loss = with_proxies(SoftTriple(3, 2, generator(0), proxies=2, delta=0.0), [[[1.0, 1.0]] * 2] * 3)
    value = loss(torch.randn(5, 2, generator=generator(0)), torch.tensor([0, 1, 2, 0, 1])).item()
    assert value == pytest.approx(log(3), abs=1e-5)


def test_duplicate_proxies_count_once():
    for seed in SEEDS:
        states_ND, label_N = draw_tokens(seed)
        once, twice = build_soft_triple(seed), build_soft_triple(seed, proxies=2 * PER_CLASS)
        twice.proxies_CKD.data = once.proxies_CKD.data.repeat(1, 2, 1)
        torch.testing.assert_close(twice(states_ND, label_N), once(states_ND, label_N), **EXACT)


def test_one_proxy_per_class_is_the_cross_entropy_of_cosines():
    for seed in SEEDS:
        states_ND, label_N = draw_tokens(seed)
        loss = build_soft_triple(seed, proxies=1, delta=0.0)
        cosine_NC = F.cosine_similarity(states_ND.unsqueeze(1), loss.proxies_CKD.squeeze(1), dim=-1)
        torch.testing.assert_close(loss(states_ND, label_N), F.cross_entropy(3.3 * cosine_NC, label_N), **EXACT)


# Properties


@pytest.mark.parametrize(("gamma", "reduce"), [(1e-4, "amax"), (1e6, "mean")])
def test_small_gamma_takes_the_closest_proxy_and_large_gamma_the_mean(gamma, reduce):
    for seed in SEEDS:
        states_ND, label_N = draw_tokens(seed)
        loss = build_soft_triple(seed, gamma=gamma, delta=0.0)
        cosine_NCK = F.cosine_similarity(states_ND[:, None, None], loss.proxies_CKD, dim=-1)
        expected = F.cross_entropy(3.3 * getattr(cosine_NCK, reduce)(dim=-1), label_N)
        torch.testing.assert_close(loss(states_ND, label_N), expected, atol=1e-4, rtol=0)  # γ is not 0, not ∞


def test_larger_margin_raises_the_loss():
    states_ND, label_N = draw_tokens(0)
    values = [build_soft_triple(0, delta=delta)(states_ND, label_N).item() for delta in (0.0, 0.01, 0.3, 1.0)]
    assert values == sorted(values) and len(set(values)) == 4


def test_order_of_the_proxies_of_a_class_does_not_matter():
    for seed in SEEDS:
        (states_ND, label_N), loss = draw_tokens(seed), build_soft_triple(seed)
        before = loss(states_ND, label_N)
        loss.proxies_CKD.data = loss.proxies_CKD.data.flip(1)
        torch.testing.assert_close(loss(states_ND, label_N), before, **EXACT)


def test_tau_pulls_the_proxies_of_a_class_together():
    loss = build_soft_triple(0, tau=1.0)

    def spread() -> float:
        return sum(torch.pdist(F.normalize(proxies_KD, dim=-1)).sum().item() for proxies_KD in loss.proxies_CKD)

    before = spread()
    loss(torch.zeros(0, WIDTH).double(), torch.empty(0, dtype=torch.int64)).backward()
    loss.proxies_CKD.data -= 0.1 * loss.proxies_CKD.grad
    assert spread() < before


@pytest.mark.parametrize("gamma", [0.01, 0.1])
def test_grid_of_the_paper_is_finite_in_float32(gamma):
    for lam in (1.0, 10.0):
        loss = build_soft_triple(0, gamma=gamma, lam=lam, delta=1.0).float()
        states_ND, label_N = draw_tokens(0)
        assert all(result.isfinite().all() for result in value_and_gradients(loss, loss, states_ND.float(), label_N))


# Parity


@pytest.mark.parametrize(
    "options",
    [{}, {"gamma": 0.01, "lam": 10.0, "delta": 0.01}, {"gamma": 0.05, "lam": 1.0, "delta": 1.0}, {"proxies": 1}],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, ROUNDING)])
def test_soft_triple_equals_that_of_pytorch_metric_learning(options, dtype, tolerance):
    for seed in SEEDS:
        loss, (states_ND, label_N) = build_soft_triple(seed, **options).to(dtype), draw_tokens(seed)
        theirs = SoftTripleLoss(
            CLASSES, WIDTH, loss.proxies_CKD.shape[1], la=loss.lam, gamma=loss.gamma, margin=loss.delta
        )
        theirs.fc.data = loss.proxies_CKD.detach().flatten(0, 1).T.clone()
        ours = value_and_gradients(loss, loss, states_ND.to(dtype), label_N)
        others = value_and_gradients(theirs, theirs, states_ND.to(dtype), label_N)
        others[2] = others[2].T.view_as(ours[2])
        assert_all_close(ours, others, **tolerance)
