"""Columns that a user names instead of leaving them to `plait init`."""

import pytest

from drafts import texts
from plait.drafting.draft import draft_recipe
from plait.drafting.files import data_files
from plait.drafting.guess import GivenColumns
from plait.errors import DataError
from tiny import write_csv

HEADER = ["subject", "body", "mood", "topic"]


@pytest.fixture
def posts(tmp_path):
    """A file with two texts and two labels."""
    rows = zip(texts(), texts(seed=1), "ab" * 20, "wxyz" * 10, strict=True)
    write_csv(tmp_path / "posts.csv", HEADER, list(rows))
    return tmp_path / "posts.csv"


@pytest.mark.parametrize(
    ("given", "text", "label", "kind"),
    [
        (GivenColumns(label="mood"), ("body",), ("mood",), "classes"),
        (GivenColumns(text=("subject",)), ("subject",), ("topic",), "classes"),
        (GivenColumns(("body", "subject"), "topic"), ("body", "subject"), ("topic",), "classes"),
        (GivenColumns(("subject", "body", "mood")), ("subject", "body", "mood"), (), "triplets"),
        (GivenColumns(text=("mood",), label="topic"), ("mood",), ("topic",), "classes"),
    ],
)
def test_given_columns_are_used(posts, given, text, label, kind):
    (task,) = draft_recipe([posts], given).tasks
    assert (task.guess.text, task.guess.label, task.guess.kind) == (text, label, kind)


def test_a_given_label_decides_against_a_triplet(tmp_path):
    rows = zip(texts(), texts(seed=1), texts(seed=2), "ab" * 20, strict=True)
    write_csv(tmp_path / "a.csv", ["anchor", "positive", "negative", "mood"], list(rows))
    (task,) = draft_recipe([tmp_path / "a.csv"]).tasks
    assert task.guess.kind == "triplets"
    (task,) = draft_recipe([tmp_path / "a.csv"], GivenColumns(label="mood")).tasks
    assert (task.guess.text, task.guess.label) == (("anchor", "positive"), ("mood",))


def test_a_column_that_a_named_file_lacks_is_an_error_with_its_columns(posts, tmp_path):
    write_csv(tmp_path / "other.csv", ["title", "Topic"], [["a b", 1]])
    with pytest.raises(DataError) as caught:
        draft_recipe([posts, tmp_path / "other.csv"], GivenColumns(("sujbect",), "topic"))
    assert caught.value.mistakes == (
        f"{posts}: no column 'sujbect'; did you mean 'subject'? its columns are subject, body, mood, topic",
        f"{tmp_path}/other.csv: no column 'sujbect'; its columns are title, Topic",
        f"{tmp_path}/other.csv: no column 'topic'; did you mean 'Topic'? its columns are title, Topic",
    )


def test_a_file_of_a_folder_that_lacks_a_column_is_left_out_unless_all_do(posts, tmp_path):
    write_csv(tmp_path / "other.csv", ["title", "stars"], [["a b", 1]])
    draft = draft_recipe(data_files([tmp_path]), GivenColumns(label="topic"))
    assert [task.name for task in draft.tasks] == ["posts"]
    assert draft.unused == {str(tmp_path / "other.csv"): "no column 'topic'; its columns are title, stars"}
    with pytest.raises(DataError) as caught:
        draft_recipe(data_files([tmp_path]), GivenColumns(label="star"))
    assert caught.value.mistakes == (
        f"{tmp_path}/other.csv: no column 'star'; did you mean 'stars'? its columns are title, stars",
        f"{posts}: no column 'star'; its columns are subject, body, mood, topic",
        "none of the files can be trained on",
    )


def test_a_given_label_must_have_values_that_differ(tmp_path):
    rows = [[text, "", "x"] for text in texts()]
    write_csv(tmp_path / "a.csv", ["text", "none", "same"], rows)
    with pytest.raises(DataError, match="the column 'none' is empty"):
        draft_recipe([tmp_path / "a.csv"], GivenColumns(label="none"))
    with pytest.raises(DataError, match="every row has the same 'same', 'x'; there is nothing to learn"):
        draft_recipe([tmp_path / "a.csv"], GivenColumns(label="same"))
