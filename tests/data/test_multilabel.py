"""Multilabel tasks: lists, separated labels, or one column per class; read, trained, predicted, scored, saved."""

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
from plait.data.readers.records import Nested
from plait.errors import DataError, PlaitError
from plait.evaluation.evaluate import score_task
from plait.metrics import all_metrics, metrics_of
from plait.model.directory.load import load_model
from plait.model.directory.record import open_directory
from plait.recipe.read import read_recipe, write_recipe
from plait.resolve.run import resolve_tasks
from plait.resolve.variants import VARIANTS
from plait.runs.origins import find_split, given_examples
from plait.training.train import Stopped, resume
from reading import resolve
from tiny import HAPPY, WORDS, sentences, write_csv

TOPICS = {
    "happy": HAPPY,
    "animal": {"dog", "cat", "child"},
    "thing": {"film", "book", "meal", "train", "phone", "song"},
}


def topics_of(text: str) -> list[str]:
    return [topic for topic, words in TOPICS.items() if words & set(text.split())]


# ---------------------------------------------------------------- labels


def test_lists_are_guessed_to_be_multilabel():
    assert guess_kind([Nested('["a"]')] * 19 + [""], pair=False) == "multilabel"
    assert guess_kind(['["a"]'] * 20, pair=False) == "classes"  # text that only looks like a list


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
    labels = labels_from({"topics": values}, "multilabel", separator=separator)
    assert (labels.kind, labels.classes, labels.names, labels.outputs) == ("multilabel", classes, classes, len(classes))
    assert labels.separator == separator


def test_cells_become_zeros_and_ones_in_class_order():
    labels = Labels("multilabel", ("a", "b", "c"), ("a", "b", "c"), separator="|")
    encoded, bad = encode_labels([["c|a", "", "b", " a | c ", "a|a"]], labels, 5)
    assert encoded.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 0, 0]]
    assert encoded.dtype == np.int64 and not bad


def test_lists_are_read_with_and_without_a_separator():
    for separator in (None, "|"):
        labels = Labels("multilabel", ("a", "b"), ("a", "b"), separator=separator)
        encoded, bad = encode_labels([[Nested('["b"]'), Nested("[]")]], labels, 2)
        assert encoded.tolist() == [[0, 1], [0, 0]] and not bad


def test_one_column_per_class_is_read_in_column_order():
    columns = {"toxic": ["1", "0", "yes"], "rude": ["0", "true", "no"]}
    labels = labels_from(columns, "multilabel")
    assert (labels.classes, labels.names) == (("toxic", "rude"), ("toxic", "rude"))
    encoded, bad = encode_labels(list(columns.values()), labels, 3)
    assert encoded.tolist() == [[1, 0], [0, 1], [1, 0]] and not bad
    named = labels_from(columns, "multilabel", classes={"rude": "impolite", "toxic": "poison"})
    assert (named.classes, named.names) == (("toxic", "rude"), ("poison", "impolite"))


def test_a_cell_that_is_neither_1_nor_0_is_a_bad_row():
    labels = labels_from({"toxic": ["1"], "rude": ["0"]}, "multilabel")
    _, bad = encode_labels([["1", "2", ""], ["0", "x", "1"]], labels, 3)
    assert bad == {1: "the label 'toxic' is '2', neither 1 nor 0", 2: "the label 'toxic' is '', neither 1 nor 0"}


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ({"x": ["a", "a"]}, {"separator": "|"}, "needs at least two classes, the training data has 1"),
        ({"x": ["a|b"]}, {"separator": "|", "classes": {"a": "A"}}, "needs at least two classes"),
        ({"x": ["a|b"]}, {"separator": "|", "classes": {"a": "A", "b": "A"}}, "two classes have the same name"),
        ({"x": ["1"], "y": ["0"]}, {"classes": {"x": "A", "z": "B"}}, "the classes must be the label's columns: x, y"),
        ({"x": ["1"], "y": ["0"]}, {"classes": {"x": "A", "y": "A"}}, "two classes have the same name"),
    ],
)
def test_invalid_classes_are_rejected(columns, given, message):
    with pytest.raises(DataError, match=message):
        labels_from(columns, "multilabel", **given)


