"""The pages in a real browser: they open offline, draw every chart, and ask for nothing."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

import plait

WIDTHS = {"wide": 1280, "phone": 390}


@dataclass
class Opened:
    """A page in the browser, and everything that it said or asked for."""

    page: object
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()


@pytest.fixture
def open_page(browser):
    """Opens a file and waits until its charts are drawn."""
    contexts = []

    def open_file(path: Path, *, width: int = 1280, scheme: str = "light") -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("console", lambda message: opened.said.append(message.text))
        opened.page.on("pageerror", lambda error: opened.said.append(str(error)))
        opened.page.on("dialog", lambda dialog: (opened.said.append(dialog.message), dialog.dismiss()))
        opened.page.on("request", lambda request: opened.asked.append(request.url))
        opened.page.goto(path.as_uri())
        opened.page.wait_for_selector(f"html[data-drawn={scheme}]", state="attached", timeout=60_000)
        return opened

    yield open_file
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_and_nothing_leaves_the_file(open_page, page_file, width, scheme):
    opened = open_page(page_file, width=width, scheme=scheme)
    charts = opened.count("[data-chart]")
    assert (
        charts > 20 and opened.count("[data-chart] svg .mark-group, [data-chart] svg [role=graphics-symbol]") > charts
    )
    assert opened.count("[data-chart] svg") == charts
    assert opened.said == []  # neither a warning nor an error, and no alert
    assert opened.asked == [page_file.as_uri()]
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width


def test_a_request_from_the_page_is_refused(open_page, page_file):
    opened = open_page(page_file)
    refused = "fetch('https://example.org').then(() => 'sent', () => 'refused')"
    assert opened.page.evaluate(refused) == "refused"
    assert any("Content Security Policy" in words for words in opened.said)


def test_pointing_at_the_map_shows_the_text(open_page, page_file):
    opened = open_page(page_file)
    place = opened.page.locator("#map [data-chart]").first
    place.scroll_into_view_if_needed()
    point = place.locator("svg path[aria-roledescription=point]").first
    point.hover(force=True)
    tip = opened.page.locator("#vg-tooltip-element.visible")
    tip.wait_for(timeout=5_000)
    assert {"text", "label", "predicted"} <= {words.strip(": ") for words in tip.locator("td.key").all_inner_texts()}
    assert tip.locator("td.value").first.inner_text().strip()


def test_a_hostile_text_is_shown_as_text(open_page, page_file):
    opened = open_page(page_file)
    assert "<script>alert(1)</script>" in opened.page.locator("#mistakes, #label-errors").first.inner_text()
    place = opened.page.locator("#map [data-chart]").first
    place.scroll_into_view_if_needed()
    point = place.locator("svg path[aria-roledescription=point][aria-label*='<script>']").first
    point.hover(force=True)
    tip = opened.page.locator("#vg-tooltip-element.visible")
    tip.wait_for(timeout=5_000)
    assert "<script>alert(1)</script>" in tip.inner_text()
    assert opened.said == []


def test_the_theme_follows_the_reader(open_page, page_file):
    opened = open_page(page_file)
    colour = "getComputedStyle(document.body).backgroundColor"
    label = "document.querySelector('[data-chart] svg .role-axis-label text').getAttribute('fill')"
    light = opened.page.evaluate(f"[{colour}, {label}]")
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_selector("html[data-drawn=dark]", state="attached")
    dark = opened.page.evaluate(f"[{colour}, {label}]")
    assert dark[0] != light[0] and dark[1] != light[1]
    assert opened.said == []


def test_several_runs_short_runs_and_suites_open_too(open_page, hostile_run, other_run, trained_run, tmp_path):
    results = Path(__file__).parent.parent.parent / "results/minbert-downstream-laptop.jsonl"
    for sources in ((hostile_run, other_run), (trained_run,), (results,)):  # the second has one epoch of one step
        page = plait.report(*sources, out=tmp_path / "page.html", rows=20)
        opened = open_page(page, width=390)
        assert opened.count("[data-chart] svg") == opened.count("[data-chart]") > 0
        assert opened.said == [] and opened.asked == [page.as_uri()]
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
