"""Predictions as CS224N's leaderboard takes them."""

import pytest

import plait
from plait.errors import DataError, RequestError
from plait.inference.leaderboard import leaderboard_file, leaderboard_job
from plait.inference.stream import run_job
from plait.model.watch import Silent
from streaming import read_rows, rows_of, train_model, write_rows


@pytest.fixture(scope="module")
def model(tiny_bert, tmp_path_factory) -> plait.Predictor:
    return plait.load(train_model(tmp_path_factory.mktemp("leaderboard"), tiny_bert), device="cpu")


def predicted(model, task, source, output) -> str:
    job = leaderboard_job(model, model.tasks[task], "model")
    run_job(job, str(source), str(output), "leaderboard", Silent())
    return output.read_text()


@pytest.mark.parametrize(
    ("task", "heading", "answer"),
    [
        ("mood", "Predicted_Sentiment", lambda said: said.label),
        ("same", "Predicted_Is_Paraphrase", lambda said: {"no": "0.0", "yes": "1.0"}[said.label]),
        ("near", "Predicted_Similiary", lambda said: repr(said.score)),
    ],
)
def test_a_file_is_what_the_code_of_the_project_writes(model, task, heading, answer, tmp_path):
    rows = rows_of(7)
    said = model.predict(task, [row["sentence"] if task == "mood" else (row["one"], row["two"]) for row in rows])
    expected = f"id \t {heading} \n"
    expected += "".join(f"{row['id']} , {answer(one)} \n" for row, one in zip(rows, said, strict=True))
    assert predicted(model, task, write_rows(tmp_path / "in.csv", rows), tmp_path / "out.csv") == expected


def test_classes_are_written_as_the_data_writes_them(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    mood = recipe["tasks"]["mood"]
    mood["label"] = {"column": "mood", "classes": {"low": "sad", "high": "glad"}}
    model = plait.load(plait.train({**recipe, "tasks": {"mood": mood}}, tmp_path / "run", baselines=False).run)
    source = write_rows(tmp_path / "in.csv", rows_of(5))
    lines = predicted(model, "mood", source, tmp_path / "out.csv").splitlines()[1:]
    assert {line.split(" , ")[1].strip() for line in lines} <= {"low", "high"}


def test_a_file_without_ids_is_refused_and_a_bad_row_keeps_its_line(model, tmp_path):
    rows = rows_of(3)
    rows[1]["sentence"] = " "
    lines = predicted(model, "mood", write_rows(tmp_path / "in.csv", rows), tmp_path / "out.csv").splitlines()
    assert lines[2] == "1 ,  " and len(lines) == 4
    assert [row["where"] for row in read_rows(tmp_path / "out.csv.errors.jsonl")] == [
        "in.csv:4"
    ]  # notes have two lines
    for row in rows:
        del row["id"]
    source = write_rows(tmp_path / "none.csv", rows)
    with pytest.raises(DataError) as caught:
        predicted(model, "mood", source, tmp_path / "out.csv")
    assert str(caught.value).startswith(f"{source}:1: no column 'id'; ")


def test_the_names_of_the_files(model):
    tasks = model.tasks
    assert leaderboard_file(tasks["mood"], "data/ids-sst-test-student.csv") == "sst-test-output.csv"
    assert leaderboard_file(tasks["mood"], "dev/ids-sst-test-student.csv") == "sst-test-output.csv"
    assert leaderboard_file(tasks["same"], "quora-DEV.csv") == "para-dev-output.csv"
    assert leaderboard_file(tasks["near"], "devices.csv") == "sts-test-output.csv"
    with pytest.raises(RequestError) as caught:
        leaderboard_file(tasks["tags"], "x.csv")
    assert str(caught.value) == (
        "--leaderboard: the task 'tags' has no place there; it takes classes, yes or no, and scores"
    )
