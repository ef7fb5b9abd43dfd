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

    def __init__(self, texts: Sequence[Sequence[str]], positive_n: Tensor) -> None:
        """Before the first search, each pair has the text of the next row."""
        super().__init__()
        self.register_buffer("row_n", torch.arange(len(texts[0])).roll(-1))
        numbers: dict[str, int] = {}
        first, second = ([numbers.setdefault(text, len(numbers)) for text in side] for side in texts[:2])
        self._first_n, self._second_n = torch.tensor(first), torch.tensor(second)
        self._excluded = _excluded_rows(first, second, positive_n.tolist())

    def find(self, model: Model, tables: Mapping[str, TokenTable]) -> None:
        """Search all rows with the model as it is."""
        model.eval()
        views = embed_tables(model, {view: tables[view] for view in ("first", "second")})
        self.row_n.copy_(closest_below_own(views["first"], views["second"], self._excluded))

    def table(self, tables: Mapping[str, TokenTable]) -> TokenTable:
        """The tokens of every pair's hard negative."""
        return tables["second"].chosen(np.asarray(self.row_n).tolist())


def _excluded_rows(first: Sequence[int], second: Sequence[int], positive: Sequence[bool]) -> list[list[int]]:
    """For each pair the rows whose second text is no negative.

    It equals one of the pair's own texts, or a positive pair has it beside the pair's first text, in either order.
    """
    partners: dict[int, set[int]] = {}
    for one, other, is_positive in zip(first, second, positive, strict=True):
        if is_positive:
            partners.setdefault(one, set()).add(other)
            partners.setdefault(other, set()).add(one)
    rows: dict[int, list[int]] = {}
    for row, text in enumerate(second):
        rows.setdefault(text, []).append(row)
    same = ({one, other, *partners.get(one, ())} for one, other in zip(first, second, strict=True))
    return [[row for text in texts for row in rows.get(text, ())] for texts in same]


def closest_below_own(first_nD: Tensor, second_nD: Tensor, excluded: Sequence[Sequence[int]]) -> Tensor:
    """For each first text the row (n,) of the closest second text that is less similar to it than its own partner.

    What is closer than the partner may well mean the same. `excluded` has, for each pair, the rows whose second text is
    no negative. If nothing else is less similar, it is the least similar of the others.
    """
    first_nD, second_nD = F.normalize(first_nD, dim=-1), F.normalize(second_nD, dim=-1)
    own_n = (first_nD * second_nD).sum(dim=-1)
    found = []
    for start in range(0, len(first_nD), _ROWS):
        some = slice(start, start + _ROWS)
        cosines_Sn = first_nD[some] @ second_nD.T
        excluded_Sn = torch.zeros_like(cosines_Sn, dtype=torch.bool)
        for one_n, rows in zip(excluded_Sn, excluded[some], strict=True):
            one_n[rows] = True
        closer_Sn = cosines_Sn >= own_n[some].unsqueeze(1)
        below_S = cosines_Sn.masked_fill(excluded_Sn | closer_Sn, -2).max(dim=1)
        least_S = cosines_Sn.masked_fill(excluded_Sn, 2).argmin(dim=1)
        found.append(torch.where(below_S.values > -2, below_S.indices, least_S))
    return torch.cat(found)
