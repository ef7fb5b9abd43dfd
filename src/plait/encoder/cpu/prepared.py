"""An encoder prepared for inference on the CPU: the same numbers up to rounding, in about four fifths of the time.

The weights of every linear layer are converted once to the layout that oneDNN multiplies fastest, and each product is
fused with the operation after it (GELU, the residual sum) while its result is still in the cache.

N packed tokens, D width, F hidden width.
"""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plait.encoder.attention import Distances, attend
from plait.encoder.bert import Encoder, Layer
from plait.encoder.cpu.linear import CpuLinear
from plait.encoder.modernbert import GatedLayer
from plait.encoder.packing import Packed

__all__ = ["Prepared", "weight_versions"]

_SLICE = 1024  # tokens per feed-forward pass: few enough to stay in the cache, and they take less memory
_STEP = 8  # the number of tokens is padded to a multiple of at least this: oneDNN caches code for every number it meets


class Prepared:
    """The layers of an encoder, with its weights from the time it was prepared."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._versions = weight_versions(encoder)
        self._layers = [_prepare(layer) for layer in encoder.layers]

    @classmethod
    def of(cls, encoder: Encoder, before: Self | None) -> Self | None:
        """`before` if no weight has changed since, otherwise a new one; None if oneDNN cannot be used."""
        weight = encoder.tokens.weight
        if weight.device.type != "cpu" or weight.dtype != torch.float32 or not torch.backends.mkldnn.is_available():
            return None
        if before is not None and before._encoder is encoder and before._versions == weight_versions(encoder):
            return before
        return cls(encoder)

    def __call__(self, packed: Packed) -> Tensor:
        """States (N, D) of the packed tokens."""
        states_ND = self._encoder.embed(packed)
        tokens = len(states_ND)
        states_ND = F.pad(states_ND, (0, 0, 0, -tokens % _padding_step(tokens)))
        for layer, distances in zip(self._layers, self._encoder.layer_distances(packed), strict=True):
            states_ND = layer(states_ND, packed, distances)
        states_ND, norm = states_ND[:tokens], self._encoder.last_norm
        return states_ND if norm is None else norm(states_ND)

    def pool(self, states_ND: Tensor, packed: Packed, pooling: str) -> Tensor:
        """Embeddings (S, D) of the texts."""
        return self._encoder.pool(states_ND, packed, pooling)


class _PreparedLayer:
    """Attention, add & norm, feed-forward, add & norm, in four products."""

    def __init__(self, layer: Layer) -> None:
        self.heads = layer.heads
        self.mix_norm, self.narrow_norm = layer.mix_norm, layer.narrow_norm
        self.qkv, self.mix, self.widen, self.narrow = map(_reorder, (layer.qkv, layer.mix, layer.widen, layer.narrow))

    def __call__(self, states_ND: Tensor, packed: Packed, distances: Distances | None) -> Tensor:
        """States (N, D) → states (N, D)."""
        product = torch.ops.mkldnn._linear_pointwise
        attended_ND = attend(product(states_ND, *self.qkv, "none", [], ""), packed, self.heads, distances=distances)
        states_ND = self.mix_norm(product.binary(attended_ND, states_ND, *self.mix, "add"))
        return torch.cat([self.feed_forward(part_ND) for part_ND in states_ND.split(_SLICE)])

    def feed_forward(self, states_ND: Tensor) -> Tensor:
        """The second half of the layer, for some of the tokens."""
        product = torch.ops.mkldnn._linear_pointwise
        widened_NF = product(states_ND, *self.widen, "gelu", [], "none")
        narrowed_ND: Tensor = self.narrow_norm(product.binary(widened_NF, states_ND, *self.narrow, "add"))
        return narrowed_ND


class _PreparedGatedLayer:
    """Norm, attention, add; norm, gated feed-forward, add, in four products."""

    def __init__(self, layer: GatedLayer) -> None:
        self.heads = layer.heads
        self.qkv_norm, self.widen_norm = layer.qkv_norm, layer.widen_norm
        self.qkv, self.mix, self.widen, self.narrow = map(_reorder, (layer.qkv, layer.mix, layer.widen, layer.narrow))

    def __call__(self, states_ND: Tensor, packed: Packed, distances: Distances | None) -> Tensor:
        """States (N, D) → states (N, D)."""
        product = torch.ops.mkldnn._linear_pointwise
        qkv_N3D = product(self.qkv_norm(states_ND), *self.qkv, "none", [], "")
        attended_ND = attend(qkv_N3D, packed, self.heads, distances=distances)
        states_ND = product.binary(attended_ND, states_ND, *self.mix, "add")
        return torch.cat([self.feed_forward(part_ND) for part_ND in states_ND.split(_SLICE)])

    def feed_forward(self, states_ND: Tensor) -> Tensor:
        """The second half of the layer, for some of the tokens."""
        product = torch.ops.mkldnn._linear_pointwise
        widened_NF, gate_NF = product(self.widen_norm(states_ND), *self.widen, "none", [], "").chunk(2, dim=-1)
        narrowed_ND: Tensor = product.binary(F.gelu(widened_NF) * gate_NF, states_ND, *self.narrow, "add")
        return narrowed_ND


def _prepare(layer: nn.Module) -> _PreparedLayer | _PreparedGatedLayer:
    if isinstance(layer, GatedLayer):
        return _PreparedGatedLayer(layer)
    assert isinstance(layer, Layer), "an encoder is made of layers"
    return _PreparedLayer(layer)


def _padding_step(tokens: int) -> int:
    """The number of tokens is padded to a multiple of this: eight sizes from one power of 2 to the next."""
    return max(_STEP, (1 << (tokens - 1).bit_length()) // 16)


def _reorder(linear: CpuLinear) -> tuple[Tensor, Tensor | None]:
    """The weight in oneDNN's layout, and the bias if there is one."""
    bias_O = None if linear.bias is None else linear.bias.detach()
    return torch.ops.mkldnn._reorder_linear_weight(linear.merged_weight(), None), bias_O


def weight_versions(module: nn.Module) -> list[tuple[int, int]]:
    """The address and version of each weight, which change when weights are loaded.

    A fused optimizer does not raise the version, so training has to discard the prepared encoder itself.
    """
    return [(weight.data_ptr(), weight._version) for weight in module.parameters()]
