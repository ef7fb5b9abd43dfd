"""8-bit weights with one scale per output of a layer; 8-bit inputs with one scale per token, computed as they come.

N tokens, I inputs, O outputs, V rows of a table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from plait.encoder.bert import Layer
from plait.export.graph import Graph
from plait.model.model import Model

__all__ = ["Int8", "largest_inputs"]

_INT8_MAX = 127
_GELU_MINIMUM = -0.17  # a lower bound of GELU
_SMALLEST = 1e-9  # a lower bound of scales, which are divided by
_SMALLEST_SHARE = 0.01  # an input counts as at least this share of the largest
_CALIBRATION_BATCH = 16  # texts


@dataclass(frozen=True)
class _QuantizedLinear:
    """A linear layer whose weight is an int8 matrix times one scale per output."""

    weight_IO: np.ndarray  # int8
    scale_O: np.ndarray
    bias_O: np.ndarray
    divide_I: np.ndarray | None  # the inputs are divided by it


class Int8:
    """Linear layers and token embeddings in 8 bits; `largest` maps some layers to their largest inputs."""

    name = "int8"

    def __init__(self, largest: Mapping[str, np.ndarray]) -> None:
        self.largest = largest
        self.layers: dict[str, _QuantizedLinear] = {}

    def rows(self, graph: Graph, name: str, table: np.ndarray, ids: str) -> str:
        """The rows of a table with the given ids; each row has its own scale."""
        scale_V1 = np.maximum(np.abs(table).max(axis=1, keepdims=True), _SMALLEST) / _INT8_MAX
        whole = graph.weight(f"{name}.int8", np.rint(table / scale_V1).astype(np.int8))
        numbers = graph.cast(graph.add("Gather", whole, ids), "FLOAT")
        return graph.add("Mul", numbers, graph.add("Gather", graph.weight(f"{name}.scale", scale_V1), ids))

    def linear(self, graph: Graph, name: str, weight: np.ndarray, bias: np.ndarray, states_ND: str) -> str:
        """A linear layer; the weight has shape (outputs, inputs)."""
        # Almost all outputs of GELU are positive: relative to its minimum they need no sign bit.
        low = _GELU_MINIMUM if name.endswith(".narrow") else None
        if name not in self.layers:
            self.layers[name] = _quantize(weight, bias, self.largest.get(name), low or 0.0)
        layer = self.layers[name]
        if layer.divide_I is not None:
            states_ND = graph.add("Mul", states_ND, graph.weight(f"{name}.divide", 1 / layer.divide_I))
        if low:
            states_ND = graph.add("Sub", states_ND, graph.constant(low))
        steps, zero = (2 * _INT8_MAX + 1, 0) if low else (_INT8_MAX, _INT8_MAX + 1)
        largest_N1 = graph.add(
            "ReduceMax", states_ND if low else graph.add("Abs", states_ND), graph.axes(-1), keepdims=1
        )
        largest_N1 = graph.add("Max", largest_N1, graph.constant(_SMALLEST))
        scale_N = graph.add("Reshape", graph.add("Mul", largest_N1, graph.constant(1 / steps)), graph.axes(-1))
        zeros_N = graph.add("Expand", graph.constant([zero], np.uint8), graph.add("Shape", scale_N))
        whole_NI = graph.add("QuantizeLinear", states_ND, scale_N, zeros_N, axis=0)
        product_NO = graph.add(
            "MatMulInteger",
            whole_NI,
            graph.weight(f"{name}.int8", layer.weight_IO),
            graph.constant(zero, np.uint8),
            graph.constant(0, np.int8),
        )
        product_NO = graph.add("DequantizeLinear", product_NO, scale_N, axis=0)
        product_NO = graph.add("Mul", product_NO, graph.weight(f"{name}.scale", layer.scale_O))
        return graph.add("Add", product_NO, graph.weight(f"{name}.bias8", layer.bias_O))


def _quantize(weight_OI: np.ndarray, bias_O: np.ndarray, largest_I: np.ndarray | None, low: float) -> _QuantizedLinear:
    """A linear layer in 8 bits, for inputs from which `low` has been subtracted.

    If the largest inputs are known, part of their scale is moved into the weights (SmoothQuant, Xiao et al. 2022). Two
    neighbouring weights of the same sign have a sum of at most 128: processors that add two products in 16 bits would
    saturate otherwise, since 255 · 129 > 2¹⁵.
    """
    divide_I = None
    weight_IO = weight_OI.T.astype(np.float64)
    if largest_I is not None:
        widest_I = np.maximum(np.abs(weight_IO).max(axis=1), _SMALLEST)
        # An input that is small on the calibration texts may be larger on others.
        least = max(_SMALLEST_SHARE * float(largest_I.max()), _SMALLEST)
        divide_I = np.sqrt(np.maximum(largest_I, least) / widest_I).astype(np.float32)
        weight_IO = weight_IO * divide_I[:, None]
    scale_O = np.maximum(_largest_pair(weight_IO), _SMALLEST) / _INT8_MAX
    whole_IO = np.rint(weight_IO / scale_O)
    shifted_O = bias_O + low * (whole_IO * scale_O).sum(axis=0)
    return _QuantizedLinear(
        whole_IO.astype(np.int8), scale_O.astype(np.float32), shifted_O.astype(np.float32), divide_I
    )


def _largest_pair(weight_IO: np.ndarray) -> np.ndarray:
    """For each output, the largest absolute sum of two neighbouring weights of the same sign (O,)."""
    whole_IO = np.concatenate([weight_IO, np.zeros((len(weight_IO) % 2, weight_IO.shape[1]))])
    sides = (np.maximum(side, 0).reshape(-1, 2, weight_IO.shape[1]).sum(axis=1) for side in (whole_IO, -whole_IO))
    largest_O: np.ndarray = np.maximum(*(side.max(axis=0) for side in sides))
    return largest_O


def largest_inputs(model: Model, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Layer → the largest absolute value of each of its inputs (I,) on some texts, for layers that follow a layer norm.

    A few of their inputs are much larger than the rest, and would leave too few bits for the others.
    """
    largest: dict[str, torch.Tensor] = {}

    def record(name: str, inputs: tuple[torch.Tensor, ...]) -> None:
        found_I = inputs[0].abs().amax(dim=0)
        largest[name] = torch.maximum(largest[name], found_I) if name in largest else found_I

    hooks = []
    for number, layer in enumerate(model.encoder.layers):
        assert isinstance(layer, Layer), "an encoder is made of layers"
        for part, module in (("qkv", layer.qkv), ("widen", layer.widen)):
            name = f"layers.{number}.{part}"
            hooks.append(module.register_forward_pre_hook(lambda _, inputs, name=name: record(name, inputs)))
    table = model.tokenizer.tokenize(texts, model.limit())
    with torch.inference_mode():
        for start in range(0, len(table), _CALIBRATION_BATCH):
            rows = range(start, min(start + _CALIBRATION_BATCH, len(table)))
            model.states([table.row(row) for row in rows], table.firsts[rows.start : rows.stop].tolist())
    for hook in hooks:
        hook.remove()
    return {name: found_I.cpu().numpy() for name, found_I in largest.items()}
