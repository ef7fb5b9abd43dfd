"""`plait evaluate` on the command line."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from plait import train


def read(path: Path) -> list[dict]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_mistakes_are_written_worst_first_and_agree_with_the_scores(trained_run, plait, tmp_path):
    out, _ = plait("evaluate", trained_run, "--mistakes", tmp_path / "wrong.csv", "--json")
    result = json.loads(out.splitlines()[-1])
    assert result["mistakes"] == str(tmp_path / "wrong.csv")
    rows = read(tmp_path / "wrong.csv")
    for task in ("mood", "same"):
        wrong = [row for row in rows if row["task"] == task]
        assert len(wrong) == round(24 * (1 - result["scores"][task]["values"]["accuracy"]))
        assert all(row["expected"] != row["predicted"] for row in wrong)
        groups = result["mistake_groups"][task]
        assert sum(groups.values()) == len(wrong)
        for group, count in groups.items():
            confidence = [float(row["probability"]) for row in wrong if row["group"] == group]
            assert len(confidence) == count and all(0.5 <= share <= 1 for share in confidence)
            assert confidence == sorted(confidence, reverse=True)
        assert [row["group"] for row in wrong] == [group for group, count in groups.items() for _ in range(count)]
    sides = {row["group"]: (row["expected"], row["predicted"]) for row in rows if row["task"] == "same"}
    both = {"false positive": ("no", "yes"), "false negative": ("yes", "no")}
    assert sides and sides.items() <= both.items()
    assert all(row["group"] == row["expected"] for row in rows if row["task"] == "mood")
    near = [row for row in rows if row["task"] == "near"]
    errors = [abs(float(row["expected"]) - float(row["predicted"])) for row in near]
    assert len(near) == 24 and [float(row["error"]) for row in near] == pytest.approx(errors, abs=1e-5)
    written = [float(row["error"]) for row in near]
    assert written == sorted(written, reverse=True)
    lines = (trained_run.parent / "data/near-dev.csv").read_text().splitlines()
    file, _, line = near[0]["where"].partition(":")
    assert file == "near-dev.csv"
    assert lines[int(line) - 1] == f"{near[0]['text']},{near[0]['text2']},{near[0]['expected']}"


def test_the_effect_of_the_order_of_two_texts_is_reported(trained_run, plait):
    out, _ = plait("evaluate", trained_run, "--json")
    order = json.loads(out.splitlines()[-1])["order"]
    assert order == {
        "same": {"changed": 0.0, "difference": None, "symmetric": True},
        "near": {"changed": None, "difference": 0.0, "symmetric": True},
    }
    out, _ = plait("evaluate", trained_run)
    assert out.count("the order of the two texts does not matter to its head") == 2


def test_the_table_says_where_the_mistakes_are(trained_run, plait, tmp_path):
    assert "wrong predictions" not in plait("evaluate", trained_run)[0]
    out, _ = plait("evaluate", trained_run, "--mistakes", tmp_path / "wrong.jsonl")
    _, _, counts = out.partition(f"wrong predictions, worst first (for scores all), in {tmp_path}/wrong.jsonl\n")
    rows = [json.loads(line) for line in (tmp_path / "wrong.jsonl").read_text().splitlines()]
    expected = {task: Counter(row["group"] for row in rows if row["task"] == task) for task in ("mood", "same")}
    by_class = ", ".join(f"{name} {count}" for name, count in expected["mood"].items())
    apart = ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in expected["same"].items())
    assert counts.splitlines() == [
        f"  mood: {expected['mood'].total()} (by expected class: {by_class})",
        f"  same: {expected['same'].total()} ({apart})",
        "  near: 24",
    ]


def test_words_are_listed_by_weight(tiny_recipe, tmp_path, plait):
    run = train(tiny_recipe(pooling="weighted", head_lr=0.1), tmp_path / "run", baselines=False).run
    out, _ = plait("evaluate", run, "--word-weights", "mood", "--at-least", 10, "--json")
    found = json.loads(out.splitlines()[-1])["word_weights"]
    weights = [word["weight"] for word in found]
    assert weights == sorted(weights, reverse=True) and weights[0] > weights[-1]
    assert all(word["count"] >= 10 for word in found) and {"[CLS]", "[SEP]"} <= {word["word"] for word in found}
    out, _ = plait("evaluate", run, "--word-weights", "mood", "--at-least", 10)
    assert "words of mood by weight in an embedding; 1: as in a plain mean" in out
    listed = [line.split() for line in out.splitlines() if line.split()[:1] == [found[0]["word"]]]
    assert listed == [[found[0]["word"], f"{weights[0]:.3f}", str(found[0]["count"])]]
    _, err = plait("evaluate", run, "--word-weights", "moo", code=2)
    assert err == "plait: --word-weights: no task 'moo' here; did you mean 'mood'?\n"


def test_word_weights_need_weighted_pooling(trained_run, plait):
    _, err = plait("evaluate", trained_run, "--word-weights", "mood", code=2)
    assert err == f"plait: {trained_run}: its pooling is mean; only pooling: weighted learns weights of tokens\n"


def test_mistakes_never_overwrite_the_data(trained_run, plait):
    path = trained_run.parent / "data/mood-dev.csv"
    before = path.read_bytes()
    _, err = plait("evaluate", trained_run, "--mistakes", path, code=2)
    assert err == f"plait: --mistakes {path}: a data file has this name; choose another name\n"
    assert path.read_bytes() == before
    _, err = plait("evaluate", trained_run, "--mistakes", "wrong.txt", code=2)
    assert err == "plait: --mistakes wrong.txt: unknown file format; use .csv or .jsonl\n"
