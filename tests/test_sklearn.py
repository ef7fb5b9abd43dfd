"""plait.sklearn: a classifier and an embedder for scikit-learn's pipelines, searches and cross-validation."""

import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import plait
from plait.sklearn import PlaitClassifier, PlaitEmbedder
from tiny import HAPPY, sentences

TEXTS = sentences(30, seed=1)
MOODS = np.array([("low", "high")[bool(HAPPY & set(text.split()))] for text in TEXTS])
QUICK = ("refit=false", "head_start=random")


@pytest.fixture
def classifier(tiny_bert: Path) -> PlaitClassifier:
    """Not fitted yet."""
    return PlaitClassifier(str(tiny_bert), epochs=1, overrides=QUICK)


@pytest.fixture(scope="module")
def fitted(tiny_bert: Path) -> PlaitClassifier:
    return PlaitClassifier(str(tiny_bert), task="mood", epochs=2, lr=1e-3).fit(TEXTS, MOODS)


def test_predictions_are_those_of_the_model(fitted):
    assert fitted.classes_.tolist() == ["high", "low"]
    probability_nC = fitted.predict_proba(TEXTS)
    by_model = fitted.model_.predict("mood", TEXTS)
    assert by_model.classes == ("high", "low")
    np.testing.assert_allclose(probability_nC, by_model.probabilities, atol=1e-6)  # rounding of float32
    assert fitted.predict(TEXTS).tolist() == by_model.labels
    assert fitted.score(TEXTS, MOODS) == np.mean(fitted.predict(TEXTS) == MOODS)


def test_recipe_is_the_one_of_init_with_the_parameters(fitted, tiny_bert, tmp_path):
    rows = pandas.DataFrame({"text": TEXTS, "label": MOODS})
    rows.to_csv(tmp_path / "mood.csv", index=False)
    drafted = plait.init(tmp_path / "mood.csv", tmp_path / "recipe.yaml", encoder=str(tiny_bert))
    result = plait.train(drafted.file, tmp_path / "run", overrides=["epochs=2", "lr=1e-3"], baselines=False)
    expected = plait.load(result.model).predict("mood", TEXTS)
    np.testing.assert_allclose(fitted.predict_proba(TEXTS), expected.probabilities, atol=1e-6)


@pytest.mark.parametrize("labels", [[3, -1, 7], [3.0, 1.0, 2.0], [True, False, True], ["b", "a", "c d"]])
def test_classes_keep_their_type_and_order(classifier, labels):
    given = np.array(labels * 10)
    classifier.fit(TEXTS, given)
    assert classifier.classes_.tolist() == sorted(set(given.tolist()))
    assert classifier.predict(TEXTS).dtype == given.dtype
    assert classifier.predict_proba(TEXTS).shape == (30, len(classifier.classes_))


@pytest.mark.parametrize(
    "as_x",
    [
        lambda pairs: pairs,
        lambda pairs: [list(pair) for pair in pairs],
        lambda pairs: np.array(pairs, dtype=object),
        lambda pairs: pandas.DataFrame(pairs, columns=["question", "answer"]),
    ],
    ids="tuples,lists,array,frame".split(","),
)
def test_pairs(classifier, as_x):
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    classifier.fit(as_x(pairs), MOODS)
    assert classifier.model_.tasks["label"].text == ("sentence1", "sentence2")
    assert classifier.predict(as_x(pairs)).shape == (30,)
    with pytest.raises(ValueError, match="X: row 0: expected a pair of texts, found 1 values"):
        classifier.predict(TEXTS)


@pytest.mark.parametrize("as_x", [tuple, np.array, pandas.Series, lambda texts: pandas.DataFrame({"text": texts})])
def test_containers_of_texts(fitted, as_x):
    assert fitted.predict(as_x(TEXTS)).tolist() == fitted.predict(TEXTS).tolist()


def test_parameters_are_cloned_and_set(classifier):
    copied = clone(classifier).set_params(epochs=3, random_state=5)
    assert classifier.get_params()["epochs"] == 1
    assert copied.get_params() == {**classifier.get_params(), "epochs": 3, "random_state": 5}
    assert copied._overrides() == ["epochs=3", "seed=5", *QUICK]
    drawn = clone(copied).set_params(random_state=np.random.RandomState(1))._overrides()
    assert drawn[1].startswith("seed=") and drawn[1] != "seed=5"


