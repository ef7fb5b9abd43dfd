"""Tables in memory: written to the run directory, trained on like files, and predicted."""

import csv
import datetime
import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import plait
from plait.data.frames import columns_of, is_frame, is_table, write_table
from plait.errors import DataError, PlaitError, RequestError
from plait.training.train import Stopped, resume

TABLES = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.Table.from_pylist,
    "a list of dicts": lambda rows: rows,
    "a tuple of dicts": tuple,
}
FRAMES = {name: TABLES[name] for name in ("pandas", "polars")}
FOR_EACH_TABLE = pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)


def written(table: object, folder: Path) -> list[dict]:
    write_table(table, folder / "table.jsonl", "it")
    return [json.loads(line) for line in (folder / "table.jsonl").read_text(encoding="utf-8").splitlines()]


# ---------------------------------------------------------------- recognized


@FOR_EACH_TABLE
def test_rows_in_memory_are_a_table(make):
    assert is_table(make([{"text": "a", "label": 1}]))


@pytest.mark.parametrize(
    "value",
    [
        "mood.csv",
        Path("mood.csv"),
        ["mood.csv", "more.csv"],
        {"file": "mood.csv", "where": {"split": "train"}},
        [{"file": "mood.csv", "where": {"split": "train"}}],
        [{"file": "mood.csv"}, "more.csv"],
        0.2,
        None,
        [],
    ],
)
def test_file_names_and_shares_are_not_tables(value):
    assert not is_table(value)


# ---------------------------------------------------------------- written


@FOR_EACH_TABLE
def test_texts_and_numbers_are_written_unchanged(make, tmp_path):
    rows = [{"text": 'a, "b"\nc é 😀', "label": 1, "score": 0.5}, {"text": "", "label": -2, "score": 1e-7}]
    assert written(make(rows), tmp_path) == rows


@FOR_EACH_TABLE
def test_booleans_and_lists_are_written_unchanged(make, tmp_path):
    rows = [{"sure": True, "topics": ["a", "b"]}, {"sure": False, "topics": []}]
    assert written(make(rows), tmp_path) == rows


@FOR_EACH_TABLE
def test_none_is_null(make, tmp_path):
    assert written(make([{"text": None, "label": "x"}, {"text": "a", "label": None}]), tmp_path) == [
        {"text": None, "label": "x"},
        {"text": "a", "label": None},
    ]


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        (np.int64(3), 3),
        (np.int8(-1), -1),
        (np.uint16(7), 7),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array([1, 2]), [1, 2]),
        (float("nan"), None),
        (np.float64("nan"), None),
        (np.float32("nan"), None),
        (pandas.NA, None),
        (pandas.NaT, None),
        (None, None),
        (Decimal("NaN"), None),
        (datetime.date(2024, 2, 1), "2024-02-01"),
    ],
)
def test_cells_become_json_values(tmp_path, cell, plain):
    (row,) = written([{"cell": cell}], tmp_path)
    assert row == {"cell": plain} and type(row["cell"]) is type(plain)


def test_missing_values_in_pandas_are_null(tmp_path):
    frame = pandas.DataFrame(
        {
            "text": pandas.Series(["a", pandas.NA, None], dtype="string"),
            "whole": pandas.Series([1, None, 3], dtype="Int64"),
            "real": [0.5, math.nan, 2],
            "sure": pandas.Series([True, None, False], dtype="boolean"),
            "kind": pandas.Categorical(["x", None, "y"]),
        }
    )
    assert written(frame, tmp_path) == [
        {"text": "a", "whole": 1, "real": 0.5, "sure": True, "kind": "x"},
        {"text": None, "whole": None, "real": None, "sure": None, "kind": None},
        {"text": None, "whole": 3, "real": 2.0, "sure": False, "kind": "y"},
    ]


def test_missing_values_in_polars_are_null(tmp_path):
    frame = polars.DataFrame(
        {"text": ["a", None], "real": [math.nan, 1.5], "kind": polars.Series(["x", None], dtype=polars.Categorical)}
    )
    assert written(frame, tmp_path) == [
        {"text": "a", "real": None, "kind": "x"},
        {"text": None, "real": 1.5, "kind": None},
    ]


