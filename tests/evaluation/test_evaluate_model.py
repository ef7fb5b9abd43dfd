"""plait.evaluate from Python."""

import csv
import json
import math
from pathlib import Path

import pandas
import polars
import pytest

import plait
from plait.cli.option_names import as_options
from plait.errors import DataError, ModelError, RequestError
from plait.progress import SilentProgress


def rows_of(path: Path) -> list[dict]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def found(trained_run) -> plait.Evaluation:
    return plait.evaluate(trained_run)


def test_scores_are_those_of_the_run(found, trained_run):
    recorded = json.loads((trained_run / "result.json").read_text())["scores"]
    assert {task: scores.values for task, scores in found.scores.items()} == {
        task: pytest.approx(values) for task, values in recorded.items() if task in found.scores
    }
    assert list(found.scores) == list(found.tasks) == list(found.mistakes) == ["mood", "same", "near"]
    assert found.data == "dev" and found.model == trained_run / "best"
    assert list(found.orders) == ["same", "near"] and found.word_weights == []
    assert all(low <= found.scores[task].value <= high for task, (low, high) in intervals(found).items())


def intervals(found: plait.Evaluation) -> dict:
    return {task: scores.interval for task, scores in found.scores.items()}


def test_mistakes_agree_with_the_accuracy_and_know_their_lines(found, trained_run):
    for task in ("mood", "same"):
        assert len(found.mistakes[task]) == round(24 * (1 - found.scores[task].values["accuracy"]))
    lines = (trained_run.parent / "data/near-dev.csv").read_text().splitlines()
    worst = found.mistakes["near"][0]
    assert lines[int(worst.where.removeprefix("near-dev.csv:")) - 1].startswith(",".join(worst.texts))


def test_a_loaded_model_scores_as_its_directory(found, trained_run):
    assert plait.evaluate(plait.load(trained_run)).scores == found.scores


def test_tasks_that_are_not_scored_are_noted(trained_run):
    noted: list[str] = []

    class Notes(SilentProgress):
        def note(self, message: str) -> None:
            noted.append(message)

    found = plait.evaluate(trained_run, progress=Notes())
    assert (
        found.notes
        == noted
        == [
            f"{task}: not scored, it was trained without dev data; give labelled data with `on`"
            for task in ("tags", "far")
        ]
    )
    assert as_options(noted[0]).endswith("give labelled data with --on TASK=FILE")


@pytest.mark.parametrize(
    "make", [str, Path, lambda path: [path], rows_of, lambda path: pandas.DataFrame(rows_of(path))]
)
def test_other_data_may_be_files_or_tables(found, trained_run, make):
    data = trained_run.parent / "data"
    given = plait.evaluate(trained_run, {"mood": make(data / "mood-dev.csv")})
    assert given.scores == {"mood": found.scores["mood"]} and given.data == "the data given"
    assert given.baselines == {} and given.notes == []
    assert [mistake.texts for mistake in given.mistakes["mood"]] == [wrong.texts for wrong in found.mistakes["mood"]]


def test_mistakes_in_a_table_know_their_rows(trained_run):
    rows = rows_of(trained_run.parent / "data/near-dev.csv")
    found = plait.evaluate(trained_run, {"near": polars.DataFrame(rows)})
    for wrong in found.mistakes["near"]:
        row = rows[int(wrong.where.removeprefix("on['near']: row "))]
        assert wrong.texts == (row["one"], row["two"])


def test_bad_rows_of_a_table_are_reported_with_their_numbers(trained_run):
    frame = pandas.DataFrame({"sentence": ["a dog", None, "a cat"], "mood": ["low", "low", math.nan]})
    with pytest.raises(DataError) as caught:
        plait.evaluate(trained_run, {"mood": frame})
    assert list(caught.value.mistakes) == [
        "on['mood']: row 1: the text in column 'sentence' is empty",
        "on['mood']: row 2: the label is empty",
    ]


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ({"moood": "x.csv"}, "the argument `on`: the model has no task 'moood'; did you mean 'mood'?"),
        ({"mood": 3}, "on['mood']: expected files, a data frame or a list of dicts, found int"),
        ({"mood": []}, "on['mood']: expected files, a data frame or a list of dicts, found nothing"),
        ({"mood": pandas.DataFrame({"sentence": [], "mood": []})}, "on['mood']: the table has no rows"),
        ({"mood": [{"sentence": "a"}, 3]}, "on['mood']: row 1: expected a dict of values by column, found int"),
    ],
)
def test_what_cannot_be_scored_is_refused(trained_run, on, message):
    with pytest.raises((RequestError, DataError)) as caught:
        plait.evaluate(trained_run, on)
    assert str(caught.value) == message


def test_a_plain_encoder_has_nothing_to_score(tiny_bert):
    with pytest.raises(ModelError):
        plait.evaluate(tiny_bert)
    with pytest.raises(RequestError, match="it is a plain encoder, which only embeds"):
        plait.evaluate(plait.load(tiny_bert))


def test_messages_name_arguments_from_python_and_options_on_the_command_line(trained_run):
    with pytest.raises(RequestError) as caught:
        plait.evaluate(trained_run, mistakes="wrong.txt")
    assert str(caught.value) == "`mistakes` wrong.txt: unknown file format; use .csv or .jsonl"
    assert as_options(str(caught.value)) == "--mistakes wrong.txt: unknown file format; use .csv or .jsonl"
    assert as_options("the argument `texts`: text 0 is empty") == "TEXT: text 0 is empty"
    assert as_options("`learn` stays") == "`learn` stays"


def test_notebooks_show_the_scores(found):
    shown = found._repr_html_()
    assert shown.count("<tr>") == 4 and f"{found.scores['mood'].value:.3f}" in shown and "95 % interval" in shown
