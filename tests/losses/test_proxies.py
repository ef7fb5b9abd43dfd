"""What the losses with proxies have in common: soft_triple and proxy_nca."""

import pytest
import torch

import plait.losses.proxies
from plait.losses.proxies import ProxyNca, SoftTriple
from plait.recipe.options import complete_options
from properties import assert_direction_matters_only, assert_gradients_match_finite_differences
from proxy_cases import (
    CLASSES,
    EXACT,
    PER_CLASS,
    SEEDS,
    TOKENS,
    WIDTH,
    build_proxy_nca,
    build_soft_triple,
    draw_tokens,
    generator,
    proxies_of,
    value_and_gradients,
)

MODULES = {
    "soft_triple": build_soft_triple,
    "soft_triple, tau": lambda seed: build_soft_triple(seed, tau=0.2),
    "proxy_nca": build_proxy_nca,
    "proxy_nca, all": lambda seed: build_proxy_nca(seed, denominator="all", scale=3.0),
}
every_module = pytest.mark.parametrize("build", MODULES.values(), ids=MODULES)


@every_module
def test_gradients_of_states_and_proxies_match_finite_differences(build, monkeypatch):
    monkeypatch.setattr(plait.losses.proxies, "_CHUNK", 4 * CLASSES * PER_CLASS)
    for seed in range(3):
        module, (states_ND, label_N) = build(seed), draw_tokens(seed, tokens=6)

        def loss(states_ND, proxies, label_N, module=module):
            (name,) = module.state_dict()
            return torch.func.functional_call(module, {name: proxies}, (states_ND, label_N))

        assert_gradients_match_finite_differences(loss, [states_ND, proxies_of(module).detach()], [label_N])


@every_module
def test_no_tokens_cost_no_more_than_the_proxies_alone_and_can_be_trained_on(build):
    module = build(0)
    none_ND, none_N = torch.zeros(0, WIDTH).double(), torch.empty(0, dtype=torch.int64)
    value, grad_states_ND, grad_proxies = value_and_gradients(module, module, none_ND, none_N)
    assert value.shape == () and grad_states_ND.shape == (0, WIDTH)
    if not getattr(module, "tau", 0):
        assert value.item() == 0 and torch.equal(grad_proxies, torch.zeros_like(grad_proxies))


@every_module
@pytest.mark.parametrize("tokens", [1, TOKENS])
def test_tokens_of_one_class_have_finite_gradients(build, tokens):
    module, (states_ND, _) = build(0), draw_tokens(0, tokens)
    results = value_and_gradients(module, module, states_ND, torch.full((tokens,), 2))
    assert all(result.isfinite().all() for result in results) and results[1].abs().sum() > 0


@every_module
def test_loss_is_the_mean_over_tokens(build):
    module, (states_ND, label_N) = build(1), draw_tokens(1)
    alone = [module(states_ND[i : i + 1], label_N[i : i + 1]) for i in range(TOKENS)]
    torch.testing.assert_close(module(states_ND, label_N), torch.stack(alone).mean(), **EXACT)


@every_module
def test_lengths_of_states_and_proxies_do_not_matter(build):
    for seed in SEEDS:
        module, (states_ND, label_N) = build(seed), draw_tokens(seed)
        before = module(states_ND, label_N)
        assert_direction_matters_only(module, [states_ND], [label_N], **EXACT)
        proxies_of(module).data *= 7
        torch.testing.assert_close(module(100 * states_ND, label_N), before, **EXACT)


@every_module
def test_order_of_the_classes_does_not_matter(build):
    for seed in SEEDS:
        module, (states_ND, label_N) = build(seed), draw_tokens(seed)
        before = module(states_ND, label_N)
        proxies_of(module).data = proxies_of(module).data.roll(1, dims=0)
        torch.testing.assert_close(module(states_ND, (label_N + 1) % CLASSES), before, **EXACT)


@every_module
def test_gradient_step_of_states_and_proxies_lowers_the_loss(build):
    for seed in SEEDS:
        module, (states_ND, label_N) = build(seed), draw_tokens(seed)
        before, grad_states_ND, grad_proxies = value_and_gradients(module, module, states_ND, label_N)
        proxies_of(module).data -= 1e-3 * grad_proxies
        assert module(states_ND - 1e-3 * grad_states_ND, label_N) < before


