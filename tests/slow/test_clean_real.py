"""Flipped labels of real data are found; docs/situations.md has the figures."""

import csv
import random

import pytest

import plait

pytestmark = pytest.mark.slow
ROWS = 1000


@pytest.mark.parametrize(
    ("file", "text", "label", "least"),
    [("senteval/subj.csv", "sentence", "label", 0.6), ("senteval/trec.csv", "sentence", "label", 0.4)],
)
def test_most_of_five_percent_flipped_labels_are_found(real_data, minilm, tmp_path, file, text, label, least):
    with (real_data / file).open(encoding="utf-8", newline="") as source:
        rows = [(row[text], row[label]) for row in csv.DictReader(source)]
    rows = rows[:: len(rows) // ROWS][:ROWS]  # evenly: a file may be sorted by class
    generator = random.Random(1)
    classes = sorted({given for _, given in rows})
    wrong = set(generator.sample(range(len(rows)), len(rows) // 20))
    table = [
        {
            text: words,
            label: generator.choice([name for name in classes if name != given]) if number in wrong else given,
        }
        for number, (words, given) in enumerate(rows)
    ]
    task = {"train": table, "text": text, "label": {"column": label, "kind": "classes"}}
    errors = plait.clean({"encoder": "minilm", "tasks": {"task": task}})["task"].errors
    first = {int(error.where.split()[-1]) for error in errors[: len(wrong)]}
    every = {int(error.where.split()[-1]) for error in errors}
    print(f"{file}: {len(rows)} rows, {len(wrong)} flipped, {len(first & wrong)} in the first {len(wrong)}, ", end="")
    print(f"{len(every & wrong)} among all {len(errors)}")
    assert len(first & wrong) >= least * len(wrong)
