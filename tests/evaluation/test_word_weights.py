"""Which words weigh most, against softmaxes by hand."""

import pytest
import torch

import plait
from every_task import make_model
from plait.errors import RequestError
from plait.evaluation.word_weights import measure_word_weights, weighted_member
from plait.model.directory.load import load_model
from plait.model.ensemble_build import build_ensemble

TEXTS = ["the dog ran", "the dog saw the cat and the bird", "a cat"]


@pytest.fixture
def model(tiny_bert):
    return make_model(tiny_bert, ["mood", "same", "order"], pooling="weighted")


def by_word(found) -> dict:
    return {one.word: one for one in found}


def test_before_training_every_word_weighs_one(model):
    torch.nn.init.zeros_(model.encoder.token_scores)
    found = measure_word_weights(model, "mood", [TEXTS], at_least=1)
    assert all(one.weight == pytest.approx(1, abs=1e-6) for one in found)
    counts = {one.word: one.count for one in found}
    assert counts["the"] == 4 and counts["dog"] == 2 and counts["[CLS]"] == counts["[SEP]"] == 3


def test_weights_are_the_softmax_of_the_scores_times_the_number_of_tokens(model):
    table = model.tokenizer.tokenize(["the dog ran"], 40)
    with torch.inference_mode():
        _, states_ND, _ = model.states([table.row(0)], [len(table.row(0))])
        expected = (states_ND @ model.encoder.token_scores).softmax(dim=0) * len(states_ND)
    words = model.tokenizer.words(["The dog ran"], 40)[0]
    found = by_word(measure_word_weights(model, "mood", [["The dog ran"]], at_least=1))
    for word in words:
        assert found[word.text].weight == pytest.approx(expected[word.start : word.end].mean().item(), abs=1e-5)
    assert [word.text for word in words] == ["[CLS]", "the", "dog", "ran", "[SEP]"]


def test_texts_of_a_batch_do_not_mix_and_rare_words_are_left_out(model):
    apart = [measure_word_weights(model, "mood", [[text]], at_least=1) for text in TEXTS]
    together = by_word(measure_word_weights(model, "mood", [TEXTS], at_least=1))
    for word, found in together.items():
        parts = [part for one in apart for part in one if part.word == word]
        assert found.count == sum(part.count for part in parts)
        mean = sum(part.weight * part.count for part in parts) / found.count
        assert found.weight == pytest.approx(mean, abs=1e-5)
    assert {one.word for one in measure_word_weights(model, "mood", [TEXTS], at_least=3)} == {"[CLS]", "[SEP]", "the"}
    weights = [one.weight for one in measure_word_weights(model, "mood", [TEXTS], at_least=1)]
    assert weights == sorted(weights, reverse=True)


def test_pairs_count_the_words_of_both_texts(model):
    for task in ("same", "order"):
        found = by_word(measure_word_weights(model, task, [["the dog"], ["the cat"]], at_least=1))
        assert found["the"].count % 2 == 0 and {"dog", "cat"} <= found.keys()


@pytest.mark.parametrize("kind", ["tiny_bert", "tiny_roberta"])
def test_words_cover_every_token_once(kind, request):
    tokenizer = make_model(request.getfixturevalue(kind), ["mood"], pooling="mean").tokenizer
    texts, second = ["A dog, undogly  ran.", "", "x" * 90], ["the cat", "zebra-crossing ünder", "a"]
    for other in (None, second):
        table, words = tokenizer.tokenize(texts, 12, other), tokenizer.words(texts, 12, other)
        for row, found in enumerate(words):
            places = [place for word in found for place in range(word.start, word.end)]
            assert places == list(range(len(table.row(row))))
            assert all(word.text for word in found)


def test_other_poolings_and_ensembles_are_refused(tiny_recipe, tmp_path):
    runs = [
        plait.train(tiny_recipe(pooling=how, steps=1, epochs=None), tmp_path / how, baselines=False).model
        for how in ("mean", "weighted")
    ]
    with pytest.raises(
        RequestError, match=r"^m: its pooling is mean; only pooling: weighted learns weights of tokens$"
    ):
        weighted_member(load_model(runs[0]).model, "m")
    assert weighted_member(load_model(runs[1]).model, "m").pooling == "weighted"
    build_ensemble([str(run) for run in runs], tmp_path / "both")
    with pytest.raises(RequestError, match=r"^e: an ensemble; give one of its members, such as e/members/1$"):
        weighted_member(load_model(tmp_path / "both").model, "e")
