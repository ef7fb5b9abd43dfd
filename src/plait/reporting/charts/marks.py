"""What all charts share: colours, sizes, and the way to a Vega-Lite specification.

The page sets fonts and the colours of axes and text for its light and dark theme; marks without a colour of their own
take the theme's.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from plait.reporting.colours import colour_at

__all__ = ["HEIGHT", "as_spec", "scale_of", "values_of"]

HEIGHT = 220


def scale_of(names: Sequence[str], colours: Mapping[str, str] | None = None) -> alt.Scale:
    """The colour scale of some names."""
    used = [colours[name] if colours else colour_at(place) for place, name in enumerate(names)]
    return alt.Scale(domain=list(names), range=used)


def values_of(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows as the data of a chart; they become part of the specification."""
    return alt.InlineData(values=[{key: _finite(value) for key, value in row.items()} for row in rows])


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_spec(*layers: alt.Chart, height: int = HEIGHT) -> dict[str, Any]:
    """The specification of one or more layers, as wide as the page lets them be."""
    chart = layers[0] if len(layers) == 1 else alt.layer(*layers)
    spec: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    spec.pop("config", None)  # the page has its own
    return spec
