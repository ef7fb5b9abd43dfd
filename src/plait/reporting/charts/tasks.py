"""Charts of a task's predictions."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from plait.evaluation.details import ClassScores
from plait.reporting.charts.marks import HEIGHT, as_spec, scale_of, values_of
from plait.reporting.colours import BASELINE_COLOUR
from plait.reporting.diagnostics import ConfidenceBin, LengthBin

__all__ = ["draw_classes", "draw_confusion", "draw_lengths", "draw_points", "draw_reliability", "draw_scatter"]

_CELL = 34
_LABELLED = 12  # classes whose cells have room for a number


def draw_confusion(counts_CC: np.ndarray, names: Sequence[str], colour: str) -> dict[str, Any]:
    """Labels against predictions, shaded by the share of the label's rows."""
    totals_C = counts_CC.sum(axis=1)
    rows = [
        {
            "label": label,
            "predicted": predicted,
            "rows": int(counts_CC[i, j]),
            "share": float(counts_CC[i, j] / totals_C[i]) if totals_C[i] else 0.0,
        }
        for i, label in enumerate(names)
        for j, predicted in enumerate(names)
    ]
    base = alt.Chart(values_of(rows)).encode(
        x=alt.X("predicted", type="nominal", sort=list(names), axis=_class_axis(names)),
        y=alt.Y("label", type="nominal", sort=list(names)),
        tooltip=[
            alt.Tooltip("label", type="nominal"),
            alt.Tooltip("predicted", type="nominal"),
            alt.Tooltip("rows", type="quantitative", format=","),
            alt.Tooltip("share", type="quantitative", format=".0%", title="of this label"),
        ],
    )
    boxes = base.mark_rect(color=colour, cornerRadius=2).encode(
        opacity=alt.Opacity(
            "share", type="quantitative", scale=alt.Scale(domain=[0, 1], range=[0.06, 0.9]), legend=None
        )
    )
    layers = [boxes]
    if len(names) <= _LABELLED:
        layers.append(base.mark_text(fontSize=12).encode(text=alt.Text("rows", type="quantitative", format=",")))
    return as_spec(*layers, height=max(HEIGHT, min(2 * HEIGHT, _CELL * len(names))))


def _class_axis(names: Sequence[str]) -> alt.Axis:
    """Names of classes below a matrix, turned if there is no room for them."""
    angle = 0 if len(names) <= 2 else -30 if len(names) <= _LABELLED else -90
    return alt.Axis(labelAngle=angle, labelLimit=80 if angle else 110)


def draw_scatter(rows: Sequence[Mapping[str, Any]], low: float, high: float, colour: str) -> dict[str, Any]:
    """Predicted against true scores, with the diagonal of perfect predictions."""
    axis = alt.Scale(domain=[low, high], nice=True)
    points = (
        alt.Chart(values_of(rows))
        .mark_point(color=colour, filled=True, size=26, opacity=0.45)
        .encode(
            x=alt.X("true", type="quantitative", scale=axis, title="true score"),
            y=alt.Y("predicted", type="quantitative", scale=axis, title="predicted score"),
            tooltip=[
                alt.Tooltip("true", type="quantitative", format=".2f"),
                alt.Tooltip("predicted", type="quantitative", format=".2f"),
                alt.Tooltip("text", type="nominal"),
            ],
        )
    )
    return as_spec(_diagonal(low, high), points)


def _diagonal(low: float, high: float) -> alt.Chart:
    ends = values_of([{"x": low, "y": low}, {"x": high, "y": high}])
    line = alt.Chart(ends).mark_line(color=BASELINE_COLOUR, strokeDash=[4, 4], strokeWidth=1.2)
    encoded: alt.Chart = line.encode(x=alt.X("x", type="quantitative"), y=alt.Y("y", type="quantitative"))
    return encoded


def draw_classes(classes: Mapping[str, ClassScores], colour: str) -> dict[str, Any]:
    """Precision, recall and F1 of each class."""
    rows = [
        {"class": name, "score": value, "of": of, "rows": found.support}
        for name, found in classes.items()
        for of, value in (("precision", found.precision), ("recall", found.recall), ("F1", found.f1))
        if value is not None
    ]
    chart = (
        alt.Chart(values_of(rows))
        .mark_point(color=colour, filled=True, size=70, opacity=0.8)
        .encode(
            x=alt.X("score", type="quantitative", scale=alt.Scale(domain=[0, 1]), title="score"),
            y=alt.Y("class", type="nominal", sort=list(classes), title=None),
            shape=alt.Shape(
                "of",
                type="nominal",
                scale=alt.Scale(
                    domain=["precision", "recall", "F1"], range=["triangle-right", "triangle-left", "circle"]
                ),
                legend=alt.Legend(title=None, orient="top"),
            ),
            tooltip=[
                alt.Tooltip("class", type="nominal"),
                alt.Tooltip("of", type="nominal", title="metric"),
                alt.Tooltip("score", type="quantitative", format=".3f"),
                alt.Tooltip("rows", type="quantitative", format=","),
            ],
        )
    )
    return as_spec(chart, height=max(HEIGHT, min(2 * HEIGHT, 26 * len(classes))))