def test_pandas_columns_may_be_numbers_and_the_index_is_not_a_column(tmp_path):
    frame = pandas.DataFrame({0: ["a", "b"], 1: [1, 2]}, index=[7, 9])
    assert written(frame, tmp_path) == [{"0": "a", "1": 1}, {"0": "b", "1": 2}]


def test_a_lone_surrogate_is_written_and_read_back(tmp_path):
    assert written([{"text": "\ud83d"}], tmp_path) == [{"text": "\ud83d"}]


def test_duplicate_columns_are_rejected(tmp_path):
    frame = pandas.DataFrame([["a", "b", 1]], columns=["text", "text", "label"])
    with pytest.raises(DataError, match=r"^tasks\.it\.train: duplicate column 'text'; rename one of them$"):
        write_table(frame, tmp_path / "table.jsonl", "tasks.it.train")
    table = pyarrow.table([["a"], ["b"]], names=["text", "text"])
    with pytest.raises(DataError, match=r"^tasks\.it\.train: duplicate column 'text'; rename one of them$"):
        write_table(table, tmp_path / "table.jsonl", "tasks.it.train")
    with pytest.raises(DataError, match="duplicate column 'text'"):
        columns_of(frame, ["text"])


def test_a_row_that_is_not_a_dict_is_reported_with_its_number(tmp_path):
    with pytest.raises(DataError) as caught:
        write_table([{"text": "a"}, ("a", 1)], tmp_path / "table.jsonl", "tasks.it.train")
    assert str(caught.value) == "tasks.it.train: row 1: expected a dict of values by column, found tuple"


# ---------------------------------------------------------------- trained


def rows_of(path: str) -> list[dict]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def tables_for(recipe: dict, make) -> dict:
    """The recipe with tables instead of files; numeric labels are numbers."""
    tasks = {}
    for name, task in recipe["tasks"].items():
        tables = {split: rows_of(task[split]) for split in ("train", "dev")}
        for row in [row for table in tables.values() for row in table]:
            if "same" in row:
                row["same"] = int(row["same"])
            if "near" in row:
                row["near"] = float(row["near"])
        tasks[name] = {**task, **{split: make(table) for split, table in tables.items()}}
    return {**recipe, "tasks": tasks}


def weights(run: Path) -> str:
    return json.loads((run / "result.json").read_text())["last_weights_sha256"]


@pytest.fixture(scope="module")
def from_files(tiny_bert, tmp_path_factory) -> tuple[dict, str]:
    """The scores and weights of a run on the files."""
    from tiny import write_tasks

    folder = tmp_path_factory.mktemp("files")
    result = plait.train(write_tasks(folder / "data", tiny_bert), folder / "run", baselines=False)
    return result.scores, weights(result.run)


@FOR_EACH_TABLE
def test_a_table_trains_to_the_same_weights_as_its_file(tiny_recipe, tmp_path, make, from_files):
    recipe = tables_for(tiny_recipe(), make)
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert (result.scores, weights(result.run)) == from_files
    stored = sorted(path.name for path in (tmp_path / "run" / "tables").iterdir())
    assert stored == [f"{task}-{split}.jsonl" for task in ("mood", "near", "same") for split in ("dev", "train")]


def test_the_given_recipe_is_not_modified(tiny_recipe, tmp_path):
    recipe = tables_for(tiny_recipe(epochs=1), pandas.DataFrame)
    train = recipe["tasks"]["mood"]["train"]
    before = train.copy()
    plait.train(recipe, tmp_path / "run", baselines=False)
    assert recipe["tasks"]["mood"]["train"] is train
    pandas.testing.assert_frame_equal(train, before)


def test_tables_files_and_shares_can_be_combined(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"]["mood"] |= {"train": pandas.DataFrame(rows_of(recipe["tasks"]["mood"]["train"])), "dev": 0.25}
    recipe["tasks"]["near"] |= {"dev": polars.DataFrame(rows_of(recipe["tasks"]["near"]["dev"]))}
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert result.scores.keys() == {"mood", "same", "near"}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_stopped_run_on_tables_resumes_to_equal_weights(tiny_recipe, tmp_path, make, from_files):
    recipe = tables_for(tiny_recipe(), make)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=lambda: True)
    result = resume(tmp_path / "run")
    assert (result.scores, weights(result.run)) == from_files


