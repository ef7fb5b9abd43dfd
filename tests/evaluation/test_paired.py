"""Two models on the same rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.paired import compare_rows, correct_for_several, shared_rows
from plait.model.tasks import TaskSpec

ROWS = 60
YES_NO = TaskSpec(
    name="spam",
    text=("text",),
    label=("label",),
    quoting=None,
    labels=Labels(kind="yes_no", classes=("0", "1"), names=("no", "yes")),
    head="linear.v1",
    head_options={},
    link="sigmoid",
    metric="accuracy",
    threshold=0.5,
    max_length=16,
)


def answers(values_n: np.ndarray) -> PredictionArrays:
    return PredictionArrays(values_n, np.stack([1 - values_n, values_n], axis=1).astype(float))


def wrong_at(rows: list[int]) -> PredictionArrays:
    """Predictions for labels that are all 1, wrong in some rows."""
    values_n = np.ones(ROWS, dtype=np.int64)
    values_n[rows] = 0
    return answers(values_n)


LABELS = np.ones(ROWS, dtype=np.int64)


def test_accuracy_is_tested_by_mcnemar():
    found = compare_rows(YES_NO, LABELS, wrong_at(list(range(12))), wrong_at([10, 11, 12]))
    assert found.test == "McNemar" and found.rows == ROWS
    assert (found.first, found.second) == pytest.approx((48 / 60, 57 / 60))
    assert found.p == pytest.approx(stats.binomtest(1, 11).pvalue, rel=1e-9)  # one row against ten; float64
    assert found.verdict == "better" and found.interval[0] > 0
    back = compare_rows(YES_NO, LABELS, wrong_at([10, 11, 12]), wrong_at(list(range(12))))
    assert back.verdict == "worse" and back.difference == -found.difference and back.p == found.p


def test_equal_models_show_no_difference():
    found = compare_rows(YES_NO, LABELS, wrong_at([1]), wrong_at([1]))
    assert (found.difference, found.p, found.verdict) == (0, 1, "no difference shown")


def test_other_metrics_are_tested_by_a_paired_bootstrap():
    labels_n = np.arange(ROWS) % 2
    half_wrong, right = answers(np.where(np.arange(ROWS) % 4 == 1, 0, labels_n)), answers(labels_n)
    found = compare_rows(replace(YES_NO, metric="f1"), labels_n, half_wrong, right)
    assert found.test == "paired bootstrap" and found.second == 1
    assert found.verdict == "better" and 0 < found.p < 0.01


def test_several_tasks_need_more_evidence():
    one = compare_rows(YES_NO, LABELS, wrong_at(list(range(12))), wrong_at([10, 11, 12]))  # p = 0.012
    assert [found.verdict for found in correct_for_several([one] * 3)] == ["better"] * 3
    several = correct_for_several([one] * 5)
    assert [found.verdict for found in several] == ["no difference shown"] * 5
    assert several[0].p == one.p and several[0].corrected_p == pytest.approx(5 * one.p)


def test_rows_are_shared_by_texts_and_label():
    def examples(*rows: tuple[str, int]) -> Examples:
        texts, labels = zip(*rows, strict=True)
        return Examples((list(texts),), np.array(labels), [f"f:{row}" for row in range(len(rows))])

    first, second = examples(("a", 0), ("b", 1), ("c", 0)), examples(("c", 0), ("b", 0), ("a", 0))
    ours_n, theirs_n = shared_rows(first, second)
    assert (ours_n.tolist(), theirs_n.tolist()) == ([0, 2], [2, 0])
    twice, once = examples(("a", 0), ("b", 0), ("a", 0)), examples(("b", 0), ("a", 0))
    assert [side.tolist() for side in shared_rows(twice, once)] == [[0, 1], [1, 0]]
    assert [side.tolist() for side in shared_rows(twice, twice)] == [[0, 1, 2]] * 2
    none_n, _ = shared_rows(examples(("a", 0)), examples(("b", 0)))
    assert none_n.tolist() == []
