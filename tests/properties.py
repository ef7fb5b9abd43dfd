"""Mathematical properties of heads, losses, combiners and metrics: one function asserts one property.

A function under test takes its floating-point inputs first and its labels last; the first dimension of each is the
rows. Tests call these functions for every variant in `HEADS`, `LOSSES`, `COMBINERS` and `METRICS`, so that a newly
registered variant is tested as well.

B rows, D width, K tasks, P parameters, n examples.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

Function = Callable[..., Tensor]
Weigh = Callable[[Tensor], Tensor]  # Gram matrix (K, K) → weights (K,)

ROUNDING = {"atol": 1e-5, "rtol": 1e-5}  # float32 sums in another order
SCALES = (0.0, 1e-6, 1e-3, 1.0, 1e5, 1e15)


def gradients_of(function: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = ()) -> list[Tensor]:
    """The gradient of the summed output with respect to each input."""
    inputs = [side.clone().requires_grad_() for side in inputs]
    return list(torch.autograd.grad(function(*inputs, *labels).sum(), inputs))


# Heads and losses


def assert_same_value_and_gradients(
    ours: Function, theirs: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = (), **tolerance: float
) -> None:
    """Both functions have the same value, and the same gradient with respect to each input."""
    tolerance = tolerance or ROUNDING
    torch.testing.assert_close(ours(*inputs, *labels), theirs(*inputs, *labels), **tolerance)
    both = zip(gradients_of(ours, inputs, labels), gradients_of(theirs, inputs, labels), strict=True)
    for own, other in both:
        torch.testing.assert_close(own, other, **tolerance)


def assert_gradients_match_finite_differences(
    function: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = ()
) -> None:
    """The gradients equal the slopes between nearby points; needs float64."""
    inputs = [side.clone().requires_grad_() for side in inputs]
    assert torch.autograd.gradcheck(lambda *sides: function(*sides, *labels), inputs)


def assert_finite_at_every_scale(function: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = ()) -> None:
    """Outputs and gradients are finite for inputs from 0 to 1e15."""
    for scale in SCALES:
        scaled = [scale * side for side in inputs]
        for number in (function(*scaled, *labels), *gradients_of(function, scaled, labels)):
            assert number.isfinite().all(), f"scale {scale:g}"


def assert_rows_are_independent(function: Function, inputs: Sequence[Tensor], **tolerance: float) -> None:
    """The output of a row is the same alone as in a batch."""
    alone = [function(*(side[row : row + 1] for side in inputs)) for row in range(len(inputs[0]))]
    torch.testing.assert_close(function(*inputs), torch.cat(alone), **(tolerance or ROUNDING))


def assert_symmetric(function: Function, inputs: Sequence[Tensor]) -> None:
    """Swapping the two inputs does not change a bit of the output."""
    first, second = inputs
    assert torch.equal(function(first, second), function(second, first))


def assert_row_order_does_not_matter(
    loss: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = (), *, seed: int = 0, **tolerance: float
) -> None:
    """A batch in another order has the same loss."""
    order = torch.randperm(len(inputs[0]), generator=torch.Generator().manual_seed(seed))
    permuted = loss(*(side[order] for side in (*inputs, *labels)))
    torch.testing.assert_close(permuted, loss(*inputs, *labels), **(tolerance or ROUNDING))


def assert_direction_matters_only(
    function: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = (), **tolerance: float
) -> None:
    """Multiplying each input by its own positive factor does not change the output."""
    factors = (100, 0.01, 7)
    scaled = [factor * side for factor, side in zip(factors, inputs, strict=False)]
    torch.testing.assert_close(function(*scaled, *labels), function(*inputs, *labels), **(tolerance or ROUNDING))


def assert_rotation_does_not_matter(
    function: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = (), *, seed: int = 0
) -> None:
    """Rotating all embeddings (B, D) together does not change the output."""
    width = inputs[0].shape[-1]
    random_DD = torch.randn(width, width, generator=torch.Generator().manual_seed(seed)).to(inputs[0].dtype)
    rotation_DD, _ = torch.linalg.qr(random_DD)
    rotated = function(*(side @ rotation_DD for side in inputs), *labels)
    torch.testing.assert_close(rotated, function(*inputs, *labels), atol=1e-4, rtol=1e-5)  # two more float32 products


def assert_empty_batch_has_loss_zero(loss: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = ()) -> None:
    """A batch without rows has loss 0, not NaN, and backward works."""
    inputs = [side[:0].clone().requires_grad_() for side in inputs]
    value = loss(*inputs, *(label[:0] for label in labels))
    assert value.item() == 0 and value.shape == () and value.requires_grad
    value.backward()
    assert all(side.grad is not None and side.grad.shape == side.shape for side in inputs)


def assert_gradient_step_lowers_loss(loss: Function, inputs: Sequence[Tensor], labels: Sequence[Tensor] = ()) -> None:
    """A small step against the gradient lowers the loss."""
    gradients = gradients_of(loss, inputs, labels)
    stepped = [side - 1e-3 * gradient for side, gradient in zip(inputs, gradients, strict=True)]
    assert loss(*stepped, *labels) < loss(*inputs, *labels)


# Combiners


def assert_single_task_keeps_its_gradient(weigh: Weigh, gradients_KP: Tensor) -> None:
    """The update of a single task is its own gradient."""
    for gradient_P in gradients_KP:
        weights_K = weigh((gradient_P @ gradient_P).view(1, 1))
        torch.testing.assert_close(weights_K @ gradient_P.unsqueeze(0), gradient_P)


def assert_weights_do_not_depend_on_scale(weigh: Weigh, gradients_KP: Tensor) -> None:
    """Multiplying all gradients by one factor multiplies the update by it; the weights are finite even for 0."""
    weights_K = weigh(gradients_KP @ gradients_KP.T)
    for scale in SCALES:
        scaled_KP = scale * gradients_KP
        scaled_K = weigh(scaled_KP @ scaled_KP.T)
        assert scaled_K.isfinite().all(), f"scale {scale:g}"
        if scale:
            torch.testing.assert_close(scaled_K, weights_K, atol=1e-9, rtol=1e-9)


def assert_task_order_does_not_matter(weigh: Weigh, gradients_KP: Tensor) -> None:
    """Listing the tasks in reverse gives the same update."""
    reversed_KP = gradients_KP.flip(0)
    update_P = weigh(gradients_KP @ gradients_KP.T) @ gradients_KP
    torch.testing.assert_close(weigh(reversed_KP @ reversed_KP.T) @ reversed_KP, update_P, atol=1e-12, rtol=1e-12)


def assert_no_task_is_harmed(weigh: Weigh, gradients_KP: Tensor, tolerance: float = 1e-12) -> None:
    """The update conflicts with no task: its product with each task's gradient is at least 0 (non-conflicting)."""
    update_P = weigh(gradients_KP @ gradients_KP.T) @ gradients_KP
    assert (gradients_KP @ update_P >= -tolerance).all(), gradients_KP @ update_P


# Metrics


def assert_example_order_does_not_matter(metric: Callable[..., float], *columns: np.ndarray | None, seed: int) -> None:
    """The same examples in another order have the same score."""
    given = [column for column in columns if column is not None]
    order = np.random.default_rng(seed).permutation(len(given[0]))
    permuted = metric(*(None if column is None else column[order] for column in columns))
    np.testing.assert_allclose(permuted, metric(*columns), rtol=0, atol=1e-12)  # float64 sums in another order
