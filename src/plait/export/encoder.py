"""The encoder and its pooling as nodes of an ONNX graph, for padded texts.

S texts, T tokens of the longest, N = S·T, D width, H attention heads, d = D/H.
"""

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from plait.encoder.bert import Encoder, Layer
from plait.encoder.distances import BucketScores, distance_buckets
from plait.encoder.pooling import POOLINGS
from plait.export.graph import Graph

__all__ = ["Float32", "Precision", "add_encoder", "add_linear"]

_PENALTY = 1e9  # subtracted from the attention scores of padding, so that its weight is 0


class Precision(Protocol):
    """The format of the encoder's weights in a graph."""

    name: str

    def rows(self, graph: Graph, name: str, table: np.ndarray, ids: str) -> str:
        """The rows of a table with the given ids."""

    def linear(self, graph: Graph, name: str, weight: np.ndarray, bias: np.ndarray, states_ND: str) -> str:
        """A linear layer; the weight has shape (outputs, inputs)."""


class Float32:
    """Weights at full precision."""

    name = "float32"

    def rows(self, graph: Graph, name: str, table: np.ndarray, ids: str) -> str:
        """The rows of a table with the given ids."""
        return graph.add("Gather", graph.weight(name, table), ids)

    def linear(self, graph: Graph, name: str, weight: np.ndarray, bias: np.ndarray, states_ND: str) -> str:
        """A linear layer; the weight has shape (outputs, inputs)."""
        weights = graph.weight(f"{name}.weight", weight), graph.weight(f"{name}.bias", bias)
        return graph.add("Gemm", states_ND, *weights, transB=1)


