"""The figure of a table."""

import itertools
from xml.etree import ElementTree

import pytest

from plait.experiments.figure import GAP, PANEL, Mark, draw_figure, round_axis, shorten, text_width

SVG = "{http://www.w3.org/2000/svg}"
MARKS = [
    Mark("exp01", "SST accuracy", 0.388, 0.401, 0.395, 0.407),
    Mark("exp01", "STS Pearson", -0.009, 0.1),
    Mark("exp02", "SST accuracy", 0.52, 0.5, 0.49, 0.51),
    Mark("exp02", "STS Pearson", 0.371),
    Mark("exp03", "SST accuracy", None, 0.48),
]


def parsed(marks=MARKS, title="A table") -> ElementTree.Element:
    return ElementTree.fromstring(draw_figure(title, marks))


def of(figure: ElementTree.Element, tag: str, kind: str) -> list[ElementTree.Element]:
    return [element for element in figure.iter(SVG + tag) if element.get("class") == kind]


def group(figure: ElementTree.Element, beginning: str) -> ElementTree.Element:
    """The marks whose description begins like this."""
    return next(g for g in figure.iter(SVG + "g") if g.find(SVG + "title").text.startswith(beginning))


def ticks(figure: ElementTree.Element, panel: int) -> dict[float, float]:
    """Number → x on the axis of a panel."""
    found = [(float(text.get("x")), float(text.text)) for text in of(figure, "text", "small")[2:]]
    headings = sorted(float(heading.get("x")) for heading in of(figure, "text", "heading"))
    return {number: x for x, number in found if abs(x - headings[panel]) <= PANEL / 2 + 1}


def test_marks_are_at_the_positions_that_the_axis_gives():
    figure = parsed()
    axis = ticks(figure, 0)
    assert sorted(axis) == [0.35, 0.4, 0.45, 0.5, 0.55]
    slope = (axis[0.55] - axis[0.35]) / 0.2
    marks = group(figure, "exp01, SST")
    expected = {value: axis[0.35] + slope * (value - 0.35) for value in (0.388, 0.401, 0.395, 0.407)}
    assert float(marks.find(f"{SVG}circle").get("cx")) == pytest.approx(expected[0.401], abs=0.02)  # two decimals
    line = marks.find(f"{SVG}line")
    assert float(line.get("x1")) == pytest.approx(expected[0.395], abs=0.02)
    assert float(line.get("x2")) == pytest.approx(expected[0.407], abs=0.02)
    diamond = marks.find(f"{SVG}path").get("d")
    assert float(diamond[1:].split()[0]) == pytest.approx(expected[0.388], abs=0.02)


def test_marks_are_on_the_line_of_their_row():
    figure = parsed()
    names = {name.text: float(name.get("y")) for name in of(figure, "text", "name")}
    assert list(names) == ["exp01", "exp02", "exp03"]
    for name in names:
        circle = group(figure, f"{name}, SST").find(f"{SVG}circle")
        assert float(circle.get("cy")) == names[name] - 4.5  # the baseline is below the middle of a letter


def test_row_without_a_measurement_shows_only_the_paper():
    figure = parsed()
    assert [child.tag for child in group(figure, "exp02, STS")] == [f"{SVG}title", f"{SVG}path"]
    assert [child.tag for child in group(figure, "exp03, SST")] == [f"{SVG}title", f"{SVG}circle"]
    assert [child.tag for child in group(figure, "exp01, STS")] == [f"{SVG}title", f"{SVG}circle", f"{SVG}path"]


def test_row_without_any_mark_keeps_its_name():
    figure = parsed([*MARKS, Mark("exp04", "SST accuracy")])
    assert of(figure, "text", "name")[-1].text == "exp04"
    assert len(list(figure.iter(SVG + "g"))) == len(MARKS)


def test_empty_columns_and_figures_can_be_drawn():
    assert len(of(parsed([Mark("a", "b")]), "text", "heading")) == 1
    assert of(parsed([]), "text", "large")[0].text == "A table"


def test_marks_have_descriptions():
    assert MARKS[0].description == "exp01, SST accuracy: paper 0.388, measured 0.401 (0.395 to 0.407)"
    assert MARKS[3].description == "exp02, STS Pearson: paper 0.371"


