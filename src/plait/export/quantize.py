"""Weights of 8 bits: a scale for each output of a layer, and for each token that comes in, found when it comes.

N tokens, I inputs, O outputs, V rows of a table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from plait.data.tokenize import tokenize
from plait.encoder.bert import Layer
from plait.export.graph import Graph
from plait.model.model import Model

__all__ = ["Int8", "largest_inputs", "quantize"]

TOP = 127
LOWEST_GELU = -0.17  # no value of GELU is below
SMALLEST = 1e-9  # a scale of 0 would divide by it
QUIET = 0.01  # of the largest input
BATCH = 16  # texts that are calibrated on at once


@dataclass(frozen=True)
class Quantized:
    """A linear layer whose weight is whole numbers times a scale."""

    weight_IO: np.ndarray  # int8
    scale_O: np.ndarray
    bias_O: np.ndarray
    divide_I: np.ndarray | None  # what the inputs are divided by


class Int8:
    """Linear layers and the table of tokens in 8 bits; `largest` are the largest inputs of some layers, by name."""

    name = "int8"

    def __init__(self, largest: Mapping[str, np.ndarray]) -> None:
        self.largest = largest
        self.layers: dict[str, Quantized] = {}

    def rows(self, graph: Graph, name: str, table: np.ndarray, ids: str) -> str:
        """The rows of a table that whole numbers ask for; each row has its own scale."""
        scale_V1 = np.maximum(np.abs(table).max(axis=1, keepdims=True), SMALLEST) / TOP
        whole = graph.weight(f"{name}.int8", np.rint(table / scale_V1).astype(np.int8))
        numbers = graph.cast(graph.add("Gather", whole, ids), "FLOAT")
        return graph.add("Mul", numbers, graph.add("Gather", graph.weight(f"{name}.scale", scale_V1), ids))

    def linear(self, graph: Graph, name: str, weight: np.ndarray, bias: np.ndarray, states_ND: str) -> str:
        """A linear layer; the weight is (outputs, inputs)."""
        # What GELU gives lies almost all on one side of 0: measured from its lowest value it needs no sign.
        low = LOWEST_GELU if name.endswith(".narrow") else None
        if name not in self.layers:
            self.layers[name] = quantize(weight, bias, self.largest.get(name), low or 0.0)
        layer = self.layers[name]
        if layer.divide_I is not None:
            states_ND = graph.add("Mul", states_ND, graph.weight(f"{name}.divide", 1 / layer.divide_I))
        if low:
            states_ND = graph.add("Sub", states_ND, graph.constant(low))
        steps, zero = (2 * TOP + 1, 0) if low else (TOP, TOP + 1)
        largest_N1 = graph.add(
            "ReduceMax", states_ND if low else graph.add("Abs", states_ND), graph.axes(-1), keepdims=1
        )
        largest_N1 = graph.add("Max", largest_N1, graph.constant(SMALLEST))
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


def quantize(weight_OI: np.ndarray, bias_O: np.ndarray, largest_I: np.ndarray | None, low: float) -> Quantized:
    """A linear layer in 8 bits, for inputs from which `low` has been taken.

    Where the largest inputs are known, an input and its weights share what is large in either (SmoothQuant, Xiao et al.
    2022). Two neighbouring weights of one sign have a sum of at most 128: processors that add two products in 16 bits
    would cut them off otherwise, since 255 · 129 > 2¹⁵.
    """
    divide_I = None
    weight_IO = weight_OI.T.astype(np.float64)
    if largest_I is not None:
        widest_I = np.maximum(np.abs(weight_IO).max(axis=1), SMALLEST)
        least = max(QUIET * float(largest_I.max()), SMALLEST)  # an input that was quiet so far may be heard one day
        divide_I = np.sqrt(np.maximum(largest_I, least) / widest_I).astype(np.float32)
        weight_IO = weight_IO * divide_I[:, None]
    scale_O = np.maximum(largest_pair(weight_IO), SMALLEST) / TOP
    whole_IO = np.rint(weight_IO / scale_O)
    shifted_O = bias_O + low * (whole_IO * scale_O).sum(axis=0)
    return Quantized(whole_IO.astype(np.int8), scale_O.astype(np.float32), shifted_O.astype(np.float32), divide_I)


def largest_pair(weight_IO: np.ndarray) -> np.ndarray:
    """The largest sum, of each output, of two neighbouring weights of one sign, as it is without the sign."""
    whole_IO = np.concatenate([weight_IO, np.zeros((len(weight_IO) % 2, weight_IO.shape[1]))])
    sides = (np.maximum(side, 0).reshape(-1, 2, weight_IO.shape[1]).sum(axis=1) for side in (whole_IO, -whole_IO))
    largest_O: np.ndarray = np.maximum(*(side.max(axis=0) for side in sides))
    return largest_O


def largest_inputs(model: Model, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Layer → the largest absolute value of each of its inputs on some texts, of the layers behind a layer norm.

    A few inputs of those are much larger than the rest, and would take the bits of all others.
    """
    largest: dict[str, torch.Tensor] = {}

    def watch(name: str, inputs: tuple[torch.Tensor, ...]) -> None:
        found_I = inputs[0].abs().amax(dim=0)
        largest[name] = torch.maximum(largest[name], found_I) if name in largest else found_I

    hooks = []
    for number, layer in enumerate(model.encoder.layers):
        assert isinstance(layer, Layer), "an encoder is made of layers"
        for part, module in (("qkv", layer.qkv), ("widen", layer.widen)):
            name = f"layers.{number}.{part}"
            hooks.append(module.register_forward_pre_hook(lambda _, inputs, name=name: watch(name, inputs)))
    table = tokenize(model.text.tokenizer, texts, model.text.limit)
    with torch.inference_mode():
        for start in range(0, len(table), BATCH):
            rows = range(start, min(start + BATCH, len(table)))
            model.states([table.row(row) for row in rows], table.firsts[rows.start : rows.stop].tolist())
    for hook in hooks:
        hook.remove()
    return {name: found_I.cpu().numpy() for name, found_I in largest.items()}
