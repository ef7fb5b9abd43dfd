"""plait.load from Python."""

import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch

import plait
from plait.errors import ModelError, PlaitError, RequestError
from plait.model.ensemble_build import build_ensemble
from tiny import sentences, write_tasks


@pytest.fixture(scope="module")
def trained(tiny_bert, tmp_path_factory) -> plait.Result:
    folder = tmp_path_factory.mktemp("predictor")
    return plait.train(write_tasks(folder / "data", tiny_bert), folder / "run", baselines=False, keep=2)


@pytest.fixture(scope="module")
def model(trained) -> plait.Predictor:
    return plait.load(trained.run)


@pytest.fixture(scope="module")
def ensemble(trained) -> plait.Predictor:
    folder = trained.run.parent / "both"
    build_ensemble([str(kept) for kept in trained.kept_models], folder)
    return plait.load(folder)


def test_tasks_know_their_labels(model):
    assert list(model.tasks) == ["mood", "same", "near"]
    assert model.tasks["mood"].labels.names == ("high", "low")
    assert (model.tasks["near"].labels.low, model.tasks["near"].labels.high) == (0.0, 5.0)


def test_predictions_keep_the_order_of_the_texts_and_do_not_depend_on_other_texts(model):
    texts = sentences(70, seed=5)
    together = model.predict("mood", texts)
    for text, prediction in zip(texts[:9], together, strict=False):
        (alone,) = model.predict("mood", [text])
        assert alone.label == prediction.label
        assert alone.probabilities == pytest.approx(prediction.probabilities, abs=1e-5)  # float32 sums in another order


def test_the_label_is_the_most_likely_one_and_its_score_the_probability(model):
    for task, texts in (("mood", sentences(20)), ("same", list(zip(sentences(20), sentences(20, 3), strict=True)))):
        for prediction in model.predict(task, texts):
            assert (
                prediction.score == prediction.probabilities[prediction.label] == max(prediction.probabilities.values())
            )
            assert sum(prediction.probabilities.values()) == pytest.approx(1)


def test_scores_stay_in_their_range(model):
    for prediction in model.predict("near", [("a dog", "a dog"), ("a dog", "the river was cold and slow")]):
        assert prediction.label is None and prediction.probabilities is None and 0 <= prediction.score <= 5
    assert model.predict("near", [("a dog", "a dog")])[0].score == pytest.approx(5, abs=1e-4)  # scale × cos = 5 × 1


def test_embed_and_similarity(model):
    texts = ["a dog", "the river", "a dog"]
    embedded = model.embed(texts)
    assert embedded.shape == (3, 16) == (3, model.width) and embedded.dtype == np.float32
    assert np.array_equal(embedded[0], embedded[2])
    cosines = model.similarity(texts, texts[:2])
    assert cosines.shape == (3, 2) and np.diag(cosines) == pytest.approx(1, abs=1e-6)
    unit = embedded / np.linalg.norm(embedded, axis=1, keepdims=True)
    assert cosines == pytest.approx(unit @ unit[:2].T, abs=1e-6)


def test_generators_are_accepted(model):
    assert model.embed(text for text in ["a dog", "a cat"]).shape == (2, 16)
    assert len(model.predict("mood", (text for text in ["a dog", "a cat"]))) == 2
    assert len(model.predict("near", (pair for pair in [("a dog", "a cat")]))) == 1


def test_truncated_inputs_are_counted(model):
    short, long = model.embed_column(["a dog"]), model.embed_column(["dog " * 100, "a cat"])
    near = model.predict_columns("near", [["dog " * 100], ["a cat"]])
    assert [(found.inputs, found.truncated) for found in (short, long, near)] == [(1, 0), (2, 1), (2, 1)]
    assert (model.limit(), model.limit("near")) == (40, 40)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["torch", "onnx", "ensemble"])