# ---------------------------------------------------------------- metrics


def test_metrics_by_hand():
    labels_nC = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0]])
    predicted_nC = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 0]])
    found = all_metrics("multilabel", labels_nC, predicted_nC, predicted_nC.astype(float))
    # 3 correct of 5 labels and 4 predictions: 2·3 / (5 + 4); by class 2·2/4 = 1, 2·1/3 and 0; 2 of 4 rows match exactly
    assert found["micro_f1"] == pytest.approx(6 / 9)
    assert found["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert found["accuracy"] == 0.5


def test_correct_predictions_score_1():
    labels_nC = np.array([[1, 0], [0, 1], [1, 1]])
    found = all_metrics("multilabel", labels_nC, labels_nC, labels_nC.astype(float))
    assert found == {"micro_f1": 1.0, "macro_f1": 1.0, "accuracy": 1.0, "roc_auc": 1.0}


def test_metrics_agree_with_scikit_learn():
    for seed in range(20):
        generator = np.random.default_rng(seed)
        labels_nC = generator.integers(0, 2, (40, 4))
        probabilities_nC = np.round(generator.random((40, 4)), 1)  # with ties
        predicted_nC = (probabilities_nC >= 0.5).astype(int)
        found = all_metrics("multilabel", labels_nC, predicted_nC, probabilities_nC)
        assert found["micro_f1"] == pytest.approx(f1_score(labels_nC, predicted_nC, average="micro"), abs=1e-12)
        assert found["macro_f1"] == pytest.approx(f1_score(labels_nC, predicted_nC, average="macro"), abs=1e-12)
        assert found["accuracy"] == pytest.approx(accuracy_score(labels_nC, predicted_nC), abs=1e-12)
        assert found["roc_auc"] == pytest.approx(roc_auc_score(labels_nC, probabilities_nC), abs=1e-12)


def test_a_class_without_labels_and_predictions_does_not_count_in_the_mean():
    labels_nC, predicted_nC = np.array([[1, 0], [1, 0]]), np.array([[1, 0], [0, 0]])
    found = all_metrics("multilabel", labels_nC, predicted_nC, predicted_nC.astype(float))
    assert found["macro_f1"] == found["micro_f1"] == pytest.approx(2 / 3)
    assert "roc_auc" not in found  # every row has the first class, none has the second


# ---------------------------------------------------------------- from data to model

ROWS = {"train": 60, "dev": 30}


def write_lists(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text, "topics": topics_of(text)}) + "\n" for text in texts))


def write_separated(path: Path, texts: list[str]) -> None:
    write_csv(path, ["text", "topics"], [(text, " | ".join(topics_of(text))) for text in texts])


def write_columns(path: Path, texts: list[str]) -> None:
    rows = [(text, *(int(topic in topics_of(text)) for topic in TOPICS)) for text in texts]
    write_csv(path, ["text", *TOPICS], rows)


FORMATS = {
    "lists": (write_lists, ".jsonl", "topics"),
    "separated": (write_separated, ".csv", {"column": "topics", "separator": "|"}),
    "columns": (write_columns, ".csv", list(TOPICS)),
}


def recipe_for(folder: Path, form: str, encoder: Path, **changes) -> dict:
    write, ending, label = FORMATS[form]
    folder.mkdir(exist_ok=True)
    files = {}
    for split, rows in ROWS.items():
        path = folder / f"topics-{split}{ending}"
        write(path, sentences(rows, seed=rows, longest=5))
        files[split] = str(path)
    task = {**files, "text": "text", "label": label}
    return {"encoder": str(encoder), "tasks": {"topics": task}, "epochs": 2, "batch_size": 8, "lr": 3e-3, **changes}


@pytest.fixture(scope="module", params=FORMATS)
def trained(request, tiny_bert, tmp_path_factory) -> tuple[str, Path, plait.Result]:
    folder = tmp_path_factory.mktemp(request.param)
    recipe = recipe_for(folder / "data", request.param, tiny_bert)
    return request.param, folder, plait.train(recipe, folder / "run")


