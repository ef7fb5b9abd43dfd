"""soft_triple computes its gradients chunk by chunk in the forward pass: the same numbers, in less memory."""

import os
import subprocess
import sys
from functools import partial

import pytest
import torch

import plait.losses.proxies
from proxy_cases import (
    CLASSES,
    EXACT,
    PER_CLASS,
    SEEDS,
    WIDTH,
    assert_all_close,
    build_soft_triple,
    draw_tokens,
    plain_soft_triple,
    value_and_gradients,
)


@pytest.mark.parametrize("tokens_per_chunk", [1, 4, 16, 17, 1000])
def test_value_and_gradients_equal_those_of_the_plain_formula(tokens_per_chunk, monkeypatch):
    monkeypatch.setattr(plait.losses.proxies, "_CHUNK", tokens_per_chunk * CLASSES * PER_CLASS)
    for seed in SEEDS:
        loss, tokens = build_soft_triple(seed), draw_tokens(seed)
        ours = value_and_gradients(loss, loss, *tokens)
        assert_all_close(ours, value_and_gradients(partial(plain_soft_triple, loss), loss, *tokens), **EXACT)


def test_more_proxies_than_a_chunk_holds_are_processed_token_by_token(monkeypatch):
    monkeypatch.setattr(plait.losses.proxies, "_CHUNK", 5)
    loss, tokens = build_soft_triple(0), draw_tokens(0)
    torch.testing.assert_close(loss(*tokens), plain_soft_triple(loss, *tokens), **EXACT)


def test_gradient_scales_with_the_loss_and_can_be_taken_twice():
    loss, (states_ND, label_N) = build_soft_triple(0), draw_tokens(0)
    expected = value_and_gradients(partial(plain_soft_triple, loss), loss, states_ND, label_N)
    states_ND.requires_grad_()
    loss.zero_grad()
    value = loss(states_ND, label_N)
    (0.1 * value).backward(retain_graph=True)
    (0.4 * value).backward()
    torch.testing.assert_close(states_ND.grad, 0.5 * expected[1], **EXACT)
    torch.testing.assert_close(loss.proxies_CKD.grad, 0.5 * expected[2], **EXACT)


def test_frozen_tensors_get_no_gradient():
    loss, (states_ND, label_N) = build_soft_triple(0), draw_tokens(0)
    _, grad_states_ND, grad_proxies_CKD = value_and_gradients(loss, loss, states_ND, label_N)
    loss.zero_grad()
    loss(states_ND, label_N).backward()  # a frozen encoder
    assert states_ND.grad is None and torch.equal(loss.proxies_CKD.grad, grad_proxies_CKD)
    loss.zero_grad()
    loss.proxies_CKD.requires_grad_(False)
    loss(states_ND.requires_grad_(), label_N).backward()
    assert loss.proxies_CKD.grad is None and torch.equal(states_ND.grad, grad_states_ND)


def test_without_gradients_the_value_is_the_same_and_none_are_computed(monkeypatch):
    loss, tokens = build_soft_triple(0), draw_tokens(0)
    value = loss(*tokens)
    monkeypatch.setattr(plait.losses.proxies, "_backward_normalize_", None)  # every gradient goes through it
    with torch.no_grad():
        without = loss(*tokens)
    assert torch.equal(without, value.detach()) and not without.requires_grad
    with pytest.raises(TypeError):
        loss(*tokens)


def test_second_derivative_is_refused():
    loss, (states_ND, label_N) = build_soft_triple(0), draw_tokens(0)
    with pytest.raises(NotImplementedError, match=r"^soft_triple has no second derivatives$"):
        torch.autograd.grad(loss(states_ND.requires_grad_(), label_N), states_ND, create_graph=True)


def test_arguments_are_not_modified():
    loss, (states_ND, label_N) = build_soft_triple(0), draw_tokens(0)
    before = states_ND.clone(), loss.proxies_CKD.detach().clone(), label_N.clone()
    loss(states_ND.requires_grad_(), label_N).backward()
    for now, then in zip((states_ND.detach(), loss.proxies_CKD.detach(), label_N), before, strict=True):
        assert torch.equal(now, then)


def test_states_that_are_a_view_get_their_gradient():
    loss, (states_ND, label_N) = build_soft_triple(0), draw_tokens(0)
    expected = value_and_gradients(loss, loss, states_ND, label_N)[1]
    wide = torch.cat([states_ND, states_ND], dim=1).T.contiguous().requires_grad_()
    loss(wide.T[:, :WIDTH], label_N).backward()
    torch.testing.assert_close(wide.grad.T[:, :WIDTH], expected, **EXACT)


# Prints the MB that a step needs beyond states, proxies and the gradients of both.
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
    loss(states_ND[:8], label_N[:8]).backward()  # what torch allocates on its first call is not counted
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = memory("VmRSS")
    loss(states_ND[:tokens], label_N[:tokens]).backward()
    print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_4096_tokens_need_less_memory_than_a_quarter_of_them_by_the_plain_formula():
    """With 2,000 proxies per class."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed tensors are returned at once
    command = [sys.executable, "-c", MEASURE]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    ours, plain_formula = map(float, out.split())
    assert ours < 150
    assert plain_formula > 150  # for 1,024 tokens: at least three times 49 MB, and the unit vectors
