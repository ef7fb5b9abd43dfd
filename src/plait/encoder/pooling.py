"""Token states → one embedding per text.

N packed tokens, S texts, D width, T tokens per text of one group.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from plait.encoder.packing import Packed

__all__ = ["POOLINGS", "Pooling", "pool", "token_shares"]


@dataclass(frozen=True)
class Pooling:
    """A way to turn the states of a text into its embedding."""

    reduce: Callable[..., Tensor]  # states (S, T, D) of texts of one length, and scores (S, T) if `scored` → (S, D)
    dense: bool = False  # whether the encoder's own pooler layer and tanh follow
    scored: bool = False  # whether the encoder has learned a score for each token
    tokens: str = ""  # sentence-transformers' name for the same reduction, if it has one


POOLINGS: Mapping[str, Pooling] = {
    "cls": Pooling(lambda states_STD: states_STD[:, 0], tokens="cls"),
    "pooler": Pooling(lambda states_STD: states_STD[:, 0], dense=True, tokens="cls"),
    "mean": Pooling(lambda states_STD: states_STD.mean(dim=1), tokens="mean"),
    "max": Pooling(lambda states_STD: states_STD.amax(dim=1), tokens="max"),
    "weighted": Pooling(
        lambda states_STD, scores_ST: (scores_ST.softmax(dim=1).unsqueeze(1) @ states_STD).squeeze(1), scored=True
    ),
}


def pool(states_ND: Tensor, packed: Packed, pooling: str, scores_N: Tensor | None = None) -> Tensor:
    """The embedding (S, D) of each text, in the order in which the texts were given; `scores` are those of tokens."""
    given = [states_ND] if scores_N is None else [states_ND, scores_N]
    groups = zip(*(_by_group(each, packed) for each in given), strict=True)
    pooled_SD = torch.cat([POOLINGS[pooling].reduce(*group) for group in groups])
    return pooled_SD[packed.places_S]


def token_shares(scores_N: Tensor, packed: Packed) -> Tensor:
    """The weight (N,) of each token in its text, times the number of tokens of the text: 1 if all weigh the same."""
    groups = _by_group(scores_N, packed)
    return torch.cat([scores_ST.softmax(dim=1).flatten() * scores_ST.shape[1] for scores_ST in groups])


def _by_group(each_N: Tensor, packed: Packed) -> Iterator[Tensor]:
    """Something about each token (N, …), in pieces (S, T, …) of texts of one length."""
    pieces = each_N.split(packed.tokens_per_group)
    for piece, group in zip(pieces, packed.groups, strict=True):
        yield piece.view(group.count, group.length, *piece.shape[1:])