def texts_of(split: str) -> list[str]:
    return sentences(ROWS[split], seed=ROWS[split], longest=5)


def expected_labels(names: tuple[str, ...], split: str) -> np.ndarray:
    return np.array([[int(name in topics_of(text)) for name in names] for text in texts_of(split)])


def test_every_format_gives_the_same_labels(trained):
    form, _, result = trained
    record = open_directory(result.model).record
    spec = record.tasks["topics"]
    names = spec.labels.names
    assert names == (tuple(TOPICS) if form == "columns" else tuple(sorted(TOPICS)))
    assert (spec.labels.kind, spec.head_name, spec.link, spec.metric) == (
        "multilabel",
        "unit_linear",
        "each",
        "micro_f1",
    )
    assert spec.label == (tuple(TOPICS) if form == "columns" else ("topics",))
    found = find_split(record, result.model, "dev", None)["topics"]
    assert found.labels.tolist() == expected_labels(names, "dev").tolist()


def test_training_is_scored_with_its_baselines(trained):
    _, _, result = trained
    scores = result.scores["topics"]
    assert set(scores) == {"micro_f1", "macro_f1", "accuracy", "roc_auc"}
    table = result.baselines["dev"]
    assert set(table) == {"majority or mean", "frozen encoder"}  # a single text has no cosine
    labels_nC = expected_labels(plait.load(result.run).tasks["topics"].labels.names, "train")
    assert labels_nC.mean(axis=0).max() < 0.5  # so the majority predicts no class
    assert table["majority or mean"]["topics"] == 0.0


def test_training_learns_the_labels_of_its_own_rows(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "columns", tiny_bert, epochs=40, dropout=0.0, lr=1e-2)
    recipe["tasks"]["topics"]["dev"] = recipe["tasks"]["topics"]["train"]
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert result.scores["topics"]["micro_f1"] > 0.95  # 60 rows whose words determine the labels


def test_a_prediction_has_every_class_that_reaches_the_threshold(trained):
    _, _, result = trained
    model = plait.load(result.run)
    names = model.tasks["topics"].labels.names
    for prediction in model.predict("topics", texts_of("dev")):
        assert tuple(prediction.probabilities) == names
        reached = tuple(name for name, share in prediction.probabilities.items() if share >= 0.5)
        assert prediction.label == reached
        certain = [share if name in reached else 1 - share for name, share in prediction.probabilities.items()]
        assert prediction.score == pytest.approx(min(certain), abs=1e-12)


def test_scores_agree_with_the_predictions(trained):
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


def test_a_model_is_scored_on_other_labelled_data(trained):
    form, folder, result = trained
    write, ending, _ = FORMATS[form]
    write(folder / f"other{ending}", texts_of("dev"))
    model = load_model(result.model, device="cpu").model
    examples = given_examples(model.tasks, {"topics": folder / f"other{ending}"})
    scores = score_task(model, "topics", examples["topics"], intervals=True)
    assert scores.values == pytest.approx(result.scores["topics"], abs=1e-9)
    assert scores.interval is not None and set(scores.recall) == set(TOPICS)


def test_a_copied_model_gives_the_same_predictions(trained, tmp_path):
    _, _, result = trained
    copied = shutil.copytree(result.model, tmp_path / "copied")
    texts = texts_of("dev")
    assert plait.load(copied).predict("topics", texts) == plait.load(result.run).predict("topics", texts)


def test_the_recipe_of_a_run_resolves_to_itself(trained):
    form, folder, result = trained
    again = read_recipe(result.run / "recipe.yaml", VARIANTS)
    resolved = resolve_tasks(again, limit=40, width=16)
    assert resolved.recipe.tasks["topics"] == again.tasks["topics"]
    assert again.tasks["topics"].label.kind == "multilabel"
    assert resolved.specs["topics"] == open_directory(result.model).record.tasks["topics"]
    write_recipe(resolved.recipe, folder / "again.yaml")
    assert read_recipe(folder / "again.yaml", VARIANTS).tasks["topics"] == again.tasks["topics"], form