def test_a_run_on_tables_can_be_moved_and_resumed(tiny_recipe, tmp_path, from_files):
    with pytest.raises(Stopped):
        plait.train(tables_for(tiny_recipe(), pandas.DataFrame), tmp_path / "run", baselines=False, stop=lambda: True)
    (tmp_path / "run").rename(tmp_path / "moved")
    assert weights(resume(tmp_path / "moved").run) == from_files[1]


def test_bad_rows_of_a_table_are_reported_with_task_and_split(tiny_recipe, tmp_path):
    recipe = tables_for(tiny_recipe(), pandas.DataFrame)
    frame = recipe["tasks"]["near"]["train"]
    frame.loc[3, "near"] = math.nan
    frame.loc[5, "one"] = None
    recipe["tasks"]["near"]["train"] = frame
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run", baselines=False)
    assert list(caught.value.mistakes) == [
        "tasks.near.train: row 3: the label is empty",
        "tasks.near.train: row 5: the text in column 'one' is empty",
    ]
    assert not (tmp_path / "run").exists()
    result = plait.train({**recipe, "bad_rows": "skip"}, tmp_path / "run", baselines=False)
    assert len((result.run / "bad-rows.jsonl").read_text().splitlines()) == 2


def test_a_missing_column_of_a_table_is_reported(tiny_recipe, tmp_path):
    recipe = tables_for(tiny_recipe(), pandas.DataFrame)
    recipe["tasks"]["mood"]["train"] = recipe["tasks"]["mood"]["train"].rename(columns={"sentence": "sentense"})
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run", baselines=False)
    assert caught.value.mistakes[0] == "tasks.mood.train: row 0: no column 'sentence'; did you mean 'sentense'?"


# ---------------------------------------------------------------- predicted


@pytest.fixture(scope="module")
def model(tiny_bert, tmp_path_factory) -> plait.Predictor:
    from tiny import write_tasks

    folder = tmp_path_factory.mktemp("predict")
    recipe = {**write_tasks(folder / "data", tiny_bert), "epochs": 1}
    return plait.load(plait.train(recipe, folder / "run", baselines=False).run)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_data_frame_is_predicted_from_the_columns_of_the_task(model, make):
    frame = make([{"x": 1, "two": "a cat", "one": "a dog"}, {"x": 2, "two": "a song", "one": "the river"}])
    assert is_frame(frame)
    assert model.predict("near", frame) == model.predict("near", [("a dog", "a cat"), ("the river", "a song")])
    moods = make([{"sentence": "a good film"}, {"sentence": "an awful meal"}])
    assert model.predict("mood", moods) == model.predict("mood", ["a good film", "an awful meal"])


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_data_frame_without_rows_gives_no_predictions(model, make):
    frame = make([{"one": "a", "two": "b"}]).head(0)
    assert model.predict("near", frame) == []


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_data_frame_without_the_columns_of_the_task_is_rejected(model, make):
    with pytest.raises(DataError) as caught:
        model.predict("near", make([{"one": "a", "three": "b"}]))
    assert str(caught.value) == "the data frame has no column 'two'; it has one, three"


@pytest.mark.parametrize("missing", [None, "", " "])
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_empty_texts_in_a_data_frame_are_reported_with_their_row(model, make, missing):
    frame = make([{"one": "a dog", "two": "a cat"}, {"one": "a dog", "two": missing}])
    with pytest.raises(DataError) as caught:
        model.predict("near", frame)
    assert str(caught.value) == "row 1 of the data frame: the text in column 'two' is empty"


def test_a_data_frame_is_not_a_list_of_texts(model):
    with pytest.raises(RequestError, match="expected a list of texts, found DataFrame; give one of its columns"):
        model.embed(pandas.DataFrame({"sentence": ["a dog"]}))


def test_a_series_is_a_list_of_texts(model):
    for series in (pandas.Series(["a dog", "a cat"]), polars.Series(["a dog", "a cat"])):
        assert np.array_equal(model.embed(series), model.embed(["a dog", "a cat"]))
