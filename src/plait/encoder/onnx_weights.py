"""The weights of an encoder in an ONNX graph, under the names that they have in torch.

Exporters keep the names of embeddings, norms and biases. They transpose the weight of a linear layer and give it a new
name; the bias that is added to its product tells which layer it belongs to.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plait.errors import EncoderError, RequestError

__all__ = ["read_onnx_weights"]


def read_onnx_weights(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The floating-point tensors of a graph, and the name and type of its other tensors."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        raise RequestError('reading a graph needs the package onnx; pip install "plait[onnx]"') from None
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        graph = onnx.load(str(file)).graph
    except (DecodeError, onnx.checker.ValidationError, OSError) as error:
        raise EncoderError(f"{file}: not a complete ONNX graph ({error}); copy or download it again") from None
    arrays = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    linear = dict(_linear_weights(graph, arrays))
    tensors = {name: tensor for name, tensor in arrays.items() if tensor.is_floating_point() and name not in linear}
    tensors |= dict(linear.values())
    others = {
        name: str(tensor.dtype).removeprefix("torch.")
        for name, tensor in arrays.items()
        if not tensor.is_floating_point()
    }
    return tensors, others


def _linear_weights(graph: Any, arrays: dict[str, Tensor]) -> Iterator[tuple[str, tuple[str, Tensor]]]:
    """The name of each linear layer's weight in the graph, with its name and value in torch."""
    biases = {
        given: bias.removesuffix(".bias")
        for node in graph.node
        if node.op_type == "Add"
        for bias in node.input
        for given in node.input
        if bias in arrays and bias.endswith(".bias") and given not in arrays
    }
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in arrays and node.output[0] in biases:
            yield node.input[1], (f"{biases[node.output[0]]}.weight", arrays[node.input[1]].T.contiguous())
        elif node.op_type == "Gemm" and len(node.input) == 3 and node.input[2].endswith(".bias"):
            weight, transposed = arrays[node.input[1]], any(a.name == "transB" and a.i for a in node.attribute)
            own = weight if transposed else weight.T.contiguous()
            yield node.input[1], (f"{node.input[2].removesuffix('.bias')}.weight", own)
