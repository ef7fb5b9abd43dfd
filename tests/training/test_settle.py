"""A recipe and its data settled: kinds, defaults, mistakes that only the data shows, class weights, drawn rows."""

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest

from plait.data.batch import READS
from plait.errors import PlaitError
from plait.heads import HEADS
from plait.recipe.read import read_recipe, recipe_from
from plait.recipe.tree import Tree
from plait.training.settle import Settled, TaskData, settle, settle_recipe
from plait.training.tables import TABLES

LABELS = {
    "classes": ["low", "high", "mid"],
    "yes_no": ["0", "1", "1"],
    "score": ["0.5", "4.5", "2"],
}


def write(path: Path, labels: list[str]) -> None:
    rows = [f"first {number},second {number},{label}\n" for number, label in enumerate(labels)]
    path.write_text("one,two,label\n" + "".join(rows))


def settle_one(
    folder: Path, labels: list[str], texts: int = 2, limit: int = 40, top: dict | None = None, **task
) -> Settled:
    """A recipe of one task `it` on these training labels, settled."""
    write(folder / "train.csv", labels)
    keys = {"train": str(folder / "train.csv"), "text": ["one", "two"][:texts], "label": "label", **task}
    return settle(recipe_from(Tree({"encoder": "tiny", "tasks": {"it": keys}, **(top or {})}), TABLES), limit)


def task_of(folder: Path, labels: list[str], texts: int = 2, **task) -> TaskData:
    return settle_one(folder, labels, texts, **task).tasks["it"]


def mistakes_of(folder: Path, labels: list[str], texts: int = 2, **task) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        settle_one(folder, labels, texts, **task)
    return [mistake.replace(f"{folder}/", "") for mistake in caught.value.mistakes]


def losses(data: TaskData) -> list[str]:
    return [loss.name for loss in data.settings.loss]


# ---------------------------------------------------------------- what the recipe leaves open


@pytest.mark.parametrize(
    ("kind", "texts", "head", "loss", "metric", "link"),
    [
        ("classes", 1, "linear", "cross_entropy", "accuracy", "softmax"),
        ("classes", 2, "joined", "cross_entropy", "accuracy", "softmax"),
        ("yes_no", 1, "linear", "binary_cross_entropy", "accuracy", "sigmoid"),
        ("yes_no", 2, "difference_product", "binary_cross_entropy", "accuracy", "sigmoid"),
        ("score", 1, "linear", "mse", "pearson", "identity"),
        ("score", 2, "cosine", "mse", "pearson", "identity"),
    ],
)
def test_head_loss_and_metric_follow_from_the_kind_of_label(tmp_path, kind, texts, head, loss, metric, link):
    data = task_of(tmp_path, LABELS[kind], texts, label={"column": "label", "kind": kind})
    assert data.spec.labels.kind == kind
    assert (data.spec.head, losses(data), data.spec.metric, data.spec.link) == (head, [loss], metric, link)


@pytest.mark.parametrize(("texts", "kind"), [(1, "classes"), (2, "yes_no")])
def test_zeros_and_ones_are_classes_of_one_text_and_yes_or_no_of_two(tmp_path, texts, kind):
    assert task_of(tmp_path, ["0", "1"], texts).spec.labels.kind == kind


@pytest.mark.parametrize(
    ("loss", "labels", "kind", "outputs", "link"),
    [
        ("cross_entropy", ["0", "1"], "classes", 2, "softmax"),
        ("cross_entropy", ["0", "1", "5"], "classes", 3, "softmax"),
        ("binary_cross_entropy", ["0", "1"], "yes_no", 1, "sigmoid"),
        ("binary_cross_entropy", ["a", "b", "c"], "classes", 3, "one_vs_rest"),
        ({"name": "binary_cross_entropy", "threshold": 3}, ["0.5", "4"], "score", 1, "scaled_sigmoid"),
        ({"name": "binary_cross_entropy", "threshold": 3}, ["0", "4", "5"], "score", 1, "scaled_sigmoid"),
        ({"name": "binary_cross_entropy", "threshold": 0.5}, ["0", "1"], "score", 1, "scaled_sigmoid"),
        ("mse", ["0", "1"], "score", 1, "identity"),
        (["mse", {"name": "binary_cross_entropy", "threshold": 3}], ["0", "5"], "score", 1, "identity"),
    ],
)
def test_the_loss_decides_the_kind_of_label(tmp_path, loss, labels, kind, outputs, link):
    spec = task_of(tmp_path, labels, loss=loss).spec
    assert (spec.labels.kind, spec.labels.outputs, spec.link) == (kind, outputs, link)


