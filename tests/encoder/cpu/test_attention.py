import pytest
import torch

from plait.encoder.cpu.attention import attend_with_dropout
from plait.encoder.cpu.dropout import draw_mask
from plait.encoder.packing import Group

HEADS, WIDTH = 2, 6
GROUPS = (Group(count=2, length=1), Group(count=1, length=3), Group(count=3, length=4))
TOKENS = sum(group.count * group.length for group in GROUPS)


def attend_plainly(qkv, mask, scale, added=(None, None, None)):
    """The formula, text by text and head by head; the mask has the same order."""
    found, token, place, width = [], 0, 0, WIDTH // HEADS
    for group, more in zip(GROUPS, added, strict=True):
        for _ in range(group.count):
            text = qkv[token : token + group.length].view(group.length, 3, HEADS, width)
            heads = []
            for head in range(HEADS):
                q, k, v = text[:, 0, head], text[:, 1, head], text[:, 2, head]
                kept = mask[place : place + group.length**2].view(group.length, group.length)
                scores = q @ k.T / width**0.5 + (0 if more is None else more[head % len(more)])
                heads.append((torch.softmax(scores, dim=-1) * kept * scale) @ v)
                place += group.length**2
            found.append(torch.cat(heads, dim=1))
            token += group.length
    return torch.cat(found)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_value_and_gradient_equal_those_of_the_formula(p):
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(TOKENS, 3 * WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    torch.manual_seed(5)
    mask, scale = draw_mask((HEADS * sum(group.count * group.length**2 for group in GROUPS),), p)
    expected = attend_plainly(qkv, mask, scale)
    torch.manual_seed(5)
    found = attend_with_dropout(qkv, GROUPS, HEADS, p)
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad((found * weights).sum(), qkv)
    (expected_gradient,) = torch.autograd.grad((expected * weights).sum(), qkv)
    torch.testing.assert_close(gradient, expected_gradient)


def test_learned_scores_and_a_window_are_added(p=0.2):
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(TOKENS, 3 * WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    learned = torch.randn(HEADS, 4, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    window = torch.zeros(1, 3, 3, dtype=torch.float64)
    window[0, 0, 2] = window[0, 2, 0] = -torch.inf
    weights = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    torch.manual_seed(5)
    mask, scale = draw_mask((HEADS * sum(group.count * group.length**2 for group in GROUPS),), p)
    expected = attend_plainly(qkv, mask, scale, (None, window, learned))
    torch.manual_seed(5)
    found = attend_with_dropout(qkv, GROUPS, HEADS, p, (None, window, learned))
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad((found * weights).sum(), (qkv, learned))
    torch.testing.assert_close(gradients, torch.autograd.grad((expected * weights).sum(), (qkv, learned)))


def test_forward_without_a_graph_has_the_same_bits():
    qkv = torch.randn(TOKENS, 3 * WIDTH, generator=torch.Generator().manual_seed(0), requires_grad=True)
    torch.manual_seed(5)
    with_graph = attend_with_dropout(qkv, GROUPS, HEADS, 0.1)
    torch.manual_seed(5)
    with torch.no_grad():
        without = attend_with_dropout(qkv, GROUPS, HEADS, 0.1)
    assert torch.equal(with_graph, without)


def test_large_scores_are_finite():
    qkv = 1e4 * torch.randn(TOKENS, 3 * WIDTH, generator=torch.Generator().manual_seed(0))
    assert attend_with_dropout(qkv, GROUPS, HEADS, 0.1).isfinite().all()
