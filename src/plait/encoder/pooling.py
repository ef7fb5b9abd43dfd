"""Token states → one embedding a text.

N packed tokens, S texts, D width, T tokens of the texts in one group.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from plait.encoder.packing import Packed

__all__ = ["POOLINGS", "pool"]

# How the states (count, T, D) of a group of texts become (count, D).
POOLINGS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda states_STD: states_STD[:, 0],
    "pooler": lambda states_STD: states_STD[:, 0],  # the encoder's own layer follows
    "mean": lambda states_STD: states_STD.mean(dim=1),
    "max": lambda states_STD: states_STD.amax(dim=1),
}


def pool(states_ND: Tensor, packed: Packed, how: str) -> Tensor:
    """The embedding (S, D) of each text, in the order the texts were given; padding cannot enter, there is none."""
    groups = states_ND.split(packed.tokens_per_group)
    pooled_SD = torch.cat(
        [
            POOLINGS[how](states.view(group.count, group.length, -1))
            for states, group in zip(groups, packed.groups, strict=True)
        ]
    )
    return pooled_SD[packed.places_S]
