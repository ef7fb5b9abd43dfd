"""`Predictor.explain`: what an answer loses without each word."""

import pytest

import plait
from plait.errors import RequestError
from plait.inference.explanation import explain_answers, find_words, variants

TEXTS = {
    "mood": "the film was not good, really",
    "same": ("the dog was quick", "a quick dog"),
    "near": ("the dog was quick", "a cat"),
    "tags": "the film was good",
    "far": ("a dog", "a cat", "the film"),
}


def words_in(text: str) -> list[str]:
    return [text[start:end] for start, end in find_words(text)]


def test_words_keep_apostrophes_and_hyphens_and_leave_signs_alone():
    assert words_in("Don't re-enter: it's  the best!!") == ["Don't", "re-enter", ":", "it's", "the", "best", "!!"]
    assert words_in("好吃 ramen、") == ["好", "吃", "ramen", "、"]
    assert words_in("été naïve_1 42") == ["été", "naïve_1", "42"]
    assert words_in(" \n") == []


def test_variants_leave_out_one_word_and_its_space():
    assert variants(["not bad, really"]) == [
        ("not bad, really",),
        ("bad, really",),
        ("not , really",),
        ("not bad really",),
        ("not bad, ",),
    ]
    assert variants(["a b", "c"]) == [("a b", "c"), ("b", "c"), ("a ", "c"), ("a b", ".")]


def test_weights_by_hand():
    answers = [
        {"label": "good", "score": 0.8, "probabilities": {"bad": 0.2, "good": 0.8}},
        {"label": "bad", "score": 0.7, "probabilities": {"bad": 0.7, "good": 0.3}},
        {"label": "good", "score": 0.9, "probabilities": {"bad": 0.1, "good": 0.9}},
    ]
    found = explain_answers("mood", ["fine but"], answers, None)
    assert (found.label, found.score) == ("good", 0.8)
    assert [(word.word, word.start, word.end) for word in found.words[0]] == [("fine", 0, 4), ("but", 5, 8)]
    assert [word.weight for word in found.words[0]] == pytest.approx([0.5, -0.1])
    other = explain_answers("mood", ["fine but"], answers, "bad")
    assert [word.weight for word in other.words[0]] == pytest.approx([-0.5, 0.1])  # two classes mirror each other
    assert [word.word for _, word in other.strongest] == ["fine", "but"]


@pytest.mark.parametrize("task", TEXTS)
def test_weights_are_differences_of_predictions(predictor, task):
    given = TEXTS[task]
    found = predictor.explain(task, given)
    whole = predictor.predict(task, [given])[0]
    texts = (given,) if isinstance(given, str) else given
    assert found.texts == texts and [len(words) for words in found.words] == [len(words_in(text)) for text in texts]

    def score(prediction) -> float:
        return prediction.score if found.label is None else prediction.probabilities[found.label]

    assert found.score == score(whole)
    last = found.words[-1][-1]
    cut = (*texts[:-1], texts[-1][: last.start])
    without = predictor.predict(task, [cut if len(cut) > 1 else cut[0]])[0]
    assert last.weight == pytest.approx(score(whole) - score(without), abs=1e-6)  # float32 embeddings in other batches
    if task == "tags":
        assert found.label == max(whole.probabilities, key=whole.probabilities.get)
    elif found.label is not None:
        assert found.label == whole.label


def test_a_word_that_the_model_cannot_see_has_no_weight(predictor):
    long = predictor.explain("mood", "the film " * predictor.limit("mood"))
    assert long.truncated and abs(long.words[0][-1].weight) < 1e-6
    assert not predictor.explain("mood", "the film").truncated


def test_mistakes(predictor):
    with pytest.raises(RequestError, match=r"`label`: the task 'mood' has no 'hihg'; did you mean 'high'\?"):
        predictor.explain("mood", "a dog", label="hihg")
    with pytest.raises(RequestError, match="the argument `label`: the task 'near' predicts a score; drop it"):
        predictor.explain("near", ("a dog", "a cat"), label="high")
    with pytest.raises(RequestError, match="the task 'near' compares two texts; give pairs"):
        predictor.explain("near", "a dog")
    with pytest.raises(RequestError, match="text 0 is empty"):
        predictor.explain("mood", " ")
    assert plait.Explanation.__name__ == "Explanation"
