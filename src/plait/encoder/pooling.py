"""Token states → one embedding per text.

N packed tokens, S texts, D width, T tokens per text of one group.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from plait.encoder.packing import Packed

__all__ = ["POOLINGS", "Pooling", "pool"]


@dataclass(frozen=True)
class Pooling:
    """A way to turn the states of a text into its embedding."""

    reduce: Callable[[Tensor], Tensor]  # states (S, T, D) of texts of one length → (S, D)
    dense: bool = False  # whether the encoder's own pooler layer and tanh follow
    tokens: str = ""  # sentence-transformers' name for the same reduction


POOLINGS: Mapping[str, Pooling] = {
    "cls": Pooling(lambda states_STD: states_STD[:, 0], tokens="cls"),
    "pooler": Pooling(lambda states_STD: states_STD[:, 0], dense=True, tokens="cls"),
    "mean": Pooling(lambda states_STD: states_STD.mean(dim=1), tokens="mean"),
    "max": Pooling(lambda states_STD: states_STD.amax(dim=1), tokens="max"),
}


def pool(states_ND: Tensor, packed: Packed, pooling: str) -> Tensor:
    """The embedding (S, D) of each text, in the order in which the texts were given."""
    groups = states_ND.split(packed.tokens_per_group)
    pooled_SD = torch.cat(
        [
            POOLINGS[pooling].reduce(states.view(group.count, group.length, -1))
            for states, group in zip(groups, packed.groups, strict=True)
        ]
    )
    return pooled_SD[packed.places_S]
