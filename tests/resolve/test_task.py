"""A task with its data: kind of label, defaults, class weights, drawn rows, fingerprints."""

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest

from one_task import LABELS, LIMIT, WIDTH, losses, mistakes_of, resolve_one, task_of, write
from plait.recipe.read import recipe_from
from plait.recipe.tree import Tree
from plait.resolve.run import resolve_tasks
from plait.resolve.variants import VARIANTS

# ---------------------------------------------------------------- defaults


@pytest.mark.parametrize(
    ("kind", "texts", "random_head", "loss", "metric", "link"),
    [
        ("classes", 1, "linear", "cross_entropy", "accuracy", "softmax"),
        ("classes", 2, "joined", "cross_entropy", "accuracy", "softmax"),
        ("yes_no", 1, "linear", "binary_cross_entropy", "accuracy", "sigmoid"),
        ("yes_no", 2, "difference_product", "binary_cross_entropy", "accuracy", "sigmoid"),
        ("score", 1, "linear", "mse", "pearson", "identity"),
        ("score", 2, "cosine", "mse", "pearson", "identity"),
    ],
)
@pytest.mark.parametrize("start", ["frozen", "random"])
def test_head_loss_and_metric_follow_from_the_kind_of_label(
    tmp_path, kind, texts, random_head, loss, metric, link, start
):
    label = {"column": "label", "kind": kind}
    data = task_of(tmp_path, LABELS[kind], texts, label=label, top={"head_start": start})
    assert data.spec.labels.kind == kind
    head = random_head if start == "random" else ("unit_linear", "comparison")[texts - 1]
    assert (data.spec.head_name, losses(data), data.spec.metric, data.spec.link) == (head, [loss], metric, link)


@pytest.mark.parametrize(("texts", "kind"), [(1, "classes"), (2, "yes_no")])
def test_zeros_and_ones_are_classes_for_one_text_and_yes_or_no_for_two(tmp_path, texts, kind):
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


def test_the_kind_in_the_recipe_wins_over_the_values(tmp_path):
    labels = task_of(tmp_path, ["0", "1"], label={"column": "label", "range": [0, 5]}).spec.labels
    assert (labels.kind, labels.low, labels.high) == ("score", 0.0, 5.0)
    labels = task_of(tmp_path, ["spam", "ham"], 1, label={"column": "label", "positive": "spam"}).spec.labels
    assert (labels.kind, labels.classes) == ("yes_no", ("ham", "spam"))
    labels = task_of(tmp_path, ["0", "2"], label={"column": "label", "classes": {2: "good", 0: "bad"}}).spec.labels
    assert (labels.kind, labels.classes, labels.names) == ("classes", ("2", "0"), ("good", "bad"))


@pytest.mark.parametrize("kind", LABELS)
def test_a_resolved_recipe_leaves_nothing_open(tmp_path, kind):
    resolved = resolve_one(tmp_path, LABELS[kind], top={"batch_size": 5, "lr": 1e-3})
    task = resolved.recipe.tasks["it"]
    assert None not in (task.head, task.loss, task.metric, task.batch_size, task.label.kind)
    assert task == resolved.tasks["it"].settings
    assert (task.batch_size, resolved.recipe.epochs, resolved.recipe.head_lr) == (5, 3, 1e-3)
    assert (task.label.classes is not None, task.label.range is not None) == (kind == "classes", kind == "score")


def test_given_values_are_kept(tmp_path):
    resolved = resolve_one(
        tmp_path,
        LABELS["score"],
        top={"steps": 7, "lr": 1e-3, "head_lr": 1e-2},
        head="concat",
        metric="spearman",
        batch_size=2,
        label={"column": "label", "range": [0, 5]},
    )
    task = resolved.recipe.tasks["it"]
    assert (task.head.name, task.metric, task.batch_size, task.label.range) == ("concat", "spearman", 2, (0.0, 5.0))
    assert (resolved.recipe.epochs, resolved.recipe.steps, resolved.recipe.head_lr) == (None, 7, 1e-2)


