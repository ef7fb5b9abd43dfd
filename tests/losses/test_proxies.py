"""The losses with proxies against hand values, the plain formulas, properties and pytorch-metric-learning.

Against the plain formulas float64 leaves less than 1e-12 of numbers near 1; float32 leaves 1e-5.
"""

import os
import subprocess
import sys
from math import exp, log, sqrt

import pytest
import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import ProxyNCALoss, SoftTripleLoss
from torch import Tensor

import plait.losses.proxies
from plait.losses.proxies import ProxyNca, SoftTriple
from plait.recipe.options import complete_options

SEEDS = range(10)
EXACT = {"atol": 1e-12, "rtol": 1e-9}  # of float64 sums in another order
ROUNDING = {"atol": 1e-5, "rtol": 1e-5}  # of float32 sums in another order
CLASSES, PER_CLASS, WIDTH, TOKENS = 3, 4, 5, 17


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(seed: int, tokens: int = TOKENS, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    generator = seeded(seed)
    states_ND = torch.randn(tokens, WIDTH, dtype=torch.float64, generator=generator)
    return states_ND, torch.randint(classes, (tokens,), generator=generator)


def soft_triple(seed: int, **options) -> SoftTriple:
    """With proxies that are no unit vectors, as after some training."""
    loss = SoftTriple(CLASSES, WIDTH, seeded(seed), **{"proxies": PER_CLASS, **options}).double()
    with torch.no_grad():
        loss.proxies_CKD.mul_(torch.rand(CLASSES, loss.proxies_CKD.shape[1], 1, generator=seeded(seed)) + 0.5)
    return loss


def proxy_nca(seed: int, **options) -> ProxyNca:
    return ProxyNca(CLASSES, WIDTH, seeded(seed), **options).double()


def given(module, proxies: list) -> torch.nn.Module:
    """The module with these proxies."""
    (parameter,) = module.parameters()
    parameter.data = torch.tensor(proxies)
    return module


def plain(loss: SoftTriple, states_ND: Tensor, label_N: Tensor) -> Tensor:
    """Equations 4 and 5, all similarities at once."""
    x_ND, w_CKD = F.normalize(states_ND, dim=-1), F.normalize(loss.proxies_CKD, dim=-1)
    s_NCK = torch.einsum("nd,ckd->nck", x_ND, w_CKD)
    mean_NC = (torch.softmax(s_NCK / loss.gamma, dim=-1) * s_NCK).sum(dim=-1)
    own_NC = F.one_hot(label_N, len(w_CKD))
    above_N = (loss.lam * (mean_NC - loss.delta) * own_NC).sum(dim=-1)
    below_N = above_N.exp() + ((loss.lam * mean_NC).exp() * (1 - own_NC)).sum(dim=-1)
    return (below_N.log() - above_N).mean()


def value_and_gradients(function, module, states_ND: Tensor) -> list[Tensor]:
    states_ND = states_ND.clone().requires_grad_()
    module.zero_grad()
    value = function(states_ND)
    value.backward()
    (proxies,) = module.parameters()
    return [value.detach(), states_ND.grad, proxies.grad.clone()]


def assert_same(ours: list[Tensor], theirs: list[Tensor], **tolerance: float) -> None:
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, **tolerance)


# Both

MODULES = {
    "soft_triple": soft_triple,
    "soft_triple, tau": lambda seed: soft_triple(seed, tau=0.2),
    "proxy_nca": proxy_nca,
    "proxy_nca, all": lambda seed: proxy_nca(seed, denominator="all", scale=3.0),
}
BOTH = pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)


@BOTH
def test_the_gradients_are_those_of_finite_differences(make, monkeypatch):
    monkeypatch.setattr(plait.losses.proxies, "CHUNK", 4 * CLASSES * PER_CLASS)
    for seed in range(3):
        module = make(seed)
        (proxies,) = module.parameters()
        states_ND, label_N = draw(seed, tokens=6)

        def loss(states_ND: Tensor, _: Tensor) -> Tensor:
            return module(states_ND, label_N)  # noqa: B023, called before the next seed

        assert torch.autograd.gradcheck(loss, (states_ND.requires_grad_(), proxies))


