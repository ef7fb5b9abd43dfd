"""Cosines between the tasks' gradients, by hand and as properties."""

import pytest
import torch

from plait.gradients.conflict import cosines, summarize


def test_cosines_by_hand():
    gram_KK = torch.tensor([[4.0, -3.0, 2.0], [-3.0, 9.0, 0.0], [2.0, 0.0, 1.0]])
    assert cosines(gram_KK, ["a", "b", "c"]) == {"a/b": -0.5, "a/c": 1.0, "b/c": 0.0}
    assert cosines(torch.tensor([[4.0]]), ["a"]) == {}


def test_cosine_with_a_gradient_of_zero_or_one_that_is_not_finite_is_none():
    gram_KK = torch.tensor([[4.0, 0.0, float("nan")], [0.0, 0.0, 0.0], [float("nan"), 0.0, float("inf")]])
    assert cosines(gram_KK, ["a", "b", "c"]) == {"a/b": None, "a/c": None, "b/c": None}


def test_cosines_do_not_depend_on_scale():
    g_KP = torch.randn(3, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    plain = cosines(g_KP @ g_KP.T, "abc")
    for scale in (1e-6, 1e15):
        assert cosines(scale**2 * (g_KP @ g_KP.T), "abc") == pytest.approx(plain, abs=2e-6)  # rounded to 6 digits


def test_summary_by_hand():
    measured = [{"a/b": -0.5, "a/c": None}, {"a/b": 0.25, "a/c": 0.5}, {"a/b": 0.0, "a/c": None}, {"a/b": -0.75}]
    assert summarize(measured) == {
        "a/b": {"mean": -0.25, "negative": 0.5, "count": 4},
        "a/c": {"mean": 0.5, "negative": 0.0, "count": 1},
    }
    assert summarize([]) == {}
