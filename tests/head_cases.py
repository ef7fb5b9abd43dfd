"""Heads with small dimensions, and embeddings for them to read."""

import torch
from torch import Tensor, nn

from plait.data.batch import VIEWS
from plait.heads import HEADS, Head, Size

SEEDS = range(20)
ROWS, WIDTH = 4, 6


def build_head(
    name: str, *, width: int = 2, outputs: int = 1, dropout: float = 0.0, top: float = 5.0, **options: object
) -> Head:
    """A head whose weights are always the same."""
    torch.manual_seed(0)
    return HEADS[name](Size(width, outputs, top, dropout), **options)


def set_weights(layer: nn.Module, weight: list[list[float]], bias: list[float]) -> None:
    layer.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})


def row(*values: float) -> Tensor:
    """An embedding (1, D)."""
    return torch.tensor([values])


def draw_views(seed: int, count: int, rows: int = ROWS, width: int = WIDTH) -> tuple[Tensor, ...]:
    """Random embeddings (B, D), one per view."""
    return torch.randn(count, rows, width, generator=torch.Generator().manual_seed(seed)).unbind()


def view_count(name: str) -> int:
    return len(VIEWS[HEADS[name].reads])
