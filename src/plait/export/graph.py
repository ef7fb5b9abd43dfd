"""ONNX graphs, written node by node; all graphs of a model take their weights from one file beside them.

A value of a graph is known by its name.
"""

from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import numpy as np

from plait.errors import RequestError

__all__ = ["OPSET", "Graph", "Weights", "onnx_or_error"]

OPSET = 20  # the first with GELU; ONNX Runtime reads it from 1.17 on
IR_VERSION = 9  # the one that goes with it
ALIGNMENT = 64  # bytes; what the products of a processor like
TEXTS = "texts"  # the axis that all inputs and outputs share


def onnx_or_error() -> ModuleType:
    """The package onnx, or how to get it."""
    try:
        import onnx
    except ImportError:
        raise RequestError('exporting needs the packages onnx and onnxruntime; pip install "plait[onnx]"') from None
    return onnx


class Weights:
    """The file of weights; each stands in it once, whichever graphs use it."""

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
        """The weight of that name as a graph refers to it; it is written when it is first asked for."""
        if name not in self.tensors:
            self.file.write(bytes(-self.file.tell() % ALIGNMENT))
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
    """A graph in the making."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.onnx = weights.onnx
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, axis: str) -> str:
        """A table of whole numbers (texts, tokens) that whoever runs the graph gives; `axis` names the tokens."""
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.INT64, (TEXTS, axis)))
        return name

    def output(self, name: str, value: str, columns: int | None) -> None:
        """A value that the graph gives under a name: (texts, columns), or (texts,) without columns."""
        shape = (TEXTS,) if columns is None else (TEXTS, columns)
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape))

    def weight(self, name: str, array: np.ndarray) -> str:
        """A weight of the model, from the file of weights."""
        self.initializers[name] = self.weights.tensor(name, array)
        return name

    def constant(self, value: object, kind: type[np.generic] = np.float32) -> str:
        """A number or a few, which stand in the graph itself."""
        name = f"constant.{np.dtype(kind).name}.{value}"
        self.initializers[name] = self.onnx.numpy_helper.from_array(np.array(value, kind), name)
        return name

    def axes(self, *numbers: int) -> str:
        """Whole numbers: axes, or a shape."""
        return self.constant(list(numbers), np.int64)

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """The value that an operation makes of others."""
        (value,) = self.add_several(1, operation, *inputs, **attributes)
        return value

    def add_several(self, count: int, operation: str, *inputs: str, **attributes: Any) -> list[str]:
        """The values that an operation makes of others."""
        values = [f"{operation}.{len(self.nodes)}.{place}" for place in range(count)]
        self.nodes.append(self.onnx.helper.make_node(operation, inputs, values, name=values[0], **attributes))
        return values

    def cast(self, value: str, kind: str) -> str:
        """The same numbers as FLOAT, BOOL or INT64."""
        return self.add("Cast", value, to=self.onnx.TensorProto.DataType.Value(kind))

    def save(self, path: Path) -> None:
        """Write the graph beside its weights."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, self.outputs, list(self.initializers.values()))
        model = helper.make_model(
            graph, producer_name="plait", ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)]
        )
        path.write_bytes(model.SerializeToString())
