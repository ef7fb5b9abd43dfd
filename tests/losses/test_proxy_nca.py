"""proxy_nca against values by hand, identities and pytorch-metric-learning."""

from math import exp, log

import pytest
import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import ProxyNCALoss

from plait.losses.proxies import ProxyNca
from proxy_cases import (
    CLASSES,
    EXACT,
    SEEDS,
    WIDTH,
    assert_all_close,
    build_proxy_nca,
    build_soft_triple,
    draw_tokens,
    generator,
    value_and_gradients,
    with_proxies,
)


def test_proxy_nca_by_hand():
    proxies = [[3.0, 4.0], [0.0, 2.0], [-1.0, 0.0]]
    # x = (1, 0): squared distances 2 − 2·0.6 = 0.8, 2 and 4
    states_ND, label_N = torch.tensor([[7.0, 0.0]]), torch.tensor([0])
    others = with_proxies(ProxyNca(3, 2, generator(0)), proxies)
    assert others(states_ND, label_N).item() == pytest.approx(0.8 + log(exp(-2) + exp(-4)), abs=1e-5)
    among_all = with_proxies(ProxyNca(3, 2, generator(0), denominator="all"), proxies)
    assert among_all(states_ND, label_N).item() == pytest.approx(0.8 + log(exp(-0.8) + exp(-2) + exp(-4)), abs=1e-5)
    scaled = with_proxies(ProxyNca(3, 2, generator(0), scale=0.5), proxies)
    assert scaled(states_ND, label_N).item() == pytest.approx(0.4 + log(exp(-1) + exp(-2)), abs=1e-5)


def test_equal_proxies_give_the_log_of_the_choices():
    proxies, label_N = [[1.0, 1.0]] * 4, torch.tensor([0, 1, 3])
    states_ND = torch.randn(3, 2, generator=generator(0))
    others = with_proxies(ProxyNca(4, 2, generator(0)), proxies)
    assert others(states_ND, label_N).item() == pytest.approx(log(3), abs=1e-5)
    among_all = with_proxies(ProxyNca(4, 2, generator(0), denominator="all"), proxies)
    assert among_all(states_ND, label_N).item() == pytest.approx(log(4), abs=1e-5)


@pytest.mark.parametrize("denominator", ["others", "all"])
def test_single_class_has_loss_and_gradients_zero(denominator):
    module = ProxyNca(1, WIDTH, generator(0), denominator=denominator).double()
    results = value_and_gradients(module, module, draw_tokens(0, 2)[0], torch.tensor([0, 0]))
    assert all(torch.equal(result, torch.zeros_like(result)) for result in results)


def test_for_one_token_all_is_the_softplus_of_others():
    for seed in SEEDS:
        tokens = draw_tokens(seed, tokens=1)
        others, among_all = build_proxy_nca(seed), build_proxy_nca(seed, denominator="all")
        torch.testing.assert_close(among_all(*tokens), F.softplus(others(*tokens)), **EXACT)


def test_all_equals_soft_triple_with_one_proxy_per_class():
    for seed in SEEDS:
        tokens = draw_tokens(seed)
        soft_triple = build_soft_triple(seed, proxies=1, lam=4.0, delta=0.0)
        nca = build_proxy_nca(seed, scale=2.0, denominator="all")
        nca.proxies_CD.data = soft_triple.proxies_CKD.data.squeeze(1)
        torch.testing.assert_close(nca(*tokens), soft_triple(*tokens), **EXACT)


@pytest.mark.parametrize("scale", [1.0, 9.0])
def test_proxy_nca_equals_that_of_pytorch_metric_learning(scale):
    for seed in SEEDS:
        tokens, loss = draw_tokens(seed), build_proxy_nca(seed, scale=scale, denominator="all")
        theirs = ProxyNCALoss(CLASSES, WIDTH, softmax_scale=scale).double()
        theirs.proxies.data = loss.proxies_CD.detach().clone()
        ours, others = value_and_gradients(loss, loss, *tokens), value_and_gradients(theirs, theirs, *tokens)
        assert_all_close(ours, others, atol=1e-9, rtol=1e-7)  # theirs takes the root of the distance and squares it
