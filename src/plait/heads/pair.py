"""Heads that read two sentences: each encoded on its own (u, v), or both joined in one input.

B batch, D width, C outputs.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor, nn

from plait.heads.head import Head, Size

__all__ = [
    "Comparison",
    "Concat",
    "Cosine",
    "Difference",
    "DifferenceProduct",
    "Dot",
    "Joined",
    "JoinedBoth",
    "JoinedComparison",
    "JoinedDifference",
    "JoinedMean",
]

_Activation = Literal["none", "relu", "tanh"]
_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"none": lambda x: x, "relu": F.relu, "tanh": torch.tanh}


class Concat(Head):
    """linear([u; v]) (robust-embeddings VM, minbert-downstream BM)."""

    reads = "apart"
    output_layer = "linear"

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.linear = nn.Linear(2 * size.width, size.outputs)

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Two embeddings (B, D) → outputs (B, C)."""
        outputs_BC: Tensor = self.linear(self.dropout(torch.cat([u_BD, v_BD], dim=-1)))
        return outputs_BC


class Difference(Head):
    """linear(dropout(u − v)) (best-of-bert, baseline).

    With `absolute: true` it reads |u − v|, and is then symmetric; without it no layer can tell like from unlike pairs.
    """

    reads = "apart"
    output_layer = "linear"

    def __init__(self, size: Size, *, absolute: bool = False) -> None:
        super().__init__()
        self.absolute = absolute
        self.symmetric = absolute
        self.dropout = nn.Dropout(size.dropout)
        self.linear = nn.Linear(size.width, size.outputs)

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Two embeddings (B, D) → outputs (B, C)."""
        difference_BD = (u_BD - v_BD).abs() if self.absolute else u_BD - v_BD
        outputs_BC: Tensor = self.linear(self.dropout(difference_BD))
        return outputs_BC


class DifferenceProduct(Head):
    """[|u − v|; u∗v] → dropout → linear to hidden → ReLU → linear (best-of-bert §4.5)."""

    reads = "apart"
    output_layer = "outer"
    symmetric = True

    def __init__(self, size: Size, *, hidden: Annotated[int, Gt(0)] | None = None) -> None:
        super().__init__()
        hidden = size.width if hidden is None else hidden  # the paper's hidden layer is as wide as the encoder
        self.dropout = nn.Dropout(size.dropout)
        self.inner = nn.Linear(2 * size.width, hidden)
        self.outer = nn.Linear(hidden, size.outputs)

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Two embeddings (B, D) → outputs (B, C); equal for (u, v) and (v, u)."""
        compared_B2D = torch.cat([(u_BD - v_BD).abs(), u_BD * v_BD], dim=-1)
        outputs_BC: Tensor = self.outer(F.relu(self.inner(self.dropout(compared_B2D))))
        return outputs_BC


class Comparison(Head):
    """linear([cos(u, v); |û − v̂|; û∗v̂]), û and v̂ being u and v at unit length.

    Starting from the frozen encoder, it is the cosine with a fitted scale and threshold, corrected by single dimensions
    as far as the training rows support it.
    """

    reads = "apart"
    output_layer = "linear"
    unpenalised = 1
    symmetric = True
    after_shared_layer = False

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.linear = nn.Linear(1 + 2 * size.width, size.outputs)

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Two embeddings (B, D) → outputs (B, C); equal for (u, v) and (v, u)."""
        cosine_B1, compared_B2D = _compare(u_BD, v_BD)
        outputs_BC: Tensor = self.linear(torch.cat([cosine_B1, self.dropout(compared_B2D)], dim=-1))
        return outputs_BC


class JoinedComparison(Head):
    """linear([cos(u, v); |û − v̂|; û∗v̂; J(a, b) at unit length]): `comparison` and `joined` in one head.

    Starting from the frozen encoder it is about as good as `comparison`, and learns what only both texts in one input
    tell.
    """

    reads = "joined_apart"
    output_layer = "linear"
    unpenalised = 1
    after_shared_layer = False

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.linear = nn.Linear(1 + 3 * size.width, size.outputs)

    def forward(self, u_BD: Tensor, v_BD: Tensor, joined_BD: Tensor) -> Tensor:
        """The embeddings (B, D) of both sentences, and of the two joined → outputs (B, C)."""
        cosine_B1, compared_B2D = _compare(u_BD, v_BD)
        features_B3D = torch.cat([compared_B2D, F.normalize(joined_BD, dim=-1)], dim=-1)
        outputs_BC: Tensor = self.linear(torch.cat([cosine_B1, self.dropout(features_B3D)], dim=-1))
        return outputs_BC


def _compare(u_BD: Tensor, v_BD: Tensor) -> tuple[Tensor, Tensor]:
    """The cosine (B, 1) of two embeddings, and [|û − v̂|; û∗v̂] (B, 2D) at unit length."""
    u_BD, v_BD = F.normalize(u_BD, dim=-1), F.normalize(v_BD, dim=-1)
    product_BD = u_BD * v_BD
    return product_BD.sum(dim=-1, keepdim=True), torch.cat([(u_BD - v_BD).abs(), product_BD], dim=-1)


class Cosine(Head):
    """scale × cos(u, v), without weights (best-of-bert §4.2); the scale defaults to the top of the range."""

    reads = "apart"
    symmetric = True
    kinds = ("score",)
    after_shared_layer = False

    def __init__(self, size: Size, *, scale: float | None = None) -> None:
        super().__init__()
        self.scale = size.top if scale is None else scale

    @classmethod
    def problem(cls, size: Size, options: Mapping[str, Any]) -> str | None:
        """A scale of 0 or below would turn similar texts into low scores."""
        if size.top > 0 or options.get("scale") is not None:
            return None
        return "cosine needs a range that reaches above 0; give its scale, or choose another head"

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Two embeddings (B, D) → a score (B, 1)."""
        return self.scale * F.cosine_similarity(u_BD, v_BD, dim=-1).unsqueeze(-1)


