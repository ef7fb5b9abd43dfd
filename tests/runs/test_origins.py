"""The examples that a model is scored on: those of its run, or other files."""

import shutil
from pathlib import Path

import pytest

import plait
from plait.errors import DataError, RequestError
from plait.model.directory.record import ModelRecord, open_directory
from plait.runs.origins import find_split, given_examples, named_files
from tiny import HAPPY, sentences, write_csv, write_tasks


@pytest.fixture(scope="module")
def run(tiny_bert, tmp_path_factory) -> Path:
    """A run whose task `mood` has two dev files of the same name and a test file, and `near` no dev data."""
    folder = tmp_path_factory.mktemp("origins")
    recipe = {**write_tasks(folder / "data", tiny_bert), "epochs": 1}
    del recipe["tasks"]["near"]["dev"]
    mood = recipe["tasks"]["mood"]
    for name, seed in (("x", 5), ("y", 6)):
        rows = [(text, ("low", "high")[bool(HAPPY & set(text.split()))]) for text in sentences(9, seed)]
        (folder / "data" / name).mkdir()
        write_csv(folder / "data" / name / "dev.csv", ["sentence", "mood"], rows)
    mood["test"] = mood["dev"]
    mood["dev"] = [str(folder / "data" / name / "dev.csv") for name in ("x", "y")]
    return plait.train(recipe, folder / "run", baselines=False).run


@pytest.fixture(scope="module")
def record(run) -> ModelRecord:
    return open_directory(run).record


def found(run: Path, split: str, data: Path | None = None):
    directory = open_directory(run)
    return find_split(directory.record, directory.folder, split, data)


def refused(*arguments) -> list[str]:
    with pytest.raises(RequestError) as caught:
        found(*arguments)
    return list(caught.value.mistakes)


def test_the_splits_of_a_run_are_found(run):
    dev = found(run, "dev")
    assert {task: len(part) for task, part in dev.items()} == {"mood": 18, "same": 24}
    assert dev["mood"].texts == ([*sentences(9, 5), *sentences(9, 6)],)
    assert {task: len(part) for task, part in found(run, "test").items()} == {"mood": 24}
    assert {task: len(part) for task, part in found(run, "train").items()} == {"mood": 24, "same": 24, "near": 24}


def test_a_model_that_was_moved_needs_the_folder_of_its_data(run, tmp_path):
    model = shutil.copytree(run / "best", tmp_path / "model")
    assert refused(model, "test") == [
        "mood: no file mood-dev.csv; give its folder with `data`, or labelled data with `on`",
    ]
    assert len(found(model, "test", run.parent / "data")["mood"]) == 24


def test_a_modified_file_is_refused(run, tmp_path):
    data = shutil.copytree(run.parent / "data", tmp_path / "data")
    with (data / "mood-dev.csv").open("a") as file:
        file.write("a good dog,high\r\n")
    path = data / "mood-dev.csv"
    assert refused(run, "test", data) == [
        f"mood: {path} is not the test file that the model was trained with; to use it, give it with `on`"
    ]


def test_other_data_is_read_with_the_labels_of_the_model(record, tmp_path):
    (tmp_path / "a.csv").write_text("sentence,mood\na dog,low\n")
    (tmp_path / "b.jsonl").write_text('{"sentence": "a cat", "mood": "high"}\n')
    examples = given_examples(record.tasks, {"mood": [tmp_path / name for name in ("a.csv", "b.jsonl")]})
    assert (examples["mood"].texts, examples["mood"].labels.tolist()) == ((["a dog", "a cat"],), [1, 0])


def test_all_mistakes_in_given_files_are_reported_at_once(record, tmp_path):
    with pytest.raises(RequestError) as caught:
        named_files(record.tasks, ["mood", "moood=x.csv", "mood=gone.csv"])
    assert list(caught.value.mistakes) == [
        "--on mood: expected TASK=FILE",
        "--on moood=x.csv: the model has no task 'moood'; did you mean 'mood'?",
        "--on mood=gone.csv: no such file",
    ]
    (tmp_path / "a.csv").write_text("sentence,mood\na dog,angry\nshort\n")
    (tmp_path / "b.csv").write_text("one,two,same\na,b,2\n")
    with pytest.raises(DataError) as caught:
        given_examples(record.tasks, {"mood": f"{tmp_path}/a.csv", "same": f"{tmp_path}/b.csv"})
    assert list(caught.value.mistakes) == [
        "a.csv:2: the label 'angry' is not one of the classes of the training data: high, low",
        "a.csv:3: 1 field, but the header has 2; complete or remove the row",
        "b.csv:2: the label '2' is neither yes (1, true) nor no (0, false)",
    ]
