"""A linear layer whose products on a CPU are oneDNN's, which is mostly faster than torch's choice (docs/benchmarks.md).

N tokens, I inputs, O outputs.
"""

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Linear"]


class Linear(nn.Linear):
    """xWᵀ + b."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, I) → (N, O)."""
        plain = input.device.type == "cpu" and input.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
        if not plain or not torch.backends.mkldnn.is_available():
            return super().forward(input)
        outputs_NO: Tensor = Product.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return outputs_NO


class Product(torch.autograd.Function):
    """The product, and the two of the way back."""

    @staticmethod
    def forward(ctx: Any, input_NI: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
        """(N, O)."""
        ctx.save_for_backward(input_NI, weight_OI)
        return multiply(input_NI, weight_OI, bias_O)

    @staticmethod
    def backward(ctx: Any, gradient_NO: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The gradients of input, weight and bias."""
        input_NI, weight_OI = ctx.saved_tensors
        of_input, of_weight, of_bias = ctx.needs_input_grad
        return (
            multiply(gradient_NO, weight_OI.T, None) if of_input else None,
            gradient_NO.T @ input_NI if of_weight else None,
            gradient_NO.sum(dim=0) if of_bias else None,
        )


def multiply(input_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    """xWᵀ + b by oneDNN."""
    product_NO: Tensor = torch.ops.mkldnn._linear_pointwise(input_NI, weight_OI, bias_O, "none", [], "")
    return product_NO
