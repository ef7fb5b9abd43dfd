"""The pairs of the recipe `abbreviations`: balanced, in natural sentences, and with unseen abbreviations in test."""

import csv
import re
from pathlib import Path

import pytest

import plait

FOLDER = Path(plait.__file__).parent / "data/abbreviations"
PAIRS = {"train": 80, "dev": 20, "test": 40}
# Capitals that are not initials of a name, and abbreviations with other letters.
SHORT = re.compile(r"\b(?:[A-Z]{2,}s?|BoE|MoD|PhD|R&D)\b")


def read(split: str) -> list[dict[str, str]]:
    with (FOLDER / f"pairs-{split}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def abbreviations(split: str) -> set[str]:
    return {found for row in read(split) for found in SHORT.findall(row["sentence1"])}


@pytest.mark.parametrize("split", PAIRS)
def test_every_sentence_has_the_full_name_once_and_another_name_once(split):
    rows = read(split)
    assert len(rows) == PAIRS[split]
    scores: dict[str, list[str]] = {}
    for row in rows:
        scores.setdefault(row["sentence1"], []).append(row["similarity"])
    assert all(sorted(found) == ["3", "5"] for found in scores.values())


@pytest.mark.parametrize("split", PAIRS)
def test_the_first_sentence_has_one_abbreviation_and_the_second_does_not_have_it(split):
    for row in read(split):
        (short,) = SHORT.findall(row["sentence1"])
        assert not re.search(rf"\b{re.escape(short)}\b", row["sentence2"]), row
        assert all(row[name][0].isupper() and row[name][-1] in ".?" for name in ("sentence1", "sentence2")), row


def test_dev_has_abbreviations_of_train_in_other_sentences_and_test_has_others():
    assert abbreviations("dev") < abbreviations("train")
    assert not abbreviations("test") & (abbreviations("train") | abbreviations("dev"))
    assert (len(abbreviations("train")), len(abbreviations("dev")), len(abbreviations("test"))) == (39, 10, 20)
    texts = [row[name] for split in PAIRS for row in read(split) for name in ("sentence1", "sentence2")]
    firsts = [row["sentence1"] for split in PAIRS for row in read(split)]
    assert len(set(texts)) == len(texts) - len(firsts) // 2  # each first sentence occurs twice, nothing else does


def test_the_example_of_the_paper_is_not_in_the_data():
    assert not any("Carney" in row[name] for split in PAIRS for row in read(split) for name in row)
