"""Heads and links as nodes of an ONNX graph. The operations of a head are found by tracing its forward pass.

S texts, D width, C outputs.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from plait.errors import RequestError
from plait.export.encoder import add_linear
from plait.export.graph import Graph
from plait.model.tasks import TaskSpec

__all__ = ["add_link", "add_module", "add_normalize", "output_columns"]

_Value = Any  # the name of a value in the graph, or a number


def add_module(graph: Graph, name: str, module: nn.Module, inputs: Sequence[str]) -> str:
    """The output of a head, or of the shared layer before all heads, for some embeddings."""
    traced = torch.fx.symbolic_trace(module.eval())
    given = iter(inputs)
    values: dict[torch.fx.Node, _Value] = {}

    def value_of(argument: Any) -> _Value:
        if isinstance(argument, torch.fx.Node):
            return values[argument]
        return [value_of(part) for part in argument] if isinstance(argument, list | tuple) else argument

    for node in traced.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
            continue
        arguments = [value_of(argument) for argument in node.args]
        if node.op == "output":
            return str(arguments[0])
        part = traced.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(part, nn.Linear):
            values[node] = add_linear(graph, f"{name}.{node.target}", part, arguments[0])
        elif isinstance(part, nn.Dropout):
            values[node] = arguments[0]
        elif node.target in _OPERATIONS:
            options = {key: value_of(value) for key, value in node.kwargs.items() if value is not None}
            values[node] = _OPERATIONS[node.target](graph, *arguments, **options)
        else:
            what = type(part).__name__ if part is not None else getattr(node.target, "__name__", node.target)
            raise RequestError(f"{name}: plait export does not support {what}; add it to plait.export.heads")
    raise AssertionError("a forward pass ends in an output")


def _as_node(graph: Graph, value: _Value) -> str:
    """The name of a value; a number becomes a constant."""
    return value if isinstance(value, str) else graph.constant(float(value))


def _unary(operation: str) -> Callable[..., str]:
    return lambda graph, value: graph.add(operation, value)


def _binary(operation: str) -> Callable[..., str]:
    """An operation on two values or numbers."""
    return lambda graph, first, second: graph.add(operation, _as_node(graph, first), _as_node(graph, second))


def _add_concat(graph: Graph, values: Sequence[str], dim: int = 0) -> str:
    return graph.add("Concat", *values, axis=dim)


def _add_sum(graph: Graph, value: str, dim: int, keepdim: bool = False) -> str:
    return graph.add("ReduceSum", value, graph.axes(dim), keepdims=int(keepdim))


def _add_unsqueeze(graph: Graph, value: str, dim: int) -> str:
    return graph.add("Unsqueeze", value, graph.axes(dim))


def _add_length(graph: Graph, value: str, dim: int, eps: float) -> str:
    """The Euclidean norm of each vector, at least eps; the axis is kept."""
    return graph.add("Max", graph.add("ReduceL2", value, graph.axes(dim), keepdims=1), graph.constant(eps))


def add_normalize(graph: Graph, value: str, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> str:
    """F.normalize."""
    assert p == 2.0, "heads normalise by the Euclidean norm only"
    return graph.add("Div", value, _add_length(graph, value, dim, eps))


def _add_cosine(graph: Graph, first: str, second: str, dim: int = 1, eps: float = 1e-8) -> str:
    """F.cosine_similarity."""
    units = [graph.add("Div", value, _add_length(graph, value, dim, eps)) for value in (first, second)]
    return _add_sum(graph, graph.add("Mul", *units), dim)


# Function, or name of a tensor method, that a head may use → the nodes that compute the same.
_OPERATIONS: Mapping[Any, Callable[..., str]] = {
    torch.cat: _add_concat,
    torch.tanh: _unary("Tanh"),
    torch.sigmoid: _unary("Sigmoid"),
    torch.relu: _unary("Relu"),
    torch.abs: _unary("Abs"),
    F.relu: lambda graph, value, inplace=False: graph.add("Relu", value),
    F.cosine_similarity: _add_cosine,
    F.normalize: add_normalize,
    operator.add: _binary("Add"),
    operator.sub: _binary("Sub"),
    operator.mul: _binary("Mul"),
    operator.truediv: _binary("Div"),
    "abs": _unary("Abs"),
    "sum": _add_sum,
    "unsqueeze": _add_unsqueeze,
}


def _add_softmax(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """The probability of each class; they sum to 1."""
    return graph.add("Softmax", outputs_SC, axis=-1)


def _add_sigmoid(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """An independent probability of each class."""
    return graph.add("Sigmoid", outputs_SC)


def _add_yes_no(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """The probabilities of no and of yes."""
    yes_S1 = graph.add("Sigmoid", outputs_SC)
    return graph.add("Concat", graph.add("Sub", graph.constant(1), yes_S1), yes_S1, axis=-1)


def _add_score(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """The output is the score, clipped to its range."""
    ends = graph.constant(spec.labels.low), graph.constant(spec.labels.high)
    return graph.add("Clip", graph.add("Squeeze", outputs_SC, graph.axes(-1)), *ends)


def _add_scaled_sigmoid(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """The probability of a high score, scaled to the range."""
    width = graph.constant(spec.labels.high - spec.labels.low)
    scaled_SC = graph.add("Mul", graph.add("Sigmoid", outputs_SC), width)
    return _add_score(graph, graph.add("Add", scaled_SC, graph.constant(spec.labels.low)), spec)


# Link of a task (plait.model.decode.LINKS) → the nodes that compute the same.
_LINK_NODES: Mapping[str, Callable[[Graph, str, TaskSpec], str]] = {
    "softmax": _add_softmax,
    "one_vs_rest": _add_sigmoid,
    "each": _add_sigmoid,
    "sigmoid": _add_yes_no,
    "identity": _add_score,
    "scaled_sigmoid": _add_scaled_sigmoid,
}


def add_link(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """Probabilities (S, classes), or scores (S,) in the task's range."""
    if spec.temperature != 1:
        outputs_SC = graph.add("Div", outputs_SC, graph.constant(spec.temperature))
    return _LINK_NODES[spec.link](graph, outputs_SC, spec)


def output_columns(spec: TaskSpec) -> int | None:
    """The number of probabilities per example; None for a task that predicts a single score."""
    return None if spec.labels.about.is_score else len(spec.labels.names)