@pytest.mark.parametrize(("given", "length"), [(None, 40), (12, 12), (40, 40)])
def test_the_maximum_length_is_the_encoders_unless_given(tmp_path, given, length):
    assert task_of(tmp_path, LABELS["score"], max_length=given).spec.max_length == length


def test_after_a_shared_layer_a_score_gets_a_head_that_can_follow_it(tmp_path):
    assert task_of(tmp_path, LABELS["score"]).spec.head_name == "comparison"
    assert task_of(tmp_path, LABELS["score"], top={"shared_layer": "tanh"}).spec.head_name == "difference_product"


# ---------------------------------------------------------------- class weights


def test_balanced_classes_have_weight_1(tmp_path):  # identity
    assert task_of(tmp_path, ["a", "b", "b", "a"], 1, class_weights="balanced").class_weights.tolist() == [1.0, 1.0]


def test_balanced_weights_by_hand(tmp_path):
    # 6 rows, 3 classes: a has 3, 6 / (3·3) = 2/3; b has 1, 6 / (3·1) = 2; c has 2, 6 / (3·2) = 1
    weights = task_of(tmp_path, list("abacca"), 1, class_weights="balanced").class_weights
    np.testing.assert_allclose(weights, [2 / 3, 2, 1], rtol=1e-6)  # float32


def test_balanced_weights_make_every_class_count_equally(tmp_path):  # property
    for seed in range(20):
        generator = random.Random(seed)
        labels = [*"abcd", *generator.choices("abcd", [1, 2, 5, 20], k=40)]
        data = task_of(tmp_path, labels, 1, class_weights="balanced")
        shares = np.bincount(data.splits["train"].labels, weights=data.class_weights[data.splits["train"].labels])
        np.testing.assert_allclose(shares, len(labels) / 4, rtol=1e-5, err_msg=f"seed {seed}")  # sums of float32


def test_given_weights_are_in_the_order_of_the_classes(tmp_path):
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
    return resolve_tasks(recipe_from(tree, VARIANTS), LIMIT, WIDTH).tasks[name].splits["train"].origins


def test_rows_are_drawn_by_seed_and_task_and_keep_their_order(tmp_path):
    whole = drawn(tmp_path, 50)
    some = drawn(tmp_path, 10)
    assert some == drawn(tmp_path, 10)
    assert len(set(some)) == 10
    assert some == [origin for origin in whole if origin in set(some)]
    assert some != whole[:10]
    assert len({tuple(some), tuple(drawn(tmp_path, 10, seed=2)), tuple(drawn(tmp_path, 10, name="other"))}) == 3


def test_more_rows_than_there_are_means_all(tmp_path):
    assert drawn(tmp_path, 50) == drawn(tmp_path, 1_000) == [f"train.csv:{line}" for line in range(2, 52)]


def test_every_row_is_drawn_about_equally_often(tmp_path):
    # 10 of 50 rows in 100 draws: each row 20 times on average, standard deviation √(100·0.2·0.8) = 4; 5 of them apart
    counts = dict.fromkeys(drawn(tmp_path, 50), 0)
    for seed in range(100):
        for origin in drawn(tmp_path, 10, seed=seed):
            counts[origin] += 1
    assert all(abs(count - 20) <= 20 for count in counts.values()), counts


def test_rows_limits_only_the_training_data(tmp_path):
    write(tmp_path / "dev.csv", LABELS["score"])
    data = task_of(tmp_path, LABELS["score"], rows=2, dev=str(tmp_path / "dev.csv"))
    assert (len(data.splits["train"]), len(data.splits["dev"])) == (2, 3)
    assert (data.spec.labels.low, data.spec.labels.high) == (0.5, 4.5)  # the range is that of all rows


def test_dev_rows_are_the_same_for_every_seed(tmp_path):
    write(tmp_path / "dev.csv", LABELS["score"] * 5)
    cut = [
        task_of(tmp_path, LABELS["score"] * 5, rows=4, dev_rows=4, dev=str(tmp_path / "dev.csv"), top={"seed": seed})
        for seed in (1, 2)
    ]
    assert cut[0].splits["dev"].origins == cut[1].splits["dev"].origins
    assert cut[0].splits["train"].origins != cut[1].splits["train"].origins


