"""A second version of a head, as a later release of plait might bring it."""

import pytest

from plait.heads import HEADS, Head
from plait.heads.single import Linear


def add_newer_linear(monkeypatch: pytest.MonkeyPatch) -> type[Head]:
    """Register `linear.v2` until the test ends."""

    class NewerLinear(Linear):
        """Has an option that version 1 does not have."""

        def __init__(self, size, *, scale: float = 2.0) -> None:
            super().__init__(size)
            self.scale = scale

        def forward(self, *embedded_BD):
            return self.scale * super().forward(*embedded_BD)

    entries = {name: dict(versions) for name, versions in HEADS._entries.items()}
    monkeypatch.setattr(HEADS, "_entries", entries)
    HEADS._add("linear.v2", NewerLinear, None)  # by plait itself: other packages cannot add to its names
    return NewerLinear
