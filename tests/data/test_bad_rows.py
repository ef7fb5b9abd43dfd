"""Bad rows in the data of a run: they stop it, or are skipped and listed."""

import json
from pathlib import Path

import pytest

import plait
from plait.errors import PlaitError
from plait.model.directory.record import open_directory
from plait.runs.origins import find_split
from reading import EMPTY_FILE, LATIN, OPEN_QUOTE, TOO_FEW

OUT_OF_RANGE = "is outside the range 0 to 5; the label's `range` sets it"


def spoil(recipe: dict, task: str, split: str, lines: bytes) -> None:
    """Append lines to a file of 25 lines."""
    with Path(recipe["tasks"][task][split]).open("ab") as file:
        file.write(lines)


def spoil_all(recipe: dict) -> list[dict[str, object]]:
    """Add bad rows to files of every task; returns what `bad-rows.jsonl` says about them."""
    spoil(recipe, "mood", "train", b"short\n" * 23 + b",low\n" + b"caf\xe9,low\n")
    spoil(recipe, "mood", "dev", b"a cat,angry\n")
    spoil(recipe, "same", "train", b'"a cat,a dog,1\na dog,a cat,0\na dog,a dog,1\na cat,a cat,1\n')
    spoil(recipe, "near", "dev", b"a cat,a dog,9\na cat,a dog,nan\na cat,a dog,5\n")
    latin = "not UTF-8 at byte 3 of the line; save the file as UTF-8"
    mood = [
        *((f"mood-train.csv:{line}", TOO_FEW, "short\n") for line in range(26, 49)),
        ("mood-train.csv:49", "the text in column 'sentence' is empty", {"sentence": "", "mood": "low"}),
        ("mood-train.csv:50", latin, "caf\ufffd,low\n"),
        (
            "mood-dev.csv:26",
            "the label 'angry' is not one of the classes of the training data: high, low",
            {"sentence": "a cat", "mood": "angry"},
        ),
    ]
    same = [("same-train.csv:26", OPEN_QUOTE, '"a cat,a dog,1\n')]
    pair = {"one": "a cat", "two": "a dog"}
    near = [
        ("near-dev.csv:26", f"the label 9 {OUT_OF_RANGE}", {**pair, "near": "9"}),
        ("near-dev.csv:27", "the label is nan, not a number", {**pair, "near": "nan"}),
    ]
    return [
        {"task": task, "where": where, "problem": problem, "row": row}
        for task, rows in (("mood", mood), ("same", same), ("near", near))
        for where, problem, row in rows
    ]


def test_bad_rows_stop_a_run_and_are_reported_together(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    expected = [f"{row['where']}: {row['problem']}" for row in spoil_all(recipe)]
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    more = "mood-train.csv: ... and 5 more bad rows, 25 in all"
    latin = f"mood-train.csv: 1 row is not UTF-8; {LATIN}"
    assert list(caught.value.mistakes) == [*expected[:20], more, latin, *expected[25:]]
    assert not (tmp_path / "run" / "run.json").exists()


def test_an_unreadable_file_does_not_hide_bad_rows_of_another_task(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    Path(recipe["tasks"]["same"]["dev"]).write_bytes(b"")
    spoil(recipe, "same", "train", b"short\n")
    spoil(recipe, "near", "dev", b"short\n")
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    assert list(caught.value.mistakes) == [
        f"{recipe['tasks']['same']['dev']}:1: {EMPTY_FILE}",
        "same-train.csv:26: 1 field, but the header has 3; complete or remove the row",
        "near-dev.csv:26: 1 field, but the header has 3; complete or remove the row",
    ]


def test_bad_rows_are_skipped_and_listed_if_the_recipe_says_so(tiny_recipe, tmp_path, recorded):
    recipe = tiny_recipe(bad_rows="skip", epochs=1)
    expected = spoil_all(recipe)
    result = plait.train(recipe, tmp_path / "run", baselines=False, progress=recorded)
    listed = tmp_path / "run" / "bad-rows.jsonl"
    assert [json.loads(line) for line in listed.read_text().splitlines()] == expected
    for task, count in (("mood", 26), ("same", 1), ("near", 2)):
        assert f"{task}: {count:,} bad rows were skipped; they are listed in {listed}" in recorded.notes
    record = open_directory(result.model).record
    data = record.provenance.data
    rows = {task: {split: data[task][split][0]["rows"] for split in ("train", "dev")} for task in recipe["tasks"]}
    assert rows == {
        "mood": {"train": 24, "dev": 24},
        "same": {"train": 27, "dev": 24},
        "near": {"train": 24, "dev": 25},
    }
    examples = find_split(record, result.model, "dev", None)
    assert {task: len(part) for task, part in examples.items()} == {"mood": 24, "same": 24, "near": 25}
    assert examples["near"].origins[-1] == "near-dev.csv:28"


def test_a_bad_row_in_a_file_of_two_splits_is_listed_once(tiny_recipe, tmp_path):
    recipe = tiny_recipe(bad_rows="skip", epochs=1)
    task = recipe["tasks"]["mood"]
    lines = Path(task["train"]).read_text().splitlines()
    rows = [f"{line},{'train' if number % 3 else 'dev'}" for number, line in enumerate(lines[1:])]
    (tmp_path / "all.csv").write_text("\n".join([f"{lines[0]},split", *rows, "short", ",low,dev\n"]))
    for split in ("train", "dev"):
        task[split] = {"file": str(tmp_path / "all.csv"), "where": {"split": split}}
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    listed = [json.loads(line) for line in (result.run / "bad-rows.jsonl").read_text().splitlines()]
    assert [(row["where"], row["problem"]) for row in listed] == [
        ("all.csv:26", "1 field, but the header has 3; complete or remove the row"),
        ("all.csv:27", "the text in column 'sentence' is empty"),
    ]
    data = open_directory(result.model).record.provenance.data["mood"]
    assert {split: data[split][0]["rows"] for split in data} == {"train": 16, "dev": 8}


def test_bad_rows_are_in_line_order_even_if_dev_is_a_share_of_the_file(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["mood"] |= {"dev": 0.4, "label": {"column": "mood", "classes": ["low", "high"]}}
    spoil(recipe, "mood", "train", b"".join(b"text %d,angry\n" % number for number in range(22)))
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    what = "the label 'angry' is not one of the classes of the training data: low, high"
    assert list(caught.value.mistakes) == [
        *(f"mood-train.csv:{line}: {what}" for line in range(26, 46)),
        "mood-train.csv: ... and 2 more bad rows, 22 in all",
    ]


def test_a_run_without_bad_rows_writes_no_list(tiny_recipe, tmp_path):
    plait.train(tiny_recipe(bad_rows="skip", epochs=1), tmp_path / "run", baselines=False)
    assert not (tmp_path / "run" / "bad-rows.jsonl").exists()


def test_a_file_with_only_bad_rows_is_rejected_even_if_they_are_skipped(tiny_recipe, tmp_path):
    recipe = tiny_recipe(bad_rows="skip")
    Path(recipe["tasks"]["same"]["dev"]).write_bytes(b"one,two,same\nshort\n")
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    assert list(caught.value.mistakes) == ["tasks.same.dev: the data has no usable rows"]