def test_predictions_for_a_file_have_one_column_per_class(trained, tmp_path):
    form, folder, result = trained
    source = folder / "data" / f"topics-dev{FORMATS[form][1]}"
    arguments = ["predict", str(result.run), "topics", "--input", str(source), "--output", str(tmp_path / "out.csv")]
    assert CliRunner().invoke(cli, arguments, catch_exceptions=False).exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = plait.load(result.run).predict("topics", texts_of("dev"))
    assert [row["prediction"] for row in rows] == ["|".join(prediction.label) for prediction in expected]
    for row, prediction in zip(rows, expected, strict=True):
        for name, share in prediction.probabilities.items():
            assert float(row[f"p({name})"]) == pytest.approx(share, abs=1e-6)


def test_a_stopped_run_resumes_to_equal_weights(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "lists", tiny_bert)
    unbroken = plait.train(recipe, tmp_path / "unbroken", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=lambda: True)
    ends = [json.loads((run / "result.json").read_text()) for run in (unbroken.run, resume(tmp_path / "run").run)]
    assert ends[0]["last_weights_sha256"] == ends[1]["last_weights_sha256"]


# ---------------------------------------------------------------- invalid recipes


def mistakes(recipe: dict) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        resolve(recipe)
    return list(caught.value.mistakes)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"class_weights": "balanced"},
            "tasks.topics.class_weights: class weights are for classes and yes/no, not for multilabel tasks",
        ),
        (
            {"loss": "cross_entropy"},
            "tasks.topics.loss: cross_entropy cannot learn from multilabel rows; suitable: binary_cross_entropy",
        ),
        (
            {"metric": "f1"},
            "tasks.topics.metric: f1 is not for multilabel rows; allowed: accuracy, macro_f1, micro_f1, roc_auc",
        ),
    ],
)
def test_invalid_keys_of_a_multilabel_task_are_rejected(tiny_bert, tmp_path, keys, message):
    recipe = recipe_for(tmp_path / "data", "columns", tiny_bert)
    recipe["tasks"]["topics"] |= keys
    assert mistakes(recipe) == [message]


def test_a_class_that_no_row_or_every_row_has_is_rejected(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "columns", tiny_bert)
    rows = [(text, 1, 0, number % 2) for number, text in enumerate(texts_of("train"))]
    write_csv(Path(recipe["tasks"]["topics"]["train"]), ["text", *TOPICS], rows)
    assert mistakes(recipe) == [
        "tasks.topics.train: every training row has the label 'happy'; there is nothing to learn",
        "tasks.topics.train: no training row has the label 'animal'; there is nothing to learn",
    ]


def test_a_class_that_occurs_only_in_dev_is_a_bad_row(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "separated", tiny_bert)
    with Path(recipe["tasks"]["topics"]["dev"]).open("a") as file:
        file.write("a dog,animal | strange\r\n")
    assert mistakes(recipe) == [
        "topics-dev.csv:32: the label 'strange' is not one of the classes of the training data: animal, happy, thing"
    ]


def test_pairs_can_be_multilabel(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", "separated", tiny_bert)
    for split, rows in ROWS.items():
        first, second = sentences(rows, 1, 4), sentences(rows, 2, 4)
        pairs = [(a, b, "|".join(topics_of(f"{a} {b}"))) for a, b in zip(first, second, strict=True)]
        write_csv(Path(recipe["tasks"]["topics"][split]), ["one", "two", "topics"], pairs)
    recipe["tasks"]["topics"]["text"] = ["one", "two"]
    result = plait.train({**recipe, "epochs": 1}, tmp_path / "run")
    assert set(result.scores["topics"]) == set(metrics_of("multilabel"))
    (prediction,) = plait.load(result.run).predict("topics", [("a dog", "a good film")])
    assert isinstance(prediction.label, tuple)


def test_the_topics_use_words_of_the_tiny_encoder():
    assert set().union(*TOPICS.values()) <= set(WORDS)
