"""Temperature, threshold and abstention on labels whose probabilities are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.calibration import Fitted, calibrate_task, fit_temperature, predict_unseen
from plait.model.decode import decode, outputs_of
from plait.model.tasks import TaskSpec

ROWS = 2000


def task(kind: str, link: str, classes: int, metric: str = "accuracy") -> TaskSpec:
    names = tuple(f"c{number}" for number in range(classes))
    return TaskSpec(
        name="task",
        text=("text",),
        label=("label",),
        quoting=None,
        labels=Labels(kind=kind, classes=names, names=names),
        head="linear.v1",
        head_options={},
        link=link,
        metric=metric,
        threshold=0.5,
        max_length=16,
    )


CLASSES = task("classes", "softmax", 4)
YES_NO = task("yes_no", "sigmoid", 2)
TAGS = task("multilabel", "each", 3, "micro_f1")
REST = task("classes", "one_vs_rest", 4)


def drawn(spec: TaskSpec, temperature: float, rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, Examples]:
    """Outputs, and labels that are drawn from their probabilities at a temperature."""
    generator = np.random.default_rng(seed)
    outputs_nC = 3 * generator.normal(size=(rows, 1 if spec.link == "sigmoid" else len(spec.labels.names)))
    if spec.link in ("softmax", "one_vs_rest"):
        shares_nC = special.softmax(outputs_nC / temperature, axis=1)
        labels_n = (shares_nC.cumsum(axis=1) < generator.random((rows, 1))).sum(axis=1).clip(0, 3)
    else:
        labels_n = (generator.random(outputs_nC.shape) < special.expit(outputs_nC / temperature)).astype(np.int64)
        labels_n = labels_n[:, 0] if spec.link == "sigmoid" else labels_n
    return outputs_nC, Examples(([f"text {row}" for row in range(rows)],), labels_n, [""] * rows)


def log_loss(spec: TaskSpec, outputs_nC: np.ndarray, labels_n: np.ndarray) -> float:
    """By scipy, from the outputs themselves."""
    if spec.link == "softmax":
        return -special.log_softmax(outputs_nC, axis=1)[np.arange(len(labels_n)), labels_n].mean()
    yes_nC = labels_n.reshape(len(labels_n), -1)
    if spec.link == "one_vs_rest":
        yes_nC = np.eye(outputs_nC.shape[1])[labels_n]
    return -(special.log_expit(outputs_nC) * yes_nC + special.log_expit(-outputs_nC) * (1 - yes_nC)).sum(axis=1).mean()


@pytest.mark.parametrize("spec", [CLASSES, YES_NO, TAGS, REST], ids=lambda spec: spec.link)
@pytest.mark.parametrize("rows", [40, ROWS])
def test_the_temperature_is_that_of_another_optimizer(spec, rows):
    outputs_nC, examples = drawn(spec, 2.5, rows)

    def penalized(log_temperature: float) -> float:
        warmed = log_loss(spec, outputs_nC / np.exp(log_temperature), examples.labels)
        return warmed + log_temperature**2 / (2 * rows)

    best = optimize.minimize_scalar(penalized, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).x
    # both end within their own tolerance on a flat bottom
    assert np.log(fit_temperature(spec, outputs_nC, examples.labels)) == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("spec", [CLASSES, YES_NO, TAGS], ids=lambda spec: spec.link)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_known_temperature_is_found(spec, temperature):
    outputs_nC, examples = drawn(spec, temperature, 20_000)
    assert fit_temperature(spec, outputs_nC, examples.labels) == pytest.approx(temperature, rel=0.05)  # of 20,000 rows


def test_a_task_that_is_always_right_stays_finite():
    outputs_nC = np.eye(4)[np.arange(40) % 4]
    assert 0.05 < fit_temperature(CLASSES, outputs_nC, np.arange(40) % 4) < 1


@pytest.mark.parametrize("spec", [CLASSES, YES_NO, TAGS, REST], ids=lambda spec: spec.link)
def test_outputs_come_back_from_probabilities(spec):
    outputs_nC, _ = drawn(spec, 1, 50)
    warm = replace(spec, temperature=1.7)
    back_nC = outputs_of(decode(outputs_nC, warm), warm)
    if spec.link == "softmax":
        outputs_nC = outputs_nC - special.logsumexp(outputs_nC / 1.7, axis=1, keepdims=True) * 1.7
    np.testing.assert_allclose(back_nC, outputs_nC, atol=1e-8)  # 1 − p loses digits near 1


def ece(labels_n: np.ndarray, predictions: PredictionArrays, bins: int = 15) -> float:
    """By the definition, bin by bin."""
    sure_n = predictions.probabilities[np.arange(len(labels_n)), predictions.values]
    total = 0.0
    for low in np.arange(bins) / bins:
        inside = (sure_n > low) & (sure_n <= low + 1 / bins)
        if inside.any():
            right = (predictions.values == labels_n)[inside].mean()
            total += inside.mean() * abs(right - sure_n[inside].mean())
    return total


@pytest.mark.parametrize("spec", [CLASSES, YES_NO], ids=lambda spec: spec.link)
def test_overconfident_probabilities_become_calibrated(spec):
    outputs_nC, examples = drawn(spec, 3.0)
    found = calibrate_task(spec, examples, decode(outputs_nC, spec), Fitted(temperature=True), "dev")
    before, after = found.ece
    assert before == pytest.approx(ece(examples.labels, decode(outputs_nC, spec)), abs=1e-9)  # float64
    assert before > 0.15 and after < 0.05 and found.log_loss[1] < found.log_loss[0]
    assert found.temperature == pytest.approx(3, rel=0.15)  # of 2,000 rows
    assert found.score[0] == found.score[1] and found.threshold == 0.5 and found.abstain_below is None
    other_nC, others = drawn(spec, 3.0, seed=1)
    assert ece(others.labels, decode(other_nC, found.apply(spec))) < 0.05  # on rows that were never fitted


def test_what_does_not_help_is_left_as_it_was():
    outputs_nC, examples = drawn(YES_NO, 1.0, 60, seed=4)
    shuffled = replace(examples, labels=np.random.default_rng(5).permutation(examples.labels))
    sure = calibrate_task(YES_NO, examples, decode(outputs_nC, YES_NO), Fitted(True, "accuracy"), "dev")
    lost = calibrate_task(YES_NO, shuffled, decode(outputs_nC, YES_NO), Fitted(True, "f1"), "dev")
    for found in (sure, lost):
        assert found.log_loss[1] <= found.log_loss[0]
        assert found.fitted.temperature == (found.temperature != 1.0)
        assert (found.fitted.threshold is None) == (found.threshold == 0.5)


@pytest.mark.parametrize("spec", [replace(YES_NO, metric="f1"), TAGS], ids=lambda spec: spec.link)
def test_the_threshold_for_f1_of_rare_labels_is_lower(spec):
    outputs_nC, examples = drawn(spec, 1.0)
    outputs_nC = outputs_nC / 3 - 2  # no is far more frequent, and the probability of a yes is seldom above one half
    generator = np.random.default_rng(1)
    labels_n = (generator.random(outputs_nC.shape) < special.expit(outputs_nC)).astype(np.int64)
    examples = replace(examples, labels=labels_n[:, 0] if spec.link == "sigmoid" else labels_n)
    found = calibrate_task(spec, examples, decode(outputs_nC, spec), Fitted(True, "f1"), "dev")
    assert 0.1 < found.threshold < 0.5 and found.score[1] > found.score[0]
    assert found.coverage == [] or spec.link == "sigmoid"


def test_a_threshold_by_hand():
    shares = np.array([0.1, 0.2, 0.3, 0.4] * 5)  # yes from 0.3 on: every threshold above 0.2 and up to 0.3 is right
    examples = Examples(([f"{row}" for row in range(20)],), (shares >= 0.3).astype(np.int64), [""] * 20)
    outputs_n1 = special.logit(shares)[:, None]
    found = calibrate_task(YES_NO, examples, decode(outputs_n1, YES_NO), Fitted(threshold="accuracy"), "dev")
    assert found.threshold == pytest.approx(0.25) and found.score == (0.5, 1.0)


def test_abstention_reaches_its_accuracy():
    outputs_nC, examples = drawn(CLASSES, 2.0)
    found = calibrate_task(CLASSES, examples, decode(outputs_nC, CLASSES), Fitted(True, None, 0.75), "dev")
    share, right = found.given
    assert right == pytest.approx(0.75, abs=0.04) and 0.1 < share < 0.9  # of several hundred rows
    other_nC, others = drawn(CLASSES, 2.0, seed=1)
    answered = decode(other_nC, found.apply(CLASSES))
    given_n = answered.probabilities.max(axis=1) >= found.abstain_below
    assert (answered.values == others.labels)[given_n].mean() == pytest.approx(0.75, abs=0.05)
    assert given_n.mean() == pytest.approx(share, abs=0.05)
    assert [point.share for point in found.coverage] == pytest.approx([1, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5])
    accuracies = [point.accuracy for point in found.coverage]
    assert accuracies[0] == found.score[1] and accuracies[-1] > accuracies[0]


def test_an_accuracy_that_is_reached_anyway_or_never_withholds_nothing():
    outputs_nC, examples = drawn(YES_NO, 1.0, 200)
    for target in (0.01, 1.0):
        noise = np.random.default_rng(0).permutation(examples.labels) if target == 1 else examples.labels
        given = replace(examples, labels=noise)
        found = calibrate_task(YES_NO, given, decode(outputs_nC, YES_NO), Fitted(abstain_for=target), "dev")
        assert found.abstain_below is None and found.given is None


def test_rows_that_were_fitted_on_are_predicted_by_fits_on_others():
    outputs_nC, examples = drawn(CLASSES, 3.0, 200)
    found = calibrate_task(CLASSES, examples, decode(outputs_nC, CLASSES), Fitted(temperature=True), "dev")
    warm = found.apply(CLASSES)
    record = {"task": found.to_json()}
    predictions = decode(outputs_nC, warm)
    crossed = predict_unseen(record, warm, "dev", examples, predictions)
    # the search for a temperature ends within 1e-6, and outputs come back rounded
    assert ece(examples.labels, crossed) == pytest.approx(found.ece[1], abs=1e-4)
    assert not np.allclose(crossed.probabilities, predictions.probabilities, atol=1e-6)
    for other in ("test", ""):
        assert predict_unseen(record, warm, other, examples, predictions) is predictions
    assert predict_unseen({}, warm, "dev", examples, predictions) is predictions
