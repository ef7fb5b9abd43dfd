"""A model applied to many texts: neither batches nor threads change what a text's embedding is."""

import threading

import numpy as np
import pytest
import torch

from every_task import TASKS, make_model
from plait.data.tokenize import TextTokenizer
from plait.model import encode_texts
from plait.model.directory.load import load_model
from plait.model.encode_texts import embed_texts, predict_columns, side_by_side
from tiny import sentences

TEXTS = [f"the {'very ' * (number % 9)}good film number {number}" for number in range(60)]


def test_batches_have_every_row_once_and_stay_within_the_budget():
    lengths = [1, 200, 5000, 30, 30, 2000, 96, 7]
    batches = encode_texts._batches(lengths, 1)
    assert sorted(row for rows in batches for row in rows) == list(range(8))
    assert batches[0] == [2]  # longer than the budget, so alone
    assert all(sum(lengths[row] for row in rows) <= encode_texts._TOKEN_BUDGET for rows in batches[1:])


def test_few_texts_are_divided_among_all_threads():
    assert [len(rows) for rows in encode_texts._batches([10] * 8, 2)] == [4, 4]
    assert encode_texts._batches([10], 2) == [[0]]
    assert encode_texts._batches([], 2) == []


def test_the_number_of_threads_changes_no_embedding(tiny_bert, two_threads):
    model = load_model(tiny_bert, device="cpu").model
    two = embed_texts(model, TEXTS).vectors_nD.numpy()
    torch.set_num_threads(1)
    one = embed_texts(model, TEXTS).vectors_nD.numpy()
    alone = np.concatenate([embed_texts(model, [text]).vectors_nD.numpy() for text in TEXTS])
    np.testing.assert_allclose(two, one, atol=1e-6)
    np.testing.assert_allclose(alone, one, atol=1e-6)


def test_embeddings_follow_the_weights_after_a_training_step(tiny_bert):
    model = load_model(tiny_bert, device="cpu").model
    before = embed_texts(model, TEXTS).vectors_nD
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    after = embed_texts(model.eval(), TEXTS).vectors_nD
    assert (after - before).abs().max() > 0.01
    inputs = [np.array([2, 9, 3], np.int32)], [3]
    with torch.inference_mode():
        plain, prepared = (model.states(*inputs, layout)[0] for layout in (None, model.prepared()))
    assert (prepared - plain).abs().max() < 1e-5


def test_every_text_is_tokenized_exactly_once_per_call(untrained, monkeypatch):
    model = load_model(untrained, device="cpu").model
    single, pairs = [], []
    tokenize = TextTokenizer.tokenize

    def counted(self, texts, limit, second=None):
        if second is None:
            single.extend(texts)
        else:
            pairs.extend(zip(texts, second, strict=True))
        return tokenize(self, texts, limit, second)

    monkeypatch.setattr(TextTokenizer, "tokenize", counted)
    first, second, third = TEXTS[:3], TEXTS[3:6], TEXTS[6:9]
    there, back = list(zip(first, second, strict=True)), list(zip(second, first, strict=True))
    for apply, texts, joined in (
        (lambda: embed_texts(model, first), first, []),
        (lambda: predict_columns(model, "mood", [first]), first, []),
        (lambda: predict_columns(model, "same", [first, second]), [*first, *second], []),
        (lambda: predict_columns(model, "far", [first, second, third]), [*first, *second, *third], []),
        (lambda: predict_columns(model, "both at once", [first, second]), [], there),
        (lambda: predict_columns(model, "order", [first, second]), [], [*there, *back]),
    ):
        single.clear()
        pairs.clear()
        apply()
        assert (single, pairs) == (texts, joined)


def test_truncated_inputs_are_counted_by_the_limit_of_the_task(untrained):
    model = load_model(untrained, device="cpu").model
    texts = ["a dog", "dog " * 30, "dog " * 60]  # 4, 32 and 62 tokens
    embedded, mood = embed_texts(model, texts), predict_columns(model, "mood", [texts])
    assert (model.limit(), embedded.inputs, embedded.truncated) == (40, 3, 1)
    assert (model.limit("mood"), mood.inputs, mood.truncated) == (20, 3, 2)
    apart, joined = (predict_columns(model, task, [texts, ["a cat"] * 3]) for task in ("same", "both at once"))
    assert (apart.inputs, apart.truncated, joined.inputs, joined.truncated) == (6, 1, 3, 1)


def test_progress_counts_distinct_inputs(untrained):
    model = load_model(untrained, device="cpu").model
    done: list[int] = []
    embed_texts(model, ["a dog", "a cat", "a dog"], advance=done.append)
    assert sum(done) == 2


def test_other_threads_process_the_pieces_with_one_torch_thread_each(two_threads):
    seen = {}

    def work(piece):
        seen[piece] = (threading.current_thread() is threading.main_thread(), torch.get_num_threads())

    assert sorted(side_by_side(work, range(5), 2)) == list(range(5))
    assert set(seen.values()) == {(False, 1)}
    assert torch.get_num_threads() == 2


def test_a_single_piece_may_use_all_torch_threads(two_threads):
    seen = []
    assert list(side_by_side(lambda piece: seen.append(torch.get_num_threads()), ["one"], 2)) == ["one"]
    assert seen == [2]


def test_an_error_in_a_thread_is_raised_and_cancels_the_rest(two_threads):
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


@pytest.mark.parametrize("task", TASKS)
def test_prediction_does_not_depend_on_the_rows_beside_it(untrained, task):
    model = load_model(untrained, device="cpu").model
    columns = [sentences(40, seed) for seed in range(len(TASKS[task][0]))]
    together = predict_columns(model, task, columns).predictions
    for row in range(40):
        alone = predict_columns(model, task, [column[row : row + 1] for column in columns]).predictions
        assert np.array_equal(alone.values, together.values[row : row + 1])
        assert alone.probabilities is None or np.array_equal(alone.probabilities[0], together.probabilities[row])


def test_prediction_follows_weights_that_are_loaded_or_trained(tiny_bert):
    model = make_model(tiny_bert, ("mood",))

    def predicted() -> list:
        return predict_columns(model, "mood", [["a dog"]]).predictions.probabilities.tolist()

    first = predicted()
    model.heads["mood"].load_state_dict({name: 2 * w for name, w in model.heads["mood"].state_dict().items()})
    second = predicted()
    model.train()
    for weight in model.heads["mood"].parameters():
        weight.data *= 2  # as a fused optimizer changes it: the tensor does not know
    model.eval()
    assert len({str(found) for found in (first, second, predicted())}) == 3
