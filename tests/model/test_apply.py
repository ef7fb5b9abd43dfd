"""Many texts through a model: whatever the batches and the threads, each text gets its own embedding."""

import threading

import numpy as np
import pytest
import torch

from plait.model.apply import TOKEN_BUDGET, embed_texts, token_batches
from plait.model.load import load_model
from plait.model.parallel import side_by_side

TEXTS = [f"the {'very ' * (number % 9)}good film number {number}" for number in range(60)]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_batches_hold_every_row_once_and_keep_the_budget():
    lengths = [1, 200, 5000, 30, 30, 2000, 96, 7]
    batches = token_batches(lengths, 1)
    assert sorted(row for rows in batches for row in rows) == list(range(8))
    assert batches[0] == [2]  # longer than the budget, so alone
    assert all(sum(lengths[row] for row in rows) <= TOKEN_BUDGET for rows in batches[1:])


def test_few_texts_are_dealt_out_to_all_threads():
    assert [len(rows) for rows in token_batches([10] * 8, 2)] == [4, 4]
    assert token_batches([10], 2) == [[0]]
    assert token_batches([], 2) == []


def test_threads_change_nothing(tiny_bert, two_threads):
    model = load_model(tiny_bert, device="cpu")
    two = embed_texts(model, TEXTS).numpy()
    torch.set_num_threads(1)
    one = embed_texts(model, TEXTS).numpy()
    alone = np.concatenate([embed_texts(model, [text]).numpy() for text in TEXTS])
    np.testing.assert_allclose(two, one, atol=1e-6)
    np.testing.assert_allclose(alone, one, atol=1e-6)


def test_embeddings_follow_the_weights_of_a_model_that_learns(tiny_bert):
    model = load_model(tiny_bert, device="cpu")
    before = embed_texts(model, TEXTS)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    after = embed_texts(model, TEXTS)
    assert model.training
    assert (after - before).abs().max() > 0.01
    fresh = model.eval().states([np.array([2, 9, 3], np.int32)], [3])[0]
    model.prepare()
    with torch.inference_mode():
        assert (model.pooled([np.array([2, 9, 3], np.int32)], [3]) - fresh).abs().max() < 1e-5


def test_pieces_are_worked_on_by_other_threads_with_one_torch_thread_each(two_threads):
    seen = {}

    def work(piece):
        seen[piece] = (threading.current_thread() is threading.main_thread(), torch.get_num_threads())

    assert sorted(side_by_side(work, range(5), 2)) == list(range(5))
    assert set(seen.values()) == {(False, 1)}
    assert torch.get_num_threads() == 2


def test_a_single_piece_has_all_threads_to_itself(two_threads):
    seen = []
    assert list(side_by_side(lambda piece: seen.append(torch.get_num_threads()), ["one"], 2)) == ["one"]
    assert seen == [2]


def test_what_fails_in_a_thread_is_raised_and_the_rest_is_left(two_threads):
    done = []

    def work(piece):
        if piece == 0:
            raise ValueError("piece 0")
        threading.Event().wait(0.01)
        done.append(piece)

    with pytest.raises(ValueError, match="piece 0"):
        list(side_by_side(work, range(1000), 2))
    assert len(done) < 999
    assert torch.get_num_threads() == 2