@BOTH
def test_no_tokens_cost_no_more_than_the_proxies_alone_and_can_be_trained_on(make):
    module = make(0)
    value, to_states_ND, to_proxies = value_and_gradients(
        lambda states_ND: module(states_ND, torch.empty(0, dtype=torch.int64)), module, torch.zeros(0, WIDTH).double()
    )
    assert value.shape == () and to_states_ND.shape == (0, WIDTH)
    if not getattr(module, "tau", 0):
        assert value.item() == 0 and torch.equal(to_proxies, torch.zeros_like(to_proxies))


@BOTH
@pytest.mark.parametrize("tokens", [1, TOKENS])
def test_tokens_of_one_class_have_finite_gradients(make, tokens):
    module, (states_ND, _) = make(0), draw(0, tokens)
    results = value_and_gradients(lambda states_ND: module(states_ND, torch.full((tokens,), 2)), module, states_ND)
    assert all(result.isfinite().all() for result in results) and results[1].abs().sum() > 0


@BOTH
def test_the_loss_of_tokens_is_the_mean_of_each_alone(make):
    module, (states_ND, label_N) = make(1), draw(1)
    alone = [module(states_ND[i : i + 1], label_N[i : i + 1]) for i in range(TOKENS)]
    torch.testing.assert_close(module(states_ND, label_N), torch.stack(alone).mean(), **EXACT)


@BOTH
def test_the_lengths_of_states_and_proxies_do_not_matter(make):
    for seed in SEEDS:
        module, (states_ND, label_N) = make(seed), draw(seed)
        before = module(states_ND, label_N)
        (proxies,) = module.parameters()
        proxies.data *= 7
        torch.testing.assert_close(module(100 * states_ND, label_N), before, **EXACT)


@BOTH
def test_the_names_of_the_classes_do_not_matter(make):
    for seed in SEEDS:
        module, (states_ND, label_N) = make(seed), draw(seed)
        before = module(states_ND, label_N)
        (proxies,) = module.parameters()
        proxies.data = proxies.data.roll(1, dims=0)
        torch.testing.assert_close(module(states_ND, (label_N + 1) % CLASSES), before, **EXACT)


@BOTH
def test_a_step_down_the_gradient_costs_less(make):
    for seed in SEEDS:
        module, (states_ND, label_N) = make(seed), draw(seed)
        states_ND.requires_grad_()
        before = module(states_ND, label_N)
        before.backward()
        (proxies,) = module.parameters()
        proxies.data -= 1e-3 * proxies.grad
        assert module(states_ND - 1e-3 * states_ND.grad, label_N) < before


@BOTH
def test_states_of_half_precision_are_compared_in_that_of_the_proxies(make):
    module, (states_ND, label_N) = make(0).float(), draw(0)
    half_ND = states_ND.bfloat16().requires_grad_()
    value = module(half_ND, label_N)
    value.backward()
    assert value.dtype == torch.float32 and half_ND.grad.dtype == torch.bfloat16
    torch.testing.assert_close(value, module(half_ND.detach().float(), label_N), atol=0, rtol=0)


@pytest.mark.parametrize(("name", "make"), [("soft_triple", soft_triple), ("proxy_nca", proxy_nca)])
@pytest.mark.parametrize(
    ("states", "labels"), [((4, 5), (3,)), ((4, 6), (4,)), ((4, 5), (4, 1)), ((4,), (4,)), ((1, 5), ())]
)
def test_other_shapes_are_refused_with_both(name, make, states, labels):
    with pytest.raises(ValueError) as caught:
        make(0)(torch.zeros(states), torch.zeros(labels, dtype=torch.int64))
    found = f"states {states} and labels {labels}"
    assert str(caught.value) == f"{name} needs states (N, {WIDTH}) and labels (N,), got {found}"


