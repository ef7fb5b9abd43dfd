"""`ADAPTERS`: few new weights are trained in place of the encoder's, and are merged into them when it is saved.

N tokens, I inputs, O outputs of a linear layer.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import torch
from annotated_types import Gt, MinLen
from torch import Tensor, nn

from plait.encoder.bert import Encoder
from plait.encoder.cpu.linear import CpuLinear

__all__ = ["ADAPTERS", "LowRank", "count_weights", "lora", "remove_adapters"]

Target = Literal["qkv", "mix", "widen", "narrow"]  # the linear layers of `Layer` and `GatedLayer`


class LowRank(nn.Module):
    """scale · BAx: a change of rank `rank` of a layer's weights, at first 0."""

    def __init__(self, linear: nn.Linear, rank: int, scale: float, generator: torch.Generator) -> None:
        super().__init__()
        self.scale = scale
        self.down = CpuLinear(linear.in_features, rank, bias=False)
        self.up = CpuLinear(rank, linear.out_features, bias=False)
        nn.init.normal_(self.down.weight, std=linear.in_features**-0.5, generator=generator)
        nn.init.zeros_(self.up.weight)
        self.to(linear.weight.device, linear.weight.dtype)

    def forward(self, input_NI: Tensor) -> Tensor:
        """(N, I) → (N, O), to be added to the layer's outputs."""
        change_NO: Tensor = self.up(self.down(input_NI) * self.scale)
        return change_NO

    def change(self) -> Tensor:
        """The same as a change of the layer's weight: (O, I)."""
        return self.up.weight @ self.down.weight * self.scale


def lora(
    encoder: Encoder,
    generator: torch.Generator,
    *,
    rank: Annotated[int, Gt(0)] = 8,
    alpha: Annotated[float, Gt(0)] = 16.0,
    targets: Annotated[tuple[Target, ...], MinLen(1)] = ("qkv", "mix", "widen", "narrow"),
) -> None:
    """Each layer's weight W becomes W + alpha/rank · BA, of which only A and B are trained (Hu 2021). B starts at 0, so
    the encoder starts as it is.

    The `targets` in each layer are the queries, keys and values (`qkv`, one matrix of this `rank` for the three), the
    output of attention (`mix`), and the feed-forward layers (`widen`, `narrow`).
    """
    for layer in encoder.layers:
        for target in dict.fromkeys(targets):
            linear = layer.get_submodule(target)
            assert isinstance(linear, CpuLinear), "every layer has these"
            linear.adapter = LowRank(linear, rank, alpha / rank, generator)


ADAPTERS: Mapping[str, Callable[..., None]] = {"lora": lora}


def remove_adapters(encoder: Encoder) -> None:
    """Leave the encoder with its own weights only."""
    for module in list(encoder.modules()):
        if isinstance(module, CpuLinear):
            module.adapter = None


def count_weights(encoder: Encoder) -> tuple[int, int]:
    """How many weights the adapters have, and how many the encoder itself."""
    sizes = {True: 0, False: 0}
    for name, weight in encoder.named_parameters():
        sizes[".adapter." in name] += weight.numel()
    return sizes[True], sizes[False]