def test_search_and_cross_validation(classifier):
    search = GridSearchCV(classifier, {"lr": [1e-4, 1e-3]}, cv=2, error_score="raise").fit(TEXTS, MOODS)
    assert search.best_params_["lr"] in (1e-4, 1e-3)
    assert search.best_estimator_.predict(TEXTS).shape == (30,)
    pipeline = make_pipeline(FunctionTransformer(lambda texts: [text.lower() for text in texts]), classifier)
    scores = cross_val_score(pipeline, TEXTS, MOODS, cv=2, scoring="neg_log_loss", error_score="raise")
    assert scores.shape == (2,) and (scores < 0).all()


def test_fitted_classifier_is_pickled_with_its_model_and_deletes_it(classifier):
    content = pickle.dumps(classifier.fit(TEXTS, MOODS))
    expected, folder = classifier.predict_proba(TEXTS), classifier.model_.folder
    assert folder.is_dir()
    del classifier._trained
    assert not folder.exists()
    again = pickle.loads(content)
    assert again.predict_proba(TEXTS).tolist() == expected.tolist()
    assert again.model_.folder != folder


def test_saved_model_is_an_ordinary_one(fitted, tmp_path):
    model = plait.load(fitted.save(tmp_path / "mood"))
    assert model.predict("mood", TEXTS) == fitted.model_.predict("mood", TEXTS)
    with pytest.raises(plait.PlaitError, match="mood: already exists; choose another directory"):
        fitted.save(tmp_path / "mood")


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("a film", ["low"], "X: expected a list of texts or of pairs of texts, found str"),
        (["a", 3, "b", None], MOODS[:4], "X: row 1: the text is not a string but int\nX: row 3: the text is not"),
        (["a", " "], ["low", "high"], "X: row 1: the text is empty"),
        ([("a", "b", "c")] * 2, ["low", "high"], "X: row 0: expected a text or a pair of texts, found 3 values"),
        ([("a", "b"), ("a",)], ["low", "high"], "X: row 1: expected a pair of texts, found 1 values"),
        (["a", "b"], ["low", "low"], "y: only one class, low; a classifier needs two or more"),
        (["a", "b"], ["low", "low "], "y: the classes must be different words"),
        (["a", "b"], ["low", "high", "low"], "inconsistent numbers of samples"),
        ([], [], "X: 0 samples"),
    ],
)
def test_mistakes_in_x_and_y_are_value_errors(classifier, texts, labels, message):
    with pytest.raises(ValueError) as caught:
        classifier.fit(texts, labels)
    assert message in str(caught.value)


def test_mistakes_in_parameters_name_them(classifier):
    with pytest.raises(plait.PlaitError, match="epochs"):
        classifier.set_params(epochs=-1).fit(TEXTS, MOODS)


def test_unfitted_estimators_say_so(classifier):
    for call in (lambda: classifier.predict(TEXTS), lambda: classifier.model_, lambda: classifier.save("x")):
        with pytest.raises(NotFittedError):
            call()
    with pytest.raises(NotFittedError):
        PlaitEmbedder().transform(TEXTS)


def test_embedder_in_a_pipeline(tiny_bert, fitted, tmp_path):
    embedder = PlaitEmbedder(str(tiny_bert))
    expected = plait.load(tiny_bert).embed(TEXTS)
    np.testing.assert_array_equal(embedder.fit_transform(TEXTS), expected)
    assert embedder.get_feature_names_out().tolist() == [f"plaitembedder{place}" for place in range(16)]
    frame = embedder.set_output(transform="pandas").transform(TEXTS)
    assert frame.shape == (30, 16) and frame.columns[0] == "plaitembedder0"
    pipeline = make_pipeline(PlaitEmbedder(fitted.save(tmp_path / "model")), LogisticRegression()).fit(TEXTS, MOODS)
    assert set(pipeline.predict(TEXTS)) <= {"low", "high"}
    with pytest.raises(ValueError, match="X: row 0: expected one text, found 2 values"):
        embedder.transform([("a", "b")])