@BOTH
@pytest.mark.parametrize("label", [CLASSES, -1, -100])
def test_a_class_without_proxies_is_refused(make, label):
    with pytest.raises((RuntimeError, IndexError)):
        make(0)(draw(0, 1)[0], torch.tensor([label]))


@pytest.mark.parametrize("make", [soft_triple, proxy_nca])
def test_the_proxies_come_from_the_generator_alone(make):
    torch.manual_seed(5)
    (first,), (again,), (other,) = (list(make(seed).parameters()) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_the_proxies_begin_as_unit_vectors():
    for proxies in (SoftTriple(2, 6, seeded(0), proxies=50).proxies_CKD, ProxyNca(9, 6, seeded(0)).proxies_CD):
        assert proxies.dtype == torch.float32 and proxies.requires_grad
        torch.testing.assert_close(proxies.norm(dim=-1), torch.ones(proxies.shape[:-1]))


def test_the_proxies_are_all_that_the_modules_own():
    assert {name: tuple(value.shape) for name, value in SoftTriple(2, 6, seeded(0)).state_dict().items()} == {
        "proxies_CKD": (2, 2000, 6)
    }
    assert {name: tuple(value.shape) for name, value in ProxyNca(2, 6, seeded(0)).state_dict().items()} == {
        "proxies_CD": (2, 6)
    }


@pytest.mark.parametrize(
    ("module", "options", "mistake"),
    [
        (SoftTriple, {"proxies": 0}, ".proxies: expected greater than 0, found 0"),
        (SoftTriple, {"gamma": 0}, ".gamma: expected greater than 0, found 0"),
        (SoftTriple, {"lam": 0}, ".lam: expected greater than 0, found 0"),
        (SoftTriple, {"delta": -1}, ".delta: expected greater than or equal to 0, found -1"),
        (SoftTriple, {"tau": -1}, ".tau: expected greater than or equal to 0, found -1"),
        (ProxyNca, {"scale": 0}, ".scale: expected greater than 0, found 0"),
        (ProxyNca, {"denominator": "some"}, ".denominator: expected 'others' or 'all', found 'some'"),
    ],
)
def test_options_out_of_bounds_are_refused_as_a_recipe_reads_them(module, options, mistake):
    assert complete_options(module, options)[1] == [mistake]


def test_the_options_are_those_of_the_papers_unless_told():
    assert complete_options(SoftTriple, {}) == (
        {"proxies": 2000, "gamma": 0.1, "lam": 3.3, "delta": 0.3, "tau": 0.0, "lr": 0.01, "special_tokens": True},
        [],
    )
    assert complete_options(ProxyNca, {}) == (
        {"scale": 1.0, "denominator": "others", "lr": 0.01, "special_tokens": True},
        [],
    )


# SoftTriple by hand


def test_soft_triple_with_one_proxy_a_class_by_hand():
    loss = given(SoftTriple(2, 2, seeded(0), proxies=1, lam=2.0, delta=0.25), [[[3.0, 4.0]], [[0.0, 9.0]]])
    # x = (1, 0): S' = 0.6 and 0; of class 0: 2·(0.6 − 0.25) = 0.7 against 0; of class 1: 2·(0 − 0.25) against 1.2
    first, second = log(exp(0.7) + 1) - 0.7, log(exp(-0.5) + exp(1.2)) + 0.5
    value = loss(torch.tensor([[5.0, 0.0], [5.0, 0.0]]), torch.tensor([0, 1])).item()
    assert value == pytest.approx((first + second) / 2, abs=1e-5)


def test_soft_triple_with_two_proxies_a_class_by_hand():
    proxies = [[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]]
    loss = given(SoftTriple(2, 2, seeded(0), proxies=2, gamma=0.5, lam=3.0, delta=0.1), proxies)
    # x = (1, 0): similarities 1 and 0 weigh e² and 1, −1 and 0 weigh e⁻² and 1
    own, other = exp(2) / (exp(2) + 1), -exp(-2) / (exp(-2) + 1)
    expected = log(1 + exp(3 * other - 3 * (own - 0.1)))
    assert loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0])).item() == pytest.approx(expected, abs=1e-5)


