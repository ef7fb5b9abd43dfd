"""A new user's first week: from a folder of odd files to a model, its predictions and scores, and one more task."""

import csv
import json
from pathlib import Path

import numpy as np

from odd_files import mood_of, write_folder, write_table
from tiny import sentences


def test_from_an_odd_folder_to_a_model_with_one_more_task(plait, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(Path("data"))
    draft(plait, tiny_bert)
    plait("train", "mine.yaml", "--profile", "quick", "--set", "refit=false", "--out", "runs/mine")
    predict(plait)
    evaluate(plait)
    add_a_task(plait)


def draft(plait, tiny_bert) -> None:
    """`plait init` names every file that it leaves out and every row that it cannot read; `plait check` agrees."""
    out, _ = plait("init", "data", "--out", "mine.yaml", "--encoder", tiny_bert)
    for line in (
        "tickets: tickets.csv: 12 of 80 rows are not UTF-8; --encoding latin-1 reads them",
        "data/empty.csv is not used: line 1: the file is empty; add a header line with the column names",
        "data/users.csv is not used: it has no text column; name it with --text",
        "data/old is not used: a sub-folder; --recursive goes into it",
    ):
        assert line in out.splitlines()
    assert "data/notes.txt is not used: plain text; " in out
    assert "already exists" in plait("init", "data", "--out", "mine.yaml", code=2)[1]
    plait("init", "data", "--out", "mine.yaml", "--encoder", tiny_bert, "--encoding", "latin-1", "--force")
    facts = json.loads(plait("check", "mine.yaml", "--no-trial", "--json")[0])
    found = {task["task"]: (task["rows"]["train"] + task["rows"]["dev"], task["kind"]) for task in facts["tasks"]}
    assert found == {"pairs": (60, "yes_no"), "tickets": (80, "classes")}
    out, _ = plait("check", "mine.yaml", "--profile", "quick", "--no-trial")
    assert "epochs: 2" in out and "tickets: dev has 16 rows, so its scores are rough" in out


def predict(plait) -> None:
    """For one text, for a file with other headings, and through a pipe."""
    assert plait("predict", "runs/mine", "tickets", "a good film")[0].startswith(("high   (", "low   ("))
    texts = sentences(5, 9)
    write_table(Path("new.csv"), [("id", "what they wrote"), *enumerate(texts)])
    options = ("predict", "runs/mine", "tickets", "--input", "new.csv", "--output", "out.csv")
    _, err = plait(*options, code=2)
    assert err == "plait: new.csv:1: no column 'message'; allowed: id, what they wrote (use --text COLUMN)\n"
    plait(*options, "--text", "what they wrote")
    with Path("out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["what they wrote"] for row in rows] == texts
    assert all(row["prediction"] in ("high", "low") for row in rows)
    uncertain = ("--output", "-", "--text", "what they wrote", "--abstain-below", "0.999", "--top-k", "1")
    out, err = plait(*options[:-2], *uncertain)
    assert [row["prediction"] for row in csv.DictReader(out.splitlines())] == [""] * 5
    assert "5 of 5 rows have no prediction: its probability would be below 0.999" in err
    lines = "".join(json.dumps({"message": text}) + "\n" for text in texts)
    out, _ = plait("predict", "runs/mine", "tickets", "--input", "-", stdin=lines.encode())
    assert [json.loads(line)["prediction"] for line in out.splitlines()] == [row["prediction"] for row in rows]
    plait("embed", "runs/mine", "--input", "new.csv", "--text", "what they wrote", "--output", "vectors.npy")
    assert np.load("vectors.npy").shape == (5, 16)


def evaluate(plait) -> None:
    """On the rows that were split off, and on a file of one's own; a moved file is found with --data."""
    found = scores_of(plait("evaluate", "runs/mine", "--json")[0])
    assert set(found) == {"pairs", "tickets"}
    texts = sentences(30, 10)
    write_table(Path("labelled.csv"), [("words", "answer"), *((text, mood_of(text)) for text in texts)])
    columns = ("--text", "words", "--label", "answer", "--predictions", "rows.csv")
    out, _ = plait("evaluate", "runs/mine", "--on", "tickets=labelled.csv", *columns)
    assert "tickets" in out and "pairs" not in out and "precision" in out
    with Path("rows.csv").open(newline="", encoding="utf-8") as file:
        assert [row["label"] for row in csv.DictReader(file)] == [mood_of(text) for text in texts]
    Path("data").rename("elsewhere")
    _, err = plait("evaluate", "runs/mine", code=2)
    assert "tickets.csv; give its folder with --data DIR, or labelled data with --on TASK=FILE" in err
    assert scores_of(plait("evaluate", "runs/mine", "--data", "elsewhere", "--json")[0]) == found


def scores_of(out: str) -> dict:
    """Task → metric → value, from the last line that `plait evaluate --json` prints."""
    return {task: scores["values"] for task, scores in json.loads(out.splitlines()[-1])["scores"].items()}


def add_a_task(plait) -> None:
    """The old files are not needed, and what the model could do does not change."""
    texts = sentences(60, 11)
    rows = [(text, "long" if len(text.split()) > 6 else "short") for text in texts]
    write_table(Path("sizes.csv"), [("words", "size"), *rows])
    Path("more.yaml").write_text(
        "encoder: runs/mine\ntrain_encoder: false\nepochs: 2\n"
        "tasks:\n  size: {train: sizes.csv, dev: 0.2, text: words, label: size}\n"
    )
    before = plait("predict", "runs/mine", "tickets", "a good film", "--json")[0]
    _, err = plait("train", "more.yaml", "--out", "runs/more", "--no-baselines")
    assert "tickets: kept from" in err and "not scored" not in err
    assert plait("predict", "runs/more", "tickets", "a good film", "--json")[0] == before
    assert plait("predict", "runs/more", "size", "a good film")[0].startswith(("long   (", "short   ("))
    scores = [json.loads(Path(run, "best/plait.json").read_text())["scores"] for run in ("runs/mine", "runs/more")]
    assert set(scores[1]) == {"pairs", "tickets", "size"}
    assert {task: scores[1][task] for task in scores[0]} == scores[0]
