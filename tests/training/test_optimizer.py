"""AdamW against the published rule, which weights decay, and its state on disk."""

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from plait.model.model import Model
from plait.training.loop import as_recipe
from plait.training.optimizer import load_state, make_optimizer, set_lr, state_tensors
from plait.training.settle import settle_recipe
from plait.training.trainer import model_for

LR, HEAD_LR, DECAY = 1e-3, 5e-3, 0.1


def named(model: Model) -> dict[str, torch.nn.Parameter]:
    return dict(model.named_parameters())


@pytest.fixture
def make_model(tiny_recipe):
    """Equal small models; one of them is trained on pairs of tasks with a layer between encoder and heads."""
    settled = settle_recipe(
        as_recipe(tiny_recipe(shared_layer="tanh", tasks=weighted_tasks(tiny_recipe)), None, None, ())
    )
    return lambda: model_for(settled)


def weighted_tasks(tiny_recipe) -> dict:
    return {name: task for name, task in tiny_recipe()["tasks"].items() if name != "near"}


def optimizer_for(model: Model, **options: float) -> torch.optim.Optimizer:
    return make_optimizer(model, "adamw", options, lr=LR, head_lr=HEAD_LR, weight_decay=DECAY)


def group_of(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> dict:
    (found,) = [group for group in optimizer.param_groups if any(parameter is other for other in group["params"])]
    return found


def give_gradients(model: Model, step: int) -> dict[str, np.ndarray]:
    """Gradients of many sizes, the same for the same step."""
    given = {}
    for number, (name, parameter) in enumerate(model.named_parameters()):
        generator = torch.Generator().manual_seed(1000 * step + number)
        parameter.grad = torch.randn(parameter.shape, generator=generator) * 10.0 ** (number % 5 - 3)
        given[name] = parameter.grad.double().numpy().copy()
    return given


def shrink(model: Model) -> dict[str, np.ndarray]:
    """Weights within ±0.25, where neighbouring float32 numbers are at most 1.5e-8 apart."""
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.uniform_(-0.25, 0.25, generator=torch.Generator().manual_seed(number))
    return {name: parameter.detach().double().numpy().copy() for name, parameter in model.named_parameters()}


# The rule


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


def test_a_weight_without_gradient_stays_as_it_is(make_model):
    model = make_model()
    optimizer = optimizer_for(model)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    bias = model.heads["mood"].linear.bias
    bias.grad = torch.ones_like(bias)
    optimizer.step()
    changed = [name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])]
    assert changed == ["heads.mood.linear.bias"]  # no decay either on what a step does not train


# The groups


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


def test_heads_and_the_shared_layer_have_the_rate_of_heads(make_model):
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


def test_a_factor_is_of_each_groups_own_rate_not_of_the_last(make_model):
    optimizer = optimizer_for(make_model())
    for factor in (0.5, 0.1, 1.0):
        set_lr(optimizer, factor)
        assert {group["lr"] for group in optimizer.param_groups} == {factor * LR, factor * HEAD_LR}


# Its state


def test_a_state_names_each_tensor_by_weight_and_role(make_model):
    model = make_model()
    optimizer = optimizer_for(model)
    assert state_tensors(named(model), optimizer) == {}
    give_gradients(model, 1)
    optimizer.step()
    tensors = state_tensors(named(model), optimizer)
    names = {name for name, _ in model.named_parameters()}
    assert tensors.keys() == {f"{name}/{role}" for name in names for role in ("step", "exp_avg", "exp_avg_sq")}
    weight = model.heads["mood"].linear.weight
    torch.testing.assert_close(tensors["heads.mood.linear.weight/exp_avg"], 0.1 * weight.grad, atol=1e-5, rtol=1e-5)


def test_a_restored_optimizer_goes_on_bit_by_bit(make_model):
    first = make_model()
    optimizer = optimizer_for(first)
    for step in (1, 2, 3):
        give_gradients(first, step)
        optimizer.step()
    weights, state = (
        save(first.state_dict()),
        save(state_tensors(named(first), optimizer)),
    )  # as in a file
    second = make_model()
    second.load_state_dict(load(weights))
    restored = optimizer_for(second)
    load_state(named(second), restored, load(state))
    fresh = make_model()
    fresh.load_state_dict(load(weights))
    forgetful = optimizer_for(fresh)
    for step in (4, 5, 6):
        for model, its in ((first, optimizer), (second, restored), (fresh, forgetful)):
            give_gradients(model, step)
            its.step()
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, second.state_dict()[name]), name
        assert not torch.equal(weight, fresh.state_dict()[name]), name  # the state does matter
    assert save(state_tensors(named(first), optimizer)) == save(state_tensors(named(second), restored))


def test_a_state_that_was_put_back_belongs_to_its_owner(make_model):
    model = make_model()
    optimizer = optimizer_for(model)
    give_gradients(model, 1)
    optimizer.step()
    tensors = {name: tensor.clone() for name, tensor in state_tensors(named(model), optimizer).items()}
    before = save(tensors)
    load_state(named(model), optimizer, tensors)
    give_gradients(model, 2)
    optimizer.step()
    assert save(tensors) == before  # later steps must not write into the tensors that were handed over
