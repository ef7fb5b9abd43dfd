"""What every head is told when it is built, and what it declares of itself."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

__all__ = ["Head", "Size"]


@dataclass(frozen=True)
class Size:
    """The dimensions of a head and the dropout of the model."""

    width: int  # D, of an embedding
    outputs: int  # the classes, or 1 for yes/no, scores and triplets
    top: float  # the upper end of the scores' range, 1 for other labels
    dropout: float


class Head(nn.Module):
    """A small module, built from a Size; its forward takes one embedding (B, D) a view and gives (B, outputs)."""

    reads: ClassVar[str]  # single, apart, joined, joined_both or triple
    kinds: ClassVar[tuple[str, ...]] = ("classes", "several", "yes_no", "score")  # labels that it can predict
    symmetric: ClassVar[bool] = False  # whether swapping its two texts can never change its outputs
    after_shared_layer: ClassVar[bool] = True  # whether it may stand behind the model's shared layer
    output_layer: ClassVar[str | None] = None  # the linear layer whose result is the output, if there is one
    projection: ClassVar[str | None] = None  # the layer that projects each embedding before they are compared