def test_what_the_recipe_says_of_the_label_wins_over_the_look_of_its_values(tmp_path):
    labels = task_of(tmp_path, ["0", "1"], label={"column": "label", "range": [0, 5]}).spec.labels
    assert (labels.kind, labels.low, labels.high) == ("score", 0.0, 5.0)
    labels = task_of(tmp_path, ["spam", "ham"], 1, label={"column": "label", "positive": "spam"}).spec.labels
    assert (labels.kind, labels.classes) == ("yes_no", ("ham", "spam"))
    labels = task_of(tmp_path, ["0", "2"], label={"column": "label", "classes": {2: "good", 0: "bad"}}).spec.labels
    assert (labels.kind, labels.classes, labels.names) == ("classes", ("2", "0"), ("good", "bad"))


@pytest.mark.parametrize("kind", LABELS)
def test_a_settled_recipe_leaves_nothing_open(tmp_path, kind):
    settled = settle_one(tmp_path, LABELS[kind], top={"batch_size": 5, "lr": 1e-3})
    task = settled.recipe.tasks["it"]
    assert None not in (task.head, task.loss, task.metric, task.batch_size, task.label.kind)
    assert task == settled.tasks["it"].settings
    assert (task.batch_size, settled.recipe.epochs, settled.recipe.head_lr) == (5, 3, 1e-3)
    assert (task.label.classes is not None, task.label.range is not None) == (kind == "classes", kind == "score")


def test_what_is_given_is_kept(tmp_path):
    settled = settle_one(
        tmp_path,
        LABELS["score"],
        top={"steps": 7, "lr": 1e-3, "head_lr": 1e-2},
        head="concat",
        metric="spearman",
        batch_size=2,
        label={"column": "label", "range": [0, 5]},
    )
    task = settled.recipe.tasks["it"]
    assert (task.head.name, task.metric, task.batch_size, task.label.range) == ("concat", "spearman", 2, (0.0, 5.0))
    assert (settled.recipe.epochs, settled.recipe.steps, settled.recipe.head_lr) == (None, 7, 1e-2)


@pytest.mark.parametrize(("given", "length"), [(None, 40), (12, 12), (40, 40)])
def test_the_maximum_length_is_the_encoders_unless_given(tmp_path, given, length):
    assert task_of(tmp_path, LABELS["score"], max_length=given).spec.max_length == length


# ---------------------------------------------------------------- mistakes that only the data shows

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
        settle(read_recipe(tmp_path / "recipe.yaml", TABLES), limit=40)
    return [mistake.replace(f"{tmp_path}/", "") for mistake in caught.value.mistakes]


def test_every_mistake_that_the_data_shows_comes_at_once_with_its_line(broken):
    of_pairs = [name for name, head in HEADS.items() if READS[head.reads] == 2 and "yes_no" in head.kinds]
    assert broken == [
        f"recipe.yaml:7: tasks.same.head: cosine cannot predict yes_no labels; fitting: {', '.join(of_pairs)}",
        "recipe.yaml:8: tasks.same.metric: pearson is not for yes_no labels; allowed: accuracy, f1, macro_f1, roc_auc",
        "recipe.yaml:13: tasks.mood.loss: mse cannot learn from classes labels; "
        "fitting: cross_entropy, binary_cross_entropy",
        "recipe.yaml:14: tasks.mood.class_weights: expected a weight for each of high, low, mid",
        "recipe.yaml:19: tasks.near.loss: scores need threshold, the score from which an example counts as yes",
        "recipe.yaml:20: tasks.near.metric: f1 is not for score labels; allowed: pearson, spearman",
        "recipe.yaml:21: tasks.near.class_weights: class_weights and label_smoothing are for classes and yes/no, "
        "not for scores",
        "recipe.yaml:26: tasks.sure.loss: yes_no labels take no threshold, the score from which an example counts "
        "as yes",
        "recipe.yaml:32: tasks.flat.label: the scores do not vary; give their range, such as range: [0, 5]",
        "recipe.yaml:38: tasks.torn.metric: spearman is not for classes labels; allowed: accuracy, macro_f1, roc_auc",
        "torn.csv:4: the text in column 'one' is empty",
        "torn.csv:5: the label is empty",
        "mood.csv:4: the label 'mid' is not one of the classes of the training data: high, low",
    ]


