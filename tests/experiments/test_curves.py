"""The curves of a suite over the number of training rows."""

from xml.etree import ElementTree

import pytest

from plait.experiments.curves import SizePoint, draw_curves

SVG = "{http://www.w3.org/2000/svg}"
POINTS = [
    SizePoint("ce", "CR", 20, 0.60, 0.55, 0.65),
    SizePoint("te", "CR", 20, 0.62),
    SizePoint("ce", "CR", 100, 0.70, 0.68, 0.72),
    SizePoint("te", "CR", 100, 0.71),
    SizePoint("ce", "CR", 500, 0.80),
    SizePoint("ce", "TREC & Co", 20, 0.40),
    SizePoint("ce", "TREC & Co", 500, 0.90),
]


def dots(figure: ElementTree.Element) -> dict[str, tuple[float, float]]:
    """The place of every point, by its description."""
    found = {}
    for group in figure.iter(f"{SVG}g"):
        title, dot = group.find(f"{SVG}title"), group.find(f"{SVG}circle")
        if title is not None and dot is not None:
            found[title.text] = (float(dot.get("cx")), float(dot.get("cy")))
    return found


def test_every_point_is_drawn_where_its_rows_and_its_score_say():
    places = dots(ElementTree.fromstring(draw_curves("Few rows", POINTS)))
    assert next(iter(places)) == "ce, CR, 20 rows: 0.600 (0.550 to 0.650)" and len(places) == len(POINTS)
    (x1, y1), (x2, y2), (x3, y3) = (
        places[f"ce, CR, {rows}"]
        for rows in ("20 rows: 0.600 (0.550 to 0.650)", "100 rows: 0.700 (0.680 to 0.720)", "500 rows: 0.800")
    )
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.02)  # 20, 100 and 500 are equally far apart
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.02) and y1 > y3  # a higher score is higher up
    other = places["ce, TREC & Co, 20 rows: 0.400"]
    assert other[0] > x3  # its panel is to the right


def test_a_line_connects_the_points_of_a_method():
    figure = ElementTree.fromstring(draw_curves("Few rows", POINTS))
    lines = [path.get("d") for path in figure.iter(f"{SVG}path") if path.get("class") == "line"]
    assert [line.count("L") for line in lines] == [2, 1, 1]  # 3, 2 and 2 points
    assert [text.text for text in figure.iter(f"{SVG}text") if text.get("class") == "heading"] == ["CR", "TREC & Co"]
