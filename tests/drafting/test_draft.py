"""How `plait init` groups files into tasks and splits."""

import gzip
from pathlib import Path

import pytest

from drafts import draft_of, texts
from plait.drafting.draft import draft_recipe
from plait.drafting.files import data_files, unused_sentences
from plait.drafting.yaml_text import write_draft
from plait.errors import DataError, RequestError
from plait.recipe.read import read_recipe
from plait.resolve.variants import VARIANTS
from tiny import write_csv

# Folder → task → train, dev, test (files, or a share), head, loss.
FOLDERS = {
    "cs224n": {
        "cfimdb": (["ids-cfimdb-train.csv"], ["ids-cfimdb-dev.csv"], None, "unit_linear", "cross_entropy"),
        "sst": (
            ["ids-sst-train.csv"],
            ["ids-sst-dev.csv"],
            None,
            "unit_linear",
            "cross_entropy supervised_contrastive",
        ),
        "quora": (["quora-train.csv"], ["quora-dev.csv"], None, "comparison", "binary_cross_entropy"),
        "sst_phrases": (["sst-phrases.csv"], 0.1, None, "unit_linear", "cross_entropy supervised_contrastive"),
        "sts": (["sts-train.csv"], ["sts-dev.csv"], None, "comparison", "mse"),
    },
    "nli": {
        "sick": (["sick-train.csv[train]"], ["sick-train.csv[trial]"], ["sick-test.csv"], "comparison", "mse"),
        "snli": (["snli-dev.csv"], 0.1, ["snli-test.csv"], "joined", "cross_entropy"),
        "triplets": (["triplets.csv"], 0.1, None, "nearer", "simcse_supervised"),
    },
    "pairs": {
        "mrpc": (
            ["mrpc-train.csv[train]"],
            ["mrpc-train.csv[val]"],
            ["mrpc-test.csv"],
            "comparison",
            "binary_cross_entropy",
        )
    },
    "senteval": {
        "cr": (["cr.csv"], 0.2, None, "unit_linear", "cross_entropy"),
        "imdb_10k": (["imdb-10k.csv"], 0.1, None, "unit_linear", "cross_entropy"),
        "mpqa": (["mpqa.csv"], 0.1, None, "unit_linear", "cross_entropy"),
        "mr": (["mr.csv"], 0.1, None, "unit_linear", "cross_entropy"),
        "sst2": (["sst2.csv"], 0.1, None, "unit_linear", "cross_entropy"),
        "subj": (["subj.csv"], 0.1, None, "unit_linear", "cross_entropy"),
        "trec": (["trec.csv[train]"], 0.1, ["trec.csv[test]"], "unit_linear", "cross_entropy supervised_contrastive"),
    },
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_real_folders_become_the_expected_tasks(real_data, folder):
    draft = draft_recipe(data_files([real_data / folder]))

    def shown(given):
        if given is None or isinstance(given, float):
            return given
        return [Path(s.file).name + "".join(f"[{value}]" for value in s.where.values()) for s in given]

    tasks = {
        task.name: (
            *(shown(task.splits.get(split)) for split in ("train", "dev", "test")),
            task.head,
            " ".join(task.losses),
        )
        for task in draft.tasks
    }
    assert tasks == FOLDERS[folder]
    assert list(tasks) == list(FOLDERS[folder])


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name != "senteval"])
def test_the_recipe_for_a_real_folder_is_read_back(real_data, tmp_path, folder):
    draft = draft_recipe(data_files([real_data / folder]))
    assert write_draft(draft, tmp_path / "recipe.yaml", "minilm") == 0
    recipe = read_recipe(tmp_path / "recipe.yaml", VARIANTS, profile="quick")
    assert list(recipe.tasks) == list(FOLDERS[folder])
    assert (recipe.rows, recipe.dev_rows, recipe.epochs) == (500, 200, 2)


@pytest.mark.parametrize(
    ("classes", "rows", "losses", "epochs"),
    [
        ("ab", 64, ["cross_entropy"], 15),
        ("abc", 64, ["cross_entropy", "supervised_contrastive"], 30),
        ("abc", 96, ["cross_entropy", "supervised_contrastive"], 20),
        ("abc", 480, ["cross_entropy", "supervised_contrastive"], 5),
        ("ab", 480, ["cross_entropy"], 5),
    ],
)
def test_more_than_two_classes_are_drawn_apart_in_enough_updates(tmp_path, classes, rows, losses, epochs):
    labelled = [[text, classes[n % len(classes)]] for n, text in enumerate(texts(rows))]
    _, recipe = draft_of(tmp_path, {"topic.csv": (["text", "topic"], labelled)})
    assert [loss.name for loss in recipe.tasks["topic"].loss] == losses
    assert [loss.weight for loss in recipe.tasks["topic"].loss] == [1, 0.5][: len(losses)]
    assert recipe.epochs == epochs


