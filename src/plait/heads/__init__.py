"""Embeddings in, outputs out. `HEADS` names every head; a head's keyword-only parameters are its options."""

from collections.abc import Mapping

from torch import nn

from plait.heads.head import Head, Size
from plait.heads.pair import (
    Comparison,
    Concat,
    Cosine,
    Difference,
    DifferenceProduct,
    Dot,
    Joined,
    JoinedBoth,
    JoinedComparison,
    JoinedDifference,
    JoinedMean,
)
from plait.heads.shared import SharedTanh
from plait.heads.single import Linear, UnitLinear
from plait.heads.triple import Nearer
from plait.registry import Registry

__all__ = ["HEADS", "SHARED_LAYERS", "Head", "Size"]

HEADS: Registry[type[Head]] = Registry(
    "head",
    "plait.heads",
    {
        "linear": Linear,
        "unit_linear": UnitLinear,
        "concat": Concat,
        "joined": Joined,
        "joined_mean": JoinedMean,
        "joined_both": JoinedBoth,
        "joined_difference": JoinedDifference,
        "joined_comparison": JoinedComparison,
        "difference": Difference,
        "difference_product": DifferenceProduct,
        "comparison": Comparison,
        "cosine": Cosine,
        "dot": Dot,
        "nearer": Nearer,
    },
    expects=Head,
)

SHARED_LAYERS: Mapping[str, type[nn.Module]] = {"tanh": SharedTanh}
