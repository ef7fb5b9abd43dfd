"""Hard negatives from the training data, found by the encoder before each epoch.

n rows, D width.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plait.data.tokenize import TokenTable
from plait.model.encode_texts import embed_tables
from plait.model.model import Model

__all__ = ["MinedNegatives", "closest_below_own"]

_ROWS = 1024  # compared with all others at a time


class MinedNegatives(nn.Module):
    """For every pair of a task, the row whose second text is its hard negative; a checkpoint holds these rows."""

    row_n: Tensor

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        """Before the first search, each pair has the text of the next row."""
        super().__init__()
        self.register_buffer("row_n", torch.arange(len(texts[0])).roll(-1))
        numbers: dict[str, int] = {}
        self._first_n, self._second_n = (
            torch.tensor([numbers.setdefault(text, len(numbers)) for text in side]) for side in texts[:2]
        )

    def find(self, model: Model, tables: Mapping[str, TokenTable]) -> None:
        """Search all rows with the model as it is."""
        model.eval()
        views = embed_tables(model, {view: tables[view] for view in ("first", "second")})
        self.row_n.copy_(closest_below_own(views["first"], views["second"], self._first_n, self._second_n))

    def table(self, tables: Mapping[str, TokenTable]) -> TokenTable:
        """The tokens of every pair's hard negative."""
        return tables["second"].chosen(np.asarray(self.row_n).tolist())


def closest_below_own(first_nD: Tensor, second_nD: Tensor, first_n: Tensor, second_n: Tensor) -> Tensor:
    """For each first text the row (n,) of the closest second text that is less similar to it than its own partner.

    What is closer than the partner may well mean the same. Texts that equal the pair's own (`first_n` and `second_n`
    number distinct texts) are no negatives. If nothing is less similar, it is the least similar of the others.
    """
    first_nD, second_nD = F.normalize(first_nD, dim=-1), F.normalize(second_nD, dim=-1)
    own_n = (first_nD * second_nD).sum(dim=-1)
    found = []
    for start in range(0, len(first_nD), _ROWS):
        some = slice(start, start + _ROWS)
        cosines_Sn = first_nD[some] @ second_nD.T
        equal_Sn = (second_n[some].unsqueeze(1) == second_n) | (first_n[some].unsqueeze(1) == second_n)
        closer_Sn = cosines_Sn >= own_n[some].unsqueeze(1)
        below_S = cosines_Sn.masked_fill(equal_Sn | closer_Sn, -2).max(dim=1)
        least_S = cosines_Sn.masked_fill(equal_Sn, 2).argmin(dim=1)
        found.append(torch.where(below_S.values > -2, below_S.indices, least_S))
    return torch.cat(found)