@every_module
def test_half_precision_states_are_compared_in_the_precision_of_the_proxies(build):
    module, (states_ND, label_N) = build(0).float(), draw_tokens(0)
    half_ND = states_ND.bfloat16().requires_grad_()
    value = module(half_ND, label_N)
    value.backward()
    assert value.dtype == torch.float32 and half_ND.grad.dtype == torch.bfloat16
    torch.testing.assert_close(value, module(half_ND.detach().float(), label_N), atol=0, rtol=0)


@pytest.mark.parametrize(("name", "build"), [("soft_triple", build_soft_triple), ("proxy_nca", build_proxy_nca)])
@pytest.mark.parametrize(
    ("states", "labels"), [((4, 5), (3,)), ((4, 6), (4,)), ((4, 5), (4, 1)), ((4,), (4,)), ((1, 5), ())]
)
def test_other_shapes_are_refused_with_both_shapes(name, build, states, labels):
    with pytest.raises(ValueError) as caught:
        build(0)(torch.zeros(states), torch.zeros(labels, dtype=torch.int64))
    found = f"states {states} and labels {labels}"
    assert str(caught.value) == f"{name} needs states (N, {WIDTH}) and labels (N,), got {found}"


@every_module
@pytest.mark.parametrize("label", [CLASSES, -1, -100])
def test_class_without_proxies_is_refused(build, label):
    with pytest.raises((RuntimeError, IndexError)):
        build(0)(draw_tokens(0, 1)[0], torch.tensor([label]))


# The proxies


@pytest.mark.parametrize("build", [build_soft_triple, build_proxy_nca])
def test_proxies_follow_from_the_generator_alone(build):
    torch.manual_seed(5)
    first, again, other = (proxies_of(build(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_proxies_start_as_unit_vectors():
    soft_triple, nca = SoftTriple(2, 6, generator(0), proxies=50), ProxyNca(9, 6, generator(0))
    for proxies in (soft_triple.proxies_CKD, nca.proxies_CD):
        assert proxies.dtype == torch.float32 and proxies.requires_grad
        torch.testing.assert_close(proxies.norm(dim=-1), torch.ones(proxies.shape[:-1]))


def test_modules_own_nothing_but_their_proxies():
    shapes = [
        {name: tuple(value.shape) for name, value in module(2, 6, generator(0)).state_dict().items()}
        for module in (SoftTriple, ProxyNca)
    ]
    assert shapes == [{"proxies_CKD": (2, 2000, 6)}, {"proxies_CD": (2, 6)}]


# Options


@pytest.mark.parametrize(
    ("module", "options", "mistake"),
    [
        (SoftTriple, {"proxies": 0}, ".proxies: expected a number greater than 0, found 0"),
        (SoftTriple, {"gamma": 0}, ".gamma: expected a number greater than 0, found 0"),
        (SoftTriple, {"lam": 0}, ".lam: expected a number greater than 0, found 0"),
        (SoftTriple, {"delta": -1}, ".delta: expected a number greater than or equal to 0, found -1"),
        (SoftTriple, {"tau": -1}, ".tau: expected a number greater than or equal to 0, found -1"),
        (ProxyNca, {"scale": 0}, ".scale: expected a number greater than 0, found 0"),
        (ProxyNca, {"denominator": "some"}, ".denominator: expected 'others' or 'all', found 'some'"),
    ],
)
def test_options_out_of_bounds_are_refused_as_in_a_recipe(module, options, mistake):
    assert complete_options(module, options)[1] == [mistake]


def test_defaults_are_those_of_the_papers():
    assert complete_options(SoftTriple, {}) == (
        {"proxies": 2000, "gamma": 0.1, "lam": 3.3, "delta": 0.3, "tau": 0.0, "lr": 0.01, "special_tokens": True},
        [],
    )
    assert complete_options(ProxyNca, {}) == (
        {"scale": 1.0, "denominator": "others", "lr": 0.01, "special_tokens": True},
        [],
    )
