"""Charts of the data."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from plait.reporting.charts.marks import HEIGHT, as_spec, values_of

__all__ = ["draw_balance", "draw_histogram"]

_SPLITS = ("train", "dev", "test")
_LEGEND = alt.Legend(title=None, orient="top")


def draw_balance(rows: Sequence[Mapping[str, Any]], names: Sequence[str], colour: str) -> dict[str, Any]:
    """The share of each class in each split."""
    chart = (
        alt.Chart(values_of(rows))
        .mark_bar(color=colour, cornerRadiusEnd=2)
        .encode(
            x=alt.X("share", type="quantitative", axis=alt.Axis(format="%"), title="share of rows"),
            y=alt.Y("label", type="nominal", sort=list(names), title=None),
            yOffset=alt.YOffset("split", type="nominal", sort=list(_SPLITS)),
            opacity=alt.Opacity(
                "split",
                type="ordinal",
                sort=list(_SPLITS),
                scale=alt.Scale(domain=list(_SPLITS), range=[1, 0.6, 0.3]),
                legend=_LEGEND,
            ),
            tooltip=[
                alt.Tooltip("label", type="nominal"),
                alt.Tooltip("split", type="nominal"),
                alt.Tooltip("rows", type="quantitative", format=","),
                alt.Tooltip("share", type="quantitative", format=".1%"),
            ],
        )
    )
    splits = len({row["split"] for row in rows})
    return as_spec(chart, height=max(HEIGHT, min(2 * HEIGHT, 13 * splits * len(names))))


def draw_histogram(rows: Sequence[Mapping[str, Any]], title: str, colour: str) -> dict[str, Any]:
    """A histogram, as shares of each split; a row has `from`, `to`, `split` and `share`."""
    chart = (
        alt.Chart(values_of(rows))
        .mark_line(color=colour, interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X("from", type="quantitative", title=title, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False)),
            y=alt.Y("share", type="quantitative", axis=alt.Axis(format="%"), title="share of rows"),
            strokeDash=alt.StrokeDash(
                "split",
                type="nominal",
                scale=alt.Scale(domain=list(_SPLITS), range=[[1, 0], [5, 3], [1, 2]]),
                legend=_LEGEND,
            ),
            tooltip=[
                alt.Tooltip("split", type="nominal"),
                alt.Tooltip("from", type="quantitative", format=".3~f"),
                alt.Tooltip("to", type="quantitative", format=".3~f"),
                alt.Tooltip("share", type="quantitative", format=".1%"),
            ],
        )
    )
    return as_spec(chart)