def add_encoder(
    graph: Graph, encoder: Encoder, pooling: str, precision: Precision, ids: str, mask: str, segments: str | None
) -> str:
    """Embeddings (S, D) of padded texts from tables (S, T) of their ids, mask and segments."""
    width, shape = encoder.config.width, graph.add("Shape", ids)
    states_STD = graph.add(
        "Add", precision.rows(graph, "tokens", _array(encoder.tokens.weight), ids), _add_positions(graph, encoder, ids)
    )
    if segments and encoder.segments is not None:
        others = graph.weight("segments", _array(encoder.segments.weight - encoder.segments.weight[0]))
        states_STD = graph.add("Add", states_STD, graph.add("Gather", others, segments))
    states_ND = _add_norm(graph, "norm", encoder.norm, graph.add("Reshape", states_STD, graph.axes(-1, width)))
    seen_ST = graph.cast(mask, "FLOAT")
    penalty_ST = graph.add("Mul", graph.add("Sub", seen_ST, graph.constant(1)), graph.constant(_PENALTY))
    added_SHTT = graph.add("Unsqueeze", penalty_ST, graph.axes(1, 2))
    if isinstance(encoder.distances, BucketScores):
        added_SHTT = graph.add("Add", added_SHTT, _add_distances(graph, encoder, encoder.distances, ids))
    split = graph.add("Concat", shape, graph.axes(encoder.config.heads, width // encoder.config.heads), axis=0)
    for number, layer in enumerate(encoder.layers):
        assert isinstance(layer, Layer), "an encoder is made of layers"
        states_ND = _add_layer(graph, f"layers.{number}", layer, precision, states_ND, added_SHTT, split)
    states_STD = graph.add("Reshape", states_ND, graph.add("Concat", shape, graph.axes(width), axis=0))
    if POOLINGS[pooling].scored:
        return _add_weighted_pooling(graph, encoder, states_STD, graph.add("Unsqueeze", penalty_ST, graph.axes(1)))
    pooled_SD = _add_pooling(graph, pooling, states_STD, graph.add("Unsqueeze", seen_ST, graph.axes(-1)))
    if not POOLINGS[pooling].dense:
        return pooled_SD
    assert encoder.pooler is not None, "an encoder for pooling 'pooler' is built with its pooler"
    return graph.add("Tanh", add_linear(graph, "pooler", encoder.pooler, pooled_SD))


def _add_positions(graph: Graph, encoder: Encoder, ids: str) -> str:
    """The position embeddings plus that of segment 0: (T, D), for RoBERTa and MPNet (S, T, D)."""
    assert encoder.positions is not None, "an encoder with rotations was refused"
    first_D = 0 if encoder.segments is None else encoder.segments.weight[0]
    table = graph.weight("positions", _array(encoder.positions.weight + first_D))
    if not encoder.config.first_position:
        length = graph.add("Shape", ids, start=1)
        return graph.add("Slice", table, graph.axes(0), length, graph.axes(0))
    # RoBERTa counts from its padding id + 1, and does not count padding tokens that occur in a text.
    padding = graph.constant(encoder.config.first_position - 1, np.int64)
    counted_ST = graph.cast(graph.add("Not", graph.add("Equal", ids, padding)), "INT64")
    place_ST = graph.add("Mul", graph.add("CumSum", counted_ST, graph.constant(1, np.int64)), counted_ST)
    return graph.add("Gather", table, graph.add("Add", place_ST, padding))


def _add_distances(graph: Graph, encoder: Encoder, distances: BucketScores, ids: str) -> str:
    """MPNet's scores of the distances between tokens: (H, T, T)."""
    farthest = encoder.config.positions - 1
    buckets = distance_buckets(torch.arange(-farthest, farthest + 1), distances.scores.num_embeddings)
    table = graph.weight("distances", _array(distances.scores.weight[buckets]))  # one row per distance
    length = graph.add("Squeeze", graph.add("Shape", ids, start=1))
    places_T = graph.add("Range", graph.constant(0, np.int64), length, graph.constant(1, np.int64))
    columns, rows = graph.add("Unsqueeze", places_T, graph.axes(0)), graph.add("Unsqueeze", places_T, graph.axes(1))
    row_TT = graph.add("Add", graph.add("Sub", columns, rows), graph.constant(farthest, np.int64))
    return graph.add("Transpose", graph.add("Gather", table, row_TT), perm=[2, 0, 1])


def _add_layer(
    graph: Graph, name: str, layer: Layer, precision: Precision, states_ND: str, added_SHTT: str, split: str
) -> str:
    """Attention, add & norm, feed-forward, add & norm."""

    def linear(part: str, weight: Tensor, bias: Tensor, inputs: str) -> str:
        return precision.linear(graph, f"{name}.{part}", _array(weight), _array(bias), inputs)

    width = layer.mix.in_features
    # The division by √d is moved into the weights of the queries.
    scale_3D = torch.ones(3 * width).index_fill(0, torch.arange(width), 1 / math.sqrt(width // layer.heads))
    qkv = linear("qkv", layer.qkv.weight * scale_3D[:, None], layer.qkv.bias * scale_3D, states_ND)
    sides = graph.add_several(3, "Split", qkv, axis=-1, num_outputs=3)
    q_SHTd, k_SHdT, v_SHTd = (
        graph.add("Transpose", graph.add("Reshape", side, split), perm=order)
        for side, order in zip(sides, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scores_SHTT = graph.add("Add", graph.add("MatMul", q_SHTd, k_SHdT), added_SHTT)
    mixed_SHTd = graph.add("MatMul", graph.add("Softmax", scores_SHTT, axis=-1), v_SHTd)
    mixed_ND = graph.add("Reshape", graph.add("Transpose", mixed_SHTd, perm=[0, 2, 1, 3]), graph.axes(-1, width))
    attended_ND = graph.add("Add", states_ND, linear("mix", layer.mix.weight, layer.mix.bias, mixed_ND))
    states_ND = _add_norm(graph, f"{name}.mix_norm", layer.mix_norm, attended_ND)
    widened_NF = graph.add("Gelu", linear("widen", layer.widen.weight, layer.widen.bias, states_ND))
    narrowed_ND = graph.add("Add", states_ND, linear("narrow", layer.narrow.weight, layer.narrow.bias, widened_NF))
    return _add_norm(graph, f"{name}.narrow_norm", layer.narrow_norm, narrowed_ND)


def _add_pooling(graph: Graph, pooling: str, states_STD: str, seen_ST1: str) -> str:
    """One embedding per text (S, D); padding does not count."""
    if POOLINGS[pooling].tokens == "cls":
        return graph.add("Gather", states_STD, graph.constant(0, np.int64), axis=1)
    if pooling == "max":
        lowest = graph.constant(float(np.finfo(np.float32).min))
        own_STD = graph.add("Where", graph.cast(seen_ST1, "BOOL"), states_STD, lowest)
        return graph.add("ReduceMax", own_STD, graph.axes(1), keepdims=0)
    sum_SD = graph.add("ReduceSum", graph.add("Mul", states_STD, seen_ST1), graph.axes(1), keepdims=0)
    return graph.add("Div", sum_SD, graph.add("ReduceSum", seen_ST1, graph.axes(1), keepdims=0))


def _add_weighted_pooling(graph: Graph, encoder: Encoder, states_STD: str, penalty_S1T: str) -> str:
    """One embedding per text (S, D): the softmax of the token scores weighs the states; padding weighs 0."""
    assert encoder.token_scores is not None, "an encoder has token scores if the pooling needs them"
    scorer_D1 = graph.weight("token_scores", _array(encoder.token_scores.unsqueeze(1)))
    scores_S1T = graph.add("Transpose", graph.add("MatMul", states_STD, scorer_D1), perm=[0, 2, 1])
    weights_S1T = graph.add("Softmax", graph.add("Add", scores_S1T, penalty_S1T), axis=-1)
    return graph.add("Squeeze", graph.add("MatMul", weights_S1T, states_STD), graph.axes(1))


def _add_norm(graph: Graph, name: str, norm: nn.LayerNorm, states: str) -> str:
    weights = graph.weight(f"{name}.weight", _array(norm.weight)), graph.weight(f"{name}.bias", _array(norm.bias))
    return graph.add("LayerNormalization", states, *weights, axis=-1, epsilon=norm.eps)


def add_linear(graph: Graph, name: str, linear: nn.Linear, states: str) -> str:
    """A linear layer at full precision."""
    return Float32().linear(graph, name, _array(linear.weight), _array(linear.bias), states)


def _array(tensor: Tensor) -> np.ndarray:
    numbers: np.ndarray = tensor.detach().cpu().to(torch.float32).numpy()
    return numbers