def test_behind_a_shared_layer_a_score_gets_a_head_that_may_stand_there(tmp_path):
    assert task_of(tmp_path, LABELS["score"]).spec.head == "cosine"
    assert task_of(tmp_path, LABELS["score"], top={"shared_layer": "tanh"}).spec.head == "difference_product"


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ({"best_by": "it"}, "best_by: the task 'it' has no dev data to judge by"),
        ({"early_stopping": 2}, "early_stopping: needs dev data, and no task has any"),
    ],
)
def test_what_dev_data_must_decide_is_refused_without_any(tmp_path, top, message):
    assert mistakes_of(tmp_path, LABELS["score"], top=top) == [message]


def test_an_area_under_a_curve_needs_both_classes_in_dev(tmp_path):
    write(tmp_path / "dev.csv", ["1", "1"])
    keys = {"metric": "roc_auc", "dev": str(tmp_path / "dev.csv")}
    (found,) = mistakes_of(tmp_path, ["0", "1", "1"], **keys)
    assert found == "tasks.it.metric: roc_auc needs two classes in dev, which has one"


def test_the_rows_of_the_recipe_are_those_of_every_task_that_names_none(tmp_path):
    assert len(task_of(tmp_path, ["0", "1"] * 20, top={"rows": 7}).train) == 7
    assert len(task_of(tmp_path, ["0", "1"] * 20, top={"rows": 7}, rows=9).train) == 9


def test_files_of_one_name_are_counted_apart(tmp_path):
    for name, labels in (("x", ["0", "1", "1"]), ("y", ["0", "1"])):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "train.csv", labels)
    files = [str(tmp_path / name / "train.csv") for name in ("x", "y")]
    found = settle_one(tmp_path, ["0"], train=files).fingerprints["it"]["train"]
    assert [file["rows"] for file in found] == [3, 2]


@pytest.mark.parametrize("name", ["keys", "training", "mean", "longest", "a.b"])
def test_a_name_that_a_task_cannot_have_is_refused(tmp_path, name):
    write(tmp_path / "train.csv", ["0", "1"])
    task = {"train": str(tmp_path / "train.csv"), "text": ["one", "two"], "label": "label"}
    with pytest.raises(PlaitError, match="cannot be the name of a task; choose another"):
        settle(recipe_from(Tree({"encoder": "tiny", "tasks": {name: task}}), TABLES), 40)


def test_label_smoothing_of_scores_is_refused_at_its_own_line(tmp_path):
    write(tmp_path / "near.csv", LABELS["score"])
    task = "    train: near.csv\n    text: [one, two]\n    label: label\n    label_smoothing: 0.1\n"
    (tmp_path / "recipe.yaml").write_text("encoder: tiny\ntasks:\n  near:\n" + task)
    with pytest.raises(PlaitError) as caught:
        settle(read_recipe(tmp_path / "recipe.yaml", TABLES), limit=40)
    (found,) = caught.value.mistakes
    assert found.startswith(f"{tmp_path}/recipe.yaml:7: tasks.near.label_smoothing: ")


def test_words_where_the_loss_needs_scores_are_bad_rows(tmp_path):
    found = mistakes_of(tmp_path, LABELS["classes"], loss="mse")
    assert found == [
        f"train.csv:{row + 2}: the label {word!r} is not a number" for row, word in enumerate(LABELS["classes"])
    ]


def test_losses_that_no_kind_of_label_suits_are_refused(tmp_path):
    (found,) = mistakes_of(tmp_path, LABELS["score"], loss=["cross_entropy", "mse"])
    assert found == "tasks.it.loss: cross_entropy cannot learn from score labels; fitting: binary_cross_entropy, mse"


@pytest.mark.parametrize("kind", ["classes", "yes_no"])
def test_a_threshold_is_for_scores_only(tmp_path, kind):
    loss = {"name": "binary_cross_entropy", "threshold": 2}
    (found,) = mistakes_of(tmp_path, LABELS[kind], loss=loss, label={"column": "label", "kind": kind})
    assert found == f"tasks.it.loss: {kind} labels take no threshold, the score from which an example counts as yes"


def test_a_threshold_outside_the_range_of_the_scores_is_refused(tmp_path):  # all examples would count alike
    for threshold in (-1, 7):
        loss = {"name": "binary_cross_entropy", "threshold": threshold}
        (found,) = mistakes_of(tmp_path, LABELS["score"], loss=loss, label={"column": "label", "range": [0, 5]})
        assert found.startswith("tasks.it.loss: ")


