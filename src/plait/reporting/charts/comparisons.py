"""Charts that put runs, or the rows of a suite, beside each other."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from plait.reporting.charts.marks import as_spec, scale_of, values_of
from plait.reporting.colours import BASELINE_COLOUR

__all__ = ["draw_differences", "draw_run_curves", "draw_suite_column"]


def draw_differences(
    rows: Sequence[Mapping[str, Any]],
    tasks: Sequence[str],
    colours: Mapping[str, str],
    title: str = "difference from the first run",
) -> dict[str, Any]:
    """Differences with intervals; a row has `task`, `run`, `difference`, `low` and `high`."""
    base = alt.Chart(values_of(rows)).encode(
        y=alt.Y("task", type="nominal", sort=list(tasks), title=None),
        yOffset=alt.YOffset("run", type="nominal", sort=list(colours)),
        color=alt.Color(
            "run", type="nominal", scale=scale_of(list(colours), colours), legend=alt.Legend(title=None, orient="top")
        ),
        tooltip=[
            alt.Tooltip("task", type="nominal"),
            alt.Tooltip("run", type="nominal"),
            alt.Tooltip("difference", type="quantitative", format="+.3f"),
            alt.Tooltip("low", type="quantitative", format="+.3f"),
            alt.Tooltip("high", type="quantitative", format="+.3f"),
        ],
    )
    zero = alt.Chart(values_of([{"zero": 0}])).mark_rule().encode(x=alt.X("zero", type="quantitative"))
    ranges = base.mark_rule(strokeWidth=3, opacity=0.5).encode(
        x=alt.X("low", type="quantitative", title=title), x2="high"
    )
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(x=alt.X("difference", type="quantitative"))
    return as_spec(zero, ranges, dots, height=max(70, 26 * len(rows)))


def draw_run_curves(rows: Sequence[Mapping[str, Any]], metric: str, colours: Mapping[str, str]) -> dict[str, Any]:
    """The dev scores of several runs; a row has `run`, `step` and `score`."""
    chart = (
        alt.Chart(values_of(rows))
        .mark_line(point=alt.OverlayMarkDef(size=30), strokeWidth=2)
        .encode(
            x=alt.X("step", type="quantitative", axis=alt.Axis(format="~s", grid=False, tickMinStep=1)),
            y=alt.Y("score", type="quantitative", title=metric, scale=alt.Scale(zero=False)),
            color=alt.Color(
                "run",
                type="nominal",
                scale=scale_of(list(colours), colours),
                legend=alt.Legend(title=None, orient="top"),
            ),
            tooltip=[
                alt.Tooltip("run", type="nominal"),
                alt.Tooltip("step", type="quantitative", format=","),
                alt.Tooltip("score", type="quantitative", format=".3f", title=metric),
            ],
        )
    )
    return as_spec(chart)


def draw_suite_column(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], heading: str, colour: str
) -> dict[str, Any]:
    """One column of a suite: cells, their mean, and the paper's figure; a row has `row`, `kind` and `score`."""
    x = alt.X("score", type="quantitative", title=heading, scale=alt.Scale(zero=False))
    y = alt.Y("row", type="nominal", sort=list(names), title=None, axis=alt.Axis(labelLimit=140))
    tips = [
        alt.Tooltip("row", type="nominal"),
        alt.Tooltip("kind", type="nominal", title="figure"),
        alt.Tooltip("score", type="quantitative", format=".3f"),
    ]

    def layer(kind: str) -> alt.Chart:
        return alt.Chart(values_of([row for row in rows if row["kind"] == kind])).encode(x=x, y=y, tooltip=tips)

    marks = {
        "cell": layer("cell").mark_tick(color=colour, opacity=0.6, thickness=2, height=12),
        "measured": layer("measured").mark_point(color=colour, filled=True, size=70, opacity=1),
        "paper": layer("paper").mark_point(shape="diamond", color=BASELINE_COLOUR, size=80, strokeWidth=2, opacity=1),
    }
    layers = [mark for kind, mark in marks.items() if any(row["kind"] == kind for row in rows)]
    return as_spec(*layers, height=max(70, 22 * len(names)))