def test_rows_of_the_recipe_apply_to_tasks_without_their_own(tmp_path):
    assert len(task_of(tmp_path, ["0", "1"] * 20, top={"rows": 7}).splits["train"]) == 7
    assert len(task_of(tmp_path, ["0", "1"] * 20, top={"rows": 7}, rows=9).splits["train"]) == 9


# ---------------------------------------------------------------- fingerprints


def test_fingerprints_list_each_file_with_its_sha256_and_rows(tmp_path):
    write(tmp_path / "more.csv", LABELS["score"][:2])
    resolved = resolve_one(tmp_path, LABELS["score"], train=[str(tmp_path / "train.csv"), str(tmp_path / "more.csv")])
    found = resolved.fingerprints["it"]["train"]
    assert [entry["name"] for entry in found] == ["train.csv", "more.csv"]
    for entry in found:
        assert entry["sha256"] == hashlib.sha256((tmp_path / entry["name"]).read_bytes()).hexdigest()
    assert [entry["rows"] for entry in found] == [3, 2]


def test_files_with_the_same_name_are_counted_separately(tmp_path):
    for name, labels in (("x", ["0", "1", "1"]), ("y", ["0", "1"])):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "train.csv", labels)
    files = [str(tmp_path / name / "train.csv") for name in ("x", "y")]
    found = resolve_one(tmp_path, ["0"], train=files).fingerprints["it"]["train"]
    assert [file["rows"] for file in found] == [3, 2]


# ---------------------------------------------------------------- label maps


def test_a_map_decides_the_kind_of_label(tmp_path):
    data = task_of(tmp_path, ["0", "1", "1"], label={"column": "label", "map": {0: 1, 1: 4.5}})
    assert (data.spec.labels.kind, data.spec.labels.low, data.spec.labels.high) == ("score", 1.0, 4.5)
    assert data.splits["train"].labels.tolist() == [1.0, 4.5, 4.5]
    assert data.settings.label.model_dump()["map"] == {"0": "1", "1": "4.5"}
    put_together = task_of(tmp_path, ["low", "mid", "high"], label={"column": "label", "map": {"mid": "low"}})
    assert put_together.spec.labels.classes == ("high", "low")
    assert put_together.splits["train"].labels.tolist() == [1, 1, 0]
    yes_no = {"column": "label", "kind": "yes_no", "map": {"low": False, "mid": False, "high": True}}
    assert task_of(tmp_path, ["low", "mid", "high"], label=yes_no).splits["train"].labels.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({"map": {"lo": "high"}}, "tasks.it.label: map: no row has the label 'lo'; did you mean 'low'?"),
        ({"map": {}}, "tasks.it.label.map: expected labels and what each becomes, such as {0: 0.5, 1: 4.5}"),
        ({"map": "low"}, "tasks.it.label.map: expected labels and what each becomes, such as {0: 0.5, 1: 4.5}"),
        (
            {"column": ["one", "two"], "map": {"0": "1"}},
            "tasks.it.label: a map applies to one column; with a column per class there is nothing to map",
        ),
    ],
)
def test_maps_that_cannot_work_are_refused(tmp_path, label, message):
    found = mistakes_of(tmp_path, LABELS["classes"], label={"column": "label", **label})
    assert [mistake.removeprefix("recipe: ") for mistake in found] == [message]


def test_accuracy_of_scores_needs_two_values_in_dev(tmp_path):
    write(tmp_path / "dev.csv", ["0.5", "4.5", "2"])
    dev = {"dev": str(tmp_path / "dev.csv"), "metric": "accuracy", "label": {"column": "label", "kind": "score"}}
    assert mistakes_of(tmp_path, LABELS["score"], **dev) == [
        "tasks.it.metric: accuracy is for scores that take two values in dev, which has 3; use pearson"
    ]
