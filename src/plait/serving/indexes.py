"""The indexes that a server searches, each beside the model that it was built with."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from plait.errors import SearchIndexError
from plait.search.index import Hit, Index

if TYPE_CHECKING:
    from plait.serving.pool import ServedModel

__all__ = ["ServedIndex", "open_indexes"]

_AT_ONCE = 2  # searches; each may use all cores


@dataclass(frozen=True)
class ServedIndex:
    """An open index."""

    name: str
    model: str  # the name of its model
    index: Index
    turn: asyncio.Semaphore

    async def nearest(self, vectors_mD: np.ndarray, top_k: int) -> Sequence[Sequence[Hit]]:
        """The rows nearest to each vector, found in a thread."""
        async with self.turn:
            return await asyncio.to_thread(self.index.nearest, vectors_mD, top_k=top_k)


async def open_indexes(folders: Mapping[str, str], models: "Mapping[str, ServedModel]") -> dict[str, ServedIndex]:
    """Open some indexes; refuses one whose model is not among those that are served."""
    turn = asyncio.Semaphore(_AT_ONCE)
    served = {model.about["identity"]: name for name, model in reversed([*models.items()])}
    found = {}
    for name, folder in folders.items():
        index = await asyncio.to_thread(Index, folder)
        if index.record.identity not in served:
            raise SearchIndexError(
                f"{folder}: was built with {index.record.model}, which is not served or has changed; serve that model "
                "too, or build the index again"
            )
        found[name] = ServedIndex(name, served[index.record.identity], index, turn)
    return found
