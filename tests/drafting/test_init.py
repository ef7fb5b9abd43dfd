"""plait.init from Python."""

from pathlib import Path

import pytest

import plait
from plait.cli.option_names import as_options
from plait.errors import RequestError
from tiny import write_tasks

STARTER = Path(plait.__file__).parent / "data/starter"


def test_a_folder_becomes_a_recipe(tiny_bert, tmp_path):
    found = plait.init(STARTER, tmp_path / "recipe.yaml", encoder=str(tiny_bert))
    assert found.file == tmp_path / "recipe.yaml" and found.bad_rows == 0
    assert [Path(file).name for file in found.unused] == ["LICENSE"]
    pair = ("sentence1", "sentence2")
    assert {task.name: (task.guess.kind, task.guess.text) for task in found.tasks} == {
        "reviews": ("classes", ("sentence",)),
        "questions": ("yes_no", pair),
        "pairs": ("score", pair),
    }
    assert plait.check(found.file, trial=False).steps > 0


def test_files_may_be_given_one_by_one(tiny_bert, tmp_path):
    write_tasks(tmp_path, tiny_bert)
    one = plait.init(str(tmp_path / "mood-train.csv"), tmp_path / "one.yaml")
    two = plait.init([tmp_path / "mood-train.csv", tmp_path / "mood-dev.csv"], tmp_path / "two.yaml")
    assert [task.rows for task in (*one.tasks, *two.tasks)] == [{"train": 24}, {"train": 24, "dev": 24}]


def test_a_recipe_is_only_overwritten_by_force(tiny_bert, tmp_path):
    write_tasks(tmp_path, tiny_bert)
    file = tmp_path / "recipe.yaml"
    file.write_text("precious")
    with pytest.raises(RequestError) as caught:
        plait.init(tmp_path / "mood-train.csv", file)
    assert str(caught.value) == f"{file}: already exists; choose another `out`, or use `force` to overwrite it"
    assert as_options(str(caught.value)).endswith("choose another --out, or use --force to overwrite it")
    assert file.read_text() == "precious"
    plait.init(tmp_path / "mood-train.csv", file, force=True)
    assert file.read_text().startswith("# plait train")
    with pytest.raises(RequestError, match=r"`out` .*: is a folder; give the name of a file"):
        plait.init(tmp_path / "mood-train.csv", tmp_path)
