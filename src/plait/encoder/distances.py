"""What attention knows about the distances between tokens, in encoders whose positions are not only embedded.

N packed tokens, H attention heads, d width of a head, T tokens of a text, L tokens of the longest text.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plait.encoder.attention import Distances
from plait.encoder.config import EncoderConfig
from plait.encoder.packing import Packed

__all__ = ["BucketScores", "Rotations", "distance_buckets"]

_FARTHEST = 128  # MPNet: all distances from this one on are in the last bucket


class BucketScores(nn.Module):
    """MPNet: each head has a learned score for every bucket of distances, which all layers share (Song 2020)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.layers = config.layers
        self.scores = nn.Embedding(config.distance_buckets, config.heads)

    def forward(self, packed: Packed) -> list[Distances]:
        """The same for every layer."""
        places_LL = _distances(packed)
        scores_HLL = self.scores(distance_buckets(places_LL, self.scores.num_embeddings)).permute(2, 0, 1)
        scores = [scores_HLL[:, : group.length, : group.length] for group in packed.groups]
        return [Distances(scores)] * self.layers


class Rotations(nn.Module):
    """ModernBERT: queries and keys are rotated by their positions, and some layers see a window only (Warner 2024)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        assert config.modern is not None, "only ModernBERT has rotations"
        self.kinds = list(zip(config.modern.windows, config.modern.periods, strict=True))  # of each layer
        self.width = config.width // config.heads

    def forward(self, packed: Packed) -> list[Distances]:
        """Those of each layer; layers of one kind share theirs."""
        made = {
            (window, period): Distances(_window_scores(packed, window), self._angles(packed, period))
            for window, period in set(self.kinds)
        }
        return [made[kind] for kind in self.kinds]

    def _angles(self, packed: Packed, period: float) -> tuple[Tensor, Tensor]:
        """Cosines and sines (N, d); the second half of a head's numbers is turned together with the first."""
        powers = torch.arange(0, self.width, 2, dtype=torch.float32, device=packed.ids_N.device) / self.width
        angles = packed.positions_N[:, None].float() * (1.0 / period**powers)
        angles_Nd = torch.cat([angles, angles], dim=1)
        return angles_Nd.cos(), angles_Nd.sin()


def _window_scores(packed: Packed, window: int | None) -> Sequence[Tensor | None]:
    """For each group scores (1, T, T) of 0 inside the window and -inf outside; None if its texts fit into it."""
    if window is None or packed.groups[-1].length <= window + 1:
        return [None] * len(packed.groups)
    outside_LL = _distances(packed).abs() > window
    scores_1LL = torch.zeros(outside_LL.shape, device=outside_LL.device).masked_fill_(outside_LL, -math.inf)[None]
    return [
        scores_1LL[:, : group.length, : group.length] if group.length > window + 1 else None for group in packed.groups
    ]


def distance_buckets(distances: Tensor, buckets: int) -> Tensor:
    """The bucket of each distance (Raffel 2020): half of them for either direction, and of those half for the nearest
    distances, one each; the others grow with the logarithm."""
    half = buckets // 2
    exact = half // 2
    far = distances.abs()
    grown = exact + (torch.log(far.float() / exact) / math.log(_FARTHEST / exact) * (half - exact)).long()
    return torch.where(far < exact, far, grown.clamp(max=half - 1)) + half * (distances > 0)


def _distances(packed: Packed) -> Tensor:
    """From each token (rows) of the longest text to every other (columns): (L, L)."""
    places_L = torch.arange(packed.groups[-1].length, device=packed.ids_N.device)
    return places_L[None, :] - places_L[:, None]