def test_tau_by_hand():
    # right angles are √2, opposites 2 apart: √2 + √2 + 2 in one class, 0 + √2 + √2 in the other; C·K·(K − 1) = 12
    proxies = [[[1.0, 0.0], [0.0, 5.0], [-1.0, 0.0]], [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]]
    states_ND, label_N = torch.tensor([[1.0, 2.0]]), torch.tensor([0])
    without, with_tau = (
        given(SoftTriple(2, 2, seeded(0), proxies=3, tau=tau), proxies)(states_ND, label_N).item() for tau in (0.0, 0.6)
    )
    assert with_tau - without == pytest.approx(0.6 * (4 * sqrt(2) + 2) / 12, abs=1e-5)


# SoftTriple: identity


def test_one_class_costs_nothing():
    loss = SoftTriple(1, WIDTH, seeded(0), proxies=PER_CLASS, delta=0.0).double()
    value, to_states_ND, _ = value_and_gradients(
        lambda states_ND: loss(states_ND, torch.zeros(TOKENS, dtype=torch.int64)), loss, draw(0)[0]
    )
    assert value.item() == 0 and to_states_ND.abs().max() == 0


def test_with_equal_proxies_the_loss_is_the_log_of_the_classes():
    loss = given(SoftTriple(3, 2, seeded(0), proxies=2, delta=0.0), [[[1.0, 1.0]] * 2] * 3)
    value = loss(torch.randn(5, 2, generator=seeded(0)), torch.tensor([0, 1, 2, 0, 1])).item()
    assert value == pytest.approx(log(3), abs=1e-5)


def test_a_proxy_given_twice_counts_once():
    for seed in SEEDS:
        states_ND, label_N = draw(seed)
        once, twice = soft_triple(seed), soft_triple(seed, proxies=2 * PER_CLASS)
        twice.proxies_CKD.data = once.proxies_CKD.data.repeat(1, 2, 1)
        torch.testing.assert_close(twice(states_ND, label_N), once(states_ND, label_N), **EXACT)


def test_with_one_proxy_a_class_it_is_cross_entropy_of_cosines():
    for seed in SEEDS:
        states_ND, label_N = draw(seed)
        loss = soft_triple(seed, proxies=1, delta=0.0)
        cosine_NC = F.cosine_similarity(states_ND.unsqueeze(1), loss.proxies_CKD.squeeze(1), dim=-1)
        torch.testing.assert_close(loss(states_ND, label_N), F.cross_entropy(3.3 * cosine_NC, label_N), **EXACT)


# SoftTriple: properties


@pytest.mark.parametrize(("gamma", "reduce"), [(1e-4, "amax"), (1e6, "mean")])
def test_small_gamma_takes_the_nearest_proxy_and_large_gamma_the_mean(gamma, reduce):
    for seed in SEEDS:
        states_ND, label_N = draw(seed)
        loss = soft_triple(seed, gamma=gamma, delta=0.0)
        cosine_NCK = F.cosine_similarity(states_ND[:, None, None], loss.proxies_CKD, dim=-1)
        expected = F.cross_entropy(3.3 * getattr(cosine_NCK, reduce)(dim=-1), label_N)
        torch.testing.assert_close(loss(states_ND, label_N), expected, atol=1e-4, rtol=0)  # γ is not 0, not ∞


def test_a_larger_margin_costs_more():
    states_ND, label_N = draw(0)
    values = [soft_triple(0, delta=delta)(states_ND, label_N).item() for delta in (0.0, 0.01, 0.3, 1.0)]
    assert values == sorted(values) and len(set(values)) == 4


def test_the_order_of_the_proxies_of_a_class_does_not_matter():
    for seed in SEEDS:
        (states_ND, label_N), loss = draw(seed), soft_triple(seed)
        before = loss(states_ND, label_N)
        loss.proxies_CKD.data = loss.proxies_CKD.data.flip(1)
        torch.testing.assert_close(loss(states_ND, label_N), before, **EXACT)


