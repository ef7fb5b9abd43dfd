"""A new user's first week: labels with typos, ids, rare classes, several labels, scores, and files in odd formats."""

import json
import re
from pathlib import Path

import pytest

from odd_files import mood_of, write_table
from streaming import write_sheets
from tiny import sentences


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def init(plait, tiny_bert):
    """`plait init FILE…`, which writes recipe.yaml for the tiny encoder."""
    return lambda *arguments: plait("init", *arguments, "--encoder", tiny_bert, "--force")


def train(plait, *options: object) -> dict:
    """The scores of the recipe after one epoch, by task and metric."""
    changes = ("--set", "epochs=1", "--set", "refit=false", "--no-baselines", "--json")
    out, _ = plait("train", "recipe.yaml", *changes, *options)
    return json.loads(out.splitlines()[-1])["scores"]


def test_typos_are_listed_and_put_together(plait, init):
    teams = ["billing", "shiping", "Refunds", *(("Billing", "shipping", "refunds")[row % 3] for row in range(87))]
    write_table(Path("mail.csv"), [("text", "team"), *zip(sentences(90, 3), teams, strict=True)])
    out, _ = init("mail.csv")
    found = re.search(
        r"mail: 6 classes, 3 if these are typos; to put them together, write (map: {.*}) in the label", out
    )
    assert found, out
    assert found[0] in plait("check", "recipe.yaml", "--no-trial")[0]
    text = Path("recipe.yaml").read_text()
    text = re.sub(r"label: {column: team.*}", f"label: {{column: team, {found[1]}}}", text)
    Path("recipe.yaml").write_text(text)
    facts = json.loads(plait("check", "recipe.yaml", "--no-trial", "--json")[0])
    assert facts["tasks"][0]["labels"] == "Billing, refunds, shipping"


def test_a_label_of_ids_is_refused_and_a_score_is_said_to_be_one(plait, init):
    texts = sentences(60, 3)
    rows = [(text, f"T-{row:05}", row % 50 / 10) for row, text in enumerate(texts)]
    write_table(Path("mail.csv"), [("text", "ticket", "stars"), *rows])
    Path("ids.yaml").write_text("encoder: x\ntasks: {id: {train: mail.csv, text: text, label: ticket}}\n")
    assert "60 different values in 60 rows" in plait("check", "ids.yaml", code=2)[1]
    init("mail.csv", "--label", "stars")
    assert "score" in plait("check", "recipe.yaml", "--no-trial")[0]
    assert "pearson" in train(plait, "--out", "run")["mail"]
    assert re.match(r"\d\.\d\d   \(from 0 to 5\)", plait("predict", "run", "mail", "a good film")[0])


def test_a_rare_class_is_on_both_sides_of_the_cut(plait, init):
    labels = ["spam" if row % 100 == 0 else "fine" for row in range(300)]
    write_table(Path("mail.csv"), [("text", "kind"), *zip(sentences(300, 7), labels, strict=True)])
    init("mail.csv")
    assert "mail: fewer than 8 training rows of 'spam'" in plait("check", "recipe.yaml", "--no-trial")[0]
    scores = train(plait, "--set", "dev_rows=40", "--set", "tasks.mail.metric=macro_f1", "--out", "run")["mail"]
    assert scores["macro_f1"] < 1  # 1.0 if dev had no rare row
    found = json.loads(plait("evaluate", "run", "--json")[0].splitlines()[-1])["scores"]["mail"]
    assert None not in found["recall"].values()


def test_several_labels_in_a_cell(plait, init):
    tags = ["|".join(tag for tag, every in (("late", 2), ("rude", 3)) if row % every == 0) for row in range(60)]
    write_table(Path("mail.csv"), [("text", "tags"), *zip(sentences(60, 3), tags, strict=True)])
    init("mail.csv")
    assert "micro_f1" in train(plait, "--out", "run")["mail"]
    found = json.loads(plait("predict", "run", "mail", "a good film", "--json")[0])
    assert isinstance(found["label"], list) and set(found["probabilities"]) == {"late", "rude"}


def test_files_with_bars_and_an_open_quote(plait, init):
    rows = [(text, mood_of(text)) for text in sentences(60, 3)]
    write_table(Path("bars.csv"), [("text", "mood"), *rows], delimiter="|")
    lines = [f"{text},{mood}\n" for text, mood in rows]
    Path("quote.csv").write_text("".join(["text,mood\n", *lines[:40], '"an open quote,low\n', *lines[40:]]))
    out, _ = init("bars.csv", "quote.csv")
    assert (
        "quote.csv: 1 of 61 rows cannot be read, the first in line 42: the quote that opens here is never closed" in out
    )
    assert "1 rows are unusable and will be skipped" in out
    facts = json.loads(plait("check", "recipe.yaml", "--no-trial", "--json")[0])
    assert [sum(task["rows"].values()) for task in facts["tasks"]] == [60, 60]
    assert [row["where"].rpartition("/")[2] for row in facts["bad_rows"]] == ["quote.csv:42"]
    assert set(train(plait, "--out", "run")) == {"bars", "quote"}


def test_a_spreadsheet_from_the_draft_to_its_predictions(plait, init):
    rows = [[text, mood_of(text)] for text in sentences(40, 3)]
    write_sheets(Path("mail.xlsx"), [["text", "mood"], *rows])
    init("mail.xlsx")
    train(plait, "--out", "run")
    out, _ = plait("predict", "run", "mail", "--input", "mail.xlsx", "--output", "out.jsonl")
    assert out == "40 rows in out.jsonl\n"


def test_a_recipe_of_others_says_where_its_data_may_be(plait, tmp_path):
    _, err = plait("train", "cs224n", "--out", "run", code=2)
    assert "no file 'ids-sst-train.csv' in " in err
    assert err.count("check the name, or give its folder with --data DIR") == len(err.splitlines())
    assert not Path("run").exists()
