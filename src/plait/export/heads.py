"""Heads and links as nodes of a graph. A head is read from its own forward pass, operation by operation.

S texts, D width, C outputs.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from plait.errors import RequestError
from plait.export.encoder import add_plain
from plait.export.graph import Graph
from plait.model.tasks import TaskSpec

__all__ = ["LINKS", "add_link", "add_module", "columns_of"]

Value = Any  # the name of a value, or a number


def add_module(graph: Graph, name: str, module: nn.Module, inputs: Sequence[str]) -> str:
    """What a head, or the layer before all heads, makes of embeddings."""
    traced = torch.fx.symbolic_trace(module.eval())
    given = iter(inputs)
    values: dict[torch.fx.Node, Value] = {}

    def value_of(argument: Any) -> Value:
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
            values[node] = add_plain(graph, f"{name}.{node.target}", part, arguments[0])
        elif isinstance(part, nn.Dropout):
            values[node] = arguments[0]
        elif node.target in OPERATIONS:
            options = {key: value_of(value) for key, value in node.kwargs.items() if value is not None}
            values[node] = OPERATIONS[node.target](graph, *arguments, **options)
        else:
            what = type(part).__name__ if part is not None else getattr(node.target, "__name__", node.target)
            raise RequestError(f"{name}: uses {what}, which `plait export` does not know; add it to plait.export.heads")
    raise AssertionError("a forward pass ends in an output")


def known(graph: Graph, value: Value) -> str:
    """A value by its name, or a number that stands in the graph."""
    return value if isinstance(value, str) else graph.constant(float(value))


def one(operation: str) -> Callable[..., str]:
    """An operation on one value."""
    return lambda graph, value: graph.add(operation, value)


def two(operation: str) -> Callable[..., str]:
    """An operation on two values or numbers."""
    return lambda graph, first, second: graph.add(operation, known(graph, first), known(graph, second))


def concatenate(graph: Graph, values: Sequence[str], dim: int = 0) -> str:
    """torch.cat."""
    return graph.add("Concat", *values, axis=dim)


def total(graph: Graph, value: str, dim: int, keepdim: bool = False) -> str:
    """Tensor.sum."""
    return graph.add("ReduceSum", value, graph.axes(dim), keepdims=int(keepdim))


def unsqueeze(graph: Graph, value: str, dim: int) -> str:
    """Tensor.unsqueeze."""
    return graph.add("Unsqueeze", value, graph.axes(dim))


def length(graph: Graph, value: str, dim: int, eps: float) -> str:
    """The length of each vector, at least eps; the axis is kept."""
    return graph.add("Max", graph.add("ReduceL2", value, graph.axes(dim), keepdims=1), graph.constant(eps))


def normalize(graph: Graph, value: str, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> str:
    """F.normalize."""
    assert p == 2.0, "unit vectors are those of the Euclidean length"
    return graph.add("Div", value, length(graph, value, dim, eps))


def cosine(graph: Graph, first: str, second: str, dim: int = 1, eps: float = 1e-8) -> str:
    """F.cosine_similarity."""
    units = [graph.add("Div", value, length(graph, value, dim, eps)) for value in (first, second)]
    return total(graph, graph.add("Mul", *units), dim)


# What a head may use → the nodes that do the same.
OPERATIONS: Mapping[Any, Callable[..., str]] = {
    torch.cat: concatenate,
    torch.tanh: one("Tanh"),
    torch.sigmoid: one("Sigmoid"),
    torch.relu: one("Relu"),
    torch.abs: one("Abs"),
    F.relu: lambda graph, value, inplace=False: graph.add("Relu", value),
    F.cosine_similarity: cosine,
    F.normalize: normalize,
    operator.add: two("Add"),
    operator.sub: two("Sub"),
    operator.mul: two("Mul"),
    operator.truediv: two("Div"),
    "abs": one("Abs"),
    "sum": total,
    "unsqueeze": unsqueeze,
}


def softmax(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """The probability of each class; they sum to 1."""
    return graph.add("Softmax", outputs_SC, axis=-1)


def each(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """Each class has a probability of its own."""
    return graph.add("Sigmoid", outputs_SC)


def yes_or_no(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """The probabilities of no and of yes."""
    yes_S1 = graph.add("Sigmoid", outputs_SC)
    return graph.add("Concat", graph.add("Sub", graph.constant(1), yes_S1), yes_S1, axis=-1)


def identity(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """The output is the score, kept inside its range."""
    ends = graph.constant(spec.labels.low), graph.constant(spec.labels.high)
    return graph.add("Clip", graph.add("Squeeze", outputs_SC, graph.axes(-1)), *ends)


def scaled_sigmoid(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """The probability of a high score, stretched to the range."""
    width = graph.constant(spec.labels.high - spec.labels.low)
    stretched_SC = graph.add("Mul", graph.add("Sigmoid", outputs_SC), width)
    return identity(graph, graph.add("Add", stretched_SC, graph.constant(spec.labels.low)), spec)


# As in plait.model.decode.
LINKS: Mapping[str, Callable[[Graph, str, TaskSpec], str]] = {
    "softmax": softmax,
    "one_vs_rest": each,
    "each": each,
    "sigmoid": yes_or_no,
    "identity": identity,
    "scaled_sigmoid": scaled_sigmoid,
}


def add_link(graph: Graph, outputs_SC: str, spec: TaskSpec) -> str:
    """Probabilities (S, classes), or scores (S,) in the task's range."""
    return LINKS[spec.link](graph, outputs_SC, spec)


def columns_of(spec: TaskSpec) -> int | None:
    """How many numbers a text, or a pair, has as its answer; None where it is a score alone."""
    return None if spec.labels.kind == "score" else len(spec.labels.names)
