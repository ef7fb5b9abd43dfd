"""Mistakes that show once the encoder and the data are known."""

from pathlib import Path

import pytest

from one_task import LABELS, LIMIT, WIDTH, mistakes_of, write
from plait.data.batch import READS
from plait.errors import PlaitError
from plait.heads import HEADS
from plait.recipe.read import read_recipe, recipe_from
from plait.recipe.tree import Tree
from plait.resolve.run import resolve_run, resolve_tasks
from plait.resolve.variants import VARIANTS

BROKEN = """\
encoder: tiny
tasks:
  same:
    train: same.csv
    text: [one, two]
    label: label
    head: cosine
    metric: pearson
  mood:
    train: mood.csv
    text: one
    label: {column: label, kind: classes}
    loss: mse
    class_weights: {low: 1, hihg: 2}
  near:
    train: near.csv
    text: [one, two]
    label: {column: label, range: [0, 5]}
    loss: binary_cross_entropy
    metric: f1
    class_weights: balanced
  sure:
    train: same.csv
    text: [one, two]
    label: {column: label, kind: yes_no}
    loss:
      - name: binary_cross_entropy
        threshold: 2
  flat:
    train: flat.csv
    text: [one, two]
    label: {column: label, kind: score}
  torn:
    train: torn.csv
    dev: mood.csv
    text: one
    label: label
    metric: spearman
"""


@pytest.fixture
def broken(tmp_path: Path) -> list[str]:
    for name, labels in (("same", "yes_no"), ("mood", "classes"), ("near", "score")):
        write(tmp_path / f"{name}.csv", LABELS[labels])
    write(tmp_path / "flat.csv", ["3", "3.0"])
    (tmp_path / "torn.csv").write_text("one,two,label\na,b,low\n\n ,b,high\na,b,\n")
    (tmp_path / "recipe.yaml").write_text(BROKEN)
    with pytest.raises(PlaitError) as caught:
        resolve_tasks(read_recipe(tmp_path / "recipe.yaml", VARIANTS), LIMIT, WIDTH)
    return [mistake.replace(f"{tmp_path}/", "") for mistake in caught.value.mistakes]


def test_every_mistake_in_the_data_is_reported_with_its_line(broken):
    of_pairs = [name for name, head in HEADS.items() if READS[head.reads] == 2 and "yes_no" in head.kinds]
    assert broken == [
        f"recipe.yaml:7: tasks.same.head: cosine cannot predict yes/no labels; suitable: {', '.join(of_pairs)}",
        "recipe.yaml:8: tasks.same.metric: pearson is not for yes/no labels; allowed: accuracy, "
        "balanced_accuracy, f1, macro_f1, roc_auc",
        "recipe.yaml:13: tasks.mood.loss: mse cannot learn from classes; suitable: cross_entropy, binary_cross_entropy",
        "recipe.yaml:14: tasks.mood.class_weights: expected a weight for each of high, low, mid",
        "recipe.yaml:19: tasks.near.loss: scores need a threshold, the score from which an example counts as yes",
        "recipe.yaml:20: tasks.near.metric: f1 is not for scores; allowed: accuracy, pearson, spearman",
        "recipe.yaml:21: tasks.near.class_weights: class_weights and label_smoothing are for classes and yes/no, "
        "not for scores",
        "recipe.yaml:26: tasks.sure.loss: yes_no labels take no threshold, the score from which an example counts "
        "as yes",
        "recipe.yaml:32: tasks.flat.label: the scores do not vary; give their range, such as range: [0, 5]",
        "recipe.yaml:38: tasks.torn.metric: spearman is not for classes; allowed: accuracy, "
        "balanced_accuracy, macro_f1, roc_auc",
        "torn.csv:4: the text in column 'one' is empty",
        "torn.csv:5: the label is empty",
        "mood.csv:4: the label 'mid' is not one of the classes of the training data: high, low",
    ]


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ({"best_by": "it"}, "best_by: the task 'it' has no dev data"),
        ({"early_stopping": 2}, "early_stopping: needs dev data, and no task has any"),
    ],
)
def test_settings_that_need_dev_data_are_refused_without_any(tmp_path, top, message):
    assert mistakes_of(tmp_path, LABELS["score"], top=top) == [message]


def test_roc_auc_needs_both_classes_in_dev(tmp_path):
    write(tmp_path / "dev.csv", ["1", "1"])
    keys = {"metric": "roc_auc", "dev": str(tmp_path / "dev.csv")}
    (found,) = mistakes_of(tmp_path, ["0", "1", "1"], **keys)
    assert found == "tasks.it.metric: roc_auc needs two classes in dev, which has one"


@pytest.mark.parametrize("name", ["keys", "training", "mean", "longest", "a.b"])
def test_a_reserved_task_name_is_refused(tmp_path, name):
    write(tmp_path / "train.csv", ["0", "1"])
    task = {"train": str(tmp_path / "train.csv"), "text": ["one", "two"], "label": "label"}
    with pytest.raises(PlaitError, match="cannot be the name of a task; choose another"):
        resolve_tasks(recipe_from(Tree({"encoder": "tiny", "tasks": {name: task}}), VARIANTS), LIMIT, WIDTH)


def test_label_smoothing_for_scores_is_refused_with_its_line(tmp_path):
    write(tmp_path / "near.csv", LABELS["score"])
    task = "    train: near.csv\n    text: [one, two]\n    label: label\n    label_smoothing: 0.1\n"
    (tmp_path / "recipe.yaml").write_text("encoder: tiny\ntasks:\n  near:\n" + task)
    with pytest.raises(PlaitError) as caught:
        resolve_tasks(read_recipe(tmp_path / "recipe.yaml", VARIANTS), LIMIT, WIDTH)
    (found,) = caught.value.mistakes
    assert found.startswith(f"{tmp_path}/recipe.yaml:7: tasks.near.label_smoothing: ")


