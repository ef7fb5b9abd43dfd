"""The figures of a suite's table."""

from plait.experiments.curves import draw_curves, size_points
from plait.experiments.entries import SuiteTable
from plait.experiments.figure import draw_figure
from plait.experiments.groups import draw_groups
from plait.experiments.tables import figure_marks

__all__ = ["draw_figures"]


def draw_figures(table: SuiteTable) -> dict[str, str]:
    """Name → SVG: the table itself as `figure`, gains by `groups`, and `curves` over the number of training rows."""
    title = table.suite.title
    figures = {"figure": draw_figure(title, figure_marks(table))}
    if table.pooled:
        figures["groups"] = draw_groups(table)
    if points := size_points(table):
        figures["curves"] = draw_curves(title, points)
    return figures