class Joined(Head):
    """linear(J(a, b)): both sentences in one input (robust-embeddings §6.1)."""

    reads = "joined"
    output_layer = "linear"

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.linear = nn.Linear(size.width, size.outputs)

    def forward(self, joined_BD: Tensor) -> Tensor:
        """The embedding (B, D) of the joined sentences → outputs (B, C)."""
        outputs_BC: Tensor = self.linear(self.dropout(joined_BD))
        return outputs_BC


class JoinedMean(Head):
    """linear((J(a, b) + J(b, a)) / 2): as `joined`, with the same outputs for both orders."""

    reads = "joined_both"
    output_layer = "linear"
    symmetric = True

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.linear = nn.Linear(size.width, size.outputs)

    def forward(self, joined_BD: Tensor, swapped_BD: Tensor) -> Tensor:
        """The embeddings (B, D) of the sentences joined in both orders → outputs (B, C)."""
        outputs_BC: Tensor = self.linear(self.dropout((joined_BD + swapped_BD) / 2))
        return outputs_BC


class JoinedBoth(Head):
    """PH: linear([linear₁(J(a, b)); linear₂(J(b, a))]) (robust-embeddings exp02-08)."""

    reads = "joined_both"
    output_layer = "final"

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.forwards = nn.Linear(size.width, size.outputs)
        self.backwards = nn.Linear(size.width, size.outputs)
        self.final = nn.Linear(2 * size.outputs, size.outputs)

    def forward(self, joined_BD: Tensor, swapped_BD: Tensor) -> Tensor:
        """The embeddings (B, D) of the sentences joined in both orders → outputs (B, C)."""
        first_BC = self.forwards(self.dropout(joined_BD))
        second_BC = self.backwards(self.dropout(swapped_BD))
        outputs_BC: Tensor = self.final(torch.cat([first_BC, second_BC], dim=-1))
        return outputs_BC


class JoinedDifference(Head):
    """DPH: linear([f(linear₁(J(a, b))); f(linear₂(J(b, a))); f(linear₃(J(a, b) − J(b, a)))]).

    f is the activation: none in robust-embeddings exp09, tanh (DPHA) in exp10-15.
    """

    reads = "joined_both"
    output_layer = "final"

    def __init__(self, size: Size, *, activation: _Activation = "none") -> None:
        super().__init__()
        self.activation = _ACTIVATIONS[activation]
        self.dropout = nn.Dropout(size.dropout)
        self.forwards = nn.Linear(size.width, size.outputs)
        self.backwards = nn.Linear(size.width, size.outputs)
        self.between = nn.Linear(size.width, size.outputs)
        self.final = nn.Linear(3 * size.outputs, size.outputs)

    def forward(self, joined_BD: Tensor, swapped_BD: Tensor) -> Tensor:
        """The embeddings (B, D) of the sentences joined in both orders → outputs (B, C)."""
        parts_BC = [
            self.forwards(self.dropout(joined_BD)),
            self.backwards(self.dropout(swapped_BD)),
            self.between(self.dropout(joined_BD - swapped_BD)),
        ]
        outputs_BC: Tensor = self.final(torch.cat([self.activation(part_BC) for part_BC in parts_BC], dim=-1))
        return outputs_BC


class Dot(Head):
    """scale × f(Pu · Pv): both embeddings projected to `rank` dimensions (minbert-downstream §3.4).

    With `normalise: true, activation: relu` the similarity is in [0, 1] and the scale defaults to the top of the
    range (DPS-MSE, §3.7); otherwise the scale defaults to 1.
    """

    reads = "apart"
    symmetric = True
    kinds = ("yes_no", "score")
    after_shared_layer = False
    projection = "project"

    def __init__(
        self,
        size: Size,
        *,
        rank: Annotated[int, Gt(0)] = 128,
        normalise: bool = False,
        activation: _Activation = "none",
        scale: float | None = None,
    ) -> None:
        super().__init__()
        top = size.top if normalise and size.top > 0 else 1.0
        self.scale = top if scale is None else scale
        self.normalise = normalise
        self.activation = _ACTIVATIONS[activation]
        self.dropout = nn.Dropout(size.dropout)
        self.project = nn.Linear(size.width, rank)

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Two embeddings (B, D) → an output (B, 1); without dropout equal for (u, v) and (v, u)."""
        u_BR, v_BR = self.project(self.dropout(u_BD)), self.project(self.dropout(v_BD))
        if self.normalise:
            u_BR, v_BR = F.normalize(u_BR, dim=-1), F.normalize(v_BR, dim=-1)
        return self.scale * self.activation((u_BR * v_BR).sum(dim=-1, keepdim=True))
