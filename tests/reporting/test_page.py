"""A page is one file: complete, escaped, and closed to the network."""

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser

from plait.reporting.page.blocks import (
    Chart,
    ChartGroup,
    Code,
    ExampleList,
    Notes,
    Page,
    PageTable,
    Section,
    ShownExample,
    Tag,
)
from plait.reporting.page.html import page_html
from plait.reporting.page.text import page_text

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)> & \"quoted\" 'too' </script><!--"


class Elements(HTMLParser):
    """The elements of a page, and the text of each script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
            self._in_script = True

    def handle_endtag(self, tag):
        if tag == "script":
            self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data
        else:
            self.text += data


def evil_page(*, chart: bool = True) -> Page:
    spec = {"data": {"values": [{"text": EVIL}]}, "mark": "point"}
    drawn = [ChartGroup([Chart(EVIL, EVIL, lambda: spec)])] if chart else []
    blocks = [
        PageTable([EVIL], [[EVIL]], EVIL),
        Notes([EVIL]),
        Code(EVIL, EVIL),
        ExampleList(
            EVIL, [ShownExample((EVIL,), (Tag(EVIL, EVIL),), EVIL, (ShownExample((EVIL,), (Tag(EVIL, EVIL),)),))]
        ),
        *drawn,
    ]
    return Page(EVIL, EVIL, [Section("One", EVIL, blocks)], [EVIL])


def test_every_text_is_escaped():
    found = Elements(page_html(evil_page()))
    assert [tag for tag, _ in found.tags].count("script") == 3  # the data, the library, the page's own
    assert "img" not in [tag for tag, _ in found.tags]
    assert not [attrs for _, attrs in found.tags if any(name.startswith("on") for name in attrs)]
    assert found.text.count(EVIL) >= 12


def test_the_data_of_charts_cannot_end_its_script():
    html = page_html(evil_page())
    data = re.search(r'<script type="application/json" id="charts">(.*?)</script>', html, re.DOTALL)[1]
    assert "<" not in data and ">" not in data
    assert json.loads(data)[0]["data"]["values"] == [{"text": EVIL}]


def test_the_policy_allows_the_scripts_of_the_page_and_nothing_else():
    html = page_html(evil_page())
    policy = unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1])
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules and "unsafe" not in rules["script-src"]
    digests = re.findall(r"'sha256-([^']+)'", rules["script-src"])
    scripts = Elements(html).scripts[1:]
    assert digests == [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]


def test_nothing_is_loaded_from_elsewhere():
    for _, attrs in Elements(page_html(evil_page())).tags:
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith("#")


def test_a_page_without_charts_has_no_library():
    html = page_html(evil_page(chart=False))
    assert Elements(html).scripts == ["[]"] and len(html) < 20_000


def test_text_has_tables_and_notes_but_no_code():
    table = PageTable(("task", "score"), [("mood", "0.912"), ("a longer name", "0.1")])
    hidden = PageTable(("file", "sha256"), [("a.csv", "abc")], brief=False)
    page = Page("run", "about it", [Section("Scores", "", [table, hidden, Notes(["One note."]), Code("x", "code")])])
    assert page_text(page).splitlines() == [
        "run",
        "about it",
        "",
        "Scores",
        "──────",
        "task           score",
        "mood           0.912",
        "a longer name  0.1",
        "One note.",
    ]
