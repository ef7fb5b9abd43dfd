"""The tasks' gradients in rows: their numbers and their bits."""

import pytest
import torch
from torch import nn

from plait.gradients.rows import GradientRows

FIRST = [[[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0, 7.0]]
SECOND = [[[-1.0, 0.0], [0.0, 1.0]], [0.0, 2.0, 0.0]]


def build_rows(tasks: int = 2) -> GradientRows:
    return GradientRows([nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(3))], tasks)


def fill(rows: GradientRows, gradients: list[list[list | None]]) -> None:
    """Store these gradients as if each task's backward pass had produced them."""
    rows.clear()
    for task in gradients:
        for parameter, gradient in zip(rows.parameters, task, strict=True):
            parameter.grad = None if gradient is None else torch.tensor(gradient)
        rows.set_aside()


def test_gradient_moves_from_the_parameters_to_its_row():
    rows = build_rows()
    fill(rows, [FIRST, SECOND])
    assert rows.buffer_KP.tolist() == [[1, 2, 3, 4, 5, 6, 7], [-1, 0, 0, 1, 0, 2, 0]]
    assert all(parameter.grad is None for parameter in rows.parameters)


def test_gram_matrix_by_hand():
    rows = build_rows()
    fill(rows, [FIRST, SECOND])
    assert rows.measure().tolist() == [[140.0, 15.0], [15.0, 6.0]]  # -1 + 4 + 12 = 15
    assert rows.gram_KK.dtype == torch.float64


def test_mix_by_hand():
    rows = build_rows()
    fill(rows, [FIRST, SECOND])
    rows.mix(torch.tensor([2.0, -1.0], dtype=torch.float64))
    assert [parameter.grad.tolist() for parameter in rows.parameters] == [[[3, 4], [6, 7]], [10, 10, 14]]


def test_parameter_has_a_gradient_if_and_only_if_a_task_reaches_it():
    rows = build_rows()
    fill(rows, [[FIRST[0], None], [None, None]])
    assert rows.measure().tolist() == [[30.0, 0.0], [0.0, 0.0]]
    rows.mix(torch.ones(2))
    assert rows.parameters[0].grad.tolist() == FIRST[0] and rows.parameters[1].grad is None


def test_rows_of_an_earlier_step_leave_no_trace():
    rows = build_rows()
    fill(rows, [FIRST, SECOND])
    rows.mix(torch.ones(2))
    fill(rows, [SECOND, [None, SECOND[1]]])
    rows.mix(torch.ones(2))
    assert [parameter.grad.tolist() for parameter in rows.parameters] == [SECOND[0], [0.0, 4.0, 0.0]]


def test_unused_rows_are_left_out():
    rows = build_rows(tasks=3)
    fill(rows, [FIRST, SECOND])
    assert rows.measure().shape == (2, 2)
    rows.mix(torch.tensor([1.0, 1.0]))
    assert rows.parameters[1].grad.tolist() == [5.0, 8.0, 7.0]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5, 1e15])
def test_gram_matrix_of_long_rows_is_precise(scale):
    weight = nn.Parameter(torch.zeros(2_621_457))
    rows = GradientRows([weight], 3)
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        weight.grad = scale * (0.3 + torch.randn(weight.shape, generator=generator))
        rows.set_aside()
    exact = rows.buffer_KP.double() @ rows.buffer_KP.double().T
    error = (rows.measure() - exact).abs().max() / exact.diagonal().max()
    assert error < 2e-6, error  # float32 sums of 2^16 numbers; a single float32 sum of all of them is far off
