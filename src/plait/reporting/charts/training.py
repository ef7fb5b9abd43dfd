"""Charts of a run over its steps."""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from plait.reporting.charts.marks import as_spec, scale_of, values_of
from plait.reporting.colours import BASELINE_COLOUR
from plait.reporting.curves import CosinePoint, CurvePoint, Turn

__all__ = ["draw_cosines", "draw_losses", "draw_schedule", "draw_scores"]

_steps = partial(
    alt.X,
    type="quantitative",
    scale=alt.Scale(nice=False),
    axis=alt.Axis(title="step", format="~s", tickMinStep=1, grid=False),
)


def _rules(steps: Sequence[int], *, dash: Sequence[int]) -> alt.Chart:
    """Thin vertical lines at some steps."""
    data = values_of([{"step": step} for step in steps])
    rules: alt.Chart = alt.Chart(data).mark_rule(strokeDash=list(dash), opacity=0.45).encode(x=_steps("step"))
    return rules


def draw_losses(points: Sequence[CurvePoint], colour: str) -> dict[str, Any]:
    """The training loss of one task, with a moving average."""
    values = [point.value for point in points]
    near = max(1, len(points) // 16)  # points on each side
    smooth = [statistics.fmean(values[max(0, place - near) : place + near + 1]) for place in range(len(points))]
    rows = [{"step": point.step, "loss": point.value, "mean": mean} for point, mean in zip(points, smooth, strict=True)]
    base = alt.Chart(values_of(rows)).encode(
        x=_steps("step"),
        tooltip=[
            alt.Tooltip("step", type="quantitative", format=","),
            alt.Tooltip("loss", type="quantitative", format=".4f"),
        ],
    )
    loss = alt.Y("loss", type="quantitative", title="training loss", scale=alt.Scale(zero=False))
    return as_spec(
        base.mark_line(color=colour, strokeWidth=1, opacity=0.35, point=len(points) < 3).encode(y=loss),
        base.mark_line(color=colour, strokeWidth=2.2).encode(y=alt.Y("mean", type="quantitative")),
    )


def draw_scores(
    points: Sequence[CurvePoint], metric: str, colour: str, best: int | None, baseline: tuple[str, float] | None
) -> dict[str, Any]:
    """The scores of one task at each evaluation, with its best baseline and the step of the best model."""
    names = {"dev": "dev", "train": "train (sample)", "choose": "rows that choose"}
    data = values_of([{"step": point.step, "score": point.value, "rows": names[point.of]} for point in points])
    base = alt.Chart(data).encode(
        x=_steps("step"),
        y=alt.Y("score", type="quantitative", title=metric, scale=alt.Scale(zero=False)),
        strokeDash=alt.StrokeDash(
            "rows",
            type="nominal",
            scale=alt.Scale(domain=list(names.values()), range=[[1, 0], [5, 3], [2, 2]]),
            legend=alt.Legend(title=None, orient="top", values=[names[of] for of in names if _has(points, of)]),
        ),
        tooltip=[
            alt.Tooltip("rows", type="nominal"),
            alt.Tooltip("step", type="quantitative", format=","),
            alt.Tooltip("score", type="quantitative", format=".3f", title=metric),
        ],
    )
    layers: list[alt.Chart] = []
    if baseline:
        level = alt.Chart(values_of([{"name": baseline[0], "score": baseline[1]}])).encode(
            y=alt.Y("score", type="quantitative"),
            tooltip=[
                alt.Tooltip("name", type="nominal", title="best baseline"),
                alt.Tooltip("score", type="quantitative", format=".3f"),
            ],
        )
        layers.append(level.mark_rule(color=BASELINE_COLOUR, strokeDash=[1, 3], strokeWidth=2))
        name = alt.Text("name", type="nominal")
        words = level.mark_text(align="right", dx=-2, dy=9, fontSize=10, color=BASELINE_COLOUR)
        layers.append(words.encode(x=alt.value("width"), text=name))
    layers.append(base.mark_line(color=colour, strokeWidth=2))
    layers.append(base.mark_point(color=colour, filled=True, size=36, opacity=1))
    if best is not None:
        layers.append(_rules([best], dash=(4, 2)))
    return as_spec(*layers)


def _has(points: Sequence[CurvePoint], of: str) -> bool:
    return any(point.of == of for point in points)


def draw_schedule(
    turns: Sequence[Turn], colours: Mapping[str, str], epochs: Sequence[int], stages: Sequence[int]
) -> dict[str, Any]:
    """Which task was trained when."""
    tasks = list(dict.fromkeys(turn.task for turn in turns))
    rows = [
        {"task": turn.task, "from": turn.first - 0.5, "to": turn.last + 0.5, "share": turn.share, "steps": _range(turn)}
        for turn in turns
        if turn.share
    ]
    strips = (
        alt.Chart(values_of(rows))
        .mark_rect()
        .encode(
            x=_steps("from"),
            x2="to",
            y=alt.Y("task", type="nominal", title=None, sort=tasks, scale=alt.Scale(paddingInner=0.25)),
            color=alt.Color("task", type="nominal", scale=scale_of(tasks, colours), legend=None),
            opacity=alt.Opacity(
                "share", type="quantitative", scale=alt.Scale(domain=[0, 1], range=[0.08, 1]), legend=None
            ),
            tooltip=[
                alt.Tooltip("task", type="nominal"),
                alt.Tooltip("steps", type="nominal"),
                alt.Tooltip("share", type="quantitative", format=".0%", title="of these steps"),
            ],
        )
    )
    marks = ((epochs, (2, 3)), (stages, (1, 0)))
    layers = [strips, *(_rules(steps, dash=dash) for steps, dash in marks if steps)]
    return as_spec(*layers, height=max(60, 34 * len(tasks)))


def _range(turn: Turn) -> str:
    return f"{turn.first:,}" if turn.first == turn.last else f"{turn.first:,} to {turn.last:,}"


def draw_cosines(cosines: Sequence[CosinePoint]) -> dict[str, Any]:
    """The cosine between the gradients of each pair of tasks."""
    pairs = list(dict.fromkeys(cosine.pair for cosine in cosines))
    data = values_of([{"pair": one.pair, "step": one.step, "cosine": one.value} for one in cosines])
    base = alt.Chart(data).encode(
        x=_steps("step"),
        y=alt.Y("cosine", type="quantitative", title="cosine"),
        color=alt.Color(
            "pair", type="nominal", scale=scale_of(pairs), legend=alt.Legend(title=None, orient="top", columns=2)
        ),
        tooltip=[
            alt.Tooltip("pair", type="nominal"),
            alt.Tooltip("step", type="quantitative", format=","),
            alt.Tooltip("cosine", type="quantitative", format="+.3f"),
        ],
    )
    zero = alt.Chart(values_of([{"cosine": 0}])).mark_rule().encode(y=alt.Y("cosine", type="quantitative"))
    trend = base.mark_line(interpolate="monotone", strokeWidth=1.6)
    return as_spec(zero, base.mark_point(filled=True, size=14, opacity=0.5), trend)
