"""An encoder made ready for inference on the CPU: the same numbers to rounding, in about four fifths of the time.

The weights of every linear layer are laid out once as oneDNN's products want them, and each product does what follows
it (GELU, the sum with what came in) before its result leaves the cache. N packed tokens, D width, F hidden width.
"""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plait.encoder.bert import Encoder, Layer, attend
from plait.encoder.packing import Packed

__all__ = ["Prepared"]

SLICE = 1024  # tokens that are widened at a time: so much stays in the cache, and less memory is needed
STEP = 8  # the least of the number of tokens: oneDNN keeps code for each number that it meets


class Prepared:
    """The layers of an encoder as its weights were when it was prepared."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.state = state_of(encoder)
        self.layers = [PreparedLayer(layer) for layer in encoder.layers if isinstance(layer, Layer)]

    @classmethod
    def of(cls, encoder: Encoder, before: Self | None) -> Self | None:
        """The one from before if no weight has changed since, else a new one; None where oneDNN is not at hand."""
        weight = encoder.tokens.weight
        if weight.device.type != "cpu" or weight.dtype != torch.float32 or not torch.backends.mkldnn.is_available():
            return None
        if before is not None and before.encoder is encoder and before.state == state_of(encoder):
            return before
        return cls(encoder)

    def __call__(self, packed: Packed) -> Tensor:
        """States (N, D) of the packed tokens."""
        states_ND = self.encoder.embed(packed)
        tokens = len(states_ND)
        states_ND = F.pad(states_ND, (0, 0, 0, -tokens % step_for(tokens)))
        for layer in self.layers:
            states_ND = layer(states_ND, packed)
        return states_ND[:tokens]


class PreparedLayer:
    """Attention, add & norm, feed-forward, add & norm, in four products."""

    def __init__(self, layer: Layer) -> None:
        self.heads = layer.heads
        self.mix_norm, self.narrow_norm = layer.mix_norm, layer.narrow_norm
        self.qkv, self.mix, self.widen, self.narrow = map(lay_out, (layer.qkv, layer.mix, layer.widen, layer.narrow))

    def __call__(self, states_ND: Tensor, packed: Packed) -> Tensor:
        """States (N, D) → states (N, D)."""
        product = torch.ops.mkldnn._linear_pointwise
        attended_ND = attend(product(states_ND, *self.qkv, "none", [], ""), packed, self.heads)
        states_ND = self.mix_norm(product.binary(attended_ND, states_ND, *self.mix, "add"))
        return torch.cat([self.feed_forward(part_ND) for part_ND in states_ND.split(SLICE)])

    def feed_forward(self, states_ND: Tensor) -> Tensor:
        """The second half, of some tokens."""
        product = torch.ops.mkldnn._linear_pointwise
        widened_NF = product(states_ND, *self.widen, "gelu", [], "none")
        narrowed_ND: Tensor = self.narrow_norm(product.binary(widened_NF, states_ND, *self.narrow, "add"))
        return narrowed_ND


def step_for(tokens: int) -> int:
    """What the number of tokens is made a multiple of: eight steps from one power of 2 to the next, so few numbers."""
    return max(STEP, (1 << (tokens - 1).bit_length()) // 16)


def lay_out(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    """The weight as oneDNN lays it out, and the bias."""
    return torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None), linear.bias.detach()


def state_of(encoder: Encoder) -> list[tuple[int, int]]:
    """What changes when weights are loaded: where each lies, and how often it was written.

    A step of a fused optimizer does not count as writing: who trains drops what was prepared.
    """
    return [(weight.data_ptr(), weight._version) for weight in encoder.parameters()]