def test_words_are_bad_rows_if_the_loss_needs_scores(tmp_path):
    found = mistakes_of(tmp_path, LABELS["classes"], loss="mse")
    assert found == [
        f"train.csv:{row + 2}: the label {word!r} is not a number" for row, word in enumerate(LABELS["classes"])
    ]


def test_losses_for_different_kinds_of_label_are_refused(tmp_path):
    (found,) = mistakes_of(tmp_path, LABELS["score"], loss=["cross_entropy", "mse"])
    assert found == "tasks.it.loss: cross_entropy cannot learn from scores; suitable: binary_cross_entropy, mse"


@pytest.mark.parametrize("kind", ["classes", "yes_no"])
def test_a_threshold_is_for_scores_only(tmp_path, kind):
    loss = {"name": "binary_cross_entropy", "threshold": 2}
    (found,) = mistakes_of(tmp_path, LABELS[kind], loss=loss, label={"column": "label", "kind": kind})
    assert found == f"tasks.it.loss: {kind} labels take no threshold, the score from which an example counts as yes"


def test_a_threshold_outside_the_range_of_the_scores_is_refused(tmp_path):  # all examples would count the same
    for threshold in (-1, 7):
        loss = {"name": "binary_cross_entropy", "threshold": threshold}
        (found,) = mistakes_of(tmp_path, LABELS["score"], loss=loss, label={"column": "label", "range": [0, 5]})
        assert found.startswith("tasks.it.loss: ")


def test_a_class_that_occurs_only_in_dev_is_a_bad_row(tmp_path):
    write(tmp_path / "dev.csv", ["low", "other"])
    assert mistakes_of(tmp_path, LABELS["classes"], 1, dev=str(tmp_path / "dev.csv")) == [
        "dev.csv:3: the label 'other' is not one of the classes of the training data: high, low, mid"
    ]


def test_training_data_without_rows_is_refused(tmp_path):
    assert mistakes_of(tmp_path, []) == ["tasks.it.train: the training data has no rows"]


def test_a_dev_file_without_rows_is_refused(tmp_path):  # or the run would silently have no scores
    write(tmp_path / "dev.csv", [])
    (found,) = mistakes_of(tmp_path, LABELS["score"], dev=str(tmp_path / "dev.csv"))
    assert found.startswith("tasks.it.dev: ")


def test_mistakes_in_the_files_of_all_splits_are_reported_together(tmp_path):
    (tmp_path / "dev.csv").write_text("one,two,lable\na,b,1\n")
    (tmp_path / "test.csv").write_text("one,two,label\na,b\n")
    files = {split: str(tmp_path / f"{split}.csv") for split in ("dev", "test")}
    assert mistakes_of(tmp_path, LABELS["score"], **files) == [
        "dev.csv:1: no column 'label'; did you mean 'lable'?",
        "test.csv:2: 2 fields, but the header has 3; complete or remove the row",
    ]


def test_a_listed_class_that_occurs_only_in_dev_is_refused(tmp_path):
    write(tmp_path / "dev.csv", ["1", "3"])
    label = {"column": "label", "classes": {"1": "a", "2": "b", "3": "c"}}
    (found,) = mistakes_of(tmp_path, ["1", "2"], label=label, dev=str(tmp_path / "dev.csv"))
    assert found == "dev.csv:3: the class '3' occurs in dev but not in train"


def test_training_data_with_a_single_class_is_refused(tmp_path):
    (found,) = mistakes_of(tmp_path, ["1", "1"])
    assert found == "tasks.it.train: every training row is 'yes'; there is nothing to learn"


def test_one_bad_cell_does_not_change_the_kind_of_label(tmp_path):
    assert mistakes_of(tmp_path, ["0", "1"] * 10 + ["?"]) == [
        "train.csv:22: the label '?' is neither yes (1, true) nor no (0, false)"
    ]
    assert mistakes_of(tmp_path, ["0.5", "1.5"] * 10 + ["n/a"]) == ["train.csv:22: the label 'n/a' is not a number"]


def test_mistakes_about_encoder_device_and_data_are_reported_together(tmp_path):
    write(tmp_path / "train.csv", ["0", "1", "?"] * 9)
    text = "encoder: ./nowhere\ndevice: mps\ntasks:\n  it:\n    train: train.csv\n    text: one\n    label: label\n"
    (tmp_path / "recipe.yaml").write_text(text.replace("label: label", "label: {column: label, range: [0, 1]}"))
    with pytest.raises(PlaitError) as caught:
        resolve_run(read_recipe(tmp_path / "recipe.yaml", VARIANTS))
    found = [mistake.replace(f"{tmp_path}/", "") for mistake in caught.value.mistakes]
    assert found[0] == "recipe.yaml:1: encoder: ./nowhere: no such directory"
    assert found[1].startswith("recipe.yaml:2: device: device 'mps': torch finds none")
    assert found[2] == "train.csv:4: the label '?' is not a number"


def test_a_length_that_the_encoder_cannot_read_is_refused(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["same"]["max_length"] = 3  # three special tokens, and no text
    recipe["tasks"]["near"]["max_length"] = 43
    with pytest.raises(PlaitError) as caught:
        resolve_run(recipe_from(Tree(recipe), VARIANTS))
    assert list(caught.value.mistakes) == [
        "tasks.same.max_length: expected 4 to 42 tokens for this encoder, found 3",
        "tasks.near.max_length: expected 4 to 42 tokens for this encoder, found 43",
    ]
