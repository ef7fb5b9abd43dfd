"""What training gained over the best baseline."""

import numpy as np
import pytest

from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.gain import measure_gain
from plait.model.tasks import TaskSpec

CLASSES = TaskSpec(
    "mood",
    ("text",),
    ("label",),
    None,
    Labels("classes", ("0", "1"), ("bad", "good")),
    "linear.v1",
    {},
    "softmax",
    "accuracy",
    0.5,
    16,
)
LABELS = np.arange(200) % 2


def correct_on(rows: int) -> PredictionArrays:
    """Correct on that many rows, wrong on the others."""
    values = np.where(np.arange(200) < rows, LABELS, 1 - LABELS)
    return PredictionArrays(values, np.eye(2)[values])


def test_the_gain_is_over_the_best_baseline_with_an_interval_around_it():
    baselines = {"majority or mean": correct_on(100), "frozen encoder": correct_on(150)}
    gain = measure_gain(CLASSES, "dev", LABELS, correct_on(180), baselines)
    assert (gain.baseline, gain.baseline_score, gain.score, gain.rows) == ("frozen encoder", 0.75, 0.9, 200)
    assert gain.difference == pytest.approx(0.15) and gain.low < 0.15 < gain.high
    # 30 of 200 rows change, so the standard error is √(0.15 · 0.85 / 200) = 0.025
    assert gain.high - gain.low == pytest.approx(2 * 1.96 * 0.025, rel=0.2)


@pytest.mark.parametrize(("rows", "verdict"), [(190, "better"), (151, "no difference shown"), (100, "worse")])
def test_the_verdict_follows_the_interval(rows, verdict):
    assert measure_gain(CLASSES, "test", LABELS, correct_on(rows), {"frozen": correct_on(150)}).verdict == verdict


def test_without_baselines_there_is_no_gain():
    assert measure_gain(CLASSES, "dev", LABELS, correct_on(10), {}) is None
