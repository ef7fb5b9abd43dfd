"""The numbers behind the charts, worked out by hand."""

import numpy as np
import pytest

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.model.tasks import TaskSpec
from plait.reporting.curves import read_curves
from plait.reporting.data_facts import class_balance, describe_splits, histogram
from plait.reporting.diagnostics import by_length, reliability
from plait.reporting.embeddings import draw_map, find_nearest
from plait.reporting.sampling import sample_examples
from plait.runs.records import ConflictLine, ScoresLine, TrainLine


def spec_of(kind: str, names: tuple[str, ...] = ("no", "yes"), metric: str = "accuracy") -> TaskSpec:
    labels = Labels(kind, names, names, low=0.0, high=5.0)
    return TaskSpec("task", ("text",), ("label",), None, labels, "linear.v1", {}, "softmax", metric, 0.5, 32)


def examples_of(texts: list[str], labels: list[int] | None = None) -> Examples:
    return Examples((texts,), np.array(labels or [0] * len(texts)), [f"data.csv:{row}" for row in range(len(texts))])


def test_reliability_by_hand():
    shares = np.array([[0.95, 0.05], [0.95, 0.05], [0.35, 0.65], [0.35, 0.65]])
    bins = reliability(np.array([0, 1, 1, 1]), PredictionArrays(np.array([0, 0, 1, 1]), shares))
    assert [(one.confidence, one.correct, one.rows) for one in bins] == [
        (pytest.approx(0.65), 1.0, 2),
        (pytest.approx(0.95), 0.5, 2),
    ]


def test_scores_have_no_reliability():
    assert reliability(np.array([1.0]), PredictionArrays(np.array([1.0]), None)) == []


def test_lengths_divide_the_rows_evenly_and_cover_all():
    words = np.arange(1, 51)
    labels, values = np.zeros(50, dtype=int), (words > 40).astype(int)  # only the longest are wrong
    bins = by_length(spec_of("yes_no"), labels, PredictionArrays(values, None), words)
    assert sum(one.rows for one in bins) == 50 and {one.rows for one in bins} == {10}
    assert [one.score for one in bins] == [1, 1, 1, 1, 0]
    assert (bins[-1].shortest, bins[-1].longest) == (41, 50)


class Vectors:
    """Embeddings that the test gives."""

    def __init__(self, known: dict[str, list[float]]) -> None:
        self.known = known

    def vectors(self, columns):
        return [np.array([self.known[text] for text in column], dtype=float) for column in columns]


def test_nearest_training_rows_by_cosine():
    embedder = Vectors({"q": [1, 0], "near": [0.8, 0.6], "far": [0, 1], "same": [1, 0], "back": [-1, 0]})
    found = find_nearest(
        embedder, examples_of(["q"]), [0], examples_of(["far", "near", "back", "same"]), symmetric=False
    )
    assert [(one.row, one.similarity) for one in found[0]] == [(3, 1.0), (1, pytest.approx(0.8)), (0, 0.0)]


def test_nearest_pairs_may_be_swapped_if_the_task_is_symmetric():
    embedder = Vectors({"a": [1, 0], "b": [0, 1]})
    pair, swapped = (Examples(([one], [two]), np.array([0]), ["f:1"]) for one, two in (("a", "b"), ("b", "a")))
    assert find_nearest(embedder, pair, [0], swapped, symmetric=False)[0][0].similarity == 0.0
    assert find_nearest(embedder, pair, [0], swapped, symmetric=True)[0][0].similarity == 1.0


def test_the_map_keeps_the_two_largest_directions():
    points = {"a": [3, 0, 0.1], "b": [-3, 0, 0.1], "c": [0, 2, 0.1], "d": [0, -2, 0.1]}
    found = draw_map(Vectors(points), examples_of(list(points)))
    assert np.abs(found.points_n2[:, 0]).tolist() == pytest.approx([3, 3, 0, 0])
    assert np.abs(found.points_n2[:, 1]).tolist() == pytest.approx([0, 0, 2, 2])
    assert found.shown == (pytest.approx(18 / 26), pytest.approx(8 / 26))


def test_equal_texts_have_no_map():
    assert draw_map(Vectors({"a": [1, 0]}), examples_of(["a", "a", "a"])) is None


def test_curves_of_a_run():
    lines = [
        TrainLine(1, None, 1, {"a": 1.0}),
        ConflictLine(1, None, {"a/b": -0.5, "a/c": None}),
        TrainLine(2, None, 1, {"a": 3.0, "b": 1.0}),
        ScoresLine(2, None, 1, {"a": {"accuracy": 0.5, "f1": 0.1}}, {}, {}, {"a": {"accuracy": 0.9}}, 0.5),
        TrainLine(3, None, 2, {"b": 2.0}),
    ]
    curves = read_curves(lines, {"a": "accuracy"})
    assert [(point.task, point.step, point.value) for point in curves.losses] == [
        ("a", 1, 1.0),
        ("a", 2, 3.0),
        ("b", 2, 1.0),
        ("b", 3, 2.0),
    ]
    assert [(point.of, point.value) for point in curves.scores] == [("dev", 0.5), ("train", 0.9)]
    assert [(turn.task, turn.share) for turn in curves.turns if turn.first == 3] == [("a", 0.0), ("b", 1.0)]
    assert [(cosine.pair, cosine.value) for cosine in curves.cosines] == [("a/b", -0.5)]
    assert (curves.epochs, curves.stages, curves.last) == ([3], [], 3)


def test_long_curves_are_averaged():
    curves = read_curves([TrainLine(step, None, 1, {"a": float(step % 2)}) for step in range(1200)], {})
    assert len(curves.losses) == 120 and {point.value for point in curves.losses} == {0.5}


def test_data_in_numbers():
    data = {"task": {"train": examples_of(["a b", "A  b", "c"], [0, 0, 1]), "dev": examples_of(["d e f"], [1])}}
    train, dev = describe_splits(data)
    assert (train.rows, train.repeated, train.words, train.longest) == (3, 1, 2.0, 2)
    assert (dev.rows, dev.repeated, dev.longest) == (1, 0, 3)
    balance = class_balance(spec_of("yes_no"), data["task"])
    assert [(row["split"], row["label"], row["rows"]) for row in balance] == [
        ("train", "no", 2),
        ("train", "yes", 1),
        ("dev", "no", 0),
        ("dev", "yes", 1),
    ]


@pytest.mark.parametrize("values", [[1, 1, 1], [1, 2, 3, 400], np.linspace(0, 1, 50)])
def test_shares_of_a_histogram_add_up(values):
    assert sum(row["share"] for row in histogram({"train": values})) == pytest.approx(1)


def test_a_sample_is_the_same_every_time_and_in_order():
    examples = examples_of([str(row) for row in range(500)], list(range(500)))
    sample = sample_examples(examples, 40)
    assert len(sample) == 40 and sample.labels.tolist() == sorted(sample.labels.tolist())
    assert sample_examples(examples, 40).origins == sample.origins
    assert sample_examples(examples, 500) is examples