def test_files_are_grouped_by_task(tmp_path):
    one = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    two = [[text, "xyz"[n % 3]] for n, text in enumerate(texts(seed=4))]
    files = {
        "mood_train.csv": (["text", "label"], one),
        "mood_valid.csv": (["text", "label"], one[:8]),
        "mood_test.csv": (["text", "label"], one[8:16]),
        "topic.train.csv": (["text", "topic"], two),
    }
    draft, recipe = draft_of(tmp_path, files)
    assert {name: (len(task.train), task.dev, len(task.test)) for name, task in recipe.tasks.items()} == {
        "mood": (1, recipe.tasks["mood"].dev, 1),
        "topic": (1, 0.2, 0),
    }
    assert [Path(source.file).name for source in recipe.tasks["mood"].dev] == ["mood_valid.csv"]
    assert draft.schedule == "together"


def test_a_task_is_named_after_its_label_if_files_are_named_after_splits(tmp_path):
    rows = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    _, recipe = draft_of(tmp_path, {"train.csv": (["text", "mood"], rows), "dev.csv": (["text", "mood"], rows[:9])})
    assert list(recipe.tasks) == ["mood"]


def test_tasks_of_different_size_are_sampled_by_temperature(tmp_path):
    large = [[text, "ab"[n % 2]] for n, text in enumerate(texts(200))]
    small = [[text, "ab"[n % 2]] for n, text in enumerate(texts(40, 5))]
    draft, _ = draft_of(tmp_path, {"large.csv": (["text", "label"], large), "small.csv": (["text", "label"], small)})
    assert draft.schedule == "{name: sampled, by: temperature}"


