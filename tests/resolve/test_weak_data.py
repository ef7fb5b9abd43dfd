"""Data from which little can be learned, or by which little can be told."""

import csv

import pytest

from small_runs import resolve


def write(path, rows: list[tuple[str, str]]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(rows)
    return str(path)


def texts(count: int, words: str = "the cat and the dog were in the house") -> list[str]:
    return [f"{words} {number}" for number in range(count)]


@pytest.fixture
def notes(tiny_recipe, tmp_path):
    """The notes about a task with these training and dev rows."""

    def find(train: list[tuple[str, str]], dev: list[tuple[str, str]], **keys) -> list[str]:
        task = {
            "train": write(tmp_path / "train.csv", train),
            "dev": write(tmp_path / "dev.csv", dev),
            "text": "text",
            "label": "label",
        }
        recipe = tiny_recipe(**keys)
        return resolve({**recipe, "tasks": {"topic": task}}).data.data_notes()

    return find


def labelled(labels: str, start: int = 0) -> list[tuple[str, str]]:
    return [(text, label) for text, label in zip(texts(start + len(labels))[start:], labels, strict=True)]


def test_enough_data_of_every_class_needs_no_note(notes):
    assert notes(labelled("ab" * 20), labelled("ab" * 15, start=40)) == []


def test_a_small_dev_part_is_named(notes):
    (note,) = notes(labelled("ab" * 20), labelled("ab" * 14, start=40))
    assert note == "topic: dev has 28 rows, so its scores are rough; 30 or more would tell models apart"


def test_rare_classes_and_those_that_dev_lacks_are_named(notes):
    found = notes(labelled("ab" * 20 + "c" * 7), labelled("ab" * 15, start=60))
    assert found == [
        "topic: fewer than 8 training rows of 'c'",
        "topic: dev has no row of 'c', so its scores say nothing about it",
    ]


def test_only_some_of_many_classes_are_named(notes):
    (note,) = notes(labelled("abcdefgh" * 7), labelled("abcdefgh" * 4, start=60))
    assert note == "topic: fewer than 8 training rows of 'a', 'b', 'c', 'd', 'e' and 3 other classes"


def test_texts_in_another_language_are_named_for_an_english_encoder(notes, monkeypatch, tiny_bert):
    german = texts(40, "die Katze und der Hund waren gestern im Haus")
    train = list(zip(german, "ab" * 20, strict=True))
    monkeypatch.setattr("plait.resolve.weak_data._ENGLISH_ENCODERS", (str(tiny_bert),))
    (note,) = notes(train, labelled("ab" * 15, start=40))
    assert note.startswith("topic: most texts do not look English, and ")
    assert note.endswith("try encoder: sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2")
    assert notes(labelled("ab" * 20), labelled("ab" * 15, start=40)) == []


def test_a_task_that_is_a_hundred_times_another_is_named(tiny_recipe, tmp_path):
    def task(name: str, count: int) -> dict:
        rows = [(f"{text} {name}", "ab"[number % 2]) for number, text in enumerate(texts(count))]
        return {"train": write(tmp_path / f"{name}.csv", rows), "text": "text", "label": "label"}

    found = resolve({**tiny_recipe(), "tasks": {"large": task("large", 2000), "small": task("small", 20)}})
    (note,) = [note for note in found.data.data_notes() if "times" in note]
    assert note.startswith("large has 100 times the rows of small, which may learn little; schedule: {name: sampled")
