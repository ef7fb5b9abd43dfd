"""AdamW against the published rule, and which weights decay at which rate."""

import numpy as np
import pytest
import torch

from optimizers import DECAY, HEAD_LR, LR, give_gradients, group_of, optimizer_for, shrink
from plait.training.optimizer import set_lr

# ---------------------------------------------------------------- the update


def test_adamw_by_hand(make_model):
    model = make_model()
    optimizer = optimizer_for(model)
    bias, weight = model.heads["mood"].linear.bias, model.heads["mood"].linear.weight
    with torch.no_grad():
        bias.fill_(0.2)
        weight.fill_(0.2)
    bias.grad, weight.grad = torch.full_like(bias, 0.5), torch.full_like(weight, 0.5)
    optimizer.step()
    # m = 0.1·0.5, v = 0.001·0.25; corrected m̂ = 0.5, v̂ = 0.25: the step is lr·0.5/√0.25 = lr, whatever the gradient
    # the weight decays by lr·0.1 of itself beside it: 0.2·(1 − 0.005·0.1) − 0.005
    assert bias.tolist() == pytest.approx([0.2 - 0.005] * 2, abs=1e-7)  # float32 near 0.2
    assert weight.flatten().tolist() == pytest.approx([0.2 * (1 - 0.0005) - 0.005] * 32, abs=1e-7)


@pytest.mark.parametrize("options", [{}, {"beta1": 0.8, "beta2": 0.98, "eps": 1e-6}])
def test_adamw_follows_the_published_rule_for_three_steps(make_model, options):
    model = make_model()
    optimizer = optimizer_for(model, **options)
    beta1, beta2, eps = options.get("beta1", 0.9), options.get("beta2", 0.999), options.get("eps", 1e-8)
    expected = shrink(model)
    m, v = ({name: np.zeros_like(value) for name, value in expected.items()} for _ in range(2))
    for step in (1, 2, 3):
        given = give_gradients(model, step)
        optimizer.step()
        for name, g in given.items():  # Loshchilov & Hutter 2019, algorithm 2, in float64
            lr = LR if name.startswith("encoder.") else HEAD_LR
            decay = DECAY if g.ndim > 1 else 0.0
            m[name] = beta1 * m[name] + (1 - beta1) * g
            v[name] = beta2 * v[name] + (1 - beta2) * g**2
            m_hat, v_hat = m[name] / (1 - beta1**step), v[name] / (1 - beta2**step)
            expected[name] = expected[name] - lr * decay * expected[name] - lr * m_hat / (np.sqrt(v_hat) + eps)
    for name, parameter in model.named_parameters():
        # three roundings of a float32 below 0.26, and lr · 1e-6 in each step
        np.testing.assert_allclose(parameter.detach().numpy(), expected[name], rtol=0, atol=1e-7, err_msg=name)


def test_a_weight_without_gradient_stays_unchanged(make_model):
    model = make_model()
    optimizer = optimizer_for(model)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    bias = model.heads["mood"].linear.bias
    bias.grad = torch.ones_like(bias)
    optimizer.step()
    changed = [name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])]
    assert changed == ["heads.mood.linear.bias"]  # a weight that a step does not train does not decay either


# ---------------------------------------------------------------- groups


def test_every_weight_is_in_one_group(make_model):
    model = make_model()
    grouped = [id(parameter) for group in optimizer_for(model).param_groups for parameter in group["params"]]
    assert sorted(grouped) == sorted(map(id, model.parameters()))


def test_biases_and_layer_norms_do_not_decay(make_model):
    model = make_model()
    optimizer = optimizer_for(model)
    norms = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, torch.nn.LayerNorm)
        for parameter in module.parameters()
    }
    assert len(norms) == 10  # weight and bias after the embeddings and twice in each of two layers
    for name, parameter in model.named_parameters():
        plain = name.endswith(".bias") or id(parameter) in norms
        assert group_of(optimizer, parameter)["weight_decay"] == (0.0 if plain else DECAY), name


def test_heads_and_the_shared_layer_have_the_head_rate(make_model):
    model = make_model()
    optimizer = optimizer_for(model)
    rates = {"encoder": set(), "shared_layer": set(), "heads": set()}
    for name, parameter in model.named_parameters():
        rates[name.split(".")[0]].add(group_of(optimizer, parameter)["lr"])
    assert rates == {"encoder": {LR}, "shared_layer": {HEAD_LR}, "heads": {HEAD_LR}}


def test_a_frozen_encoder_is_in_no_group(make_model):
    model = make_model()
    model.encoder.requires_grad_(False)
    grouped = {id(parameter) for group in optimizer_for(model).param_groups for parameter in group["params"]}
    assert grouped == {id(p) for name, p in model.named_parameters() if not name.startswith("encoder.")}


def test_a_factor_multiplies_the_own_rate_of_each_group(make_model):
    optimizer = optimizer_for(make_model())
    for factor in (0.5, 0.1, 1.0):
        set_lr(optimizer, factor)
        assert {group["lr"] for group in optimizer.param_groups} == {factor * LR, factor * HEAD_LR}
