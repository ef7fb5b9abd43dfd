"""What every head is built from, and what it declares about itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

__all__ = ["Head", "Size"]


@dataclass(frozen=True)
class Size:
    """The dimensions of a head, and the model's dropout."""

    width: int  # D, of an embedding
    outputs: int  # number of classes; 1 for yes/no, scores and triplets
    top: float  # upper end of the range of a score; 1 for other labels
    dropout: float


class Head(nn.Module):
    """A small module built from a Size; `forward` takes one embedding (B, D) per view and returns (B, outputs)."""

    reads: ClassVar[str]  # single, apart, joined, joined_both, joined_apart or triple
    kinds: ClassVar[tuple[str, ...]] = ("classes", "multilabel", "yes_no", "score")  # kinds of label it can predict
    symmetric: bool = False  # True: swapping its two texts never changes its outputs; may depend on its options
    after_shared_layer: ClassVar[bool] = True  # False: it compares embeddings, so no shared layer may precede it
    output_layer: ClassVar[str | None] = None  # the linear layer that produces the outputs, if there is one
    unpenalised: ClassVar[int] = 0  # first inputs of that layer that `head_start: frozen` may weigh freely
    projection: ClassVar[str | None] = None  # the layer that projects each embedding before they are compared

    @classmethod
    def problem(cls, size: Size, options: Mapping[str, Any]) -> str | None:
        """Why the head cannot be built with this size and these options, if it cannot."""
        return None
