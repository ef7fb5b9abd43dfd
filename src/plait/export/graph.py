"""ONNX graphs, built node by node; all graphs of a model share one file of weights.

Every value in a graph is referred to by its name.
"""

from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import numpy as np

from plait.errors import RequestError

__all__ = ["OPSET", "Graph", "Weights", "onnx_or_error"]

OPSET = 20  # the first with GELU; ONNX Runtime supports it since 1.17
_IR_VERSION = 9  # the one that belongs to this opset
_ALIGNMENT = 64  # bytes; a cache line, which matrix products read fastest
_TEXTS = "texts"  # the name of the axis that all inputs and outputs share


def onnx_or_error() -> ModuleType:
    """The package onnx, or an error that says how to install it."""
    try:
        import onnx
    except ImportError:
        raise RequestError('exporting needs the packages onnx and onnxruntime; pip install "plait[onnx]"') from None
    return onnx


class Weights:
    """The file of weights; each is stored once, however many graphs use it."""

    def __init__(self, path: Path) -> None:
        self.onnx = onnx_or_error()
        self.path = path
        self.tensors: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.file = self.path.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def tensor(self, name: str, array: np.ndarray) -> Any:
        """A graph's reference to a weight, which is written on first use."""
        if name not in self.tensors:
            self.file.write(bytes(-self.file.tell() % _ALIGNMENT))
            kind = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            tensor = self.onnx.TensorProto(name=name, dims=array.shape, data_type=kind)
            tensor.data_location = self.onnx.TensorProto.EXTERNAL
            place = {"location": self.path.name, "offset": self.file.tell(), "length": array.nbytes}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            self.file.write(np.asarray(array, order="C").tobytes())
            self.tensors[name] = tensor
        return self.tensors[name]


class Graph:
    """A graph under construction."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.onnx = weights.onnx
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, axis: str) -> str:
        """An int64 input (texts, tokens); `axis` names its second axis."""
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.INT64, (_TEXTS, axis)))
        return name

    def output(self, name: str, value: str, columns: int | None) -> None:
        """Return a value under a name, with shape (texts, columns), or (texts,) without columns."""
        shape = (_TEXTS,) if columns is None else (_TEXTS, columns)
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape))

    def weight(self, name: str, array: np.ndarray) -> str:
        """A weight of the model, stored in the file of weights."""
        self.initializers[name] = self.weights.tensor(name, array)
        return name

    def constant(self, value: object, kind: type[np.generic] = np.float32) -> str:
        """One or a few numbers, stored in the graph itself."""
        name = f"constant.{np.dtype(kind).name}.{value}"
        self.initializers[name] = self.onnx.numpy_helper.from_array(np.array(value, kind), name)
        return name

    def axes(self, *numbers: int) -> str:
        """Integers that are axes or a shape."""
        return self.constant(list(numbers), np.int64)

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """Apply an operation with one result."""
        (value,) = self.add_several(1, operation, *inputs, **attributes)
        return value

    def add_several(self, count: int, operation: str, *inputs: str, **attributes: Any) -> list[str]:
        """Apply an operation with `count` results."""
        values = [f"{operation}.{len(self.nodes)}.{place}" for place in range(count)]
        self.nodes.append(self.onnx.helper.make_node(operation, inputs, values, name=values[0], **attributes))
        return values

    def cast(self, value: str, kind: str) -> str:
        """Convert to FLOAT, BOOL or INT64."""
        return self.add("Cast", value, to=self.onnx.TensorProto.DataType.Value(kind))

    def save(self, path: Path) -> None:
        """Write the graph, beside its weights."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, self.outputs, list(self.initializers.values()))
        model = helper.make_model(
            graph, producer_name="plait", ir_version=_IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)]
        )
        path.write_bytes(model.SerializeToString())
