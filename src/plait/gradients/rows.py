"""The tasks' gradients of the weights that they share, each stored before the next task begins.

K tasks, P shared weights.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["GradientRows"]

_CHUNK = 2**16  # products summed in float32; the chunks are summed in float64, as float32 sums of millions drift


class GradientRows:
    """One row per task, in one buffer (K, P) that every step reuses."""

    def __init__(self, parameters: Sequence[nn.Parameter], tasks: int) -> None:
        self.parameters = parameters
        self.sizes = [parameter.numel() for parameter in parameters]
        like = parameters[0] if parameters else torch.empty(0)
        self.buffer_KP = torch.empty(tasks, sum(self.sizes), dtype=like.dtype, device=like.device)
        self.reached: list[list[bool]] = []  # for each row, which parameters had a gradient
        self.gram_KK = torch.zeros(0, 0, dtype=torch.float64)  # of the rows that were measured last

    def clear(self) -> None:
        """Start again with the first row."""
        self.reached = []

    def set_aside(self) -> None:
        """Move the gradients from the parameters into the next row."""
        with torch.no_grad():
            for parameter, view in zip(self.parameters, self._views(len(self.reached)), strict=True):
                view.zero_() if parameter.grad is None else view.copy_(parameter.grad)
        self.reached.append([parameter.grad is not None for parameter in self.parameters])
        for parameter in self.parameters:
            parameter.grad = None

    def _views(self, row: int) -> list[Tensor]:
        """A row as tensors in the parameters' shapes that share its memory."""
        parts = self.buffer_KP[row].split(self.sizes)
        return [part.view_as(parameter) for part, parameter in zip(parts, self.parameters, strict=True)]

    @property
    def newest_P(self) -> Tensor:  # noqa: N802  # a tensor carries its shape as a suffix
        """The row that was set aside last."""
        return self.buffer_KP[len(self.reached) - 1]

    def measure(self) -> Tensor:
        """The Gram matrix (K, K) of the rows, which stays available as `gram_KK`."""
        rows_KP = self.buffer_KP[: len(self.reached)]
        products = [chunk_KP @ chunk_KP.T for chunk_KP in rows_KP.split(_CHUNK, dim=1)]
        self.gram_KK = torch.stack(products).cpu().double().sum(dim=0)
        return self.gram_KK

    def mix(self, weights_K: Tensor) -> None:
        """Give the parameters the weighted sum of the rows, which overwrites the first row."""
        first_P, *others = self.buffer_KP[: len(self.reached)]
        first_weight, *other_weights = weights_K.tolist()
        first_P.mul_(first_weight)
        for other_P, weight in zip(others, other_weights, strict=True):
            first_P.add_(other_P, alpha=weight)
        for index, (parameter, view) in enumerate(zip(self.parameters, self._views(0), strict=True)):
            parameter.grad = view if any(reached[index] for reached in self.reached) else None
