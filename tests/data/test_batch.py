"""Batches: some rows of a task in all their views, and parts of them."""

import numpy as np

from plait.data.batch import make_batch
from plait.data.tokenize import TokenTable


def table(first: int) -> TokenTable:
    """Text i has i + 1 tokens, all first + i."""
    ids = np.concatenate([np.full(row + 1, first + row, dtype=np.int32) for row in range(6)])
    starts = np.concatenate([[0], np.cumsum(np.arange(1, 7))])
    return TokenTable(ids, starts, np.arange(1, 7, dtype=np.int32), 0)


def test_a_part_of_a_batch_is_the_batch_of_its_rows():
    labels, tables = np.arange(6) * 10, {"first": table(100), "second": table(200), "joined": table(300)}
    rows = (4, 0, 5, 2, 1)
    whole = make_batch("task", rows, labels, tables)
    for start, stop in ((0, 2), (2, 4), (4, 6), (0, 5)):
        part, expected = whole.part(start, stop), make_batch("task", rows[start:stop], labels, tables)
        assert (part.task, part.rows, part.firsts, part.views) == (
            expected.task,
            expected.rows,
            expected.firsts,
            expected.views,
        )
        assert part.labels.tolist() == expected.labels.tolist()
        assert [ids.tolist() for ids in part.ids] == [ids.tolist() for ids in expected.ids]


def test_by_length_the_rows_with_few_tokens_come_first():
    labels, tables = np.arange(6) * 10, {"first": table(100), "second": table(200)}
    found, expected = (make_batch("task", rows, labels, tables) for rows in ((4, 0, 5, 2, 1), (0, 1, 2, 4, 5)))
    found = found.by_length()
    assert (found.rows, found.firsts, found.views) == (expected.rows, expected.firsts, expected.views)
    assert found.labels.tolist() == [0, 10, 20, 40, 50]
    assert [ids.tolist() for ids in found.ids] == [ids.tolist() for ids in expected.ids]
