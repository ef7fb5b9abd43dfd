import torch
from torch import nn

from plait.encoder.cpu.linear import CpuLinear


def layers():
    torch.manual_seed(0)
    ours, theirs = CpuLinear(6, 4), nn.Linear(6, 4)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def test_outputs_and_gradients_equal_those_of_torch():
    found = []
    for layer in layers():
        states = torch.randn(5, 6, generator=torch.Generator().manual_seed(1), requires_grad=True)
        output = layer(states)
        output.pow(2).sum().backward()
        found.append([output.detach(), states.grad, layer.weight.grad, layer.bias.grad])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_frozen_weight_gets_no_gradient():
    ours, _ = layers()
    ours.weight.requires_grad_(False)
    ours(torch.randn(5, 6)).sum().backward()
    assert ours.weight.grad is None
    assert ours.bias.grad.tolist() == [5.0] * 4


def test_autocast_uses_the_layer_of_torch():
    ours, theirs = layers()
    states = torch.randn(5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        assert ours(states).dtype == torch.bfloat16
        assert torch.equal(ours(states), theirs(states))
