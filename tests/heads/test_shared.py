"""The shared layer tanh(W x + b)."""

import math

import torch
from torch import nn

from head_cases import SEEDS, WIDTH, draw_views, row, set_weights
from plait.heads import SHARED_LAYERS
from properties import assert_gradients_match_finite_differences, assert_rows_are_independent


def test_shared_tanh_by_hand():
    layer = SHARED_LAYERS["tanh"](2)
    set_weights(layer.linear, [[1.0, 0.0], [2.0, 0.0]], [0.0, math.log(3) - 2 * math.log(2)])
    # tanh(ln 2) = (2 − 1/2) / (2 + 1/2) = 0.6 and tanh(ln 3) = (3 − 1/3) / (3 + 1/3) = 0.8
    torch.testing.assert_close(layer(row(math.log(2), 9.0)), row(0.6, 0.8), atol=1e-5, rtol=0)  # float32


def test_shared_tanh_with_zero_weights_is_zero():
    layer = SHARED_LAYERS["tanh"](WIDTH)
    set_weights(layer.linear, torch.zeros(WIDTH, WIDTH).tolist(), [0.0] * WIDTH)
    assert torch.equal(layer(draw_views(9, 1)[0]), torch.zeros(4, WIDTH))


def test_shared_tanh_without_bias_is_odd_and_bounded_by_one():
    layer = SHARED_LAYERS["tanh"](WIDTH)
    nn.init.zeros_(layer.linear.bias)
    for seed in SEEDS:
        (x_SD,) = draw_views(seed, 1)
        shared_SD = layer(100 * x_SD)
        assert torch.equal(shared_SD, -layer(-100 * x_SD)), f"seed {seed}"
        assert shared_SD.abs().max() <= 1


def test_rows_are_independent_and_gradients_match_finite_differences():
    torch.manual_seed(0)
    layer, (x_SD,) = SHARED_LAYERS["tanh"](WIDTH).double(), draw_views(12, 1)
    assert_rows_are_independent(layer, [x_SD.double()])
    assert_gradients_match_finite_differences(layer, [x_SD.double()])


def test_shared_tanh_drops_its_outputs_only_in_training():
    torch.manual_seed(0)
    layer, (x_SD,) = SHARED_LAYERS["tanh"](WIDTH, dropout=0.5), draw_views(10, 1)
    complete_SD = layer.eval()(x_SD)
    assert torch.equal(complete_SD, torch.tanh(layer.linear(x_SD)))
    dropped_SD = layer.train()(x_SD)
    is_zero_SD = dropped_SD == 0
    assert 0 < is_zero_SD.sum() < is_zero_SD.numel()
    assert torch.equal(dropped_SD[~is_zero_SD], 2 * complete_SD[~is_zero_SD])  # kept ones grow by 1 / (1 − 0.5)


def test_shared_tanh_has_no_dropout_by_default():
    layer, (x_SD,) = SHARED_LAYERS["tanh"](WIDTH), draw_views(11, 1)
    assert torch.equal(layer.train()(x_SD), layer.eval()(x_SD))
