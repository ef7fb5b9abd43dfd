"""Batches: some rows of a task in all their views, split into parts by length."""

import numpy as np

from plait.data.batch import make_batch
from plait.data.tokenize import TokenTable


def table(*lengths: int) -> TokenTable:
    """Inputs of these lengths."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    firsts, is_truncated = np.array(lengths, dtype=np.int32), np.zeros(len(lengths), dtype=bool)
    return TokenTable(np.zeros(starts[-1], dtype=np.int32), starts, firsts, is_truncated)


def test_a_batch_is_split_into_parts_of_similar_length_with_equally_many_tokens():
    batch = make_batch(
        "task", (0, 1, 2, 3, 4), np.arange(5), {"first": table(5, 1, 6, 3, 2), "second": table(5, 1, 6, 3, 2)}
    )
    # by length: 1 1 2 2 3 3 5 | 5 6 6, which is 17 tokens each
    assert batch.split_inputs(2) == [[1, 6, 4, 9, 3, 8, 0], [5, 2, 7]]
    assert batch.split_inputs(1) == [[1, 6, 4, 9, 3, 8, 0, 5, 2, 7]]
    for count in range(1, 12):
        parts = batch.split_inputs(count)
        assert len(parts) <= count
        assert sorted(place for part in parts for place in part) == list(range(10))


def test_a_text_longer_than_a_part_is_one_part():
    batch = make_batch("task", (0, 1, 2), np.arange(3), {"first": table(1, 100, 1)})
    assert batch.split_inputs(3) == [[0, 2], [1]]