def test_an_empty_list_gives_an_empty_result(request, model, engine, threads):
    if engine == "onnx":
        model = plait.load(request.getfixturevalue("exported"), engine="onnx")
    if engine == "ensemble":
        model = request.getfixturevalue("ensemble")
    torch.set_num_threads(threads)
    try:
        embedded, none_with_two = model.embed([]), model.similarity([], ["a dog", "a cat"])
        assert embedded.shape == (0, model.width) and embedded.dtype == np.float32
        assert none_with_two.shape == (0, 2) and none_with_two.dtype == np.float32
        assert model.similarity(["a dog"], []).shape == (1, 0) and model.similarity([], []).shape == (0, 0)
        assert model.tasks and all(len(model.predict(task, [])) == 0 for task in model.tasks)
    finally:
        torch.set_num_threads(1)


def test_a_plain_encoder_embeds_and_has_no_tasks(tiny_roberta):
    plain = plait.load(tiny_roberta)
    assert plain.embed(["a dog"]).shape == (1, 16) and not plain.tasks
    with pytest.raises(RequestError, match="plain encoder, which only embeds"):
        plain.predict("mood", ["a dog"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.predict("moood", ["x"]), "no task 'moood'; did you mean 'mood'?"),
        (
            lambda model: model.predict("mood", "one text"),
            "the argument `texts`: expected a list of texts, found one text",
        ),
        (lambda model: model.predict("mood", [("a", "b")]), "the argument `texts`: text 0 is not a string but tuple"),
        (
            lambda model: model.predict("near", ["a", "b"]),
            "the argument `texts`: example 0: the task 'near' compares two texts",
        ),
        (lambda model: model.predict("near", [("a", "b"), ("a", "b", "c")]), "example 1: "),
        (lambda model: model.embed("one text"), "put it into a list"),
        (lambda model: model.embed(None), "expected a list of texts, found NoneType"),
        (lambda model: model.predict("near", [None]), "example 0: "),
        (lambda model: model.predict("near", [("a", "\ud800")]), "example 0: text 1 contains a lone surrogate"),
        (lambda model: model.embed([None]), "text 0 is not a string but NoneType"),
        (lambda model: model.embed(["a", ""]), "the argument `texts`: text 1 is empty; leave out empty texts"),
        (lambda model: model.predict("mood", ["a", " \n"]), "the argument `texts`: text 1 is empty"),
        (lambda model: model.predict("near", [("a", "")]), "the argument `texts`: example 0: text 1 is empty"),
        (lambda model: model.similarity(["a"], [""]), "the argument `second`: text 0 is empty"),
        (lambda model: model.similarity("a", ["a"]), "the argument `first`: expected a list of texts"),
    ],
)
def test_an_invalid_call_says_what_was_expected(model, call, message):
    with pytest.raises(RequestError) as caught:
        call(model)
    assert message in str(caught.value)


# ---------------------------------------------------------------- pickled


@pytest.mark.parametrize("which", ["model", "ensemble", "plain", "onnx"])
def test_a_model_pickles_as_its_directory(request, which):
    if which == "plain":
        given = plait.load(request.getfixturevalue("tiny_roberta"))
    elif which == "onnx":
        given = plait.load(request.getfixturevalue("exported"), engine="onnx")
    else:
        given = request.getfixturevalue(which)
    pickled = pickle.dumps(given)
    again = pickle.loads(pickled)
    assert len(pickled) < 1000 and again.engine == given.engine and again.identity == given.identity
    assert np.array_equal(again.embed(["a dog", "the river"]), given.embed(["a dog", "the river"]))
    assert list(again.tasks) == list(given.tasks)


def test_a_model_can_be_sent_to_another_process(model):
    texts = sentences(20, seed=8)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(model.predict, "mood", texts).result()
    assert found.labels == model.predict("mood", texts).labels
    assert found.scores == pytest.approx(model.predict("mood", texts).scores, abs=1e-5)  # perhaps other threads


def test_a_pickled_model_is_refused_if_its_directory_holds_another(trained, tmp_path):
    first, second = trained.kept_models
    folder = tmp_path / "model"
    shutil.copytree(first, folder)
    pickled = pickle.dumps(plait.load(folder))
    shutil.rmtree(folder)
    shutil.copytree(second, folder)
    with pytest.raises(ModelError, match="holds another model than the one that was pickled"):
        pickle.loads(pickled)
    shutil.rmtree(folder)
    with pytest.raises(PlaitError):
        pickle.loads(pickled)
