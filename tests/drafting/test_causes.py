"""What `plait init` says about rows, files and labels that it cannot read."""

from pathlib import Path

import pytest

from drafts import draft_of, texts
from plait.drafting.draft import draft_recipe
from plait.drafting.guess import GivenColumns
from plait.drafting.yaml_text import write_draft
from plait.errors import DataError
from plait.recipe.read import read_recipe
from plait.resolve.run import resolve_tasks
from plait.resolve.variants import VARIANTS
from tiny import write_csv


def write_latin(path: Path, every: int) -> None:
    """40 rows; in every n-th there is a letter of latin-1."""
    rows = [f"{text} {'' if n % every else 'é'},{'ab'[n // 2 % 2]}\n" for n, text in enumerate(texts())]
    path.write_bytes("".join(["text,label\n", *rows]).encode("latin-1"))


def why_unused(path: Path, **given) -> str:
    with pytest.raises(DataError) as caught:
        draft_recipe([path], GivenColumns(**given))
    return caught.value.mistakes[0].removeprefix(f"{path}: ")


def test_rows_in_latin_1_are_counted_and_read_with_the_encoding(tmp_path):
    write_latin(tmp_path / "a.csv", 2)
    (task,) = draft_recipe([tmp_path / "a.csv"]).tasks
    assert task.notes[-1] == "a.csv: 20 of 40 rows are not UTF-8; --encoding latin-1 reads them"
    draft = draft_recipe([tmp_path / "a.csv"], encoding="latin-1")
    assert write_draft(draft, tmp_path / "recipe.yaml", "minilm") == 0
    recipe = read_recipe(tmp_path / "recipe.yaml", VARIANTS)
    assert recipe.tasks["a"].encoding == "latin-1"
    (found,) = resolve_tasks(recipe, limit=40, width=16).tasks.values()
    assert sum("é" in text for part in found.splits.values() for text in part.texts[0]) == 20


def test_a_file_in_latin_1_throughout_is_not_used(tmp_path):
    write_latin(tmp_path / "a.csv", 1)
    reason = "it has no valid rows: a.csv: 40 of 40 rows are not UTF-8; --encoding latin-1 reads them"
    assert why_unused(tmp_path / "a.csv") == reason
    (tmp_path / "a.csv").write_bytes(b"t\xe9xt,label\n")
    reason = "line 1: not UTF-8 at byte 1 of the line; save the file as UTF-8, or use --encoding latin-1"
    assert why_unused(tmp_path / "a.csv") == reason


def test_an_open_quote_is_named_by_its_line(tmp_path):
    lines = [f"{text},{'ab'[n % 2]}" for n, text in enumerate(texts())]
    lines[9] = f'"{lines[9]}'
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *lines]))
    (task,) = draft_recipe([tmp_path / "a.csv"]).tasks
    assert task.notes[-1] == (
        "a.csv: 1 of 40 rows cannot be read, the first in line 11: the quote that opens here is never closed; "
        "is a closing quote missing?"
    )


def test_columns_between_bars_are_found_and_other_separators_named(tmp_path):
    lines = [f"{text}|{'ab'[n % 2]}" for n, text in enumerate(texts())]
    (tmp_path / "a.csv").write_text("\n".join(["text|label", *lines]))
    (task,) = draft_recipe([tmp_path / "a.csv"]).tasks
    assert (task.guess.text, task.guess.label) == (("text",), ("label",))
    (tmp_path / "b.csv").write_text("\n".join(["text|label", *lines]).replace("|", "^"))
    assert why_unused(tmp_path / "b.csv").startswith("the only column is 'text^label'; separate columns by commas, ")


@pytest.mark.parametrize(
    ("value", "auto", "given"),
    [
        ("t{}", ": an id or a date", ": an id, a date or a text? name another column with --label"),
        ("2024-01-{}", ": an id or a date", ": an id, a date or a text? name another column with --label"),
        ("{}", ": an id or a date; if it is a score, --label label reads it", None),
    ],
)
def test_labels_that_all_differ_are_called_ids(tmp_path, value, auto, given):
    rows = [[text, value.format(n)] for n, text in enumerate(texts(31), start=1)]
    write_csv(tmp_path / "a.csv", ["text", "label"], rows)
    different = "'label' has 31 different values in 31 rows"
    assert why_unused(tmp_path / "a.csv") == different + auto
    if given:
        assert why_unused(tmp_path / "a.csv", label="label") == different + given
    else:
        (task,) = draft_recipe([tmp_path / "a.csv"], GivenColumns(label="label")).tasks
        assert task.guess.kind == "score"
        assert f"{different}: an id? a score? it is read as a score" in task.notes


def test_misspelt_classes_are_noted_and_left_open_to_a_map(tmp_path):
    words = ["billing", "refund"] * 18 + ["Billing", "biling", "REFUND", "refnud"]
    rows = [[text, word] for text, word in zip(texts(), words, strict=True)]
    draft, recipe = draft_of(tmp_path, {"a.csv": (["text", "label"], rows)})
    note = (
        "6 classes, 2 if these are typos; to put them together, write "
        "map: {Billing: billing, REFUND: refund, biling: billing, refnud: refund} in the label"
    )
    assert note in draft.tasks[0].notes
    assert f"    # {note}" in (tmp_path / "recipe.yaml").read_text().splitlines()
    assert recipe.tasks["a"].label.classes is None
