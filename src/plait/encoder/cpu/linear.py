"""A linear layer that multiplies with oneDNN on a CPU, mostly faster than torch's choice (docs/benchmarks.md).

N tokens, I inputs, O outputs.
"""

from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Adapter", "CpuLinear"]


class Adapter(Protocol):
    """What is trained in place of a layer's weight."""

    def __call__(self, input: Tensor, /) -> Tensor:
        """(N, I) → (N, O), to be added to the layer's outputs."""

    def change(self) -> Tensor:
        """The same as a change of the weight: (O, I)."""


class CpuLinear(nn.Linear):
    """xWᵀ + b, or xWᵀ; an adapter changes W."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.adapter: Adapter | None = None

    def forward(self, input: Tensor) -> Tensor:
        """(N, I) → (N, O)."""
        outputs_NO = self._multiply(input)
        return outputs_NO if self.adapter is None else outputs_NO + self.adapter(input)

    def merged_weight(self) -> Tensor:
        """The weight (O, I) with the change that its adapter has learned."""
        weight_OI = self.weight.detach()
        return weight_OI if self.adapter is None else weight_OI + self.adapter.change().detach()

    def _multiply(self, input: Tensor) -> Tensor:
        plain = input.device.type == "cpu" and input.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
        if not plain or not torch.backends.mkldnn.is_available():
            return super().forward(input)
        outputs_NO: Tensor = _Product.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return outputs_NO


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(input_NI, weight_OI)
        return _multiply(input_NI, weight_OI, bias_O)

    @staticmethod
    def backward(ctx: Any, grad_NO: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The gradients with respect to input, weight and bias."""
        input_NI, weight_OI = ctx.saved_tensors
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _multiply(grad_NO, weight_OI.T, None) if needs_input else None,
            _multiply(grad_NO.T, input_NI.T, None) if needs_weight else None,
            grad_NO.sum(dim=0) if needs_bias else None,
        )


def _multiply(input_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    """xWᵀ + b with oneDNN."""
    product_NO: Tensor = torch.ops.mkldnn._linear_pointwise(input_NI, weight_OI, bias_O, "none", [], "")
    return product_NO
