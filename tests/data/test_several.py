"""Several labels at once: as lists, with a separator, or a column a class; read, trained, predicted, scored, saved."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

import plait
from plait.cli.main import cli
from plait.data.labels import Labels, encode_labels, guess_kind, labels_from
from plait.data.records import Nested
from plait.errors import DataError, PlaitError
from plait.evaluation.evaluate import score_task
from plait.evaluation.find import find_split, given_examples
from plait.evaluation.metrics import METRICS, all_metrics
from plait.model.about import read_about
from plait.model.decode import Decoded
from plait.model.load import load_model
from plait.recipe.read import read_recipe, recipe_from, write_recipe
from plait.recipe.tree import Tree
from plait.training.loop import Stopped, resume
from plait.training.settle import settle
from plait.training.tables import TABLES
from tiny import HAPPY, WORDS, sentences, write_csv

TOPICS = {
    "happy": HAPPY,
    "animal": {"dog", "cat", "child"},
    "thing": {"film", "book", "meal", "train", "phone", "song"},
}


def topics_of(text: str) -> list[str]:
    return [topic for topic, words in TOPICS.items() if words & set(text.split())]


# ---------------------------------------------------------------- what the labels mean


def test_lists_are_guessed_to_be_several_labels():
    assert guess_kind([Nested('["a"]')] * 19 + [""], pair=False) == "several"
    assert guess_kind(['["a"]'] * 20, pair=False) == "classes"  # texts that look like lists are words until told


@pytest.mark.parametrize(
    ("values", "separator", "classes"),
    [
        (['["b", "a"]', "[]", '["c"]'], None, ("a", "b", "c")),
        (["[10, 9]", "[9.0, true]"], None, ("9", "10", "true")),
        (["b|a", "", "c | a "], "|", ("a", "b", "c")),
        (["b; a", "c"], ";", ("a", "b", "c")),
    ],
)
def test_classes_are_found_in_the_cells(values, separator, classes):
    labels = labels_from({"topics": values}, "several", separator=separator)
    assert (labels.kind, labels.classes, labels.names, labels.outputs) == ("several", classes, classes, len(classes))
    assert labels.separator == separator


def test_cells_become_zeros_and_ones_in_the_order_of_the_classes():
    labels = Labels("several", ("a", "b", "c"), ("a", "b", "c"), separator="|")
    encoded, bad = encode_labels([["c|a", "", "b", " a | c ", "a|a"]], labels, 5)
    assert encoded.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 0, 0]]
    assert encoded.dtype == np.int64 and not bad


def test_lists_are_read_with_and_without_a_separator():
    for separator in (None, "|"):
        labels = Labels("several", ("a", "b"), ("a", "b"), separator=separator)
        encoded, bad = encode_labels([[Nested('["b"]'), Nested("[]")]], labels, 2)
        assert encoded.tolist() == [[0, 1], [0, 0]] and not bad


def test_a_column_a_class_is_read_in_the_order_of_the_columns():
    columns = {"toxic": ["1", "0", "yes"], "rude": ["0", "true", "no"]}
    labels = labels_from(columns, "several")
    assert (labels.classes, labels.names) == (("toxic", "rude"), ("toxic", "rude"))
    encoded, bad = encode_labels(list(columns.values()), labels, 3)
    assert encoded.tolist() == [[1, 0], [0, 1], [1, 0]] and not bad
    named = labels_from(columns, "several", classes={"rude": "impolite", "toxic": "poison"})
    assert (named.classes, named.names) == (("toxic", "rude"), ("poison", "impolite"))


def test_a_cell_that_is_neither_1_nor_0_is_a_bad_row():
    labels = labels_from({"toxic": ["1"], "rude": ["0"]}, "several")
    _, bad = encode_labels([["1", "2", ""], ["0", "x", "1"]], labels, 3)
    assert bad == {1: "the label 'toxic' is '2', neither 1 nor 0", 2: "the label 'toxic' is '', neither 1 nor 0"}


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ({"x": ["a", "a"]}, {"separator": "|"}, "needs at least two, the training data has 1"),
        ({"x": ["a|b"]}, {"separator": "|", "classes": {"a": "A"}}, "needs at least two"),
        ({"x": ["a|b"]}, {"separator": "|", "classes": {"a": "A", "b": "A"}}, "two classes have the same name"),
        ({"x": ["1"], "y": ["0"]}, {"classes": {"x": "A", "z": "B"}}, "the classes must be the label's columns: x, y"),
        ({"x": ["1"], "y": ["0"]}, {"classes": {"x": "A", "y": "A"}}, "two classes have the same name"),
    ],
)
def test_classes_that_cannot_be_are_refused(columns, given, message):
    with pytest.raises(DataError, match=message):
        labels_from(columns, "several", **given)


# ---------------------------------------------------------------- metrics


def test_metrics_by_hand():
    labels_nC = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0]])
    predicted_nC = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 0]])
    found = all_metrics("several", labels_nC, Decoded(predicted_nC, predicted_nC.astype(float)))
    # right ones 3, labels 5, said 4: 2·3 / (5 + 4); by class 2·2/4 = 1, 2·1/3 and 0; rows 1 and 3 are all right
    assert found["micro_f1"] == pytest.approx(6 / 9)
    assert found["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert found["accuracy"] == 0.5


def test_right_predictions_score_1():
    labels_nC = np.array([[1, 0], [0, 1], [1, 1]])
    found = all_metrics("several", labels_nC, Decoded(labels_nC, labels_nC.astype(float)))
    assert found == {"micro_f1": 1.0, "macro_f1": 1.0, "accuracy": 1.0, "roc_auc": 1.0}


def test_metrics_are_those_of_scikit_learn():
    for seed in range(20):
        generator = np.random.default_rng(seed)
        labels_nC = generator.integers(0, 2, (40, 4))
        probabilities_nC = np.round(generator.random((40, 4)), 1)  # with ties
        predicted_nC = (probabilities_nC >= 0.5).astype(int)
        found = all_metrics("several", labels_nC, Decoded(predicted_nC, probabilities_nC))
        assert found["micro_f1"] == pytest.approx(f1_score(labels_nC, predicted_nC, average="micro"), abs=1e-12)
        assert found["macro_f1"] == pytest.approx(f1_score(labels_nC, predicted_nC, average="macro"), abs=1e-12)
        assert found["accuracy"] == pytest.approx(accuracy_score(labels_nC, predicted_nC), abs=1e-12)
        assert found["roc_auc"] == pytest.approx(roc_auc_score(labels_nC, probabilities_nC), abs=1e-12)


def test_a_label_that_is_neither_there_nor_predicted_counts_in_no_mean():
    labels_nC, predicted_nC = np.array([[1, 0], [1, 0]]), np.array([[1, 0], [0, 0]])
    found = all_metrics("several", labels_nC, Decoded(predicted_nC, predicted_nC.astype(float)))
    assert found["macro_f1"] == found["micro_f1"] == pytest.approx(2 / 3)
    assert "roc_auc" not in found  # the first label has no row without it, the second none with it


# ---------------------------------------------------------------- from data to model

ROWS = {"train": 60, "dev": 30}


def write_lists(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text, "topics": topics_of(text)}) + "\n" for text in texts))


def write_separated(path: Path, texts: list[str]) -> None:
    write_csv(path, ["text", "topics"], [(text, " | ".join(topics_of(text))) for text in texts])


def write_columns(path: Path, texts: list[str]) -> None:
    rows = [(text, *(int(topic in topics_of(text)) for topic in TOPICS)) for text in texts]
    write_csv(path, ["text", *TOPICS], rows)


FORMS = {
    "lists": (write_lists, ".jsonl", "topics"),
    "separated": (write_separated, ".csv", {"column": "topics", "separator": "|"}),
    "columns": (write_columns, ".csv", list(TOPICS)),
}


def recipe_for(folder: Path, form: str, encoder: Path, **changes) -> dict:
    write, ending, label = FORMS[form]
    folder.mkdir(exist_ok=True)
    files = {}
    for split, rows in ROWS.items():
        path = folder / f"topics-{split}{ending}"
        write(path, sentences(rows, seed=rows, longest=5))
        files[split] = str(path)
    task = {**files, "text": "text", "label": label}
    return {"encoder": str(encoder), "tasks": {"topics": task}, "epochs": 2, "batch_size": 8, "lr": 3e-3, **changes}


@pytest.fixture(scope="module", params=FORMS)
def trained(request, tiny_bert, tmp_path_factory) -> tuple[str, Path, plait.Result]:
    folder = tmp_path_factory.mktemp(request.param)
    recipe = recipe_for(folder / "data", request.param, tiny_bert)
    return request.param, folder, plait.train(recipe, folder / "run")


def texts_of(split: str) -> list[str]:
    return sentences(ROWS[split], seed=ROWS[split], longest=5)


def expected_labels(names: tuple[str, ...], split: str) -> np.ndarray:
    return np.array([[int(name in topics_of(text)) for name in names] for text in texts_of(split)])


def test_every_form_gives_the_same_labels(trained):
    form, _, result = trained
    model = load_model(result.run, device="cpu")
    spec = model.tasks["topics"]
    names = spec.labels.names
    assert names == (tuple(TOPICS) if form == "columns" else tuple(sorted(TOPICS)))
    assert (spec.labels.kind, spec.head, spec.link, spec.metric) == ("several", "linear", "each", "micro_f1")
    assert spec.label == (tuple(TOPICS) if form == "columns" else ("topics",))
    found = find_split(model, result.run, read_about(result.model), "dev", None)["topics"]
    assert found.labels.tolist() == expected_labels(names, "dev").tolist()


def test_training_is_scored_beside_its_baselines(trained):
    _, _, result = trained
    scores = result.scores["topics"]
    assert set(scores) == {"micro_f1", "macro_f1", "accuracy", "roc_auc"}
    table = result.baselines["dev"]
    assert set(table) == {"majority or mean", "frozen encoder"}  # one text has no cosine
    labels_nC = expected_labels(plait.load(result.run).tasks["topics"].labels.names, "train")
    assert labels_nC.mean(axis=0).max() < 0.5  # so the majority says nothing, and is never right where there is a label
    assert table["majority or mean"]["topics"] == 0.0


def test_training_learns_the_labels_of_its_own_rows(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "columns", tiny_bert, epochs=40, dropout=0.0, lr=1e-2)
    recipe["tasks"]["topics"]["dev"] = recipe["tasks"]["topics"]["train"]
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert result.scores["topics"]["micro_f1"] > 0.95  # 60 rows of which the words tell everything


def test_a_prediction_names_every_label_that_reaches_the_threshold(trained):
    _, _, result = trained
    model = plait.load(result.run)
    names = model.tasks["topics"].labels.names
    for prediction in model.predict("topics", texts_of("dev")):
        assert tuple(prediction.probabilities) == names
        said = tuple(name for name, share in prediction.probabilities.items() if share >= 0.5)
        assert prediction.label == said
        certain = [share if name in said else 1 - share for name, share in prediction.probabilities.items()]
        assert prediction.score == pytest.approx(min(certain), abs=1e-12)


def test_scores_are_those_of_the_predictions(trained):
    _, _, result = trained
    predictor = plait.load(result.run)
    names = predictor.tasks["topics"].labels.names
    labels_nC = expected_labels(names, "dev")
    predicted = predictor.predict("topics", texts_of("dev"))
    predicted_nC = np.array([[int(name in row.label) for name in names] for row in predicted])
    shares_nC = np.array([[row.probabilities[name] for name in names] for row in predicted])
    assert result.scores["topics"] == pytest.approx(
        {
            "micro_f1": f1_score(labels_nC, predicted_nC, average="micro"),
            "macro_f1": f1_score(labels_nC, predicted_nC, average="macro", zero_division=0.0),
            "accuracy": accuracy_score(labels_nC, predicted_nC),
            "roc_auc": roc_auc_score(labels_nC, shares_nC),
        },
        abs=1e-9,
    )


def test_a_model_scores_other_labelled_data(trained):
    form, folder, result = trained
    write, ending, _ = FORMS[form]
    write(folder / f"other{ending}", texts_of("dev"))
    model = load_model(result.model, device="cpu")
    examples = given_examples(model, [f"topics={folder / f'other{ending}'}"])
    scores = score_task(model, "topics", examples["topics"], intervals=True)
    assert scores.values == pytest.approx(result.scores["topics"], abs=1e-9)
    assert scores.interval is not None and set(scores.per_class) == set(TOPICS)


def test_a_saved_model_predicts_the_same_elsewhere(trained, tmp_path):
    _, _, result = trained
    copied = shutil.copytree(result.model, tmp_path / "copied")
    texts = texts_of("dev")
    assert plait.load(copied).predict("topics", texts) == plait.load(result.run).predict("topics", texts)


def test_the_recipe_of_a_run_says_the_same_again(trained):
    form, folder, result = trained
    again = read_recipe(result.run / "recipe.yaml", TABLES)
    settled = settle(again, 40)
    assert settled.recipe.tasks["topics"] == again.tasks["topics"]
    assert again.tasks["topics"].label.kind == "several"
    assert settled.specs["topics"] == load_model(result.run, device="cpu").tasks["topics"]
    write_recipe(settled.recipe, folder / "again.yaml")
    assert read_recipe(folder / "again.yaml", TABLES).tasks["topics"] == again.tasks["topics"], form


def test_predictions_of_a_file_have_a_column_for_each_label(trained, tmp_path):
    form, folder, result = trained
    source = folder / "data" / f"topics-dev{FORMS[form][1]}"
    arguments = ["predict", str(result.run), "topics", "--input", str(source), "--output", str(tmp_path / "out.csv")]
    assert CliRunner().invoke(cli, arguments, catch_exceptions=False).exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = plait.load(result.run).predict("topics", texts_of("dev"))
    assert [row["label"] for row in rows] == ["|".join(prediction.label) for prediction in expected]
    for row, prediction in zip(rows, expected, strict=True):
        for name, share in prediction.probabilities.items():
            assert float(row[f"p({name})"]) == pytest.approx(share, abs=1e-6)


def test_a_stopped_run_goes_on_to_the_same_bits(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "lists", tiny_bert)
    whole = plait.train(recipe, tmp_path / "whole", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=lambda: True)
    ends = [json.loads((run / "result.json").read_text()) for run in (whole.run, resume(tmp_path / "run").run)]
    assert ends[0]["last_weights_sha256"] == ends[1]["last_weights_sha256"]


# ---------------------------------------------------------------- what is refused


def mistakes(recipe: dict) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        settle(recipe_from(Tree(recipe), TABLES), 40)
    return list(caught.value.mistakes)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"class_weights": "balanced"},
            "tasks.topics.class_weights: are for classes and yes/no, not for several labels at once",
        ),
        (
            {"loss": "cross_entropy"},
            "tasks.topics.loss: cross_entropy cannot learn from several labels; fitting: binary_cross_entropy",
        ),
        (
            {"metric": "f1"},
            "tasks.topics.metric: f1 is not for several labels; allowed: accuracy, macro_f1, micro_f1, roc_auc",
        ),
    ],
)
def test_what_several_labels_cannot_have_is_refused(tiny_bert, tmp_path, keys, message):
    recipe = recipe_for(tmp_path / "data", "columns", tiny_bert)
    recipe["tasks"]["topics"] |= keys
    assert mistakes(recipe) == [message]


def test_a_label_that_no_row_or_every_row_has_is_refused(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "columns", tiny_bert)
    rows = [(text, 1, 0, number % 2) for number, text in enumerate(texts_of("train"))]
    write_csv(Path(recipe["tasks"]["topics"]["train"]), ["text", *TOPICS], rows)
    assert mistakes(recipe) == [
        "tasks.topics.train: every training row has the label 'happy'; there is nothing to learn",
        "tasks.topics.train: no training row has the label 'animal'; there is nothing to learn",
    ]


def test_a_label_that_only_dev_has_is_a_bad_row(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "separated", tiny_bert)
    with Path(recipe["tasks"]["topics"]["dev"]).open("a") as file:
        file.write("a dog,animal | strange\r\n")
    assert mistakes(recipe) == [
        "topics-dev.csv:32: the label 'strange' is not one of the classes of the training data: animal, happy, thing"
    ]


def test_pairs_may_have_several_labels(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "separated", tiny_bert)
    for split, rows in ROWS.items():
        first, second = sentences(rows, 1, 4), sentences(rows, 2, 4)
        pairs = [(a, b, "|".join(topics_of(f"{a} {b}"))) for a, b in zip(first, second, strict=True)]
        write_csv(Path(recipe["tasks"]["topics"][split]), ["one", "two", "topics"], pairs)
    recipe["tasks"]["topics"]["text"] = ["one", "two"]
    result = plait.train({**recipe, "epochs": 1}, tmp_path / "run")
    assert set(result.scores["topics"]) == set(METRICS["several"])
    (prediction,) = plait.load(result.run).predict("topics", [("a dog", "a good film")])
    assert isinstance(prediction.label, tuple)


def test_the_words_of_the_topics_are_words_of_the_tiny_encoder():
    assert set().union(*TOPICS.values()) <= set(WORDS)
