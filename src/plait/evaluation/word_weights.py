"""Which words a model with weighted pooling listens to.

N packed tokens.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from plait.data.batch import view_columns
from plait.encoder.pooling import token_shares
from plait.errors import RequestError
from plait.model.encode_texts import AnyModel
from plait.model.model import Model

__all__ = ["WordWeight", "measure_word_weights", "weighted_member"]

_INPUTS = 64  # encoded at a time


@dataclass(frozen=True)
class WordWeight:
    """How much a word weighs in the embeddings of texts."""

    word: str
    weight: float  # the mean of its weight times the number of tokens; 1 is its weight in a plain mean
    count: int  # how often it occurs


def weighted_member(model: AnyModel, name: str) -> Model:
    """The model itself, if it has learned how much its tokens weigh; `name` is what the user calls it."""
    if len(model.members) > 1:
        raise RequestError(f"{name}: an ensemble; give one of its members, such as {name}/members/1")
    (member,) = model.members
    if member.encoder.token_scores is None:
        raise RequestError(f"{name}: its pooling is {member.pooling}; only pooling: weighted learns weights of tokens")
    return member


def measure_word_weights(
    model: Model, task: str, columns: Sequence[Sequence[str]], *, at_least: int = 5
) -> list[WordWeight]:
    """The words that occur at least so often in the inputs of a task, heaviest first; special tokens are words.

    The weight of a word of several tokens is their mean.
    """
    spec = model.tasks[task]
    found: dict[str, list[float]] = defaultdict(list)
    for view in spec.views:
        first, second = view_columns(view, columns)
        for start in range(0, len(first), _INPUTS):
            part = slice(start, start + _INPUTS)
            given = first[part], spec.max_length, None if second is None else second[part]
            table, words = model.tokenizer.tokenize(*given), model.tokenizer.words(*given)
            ids = [table.row(row) for row in range(len(table))]
            for row, shares in enumerate(_shares(model, ids, table.firsts.tolist())):
                for word in words[row]:
                    found[word.text].append(float(shares[word.start : word.end].mean()))
    weights = [
        WordWeight(word, float(np.mean(shares)), len(shares))
        for word, shares in found.items()
        if len(shares) >= at_least
    ]
    return sorted(weights, key=lambda found: (-found.weight, found.word))


def _shares(model: Model, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> list[np.ndarray]:
    """For each input the weights of its tokens, times their number."""
    with torch.inference_mode():
        _, states_ND, packed = model.states(ids, firsts)
        shares_N = token_shares(model.encoder.score(states_ND), packed)
        in_order_N = shares_N[packed.text_of_tokens().argsort(stable=True)].cpu().numpy()
    return np.split(in_order_N, np.cumsum([len(text) for text in ids])[:-1])