def test_tau_draws_the_proxies_of_a_class_together():
    loss, none_ND, none_N = soft_triple(0, tau=1.0), torch.zeros(0, WIDTH).double(), torch.empty(0, dtype=torch.int64)

    def spread() -> float:
        return sum(torch.pdist(F.normalize(proxies_KD, dim=-1)).sum().item() for proxies_KD in loss.proxies_CKD)

    before = spread()
    loss(none_ND, none_N).backward()
    loss.proxies_CKD.data -= 0.1 * loss.proxies_CKD.grad
    assert spread() < before


@pytest.mark.parametrize("gamma", [0.01, 0.1])
def test_the_grid_of_the_paper_stays_finite_in_float32(gamma):
    for lam in (1.0, 10.0):
        loss = soft_triple(0, gamma=gamma, lam=lam, delta=1.0).float()
        states_ND, label_N = draw(0)
        results = value_and_gradients(lambda states_ND: loss(states_ND, label_N), loss, states_ND.float())  # noqa: B023
        assert all(result.isfinite().all() for result in results)


# SoftTriple in chunks


@pytest.mark.parametrize("tokens_at_once", [1, 4, 16, 17, 1000])
def test_value_and_gradients_are_those_of_the_plain_formula(tokens_at_once, monkeypatch):
    monkeypatch.setattr(plait.losses.proxies, "CHUNK", tokens_at_once * CLASSES * PER_CLASS)
    for seed in SEEDS:
        loss, (states_ND, label_N) = soft_triple(seed), draw(seed)
        ours = value_and_gradients(lambda x_ND: loss(x_ND, label_N), loss, states_ND)  # noqa: B023
        theirs = value_and_gradients(lambda x_ND: plain(loss, x_ND, label_N), loss, states_ND)  # noqa: B023
        assert_same(ours, theirs, **EXACT)


def test_more_proxies_than_a_chunk_holds_are_taken_token_by_token(monkeypatch):
    monkeypatch.setattr(plait.losses.proxies, "CHUNK", 5)
    loss, (states_ND, label_N) = soft_triple(0), draw(0)
    torch.testing.assert_close(loss(states_ND, label_N), plain(loss, states_ND, label_N), **EXACT)


def test_the_gradient_is_weighed_as_the_loss_is_and_may_be_taken_twice():
    loss, (states_ND, label_N) = soft_triple(0), draw(0)
    expected = value_and_gradients(lambda x_ND: plain(loss, x_ND, label_N), loss, states_ND)
    states_ND.requires_grad_()
    loss.zero_grad()
    value = loss(states_ND, label_N)
    (0.1 * value).backward(retain_graph=True)
    (0.4 * value).backward()
    torch.testing.assert_close(states_ND.grad, 0.5 * expected[1], **EXACT)
    torch.testing.assert_close(loss.proxies_CKD.grad, 0.5 * expected[2], **EXACT)


def test_what_is_frozen_gets_no_gradient():
    loss, (states_ND, label_N) = soft_triple(0), draw(0)
    _, to_states_ND, to_proxies_CKD = value_and_gradients(lambda x_ND: loss(x_ND, label_N), loss, states_ND)
    loss.zero_grad()
    loss(states_ND, label_N).backward()  # an encoder that is not trained
    assert states_ND.grad is None and torch.equal(loss.proxies_CKD.grad, to_proxies_CKD)
    loss.zero_grad()
    loss.proxies_CKD.requires_grad_(False)
    loss(states_ND.requires_grad_(), label_N).backward()
    assert loss.proxies_CKD.grad is None and torch.equal(states_ND.grad, to_states_ND)


def test_without_gradients_the_value_is_the_same_and_none_are_worked_out(monkeypatch):
    loss, (states_ND, label_N) = soft_triple(0), draw(0)
    value = loss(states_ND, label_N)
    monkeypatch.setattr(plait.losses.proxies, "pass_units_", None)  # what every gradient goes through
    with torch.no_grad():
        measured = loss(states_ND, label_N)
    assert torch.equal(measured, value.detach()) and not measured.requires_grad
    with pytest.raises(TypeError):
        loss(states_ND, label_N)