def test_rows_that_name_no_split_are_not_used_and_noted(tmp_path):
    splits = ["train", "train", "dev", ""]
    rows = [[text, "ab"[n % 2], splits[n // 2 % 4]] for n, text in enumerate(texts())]
    draft, _ = draft_of(tmp_path, {"a.csv": (["text", "label", "split"], rows)})
    assert draft.tasks[0].rows == {"train": 20, "dev": 10}
    assert draft.tasks[0].notes == ["10 rows of a.csv name no split and are not used"]


def test_without_a_training_file_another_is_trained_on_and_noted(tmp_path):
    rows = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    draft, _ = draft_of(tmp_path, {"a-dev.csv": (["text", "label"], rows)})
    assert draft.tasks[0].notes == [
        "no training file given; training on a-dev.csv",
        "no dev data; holding out 20% of train, with no text in both; to use a file, set dev: FILE",
    ]


def test_gzip_and_tsv_files_are_read(tmp_path):
    lines = ["text\tlabel", *(f"{text}\t{'ab'[n % 2]}" for n, text in enumerate(texts()))]
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    draft = draft_recipe([tmp_path / "a.tsv.gz"])
    assert (draft.tasks[0].name, draft.tasks[0].guess.kind, draft.tasks[0].rows) == ("a", "classes", {"train": 40})


def test_files_without_text_or_rows_are_not_used(tmp_path):
    rows = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    write_csv(tmp_path / "a.csv", ["text", "label"], rows)
    write_csv(tmp_path / "numbers.csv", ["x", "y"], [[n, n % 2] for n in range(30)])
    write_csv(tmp_path / "empty.csv", ["text", "label"], [])
    draft = draft_recipe(data_files([tmp_path]))
    assert {Path(file).name: why for file, why in draft.unused.items()} == {
        "empty.csv": "it has no rows",
        "numbers.csv": "it has no text column; name it with --text",
    }


def test_nothing_to_train_on_is_reported_with_every_reason(tmp_path):
    write_csv(tmp_path / "numbers.csv", ["x", "y"], [[n, n % 2] for n in range(30)])
    with pytest.raises(DataError) as caught:
        draft_recipe([tmp_path / "numbers.csv"])
    assert caught.value.mistakes == (
        f"{tmp_path}/numbers.csv: it has no text column; name it with --text",
        "none of the files can be trained on",
    )


def test_all_missing_files_are_reported_together(tmp_path):
    with pytest.raises(RequestError) as caught:
        data_files([tmp_path / "a.csv", Path("hub:owner/name")])
    assert caught.value.mistakes == (
        f"{tmp_path}/a.csv: no such file or folder; check the path",
        "hub:owner/name: init reads only local files; download the dataset, or write a recipe that names it",
    )


# ---------------------------------------------------------------- folders

ROWS = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
TABLE = "plain text; if it is a table, rename it to .csv, or to .tsv if its columns are separated by tabs"
EMPTY = "line 1: the file is empty; add a header line with the column names"


def write_folder(folder: Path) -> None:
    """One good file among others that cannot be used."""
    write_csv(folder / "good.csv", ["text", "label"], ROWS)
    (folder / "empty.csv").write_text("")
    (folder / "cut.csv.gz").write_bytes(gzip.compress(b"text,label\n" * 99)[:20])
    (folder / "notes.txt").write_text("call Ann")
    (folder / "old.zip").write_bytes(b"PK")
    (folder / "page.html").write_text("<p>")
    (folder / ".hidden").write_text("")
    (folder / "gone.csv").symlink_to(folder / "nowhere.csv")
    (folder / "more").mkdir()
    write_csv(folder / "more" / "second.csv", ["text", "mood"], ROWS)
    (folder / "runs").mkdir()
    (folder / "runs" / "run.json").write_text("{}")


def unused_by_name(folder: Path, **options: bool) -> dict[str, str]:
    draft = draft_recipe(data_files([folder], **options))
    return {str(Path(file).relative_to(folder)): why for file, why in draft.unused.items()}


def test_every_file_of_a_folder_that_is_not_used_is_listed_with_the_reason(tmp_path):
    write_folder(tmp_path)
    found = unused_by_name(tmp_path)
    assert found.pop("page.html").startswith("not a data file; plait reads .csv, ")
    assert found == {
        "empty.csv": EMPTY,
        "cut.csv.gz": "the gzip data is corrupt or truncated; replace the file with an intact one",
        "notes.txt": TABLE,
        "old.zip": "an archive; unpack it",
        "gone.csv": "not a regular file, or a broken link",
        "more": "a sub-folder; --recursive goes into it",
        "runs": "a run or a model of plait",
    }


def test_sub_folders_are_read_on_request(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "more" / "circle").symlink_to(tmp_path)
    draft = draft_recipe(data_files([tmp_path], recursive=True))
    assert [task.name for task in draft.tasks] == ["good", "second"]
    assert str(tmp_path / "more") not in draft.unused


def test_a_folder_with_nothing_usable_is_refused_with_every_reason(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(DataError) as caught:
        draft_recipe(data_files([tmp_path]))
    assert caught.value.mistakes == (
        f"{tmp_path}/empty.csv: {EMPTY}",
        f"{tmp_path}/notes.txt: {TABLE}",
        "none of the files can be trained on",
    )
    (tmp_path / "empty.csv").unlink()
    with pytest.raises(RequestError) as refused:
        data_files([tmp_path])
    assert refused.value.mistakes[0] == f"{tmp_path}/notes.txt: {TABLE}"
    assert refused.value.mistakes[1].startswith(f"{tmp_path}: contains no data files; plait reads .csv, ")


def test_files_with_the_same_reason_share_a_sentence():
    assert unused_sentences({"a": "x", "b": "y", "c": "x"}) == ["a, c are not used: x", "b is not used: y"]
    many = {str(number): "x" for number in range(9)}
    assert unused_sentences(many) == ["0, 1, 2, 3, 4 and 4 more are not used: x"]


def test_unused_files_are_comments_of_the_recipe(tmp_path):
    write_folder(tmp_path)
    write_draft(draft_recipe(data_files([tmp_path])), tmp_path / "recipe.yaml", "minilm")
    lines = (tmp_path / "recipe.yaml").read_text().splitlines()
    assert f"# empty.csv is not used: {EMPTY}" in lines
    assert "# more/ is not used: a sub-folder; --recursive goes into it" in lines


def test_a_file_whose_rows_an_open_quote_has_swallowed_is_left_out(tmp_path):
    good = tmp_path / "good.csv"
    write_csv(good, ["text", "label"], [(f"some words {number}", "ab"[number % 2]) for number in range(20)])
    broken = tmp_path / "broken.csv"
    broken.write_text('text,label\nfine,1\n"open quote,0\nmore,1\n', encoding="utf-8")
    draft = draft_recipe([good, broken])
    assert [task.name for task in draft.tasks] == ["good"]
    assert draft.unused[str(broken)].startswith(
        "its valid rows have only one label: broken.csv:3: the quote that opens"
    )
