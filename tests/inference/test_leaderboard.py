"""Predictions in the format of CS224N's leaderboard."""

import pytest

import plait
from plait.errors import DataError, RequestError
from plait.inference.leaderboard import leaderboard_file, leaderboard_job
from plait.inference.stream import run_job
from plait.progress import SilentProgress
from streaming import read_rows, rows_of, write_rows


def predicted(predictor, task, source, output) -> str:
    job = leaderboard_job(predictor, predictor.tasks[task])
    run_job(job, str(source), str(output), "leaderboard", SilentProgress())
    return output.read_text()


@pytest.mark.parametrize(
    ("task", "heading", "written"),
    [
        ("mood", "Predicted_Sentiment", lambda one: one.label),
        ("same", "Predicted_Is_Paraphrase", lambda one: {"no": "0.0", "yes": "1.0"}[one.label]),
        ("near", "Predicted_Similiary", lambda one: repr(one.score)),
    ],
)
def test_a_file_equals_what_the_project_itself_writes(predictor, task, heading, written, tmp_path):
    rows = rows_of(7)
    texts = [row["sentence"] if task == "mood" else (row["one"], row["two"]) for row in rows]
    predictions = predictor.predict(task, texts)
    expected = f"id \t {heading} \n"
    expected += "".join(f"{row['id']} , {written(one)} \n" for row, one in zip(rows, predictions, strict=True))
    assert predicted(predictor, task, write_rows(tmp_path / "in.csv", rows), tmp_path / "out.csv") == expected


def test_classes_are_written_as_the_data_spells_them(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    mood = recipe["tasks"]["mood"]
    mood["label"] = {"column": "mood", "classes": {"low": "sad", "high": "glad"}}
    predictor = plait.load(plait.train({**recipe, "tasks": {"mood": mood}}, tmp_path / "run", baselines=False).run)
    source = write_rows(tmp_path / "in.csv", rows_of(5))
    lines = predicted(predictor, "mood", source, tmp_path / "out.csv").splitlines()[1:]
    assert {line.split(" , ")[1].strip() for line in lines} <= {"low", "high"}


def test_a_file_without_ids_is_refused_and_a_bad_row_keeps_its_line(predictor, tmp_path):
    rows = rows_of(3)
    rows[1]["sentence"] = " "
    lines = predicted(predictor, "mood", write_rows(tmp_path / "in.csv", rows), tmp_path / "out.csv").splitlines()
    assert lines[2] == "1 ,  " and len(lines) == 4
    assert [row["where"] for row in read_rows(tmp_path / "out.csv.errors.jsonl")] == [
        "in.csv:4"
    ]  # notes have two lines
    for row in rows:
        del row["id"]
    source = write_rows(tmp_path / "none.csv", rows)
    with pytest.raises(DataError) as caught:
        predicted(predictor, "mood", source, tmp_path / "out.csv")
    assert str(caught.value).startswith(f"{source}:1: no column 'id'; ")


def test_file_names_follow_from_the_task_and_the_split(predictor):
    tasks = predictor.tasks
    assert leaderboard_file(tasks["mood"], "data/ids-sst-test-student.csv") == "sst-test-output.csv"
    assert leaderboard_file(tasks["mood"], "dev/ids-sst-test-student.csv") == "sst-test-output.csv"
    assert leaderboard_file(tasks["same"], "quora-DEV.csv") == "para-dev-output.csv"
    assert leaderboard_file(tasks["near"], "devices.csv") == "sts-test-output.csv"
    with pytest.raises(RequestError) as caught:
        leaderboard_file(tasks["tags"], "x.csv")
    assert str(caught.value) == (
        "--leaderboard: the task 'tags' cannot be submitted; only classes, yes/no labels and scores can"
    )
