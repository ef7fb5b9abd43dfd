"""The limit: the matrix products of a piece of work, and nothing else.

The work is recorded once; then the same products are replayed on arbitrary numbers: linear layers by the routine that
the work calls, with its own weights, and the two products of each attention by torch.bmm.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

PLAIN = ("mm", "bmm", "addmm", "baddbmm", "matmul")  # their last two matrices are the factors


class Products(TorchDispatchMode):
    """Records the matrix products computed inside its `with` block."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[Tensor], object]] = []  # each computes one product, on numbers from a buffer
        self.largest = 0  # numbers that the buffer must hold
        self.rows: Counter[int] = Counter()  # weight → rows multiplied with it

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Record a product and compute it."""
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__
        if "linear" in name:
            fused = function._overloadname == "binary"  # the sum with a second input follows the product
            weight, bias = args[2:4] if fused else args[1:3]
            self._record(partial(linear, name, args[0].shape, weight, bias), args[0].numel())
            self.rows[id(weight)] += args[0].shape[:-1].numel()
        elif "scaled_dot_product" in name:
            texts, heads, length, width = args[0].shape
            self._record(partial(attention, texts * heads, length, width), texts * heads * length * max(length, width))
        elif name in PLAIN:
            shapes = [factor.shape for factor in args if isinstance(factor, Tensor)][-2:]
            self._record(partial(product, shapes), max(shape.numel() for shape in shapes))
        return function(*args, **kwargs)

    def _record(self, call: Callable[[Tensor], object], size: int) -> None:
        self.calls.append(call)
        self.largest = max(self.largest, size)

    @property
    def tokens(self) -> int:
        """The tokens that went through the encoder, padding included: the most rows multiplied with any one weight."""
        return max(self.rows.values())

    def work(self, buffer: Tensor) -> Callable[[], None]:
        """A function that replays them all, on numbers from a buffer."""
        if not self.calls:
            raise SystemExit("no matrix product was seen; does another thread or engine compute them?")

        def replay() -> None:
            with torch.inference_mode():
                for call in self.calls:
                    call(buffer)

        return replay


def linear(name: str, shape: torch.Size, weight: Tensor, bias: Tensor, buffer: Tensor) -> object:
    """The product alone, by the same routine, without the operations fused to it."""
    if name == "_linear_pointwise":
        return torch.ops.mkldnn._linear_pointwise(view_of(buffer, shape), weight, bias, "none", [], "")
    return torch.nn.functional.linear(view_of(buffer, shape), weight, bias)


def attention(count: int, length: int, width: int, buffer: Tensor) -> object:
    states = view_of(buffer, (count, length, width))
    torch.bmm(states, states.transpose(1, 2))
    return torch.bmm(view_of(buffer, (count, length, length)), states)


def product(shapes: list[torch.Size], buffer: Tensor) -> object:
    one, other = (view_of(buffer, shape) for shape in shapes)
    return one @ other


def view_of(buffer: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The beginning of a buffer, in this shape."""
    return buffer[: math.prod(shape)].view(shape)
