"""`plait evaluate`: classes, confusions, files with all predictions, other columns, several models."""

import json
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML
from sklearn import metrics

from plait import evaluate, train
from streaming import read_rows
from tiny import sentences, write_csv


def result_of(out: str) -> dict:
    return json.loads(out.splitlines()[-1])


def words_of(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_details_as_tables_and_as_json(trained_run, plait):
    found = result_of(plait("evaluate", trained_run, "--json")[0])
    out, _ = plait("evaluate", trained_run)
    lines = words_of(out)
    mood = found["details"]["mood"]
    assert ["class", "precision", "recall", "f1", "support"] in lines
    for name, scores in mood["classes"].items():
        shown = ["–" if scores[key] is None else f"{scores[key]:.3f}" for key in ("precision", "recall", "f1")]
        assert [name, *shown, str(scores["support"])] in lines
        assert scores["recall"] == found["scores"]["mood"]["recall"][name]
    assert ["expected", "↓", "predicted", "→", "high", "low"] in lines
    for name, counts in zip(mood["classes"], mood["confusion"], strict=True):
        assert [name, *map(str, counts)] in lines
    assert f", ece {mood['errors']['ece']:.3f}" in out
    near = found["details"]["near"]["errors"]
    assert f", mae {near['mae']:.3f}, rmse {near['rmse']:.3f}" in out and near["rmse"] >= near["mae"] > 0


def test_many_classes_show_the_most_frequent_confusions(tiny_bert, plait, tmp_path):
    rows = [(text, f"kind {row % 12}") for row, text in enumerate(sentences(48))]
    write_csv(tmp_path / "many.csv", ["sentence", "kind"], rows)
    task = {"train": str(tmp_path / "many.csv"), "dev": str(tmp_path / "many.csv"), "text": "sentence", "label": "kind"}
    recipe = {"encoder": str(tiny_bert), "tasks": {"kind": task}, "epochs": 1, "head_start": "random"}
    run = train(recipe, tmp_path / "run", baselines=False).run
    details = evaluate(run).details["kind"]
    confused = details.most_confused()
    out, _ = plait("evaluate", run)
    assert "↓" not in out
    expected, predicted, count = confused[0]
    assert [*expected.split(), *predicted.split(), str(count)] in words_of(out)
    assert len(confused) > 10
    assert f"… and {len(confused) - 10} more pairs of classes; --json has the whole matrix" in out
    assert np.array(result_of(plait("evaluate", run, "--json")[0])["details"]["kind"]["confusion"]).shape == (12, 12)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_all_predictions_are_written_and_agree_with_the_scores(trained_run, plait, kind, tmp_path):
    file = tmp_path / f"all.{kind}"
    out, _ = plait("evaluate", trained_run, "--predictions", file)
    assert f"predictions of 72 rows in {file}" in out
    scores = result_of(plait("evaluate", trained_run, "--predictions", file, "--json")[0])["scores"]
    rows = read_rows(file)
    for task in ("mood", "same", "near"):
        mine = [row for row in rows if row["task"] == task]
        data = read_rows(trained_run.parent / f"data/{task}-dev.csv")
        texts = ["sentence"] if task == "mood" else ["one", "two"]
        if kind == "csv":
            assert [(row["text"], row["text2"]) for row in mine] == [
                (row[texts[0]], row[texts[1]] if len(texts) > 1 else "") for row in data
            ]
        else:
            assert [row["texts"] for row in mine] == [[row[text] for text in texts] for row in data]
        assert [row["where"] for row in mine] == [f"{task}-dev.csv:{line}" for line in range(2, 26)]
        if task == "near":
            labels, predicted = ([float(row[name]) for row in mine] for name in ("label", "prediction"))
            assert labels == pytest.approx([float(row["near"]) for row in data])
            assert all(0 <= score <= 5 for score in predicted)
            continue
        correct = np.mean([row["label"] == row["prediction"] for row in mine])
        assert correct == pytest.approx(scores[task]["values"]["accuracy"])
        for row in mine:
            assert float(row["probability"]) == float(row[f"p({row['prediction']})"]) >= 0.5


def test_the_rows_of_a_split_off_dev_are_written(tiny_recipe, tmp_path, plait):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"] = {"mood": {**recipe["tasks"]["mood"], "dev": 0.25}}
    run = train(recipe, tmp_path / "run", baselines=False).run
    written = {}
    for split in ("train", "dev"):
        plait("evaluate", run, "--split", split, "--predictions", tmp_path / f"{split}.csv")
        written[split] = read_rows(tmp_path / f"{split}.csv")
    assert len(written["dev"]) == 6 and len(written["train"]) == 18
    lines = [{row["where"] for row in rows} for rows in written.values()]
    assert lines[0].isdisjoint(lines[1]) and len(lines[0] | lines[1]) == 24
    assert {"label", "prediction", "p(high)", "p(low)"} <= written["dev"][0].keys()


def test_the_predictions_never_overwrite_anything(trained_run, plait, tmp_path):
    data = trained_run.parent / "data/mood-dev.csv"
    before = data.read_bytes()
    _, err = plait("evaluate", trained_run, "--predictions", data, code=2)
    assert err == f"plait: --predictions {data}: a data file has this name; choose another name\n"
    assert data.read_bytes() == before
    same = tmp_path / "same.csv"
    _, err = plait("evaluate", trained_run, "--predictions", same, "--mistakes", same, code=2)
    assert err == f"plait: --predictions {same}: is also the file of --mistakes; choose another name\n"


# Other columns and encodings


@pytest.fixture
def renamed(trained_run, tmp_path) -> dict[str, Path]:
    """The dev files of two tasks with other headings, in latin-1."""
    files = {}
    for task, columns in (("mood", ["body", "Gefühl"]), ("same", ["left", "right", "equal"])):
        rows = [list(row.values()) for row in read_rows(trained_run.parent / f"data/{task}-dev.csv")]
        files[task] = tmp_path / f"{task}.csv"
        write_csv(files[task], columns, rows)
        files[task].write_text(files[task].read_text("utf-8"), "latin-1")
    return files


def test_files_with_other_headings_and_encodings(trained_run, plait, renamed):
    expected = result_of(plait("evaluate", trained_run, "--json")[0])["scores"]
    options = ("--text", "body", "--label", "Gefühl", "--encoding", "latin-1", "--json")
    found = result_of(plait("evaluate", trained_run, "--on", f"mood={renamed['mood']}", *options)[0])["scores"]
    assert found["mood"]["values"] == expected["mood"]["values"]
    options = ("--text", "left", "--text", "right", "--label", "equal", "--json")
    found = result_of(plait("evaluate", trained_run, "--on", f"same={renamed['same']}", *options)[0])["scores"]
    assert found["same"]["values"] == expected["same"]["values"]


def test_the_way_to_other_headings_and_encodings_is_said(trained_run, plait, renamed):
    on = ("--on", f"mood={renamed['mood']}")
    _, err = plait("evaluate", trained_run, *on, code=2)
    assert "not UTF-8" in err and err.endswith(", or give the --encoding latin-1\n")
    _, err = plait("evaluate", trained_run, *on, "--encoding", "latin-1", code=2)
    assert "no column 'sentence'" in err and "--text and --label name other columns" in err
    _, err = plait("evaluate", trained_run, *on, "--text", "a", "--text", "b", "--label", "c", "--label", "d", code=2)
    assert err.splitlines() == [
        "plait: --text: the task 'mood' has 1 text column, 2 given",
        "plait: --label: the task 'mood' has 1 label column, 2 given",
    ]
    _, err = plait("evaluate", trained_run, "--text", "a", code=2)
    assert err == "plait: --text, --label and --encoding go with --on TASK=FILE; a split is read as in training\n"


# Several models


@pytest.fixture(scope="module")
def second_run(trained_run, tmp_path_factory) -> Path:
    """A run of two of the tasks of the first, with the same data."""
    recipe = YAML(typ="safe").load(trained_run / "recipe.yaml")
    recipe["tasks"] = {task: recipe["tasks"][task] for task in ("mood", "near")}
    return train({**recipe, "seed": 1}, tmp_path_factory.mktemp("second") / "run", baselines=False).run


def test_models_side_by_side(trained_run, second_run, plait):
    models = [str(trained_run), str(second_run)]
    alone = [result_of(plait("evaluate", model, "--json")[0]) for model in models]
    found = result_of(plait("evaluate", *models, "--json")[0])["models"]
    assert list(found) == models
    for model, expected in zip(models, alone, strict=True):
        assert found[model] == {key: expected[key] for key in ("scores", "details", "order", "baselines")}
    out, err = plait("evaluate", *models)
    assert out.startswith("2 models on dev\n") and "have different" not in err
    low, high = alone[0]["scores"]["mood"]["interval"]
    own = f"{alone[0]['scores']['mood']['values']['accuracy']:.3f} ({low:.3f} to {high:.3f})"
    assert own in out
    rmse = [f"{each['details']['near']['errors']['rmse']:.3f}" for each in alone]
    assert ["near", "rmse", *rmse] in words_of(out)
    same = next(words for words in words_of(out) if words[:2] == ["same", "roc_auc"])
    assert same[2:] == [f"{alone[0]['scores']['same']['values']['roc_auc']:.3f}", "–"]


def test_models_with_different_rows_are_noted(trained_run, tiny_recipe, tmp_path, plait):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"] = {"mood": {**recipe["tasks"]["mood"], "dev": 0.25}}
    other = train(recipe, tmp_path / "run", baselines=False).run
    _, err = plait("evaluate", trained_run, other)
    assert "mood: the models have different dev rows; --on mood=FILE scores them on the same\n" in err
    data = trained_run.parent / "data/mood-dev.csv"
    out, err = plait("evaluate", trained_run, other, "--on", f"mood={data}")
    assert "have different" not in err and out.startswith("2 models on the files given\n")


def test_invalid_requests_for_several_models(trained_run, second_run, plait, tmp_path):
    for option in (
        ["--mistakes", tmp_path / "x.csv"],
        ["--predictions", tmp_path / "x.csv"],
        ["--word-weights", "mood"],
    ):
        _, err = plait("evaluate", trained_run, second_run, *option, code=2)
        assert "--mistakes, --predictions and --word-weights are for one model" in err
    assert "a MODEL is given twice" in plait("evaluate", trained_run, trained_run, code=2)[1]
    data = trained_run.parent / "data/same-dev.csv"
    _, err = plait("evaluate", trained_run, second_run, "--on", f"same={data}", code=2)
    assert err.startswith(f"plait: {second_run}: --on same={data}: the model has no task 'same'; ")


# From Python


def test_rows_and_details_from_python(trained_run, tmp_path):
    found = evaluate(trained_run, predictions=tmp_path / "all.jsonl")
    rows = [row for task in found.scores for row in found.rows(task)]
    assert json.loads(json.dumps(rows)) == read_rows(tmp_path / "all.jsonl")
    mood = found.rows("mood")
    expected = metrics.f1_score([row["label"] for row in mood], [row["prediction"] for row in mood], pos_label="low")
    assert found.details["mood"].classes["low"].f1 == pytest.approx(expected)
    with pytest.raises(Exception, match=r"^no scores of a task 'mod'; did you mean 'mood'\?$"):
        found.rows("mod")


def test_other_columns_of_tables_from_python(trained_run):
    table = [{"body": "a good dog", "feeling": "low"}, {"body": "a bad cat", "feeling": "high"}]
    found = evaluate(trained_run, {"mood": table}, text_columns="body", label_columns="feeling")
    assert found.scores["mood"].rows == 2
    with pytest.raises(Exception, match=r"`text_columns` and `label_columns` name other columns"):
        evaluate(trained_run, {"mood": table})
    with pytest.raises(Exception, match=r"^`label_columns`: the task 'far' has no label columns, 1 given$"):
        evaluate(trained_run, {"far": [{"a": "a", "b": "b", "c": "c"}]}, label_columns="x")