def draw_reliability(bins: Sequence[ConfidenceBin], colour: str) -> dict[str, Any]:
    """Confidence against the share of right predictions."""
    rows = [{"confidence": one.confidence, "correct": one.correct, "rows": one.rows} for one in bins]
    axis = alt.Scale(domain=[0, 1])
    base = alt.Chart(values_of(rows)).encode(
        x=alt.X(
            "confidence", type="quantitative", scale=axis, title="confidence", axis=alt.Axis(format="%", tickCount=5)
        ),
        y=alt.Y("correct", type="quantitative", scale=axis, title="correct", axis=alt.Axis(format="%", tickCount=5)),
    )
    dots = base.mark_point(color=colour, filled=True, opacity=0.9).encode(
        size=alt.Size("rows", type="quantitative", scale=alt.Scale(range=[30, 360], zero=True), legend=None),
        tooltip=[
            alt.Tooltip("confidence", type="quantitative", format=".0%"),
            alt.Tooltip("correct", type="quantitative", format=".0%"),
            alt.Tooltip("rows", type="quantitative", format=",", title="predictions"),
        ],
    )
    return as_spec(_diagonal(0, 1), base.mark_line(color=colour, opacity=0.5), dots)


def draw_lengths(bins: Sequence[LengthBin], metric: str, colour: str) -> dict[str, Any]:
    """The score on short and long texts."""
    names = [f"{one.shortest}–{one.longest}" if one.shortest < one.longest else f"{one.shortest}" for one in bins]
    rows = [
        {
            "words": name,
            "score": one.score,
            "low": one.interval[0] if one.interval else one.score,
            "high": one.interval[1] if one.interval else one.score,
            "rows": one.rows,
        }
        for name, one in zip(names, bins, strict=True)
    ]
    base = alt.Chart(values_of(rows)).encode(
        x=alt.X("words", type="nominal", sort=names, title="words", axis=alt.Axis(labelAngle=0)),
        tooltip=[
            alt.Tooltip("words", type="nominal"),
            alt.Tooltip("score", type="quantitative", format=".3f", title=metric),
            alt.Tooltip("low", type="quantitative", format=".3f"),
            alt.Tooltip("high", type="quantitative", format=".3f"),
            alt.Tooltip("rows", type="quantitative", format=","),
        ],
    )
    range_ = base.mark_rule(color=colour, strokeWidth=3, opacity=0.4).encode(
        y=alt.Y("low", type="quantitative", title=metric, scale=alt.Scale(zero=False)), y2="high"
    )
    dots = base.mark_point(color=colour, filled=True, size=70, opacity=1).encode(y=alt.Y("score", type="quantitative"))
    return as_spec(range_, dots)


def draw_points(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str] | None, shown: tuple[float, float], colour: str
) -> dict[str, Any]:
    """The map: one point per example, coloured by its label; crosses are wrong predictions.

    With `names`, the field `colour` is one of them; without, labels are numbers.
    """
    labels = (
        alt.Color(
            "colour", type="nominal", scale=scale_of(names), legend=alt.Legend(title=None, orient="top", columns=4)
        )
        if names
        else alt.Color(
            "label",
            type="quantitative",
            scale=alt.Scale(range=["#c79a16", colour]),
            legend=alt.Legend(title="score", orient="top"),
        )
    )
    blank = alt.Axis(labels=False, ticks=False, grid=False, domain=False)
    chart = (
        alt.Chart(values_of(rows))
        .mark_point(opacity=0.8, filled=True)
        .encode(
            x=alt.X("x", type="quantitative", axis=blank, title=f"{shown[0]:.0%} of the variance"),
            y=alt.Y("y", type="quantitative", axis=blank, title=f"{shown[1]:.0%} of the variance"),
            color=labels,
            shape=alt.Shape(
                "prediction",
                type="nominal",
                scale=alt.Scale(domain=["right", "wrong", ""], range=["circle", "cross", "circle"]),
                legend=None,
            ),
            size=alt.condition("datum.prediction == 'wrong'", alt.value(90), alt.value(36)),
            tooltip=[
                alt.Tooltip("text", type="nominal"),
                alt.Tooltip("label", type="nominal" if names else "quantitative"),
                alt.Tooltip("predicted", type="nominal" if names else "quantitative"),
            ],
        )
    )
    return as_spec(chart, height=HEIGHT + 120)
