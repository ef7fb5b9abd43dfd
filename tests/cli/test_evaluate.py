"""`plait evaluate` as a user meets it."""

import csv
import json
from pathlib import Path

import pytest

from streaming import train_model


@pytest.fixture(scope="module")
def run(tiny_bert, tmp_path_factory) -> Path:
    return train_model(tmp_path_factory.mktemp("evaluate"), tiny_bert)


def read(path: Path) -> list[dict]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_mistakes_are_written_worst_first_and_agree_with_the_scores(run, plait, tmp_path):
    out, _ = plait("evaluate", run, "--mistakes", tmp_path / "wrong.csv", "--json")
    result = json.loads(out.splitlines()[-1])
    assert result["mistakes"] == str(tmp_path / "wrong.csv")
    rows = read(tmp_path / "wrong.csv")
    for task in ("mood", "same"):
        wrong = [row for row in rows if row["task"] == task]
        assert len(wrong) == round(24 * (1 - result["scores"][task]["values"]["accuracy"]))
        assert all(row["expected"] != row["predicted"] for row in wrong)
        sure = [float(row["probability"]) for row in wrong]
        assert sure == sorted(sure, reverse=True) and all(0.5 <= share <= 1 for share in sure)
    near = [row for row in rows if row["task"] == "near"]
    errors = [abs(float(row["expected"]) - float(row["predicted"])) for row in near]
    assert len(near) == 24 and [float(row["error"]) for row in near] == pytest.approx(errors, abs=1e-5)
    told = [float(row["error"]) for row in near]
    assert told == sorted(told, reverse=True)
    lines = (run.parent / "data/near-dev.csv").read_text().splitlines()
    file, _, line = near[0]["where"].partition(":")
    assert file == "near-dev.csv"
    assert lines[int(line) - 1] == f"{near[0]['text']},{near[0]['text2']},{near[0]['expected']}"


def test_the_order_of_two_texts_is_told(run, plait):
    out, _ = plait("evaluate", run, "--json")
    order = json.loads(out.splitlines()[-1])["order"]
    assert order == {
        "same": {"changed": 0.0, "difference": None, "symmetric": True},
        "near": {"changed": None, "difference": 0.0, "symmetric": True},
    }
    out, _ = plait("evaluate", run)
    assert out.count("its head gives the same for both orders of the two texts") == 2


def test_the_table_says_where_the_mistakes_are(run, plait, tmp_path):
    assert "wrong predictions" not in plait("evaluate", run)[0]
    out, _ = plait("evaluate", run, "--mistakes", tmp_path / "wrong.jsonl")
    counts = [line for line in out.splitlines() if line.startswith(f"wrong predictions in {tmp_path}/wrong.jsonl")]
    assert len(counts) == 1 and counts[0].endswith("24 of near")
    assert len((tmp_path / "wrong.jsonl").read_text().splitlines()) >= 24


def test_mistakes_are_not_written_over_the_data(run, plait):
    path = run.parent / "data/mood-dev.csv"
    before = path.read_bytes()
    _, told = plait("evaluate", run, "--mistakes", path, code=2)
    assert told == f"plait: --mistakes {path}: has the name of the data itself; choose another name\n"
    assert path.read_bytes() == before
    _, told = plait("evaluate", run, "--mistakes", "wrong.txt", code=2)
    assert told == "plait: --mistakes wrong.txt: unknown kind of file; give .csv or .jsonl\n"