def test_a_gradient_of_the_gradient_is_refused():
    loss, (states_ND, label_N) = soft_triple(0), draw(0)
    with pytest.raises(NotImplementedError, match="no gradients of its gradients"):
        torch.autograd.grad(loss(states_ND.requires_grad_(), label_N), states_ND, create_graph=True)


def test_states_and_proxies_are_left_as_they_were():
    loss, (states_ND, label_N) = soft_triple(0), draw(0)
    before = states_ND.clone(), loss.proxies_CKD.detach().clone(), label_N.clone()
    loss(states_ND.requires_grad_(), label_N).backward()
    for now, then in zip((states_ND.detach(), loss.proxies_CKD.detach(), label_N), before, strict=True):
        assert torch.equal(now, then)


def test_states_that_are_a_view_of_others_get_their_gradient():
    loss, (states_ND, label_N) = soft_triple(0), draw(0)
    expected = value_and_gradients(lambda x_ND: loss(x_ND, label_N), loss, states_ND)[1]
    wide = torch.cat([states_ND, states_ND], dim=1).T.contiguous().requires_grad_()
    loss(wide.T[:, :WIDTH], label_N).backward()
    torch.testing.assert_close(wide.grad.T[:, :WIDTH], expected, **EXACT)


# Prints the MB that a step takes beyond what was there before: states, proxies and the gradients of both.
MEASURE = """
import torch
import torch.nn.functional as F
from pathlib import Path
from plait.losses.proxies import SoftTriple

torch.set_num_threads(1)
states_ND, label_N = torch.randn(4096, 384, requires_grad=True), torch.randint(6, (4096,))
module = SoftTriple(6, 384, torch.Generator().manual_seed(0))
states_ND.grad, module.proxies_CKD.grad = torch.ones_like(states_ND), torch.ones_like(module.proxies_CKD)

def plain(states_ND, label_N):
    units_ND, units_PD = F.normalize(states_ND, dim=-1), F.normalize(module.proxies_CKD, dim=-1).flatten(0, 1)
    similarity_NCK = (units_ND @ units_PD.T).unflatten(1, (6, -1))
    mean_NC = (torch.softmax(similarity_NCK / 0.1, dim=-1) * similarity_NCK).sum(dim=-1)
    return F.cross_entropy(3.3 * (mean_NC - 0.3 * F.one_hot(label_N, 6)), label_N)

def memory(key):
    return next(int(line.split()[1]) / 1024 for line in Path("/proc/self/status").open() if line.startswith(key))

for loss, tokens in ((module, 4096), (plain, 1024)):
    loss(states_ND[:8], label_N[:8]).backward()  # what torch keeps from its first call on is not counted
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    loss(states_ND[:tokens], label_N[:tokens]).backward()
    print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_4096_tokens_with_2000_proxies_a_class_take_less_memory_than_a_quarter_of_them_by_the_plain_formula():
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # tensors that are freed are given back at once
    command = [sys.executable, "-c", MEASURE]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    ours, plain_formula = map(float, out.split())
    assert ours < 150
    assert plain_formula > 150  # of 1,024 tokens: at least three times 49 MB, and the unit vectors


# SoftTriple: parity


@pytest.mark.parametrize(
    "options",
    [{}, {"gamma": 0.01, "lam": 10.0, "delta": 0.01}, {"gamma": 0.05, "lam": 1.0, "delta": 1.0}, {"proxies": 1}],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, ROUNDING)])
def test_soft_triple_is_that_of_pytorch_metric_learning(options, dtype, tolerance):
    for seed in SEEDS:
        loss, (states_ND, label_N) = soft_triple(seed, **options).to(dtype), draw(seed)
        theirs = SoftTripleLoss(
            CLASSES, WIDTH, loss.proxies_CKD.shape[1], la=loss.lam, gamma=loss.gamma, margin=loss.delta
        )
        theirs.fc.data = loss.proxies_CKD.detach().flatten(0, 1).T.clone()
        ours = value_and_gradients(lambda x_ND: loss(x_ND, label_N), loss, states_ND.to(dtype))  # noqa: B023
        others = value_and_gradients(lambda x_ND: theirs(x_ND, label_N), theirs, states_ND.to(dtype))  # noqa: B023
        others[2] = others[2].T.view_as(ours[2])
        assert_same(ours, others, **tolerance)


# ProxyNca


def test_proxy_nca_by_hand():
    proxies = [[3.0, 4.0], [0.0, 2.0], [-1.0, 0.0]]
    # x = (1, 0): squared distances 2 − 2·0.6 = 0.8, 2 and 4
    states_ND, label_N = torch.tensor([[7.0, 0.0]]), torch.tensor([0])
    others = given(ProxyNca(3, 2, seeded(0)), proxies)
    assert others(states_ND, label_N).item() == pytest.approx(0.8 + log(exp(-2) + exp(-4)), abs=1e-5)
    among_all = given(ProxyNca(3, 2, seeded(0), denominator="all"), proxies)
    assert among_all(states_ND, label_N).item() == pytest.approx(0.8 + log(exp(-0.8) + exp(-2) + exp(-4)), abs=1e-5)
    scaled = given(ProxyNca(3, 2, seeded(0), scale=0.5), proxies)
    assert scaled(states_ND, label_N).item() == pytest.approx(0.4 + log(exp(-1) + exp(-2)), abs=1e-5)


def test_proxy_nca_of_equal_proxies_is_the_log_of_the_choices():
    proxies, label_N = [[1.0, 1.0]] * 4, torch.tensor([0, 1, 3])
    states_ND = torch.randn(3, 2, generator=seeded(0))
    assert given(ProxyNca(4, 2, seeded(0)), proxies)(states_ND, label_N).item() == pytest.approx(log(3), abs=1e-5)
    among_all = given(ProxyNca(4, 2, seeded(0), denominator="all"), proxies)
    assert among_all(states_ND, label_N).item() == pytest.approx(log(4), abs=1e-5)


@pytest.mark.parametrize("denominator", ["others", "all"])
def test_one_class_has_nothing_to_be_told_from(denominator):
    module = ProxyNca(1, WIDTH, seeded(0), denominator=denominator).double()
    results = value_and_gradients(lambda x_ND: module(x_ND, torch.tensor([0, 0])), module, draw(0, 2)[0])
    assert all(torch.equal(result, torch.zeros_like(result)) for result in results)


def test_of_one_token_all_is_the_softplus_of_others():
    for seed in SEEDS:
        states_ND, label_N = draw(seed, tokens=1)
        others, among_all = proxy_nca(seed), proxy_nca(seed, denominator="all")
        torch.testing.assert_close(among_all(states_ND, label_N), F.softplus(others(states_ND, label_N)), **EXACT)


def test_all_is_soft_triple_with_one_proxy_a_class():
    for seed in SEEDS:
        states_ND, label_N = draw(seed)
        triple, nca = soft_triple(seed, proxies=1, lam=4.0, delta=0.0), proxy_nca(seed, scale=2.0, denominator="all")
        nca.proxies_CD.data = triple.proxies_CKD.data.squeeze(1)
        torch.testing.assert_close(nca(states_ND, label_N), triple(states_ND, label_N), **EXACT)


@pytest.mark.parametrize("scale", [1.0, 9.0])
def test_proxy_nca_is_that_of_pytorch_metric_learning(scale):
    for seed in SEEDS:
        (states_ND, label_N), loss = draw(seed), proxy_nca(seed, scale=scale, denominator="all")
        theirs = ProxyNCALoss(CLASSES, WIDTH, softmax_scale=scale).double()
        theirs.proxies.data = loss.proxies_CD.detach().clone()
        ours = value_and_gradients(lambda x_ND: loss(x_ND, label_N), loss, states_ND)  # noqa: B023
        others = value_and_gradients(lambda x_ND: theirs(x_ND, label_N), theirs, states_ND)  # noqa: B023
        assert_same(ours, others, atol=1e-9, rtol=1e-7)  # theirs takes the root of the distance and squares it again