def test_figure_has_a_title_and_description_for_screen_readers():
    figure = parsed()
    assert figure.get("role") == "img"
    title = next(element for element in figure if element.get("id") == figure.get("aria-labelledby"))
    about = next(element for element in figure if element.get("id") == figure.get("aria-describedby"))
    assert title.text == "A table"
    assert about.text.startswith("3 rows; for each, in SST accuracy, STS Pearson:")
    assert figure.get("aria-labelledby") != parsed(title="Another").get("aria-labelledby")


def test_texts_are_escaped():
    figure = parsed([Mark('<b> & "c"\x00', "x > y", 0.5)], title="a < b\n& c")
    assert of(figure, "text", "name")[0].text == '<b> & "c" '
    assert of(figure, "text", "heading")[0].text == "x > y"
    assert of(figure, "text", "large")[0].text == "a < b & c"


@pytest.mark.parametrize("row", ["exp01", "W" * 15, "a long name of a row " * 9, "多任務學習的句子編碼器" * 5])
def test_names_overlap_nothing_and_are_complete_in_the_tooltip(row):
    figure = parsed([Mark(row, column, 0.0, 1.0, 0.0, 1.0) for column in ("first", "a heading " * 9, "third")])
    name = of(figure, "text", "name")[0]
    end = float(name.get("x"))
    shown = "".join(name.itertext()).removeprefix(row) if name.find(f"{SVG}title") is not None else name.text
    assert end - text_width(shown) > 0
    assert end < min(float(circle.get("x1")) for circle in of(figure, "line", "grid")) - 6  # half a diamond
    assert row in "".join(name.itertext())
    headings = [(float(h.get("x")), h[-1].tail if len(h) else h.text) for h in of(figure, "text", "heading")]
    for (x, words), (following, next_words) in itertools.pairwise(headings):
        assert x + text_width(words) / 2 < following - text_width(next_words) / 2
    assert max(x + text_width(words) / 2 for x, words in headings) < float(figure.get("width"))


def test_long_title_fits():
    assert float(parsed(title="Words of a title " * 10).get("width")) > text_width("Words of a title " * 10, 17)


def test_further_columns_are_below():
    figure = parsed([Mark("row", f"column {number}", 0.1 * number) for number in range(6)])
    places = [(float(h.get("x")), float(h.get("y"))) for h in of(figure, "text", "heading")]
    assert len({y for _, y in places}) == 2
    assert places[4][0] == places[0][0]
    assert places[1][0] - places[0][0] == pytest.approx(PANEL + GAP, abs=0.02)  # two decimals
    assert len(of(figure, "text", "name")) == 2
    assert float(figure.get("height")) > places[4][1] + 50


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        ([0.388, 0.93], ["0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([-0.009, 0.371], ["-0.1", "0.0", "0.1", "0.2", "0.3", "0.4"]),
        ([0.5], ["0.46", "0.48", "0.50", "0.52", "0.54"]),
        ([0], ["-0.05", "0.00", "0.05"]),
        ([81, 83.5], ["81", "82", "83", "84"]),
        ([], ["0.0", "0.5", "1.0"]),
    ],
)
def test_axes_have_round_numbers_and_include_all_values(values, numbers):
    axis = round_axis(values, 0)
    assert [number for _, number in axis.ticks] == numbers
    assert axis.ticks[0][0] == 0
    assert axis.ticks[-1][0] == PANEL
    assert all(0 <= axis.position(value) <= PANEL for value in values)


def test_figure_is_deterministic():
    assert draw_figure("A table", MARKS) == draw_figure("A table", MARKS)


def test_legend_names_the_interval():
    assert [text.text for text in of(parsed(), "text", "small")[:2]] == [
        "paper",
        "measured: mean and 95 % interval over cells",
    ]


def test_light_and_dark_mode_define_all_colours():
    text = draw_figure("A table", MARKS)
    light, dark = text.split("@media (prefers-color-scheme: dark)")
    for kind in ("text", ".small", ".back", ".stripe", ".grid", ".paper", ".measured", ".interval"):
        assert f".figure {kind} {{" in light
        assert f".figure {kind} {{" in dark.split("</style>")[0]


def test_long_text_is_shortened_to_the_given_width():
    assert shorten("short", 280) == "short"
    cut = shorten("a long name of a row " * 9, 280)
    assert cut.endswith("…")
    assert text_width(cut) <= 280 < text_width(cut) + 30