def test_a_class_that_only_dev_has_is_an_error(tmp_path):
    write(tmp_path / "dev.csv", ["low", "other"])
    assert mistakes_of(tmp_path, LABELS["classes"], 1, dev=str(tmp_path / "dev.csv")) == [
        "dev.csv:3: the label 'other' is not one of the classes of the training data: high, low, mid"
    ]


def test_training_data_without_rows_is_refused(tmp_path):
    assert mistakes_of(tmp_path, []) == ["tasks.it.train: the training data has no rows"]


def test_a_dev_file_without_rows_is_refused(tmp_path):  # or the run would have no scores and nobody would know why
    write(tmp_path / "dev.csv", [])
    (found,) = mistakes_of(tmp_path, LABELS["score"], dev=str(tmp_path / "dev.csv"))
    assert found.startswith("tasks.it.dev: ")


def test_files_of_every_split_are_checked_at_once(tmp_path):
    (tmp_path / "dev.csv").write_text("one,two,lable\na,b,1\n")
    (tmp_path / "test.csv").write_text("one,two,label\na,b\n")
    files = {split: str(tmp_path / f"{split}.csv") for split in ("dev", "test")}
    assert mistakes_of(tmp_path, LABELS["score"], **files) == [
        "dev.csv:1: no column 'label'; did you mean 'lable'?",
        "test.csv:2: 2 fields where the header has 3",
    ]


# ---------------------------------------------------------------- class weights


def test_balanced_classes_weigh_1_each(tmp_path):  # identity
    assert task_of(tmp_path, ["a", "b", "b", "a"], 1, class_weights="balanced").class_weights.tolist() == [1.0, 1.0]


def test_balanced_weights_by_hand(tmp_path):
    # 6 rows, 3 classes: a has 3, 6 / (3·3) = 2/3; b has 1, 6 / (3·1) = 2; c has 2, 6 / (3·2) = 1
    weights = task_of(tmp_path, list("abacca"), 1, class_weights="balanced").class_weights
    np.testing.assert_allclose(weights, [2 / 3, 2, 1], rtol=1e-6)  # float32


def test_balanced_weights_make_every_class_count_alike(tmp_path):  # property
    for seed in range(20):
        generator = random.Random(seed)
        labels = [*"abcd", *generator.choices("abcd", [1, 2, 5, 20], k=40)]
        data = task_of(tmp_path, labels, 1, class_weights="balanced")
        shares = np.bincount(data.train.labels, weights=data.class_weights[data.train.labels])
        np.testing.assert_allclose(shares, len(labels) / 4, rtol=1e-5, err_msg=f"seed {seed}")  # sums of float32


def test_given_weights_stand_in_the_order_of_the_classes(tmp_path):
    assert task_of(tmp_path, ["10", "9"], 1, class_weights={10: 2, 9: 0.5}).class_weights.tolist() == [0.5, 2.0]
    yes_no = task_of(tmp_path, ["no", "yes", "no", "no"], 2, class_weights="balanced").class_weights
    np.testing.assert_allclose(yes_no, [4 / (2 * 3), 4 / (2 * 1)], rtol=1e-6)  # (no, yes)
    assert task_of(tmp_path, ["a", "b"], 1).class_weights is None


# ---------------------------------------------------------------- rows


def drawn(folder: Path, rows: int, seed: int = 1, name: str = "it") -> list[str]:
    write(folder / "train.csv", [str(number) for number in range(50)])
    task = {"train": str(folder / "train.csv"), "text": "one", "label": "label", "rows": rows}
    label = {"column": "label", "range": [0, 50]}
    tree = Tree({"encoder": "tiny", "seed": seed, "tasks": {name: {**task, "label": label}}})
    return settle(recipe_from(tree, TABLES), 40).tasks[name].train.origins


def test_rows_draws_so_many_rows_by_the_seed_and_the_task_in_their_old_order(tmp_path):
    whole = drawn(tmp_path, 50)
    some = drawn(tmp_path, 10)
    assert some == drawn(tmp_path, 10)
    assert len(set(some)) == 10
    assert some == [origin for origin in whole if origin in set(some)]
    assert some != whole[:10]
    assert len({tuple(some), tuple(drawn(tmp_path, 10, seed=2)), tuple(drawn(tmp_path, 10, name="other"))}) == 3


def test_rows_beyond_what_there_is_means_all(tmp_path):
    assert drawn(tmp_path, 50) == drawn(tmp_path, 1_000) == [f"train.csv:{line}" for line in range(2, 52)]


