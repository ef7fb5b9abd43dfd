"""Many texts in one row of tokens, without padding.

N packed tokens, S texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["Group", "Packed", "pack"]


@dataclass(frozen=True)
class Group:
    """Consecutive texts of one length: `count` × `length` tokens."""

    count: int
    length: int


@dataclass(frozen=True)
class Packed:
    """The tokens of some texts, shortest text first, so that texts of one length form a group."""

    ids_N: Tensor
    positions_N: Tensor
    segments_N: Tensor
    groups: tuple[Group, ...]
    places_S: Tensor  # the place of each text, in the order given, among the packed texts

    @property
    def tokens_per_group(self) -> list[int]:
        """The sizes that split an (N, …) tensor into its groups."""
        return [group.count * group.length for group in self.groups]

    def text_of_tokens(self) -> Tensor:
        """The number (N,) of the text that each token belongs to, in the order the texts were given."""
        lengths_S = [group.length for group in self.groups for _ in range(group.count)]
        return self.places_S.argsort().repeat_interleave(torch.tensor(lengths_S, device=self.places_S.device))


def pack(ids: Sequence[np.ndarray], firsts: Sequence[int], *, first_position: int, device: torch.device) -> Packed:
    """Pack some texts; the first `firsts[i]` tokens of text i belong to segment 0, the rest to segment 1."""
    lengths_S = np.fromiter((len(text) for text in ids), np.int64, len(ids))
    order_S = np.argsort(lengths_S, kind="stable")
    sorted_S = lengths_S[order_S]
    starts_S = np.concatenate([[0], np.cumsum(sorted_S)[:-1]])
    positions_N = np.arange(sorted_S.sum()) - np.repeat(starts_S, sorted_S)
    ids_N = np.concatenate([ids[text] for text in order_S]).astype(np.int64)
    segments_N = positions_N >= np.repeat(np.asarray(firsts)[order_S], sorted_S)
    if first_position:  # RoBERTa's positions do not count padding tokens that occur in a text itself
        pads_N = ids_N == first_position - 1
        before_N = np.cumsum(pads_N)
        before_N -= np.repeat((before_N - pads_N)[starts_S], sorted_S)  # padding tokens of the same text so far
        positions_N = np.where(pads_N, -1, positions_N - before_N)
    lengths, counts = np.unique(sorted_S, return_counts=True)
    places_S = np.empty_like(order_S)
    places_S[order_S] = np.arange(len(order_S))
    return Packed(
        torch.from_numpy(ids_N).to(device),
        torch.from_numpy(positions_N + first_position).to(device),
        torch.from_numpy(segments_N.astype(np.int64)).to(device),
        tuple(Group(int(count), int(length)) for length, count in zip(lengths, counts, strict=True)),
        torch.from_numpy(places_S).to(device),
    )
