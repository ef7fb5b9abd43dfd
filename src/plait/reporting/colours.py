"""The colours of tasks and runs, the same on every chart of a page."""

from collections.abc import Sequence

__all__ = ["BASELINE_COLOUR", "colour_at", "task_colours"]

# Dark enough for white paper, light enough for a dark screen; neighbours differ for colour-blind readers too.
_COLOURS = ("#3b82d6", "#e07a1f", "#2a9d76", "#b45fc4", "#c79a16", "#d64f63", "#4aa3b8", "#8a7560")
BASELINE_COLOUR = "#8b949e"


def colour_at(place: int) -> str:
    """The colour of a task, a class or a run, by its place."""
    return _COLOURS[place % len(_COLOURS)]


def task_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name."""
    return {name: colour_at(place) for place, name in enumerate(names)}