def test_every_row_is_drawn_about_equally_often(tmp_path):
    # 10 of 50 rows in 100 draws: each row 20 times on average, standard deviation √(100·0.2·0.8) = 4; 5 of them apart
    counts = dict.fromkeys(drawn(tmp_path, 50), 0)
    for seed in range(100):
        for origin in drawn(tmp_path, 10, seed=seed):
            counts[origin] += 1
    assert all(abs(count - 20) <= 20 for count in counts.values()), counts


def test_rows_cut_only_the_training_data(tmp_path):
    write(tmp_path / "dev.csv", LABELS["score"])
    data = task_of(tmp_path, LABELS["score"], rows=2, dev=str(tmp_path / "dev.csv"))
    assert (len(data.train), len(data.splits["dev"])) == (2, 3)
    assert (data.spec.labels.low, data.spec.labels.high) == (0.5, 4.5)  # the range is that of all rows


def test_rows_of_dev_are_the_same_with_every_seed(tmp_path):
    write(tmp_path / "dev.csv", LABELS["score"] * 5)
    cut = [
        task_of(tmp_path, LABELS["score"] * 5, rows=4, dev_rows=4, dev=str(tmp_path / "dev.csv"), top={"seed": seed})
        for seed in (1, 2)
    ]
    assert cut[0].splits["dev"].origins == cut[1].splits["dev"].origins
    assert cut[0].train.origins != cut[1].train.origins


# ---------------------------------------------------------------- fingerprints


def test_fingerprints_name_each_file_with_its_sha256_and_its_rows(tmp_path):
    write(tmp_path / "more.csv", LABELS["score"][:2])
    settled = settle_one(tmp_path, LABELS["score"], train=[str(tmp_path / "train.csv"), str(tmp_path / "more.csv")])
    found = settled.fingerprints["it"]["train"]
    assert [entry["name"] for entry in found] == ["train.csv", "more.csv"]
    for entry in found:
        assert entry["sha256"] == hashlib.sha256((tmp_path / entry["name"]).read_bytes()).hexdigest()
    assert [entry["rows"] for entry in found] == [3, 2]


def test_a_class_that_only_dev_has_is_refused_though_it_was_given(tmp_path):
    write(tmp_path / "dev.csv", ["1", "3"])
    label = {"column": "label", "classes": {"1": "a", "2": "b", "3": "c"}}
    (found,) = mistakes_of(tmp_path, ["1", "2"], label=label, dev=str(tmp_path / "dev.csv"))
    assert found == "dev.csv:3: the class '3' is in dev and not in train"


def test_training_data_of_one_answer_is_refused(tmp_path):
    (found,) = mistakes_of(tmp_path, ["1", "1"])
    assert found == "tasks.it.train: every training row is 'yes'; there is nothing to tell apart"


def test_one_bad_cell_does_not_make_a_task_of_another_kind(tmp_path):
    assert mistakes_of(tmp_path, ["0", "1"] * 10 + ["?"]) == [
        "train.csv:22: the label '?' is neither yes (1, true) nor no (0, false)"
    ]
    assert mistakes_of(tmp_path, ["0.5", "1.5"] * 10 + ["n/a"]) == ["train.csv:22: the label 'n/a' is not a number"]


def test_encoder_device_and_data_are_refused_together(tmp_path):
    write(tmp_path / "train.csv", ["0", "1", "?"] * 9)
    text = "encoder: ./nowhere\ndevice: mps\ntasks:\n  it:\n    train: train.csv\n    text: one\n    label: label\n"
    (tmp_path / "recipe.yaml").write_text(text.replace("label: label", "label: {column: label, range: [0, 1]}"))
    with pytest.raises(PlaitError) as caught:
        settle_recipe(read_recipe(tmp_path / "recipe.yaml", TABLES))
    found = [mistake.replace(f"{tmp_path}/", "") for mistake in caught.value.mistakes]
    assert found[0] == "recipe.yaml:1: encoder: ./nowhere: no such directory"
    assert found[1].startswith("recipe.yaml:2: device: device 'mps': this torch finds none")
    assert found[2] == "train.csv:4: the label '?' is not a number"


def test_a_length_that_the_encoder_does_not_have_is_refused(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["same"]["max_length"] = 3  # three special tokens, and no text
    recipe["tasks"]["near"]["max_length"] = 43
    with pytest.raises(PlaitError) as caught:
        settle_recipe(recipe_from(Tree(recipe), TABLES))
    assert list(caught.value.mistakes) == [
        "tasks.same.max_length: expected 4 to 42 tokens for this encoder, found 3",
        "tasks.near.max_length: expected 4 to 42 tokens for this encoder, found 43",
    ]
