"""The page of a server, in a real browser."""

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from real_server import RealServer, running

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

WAIT = 30_000  # milliseconds
HOSTILE = "<img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def served(untrained: Path) -> Iterator[RealServer]:
    """A server on this machine, for the tests of this file."""
    with running(f"tiny={untrained}", "--workers", "1") as server:
        yield server


@pytest.fixture
def page(browser: Any, served: RealServer) -> Iterator[Any]:
    """The page, open; it must log no error, and no request may go elsewhere."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], color_scheme="light")
    context.set_default_timeout(WAIT)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    requests: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(served.address)
    opened.locator(".card").first.wait_for()
    yield opened
    context.close()
    assert errors == []
    assert [url for url in requests if not url.startswith((served.address, "blob:"))] == []


def tasks_of(served: RealServer, texts: int) -> dict[str, Any]:
    tasks = served.get("/model")["tasks"]
    return {name: task for name, task in tasks.items() if task["texts"] == texts}


def card(page: Any, name: str) -> Any:
    return page.locator(f'article[aria-label="{name}"]')


def wait_for_text(place: Any, text: str) -> None:
    sync_api.expect(place).to_have_text(text, timeout=WAIT)


def test_answers_follow_what_is_typed(page, served):
    name = next(name for name, task in tasks_of(served, 1).items() if task["kind"] == "classes")
    page.fill("#ask-first", "Quite another sentence.")
    answer = served.post(f"/predict/{name}", {"texts": "Quite another sentence."})["predictions"][0]
    wait_for_text(card(page, name).locator(".answer"), answer["label"])
    first = max(answer["probabilities"].values())
    sync_api.expect(card(page, name).locator(".bars li").first).to_contain_text(f"{100 * first:.0f}%", timeout=WAIT)
    assert page.locator(".card").count() == len(tasks_of(served, 1))


def test_a_second_text_is_compared_with_the_first(page, served):
    pairs = tasks_of(served, 2)
    name, task = next((name, task) for name, task in pairs.items() if task["kind"] == "score")
    page.fill("#ask-first", "One text.")
    page.fill("#ask-second", "And one more.")
    answer = served.post(f"/predict/{name}", {"pairs": [["One text.", "And one more."]]})["predictions"][0]
    wait_for_text(card(page, name).locator(".answer"), f"{answer['score']:.1f} of {task['range'][1]:g}")
    assert page.locator(".card").count() == len(pairs) + len(tasks_of(served, 1))


def test_a_card_shows_which_words_its_answer_depends_on(page, served):
    name = next(name for name, task in tasks_of(served, 1).items() if task["kind"] == "classes")
    text = f"Quite another {HOSTILE}"
    page.fill("#ask-first", text)
    sync_api.expect(page.locator("#python")).to_contain_text("Quite another", timeout=WAIT)  # the server has answered
    page.wait_for_function("document.querySelectorAll('.stale').length === 0")
    card(page, name).get_by_role("button", name="Which words?").click()
    wait_for_text(card(page, name).locator(".words"), text)
    found = served.post(f"/explain/{name}", {"example": text})["explanation"]["words"][0]
    marks = card(page, name).locator("mark")
    assert marks.all_text_contents() == [word["word"] for word in found]
    assert marks.first.get_attribute("title") == f"{found[0]['weight']:+.3f}"
    assert page.locator("#ask-answers img").count() == 0
    assert "client.explain(" in (page.locator("#python").text_content() or "")


def test_markup_in_a_text_stays_text(page):
    page.click("#tab-nearest")
    page.fill("#nearest-texts", f"{HOSTILE}\nharmless")
    sync_api.expect(page.locator("#nearest-answer")).to_contain_text(HOSTILE, timeout=WAIT)
    assert page.locator("#nearest-answer img").count() == 0
    assert page.title() == "plait"


def test_a_heat_map_compares_all_sentences(page, served):
    texts = ["A dog.", "A small dog.", "Rain in April."]
    page.click("#tab-compare")
    page.fill("#compare-texts", "\n".join(texts))
    sync_api.expect(page.locator(".heat tbody td")).to_have_count(9, timeout=WAIT)
    cells = page.locator(".heat tbody td").all_inner_texts()
    cosines = served.post("/similarity", {"first": texts})["similarities"]
    assert cells == [f"{value:.2f}" for row in cosines for value in row]
    page.select_option("#compare-by", index=1)
    sync_api.expect(page.locator(".heat")).not_to_have_attribute("aria-label", "Similarity by cosine", timeout=WAIT)
    sync_api.expect(page.locator(".heat tbody td")).to_have_count(9)


def test_the_nearest_sentences_come_first(page, served):
    texts = ["Rain in April.", "A small dog.", "A dog."]
    page.click("#tab-nearest")
    page.fill("#nearest-query", "A dog.")
    page.fill("#nearest-texts", "\n".join(texts))
    ranked = served.post("/rerank", {"query": "A dog.", "texts": texts})["results"]
    sync_api.expect(page.locator("#nearest-answer li")).to_have_count(3, timeout=WAIT)
    assert page.locator("#nearest-answer li span:first-child").all_inner_texts() == [
        texts[one["index"]] for one in ranked
    ]
    assert texts[ranked[0]["index"]] == "A dog."


def test_the_map_shows_a_text_on_hover_and_on_focus(page):
    page.click("#tab-map")
    page.fill("#map-texts", "A dog.\nA small dog.\nRain in April.\nSnow in May.")
    sync_api.expect(page.locator(".points circle")).to_have_count(4, timeout=WAIT)
    page.locator(".points circle").nth(2).hover()
    sync_api.expect(page.locator(".tip")).to_contain_text("Rain in April.")
    page.locator(".points circle").nth(3).focus()
    sync_api.expect(page.locator(".tip")).to_contain_text("Snow in May.")


def test_a_file_comes_back_with_predictions(page, served, tmp_path):
    name = next(name for name, task in tasks_of(served, 1).items() if task["kind"] == "classes")
    path = tmp_path / "notes.csv"
    path.write_text('number,note\n1,"A dog, a cat"\n2,"He said ""no"""\n3,Rain\n', encoding="utf-8")
    page.click("#tab-file")
    page.set_input_files("#file-input", path)
    for box in page.locator("#file-tasks input").all():
        box.set_checked(box.get_attribute("value") == name)
    page.click("#file-form button")
    with page.expect_download() as download:
        page.click("#file-download")
    assert download.value.suggested_filename == "notes-predictions.csv"
    with Path(download.value.path()).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = ["A dog, a cat", 'He said "no"', "Rain"]
    assert [row["note"] for row in rows] == texts
    answers = served.post(f"/predict/{name}", {"texts": texts})["predictions"]
    assert [row[f"{name} prediction"] for row in rows] == [answer["label"] for answer in answers]
    assert page.locator(".rows tbody tr").count() == 3


def test_a_broken_file_is_refused_with_its_reason(page, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b\n1,2\n3\n", encoding="utf-8")
    page.click("#tab-file")
    page.set_input_files("#file-input", path)
    wait_for_text(page.locator("#file-status"), "odd.csv: row 2 has 1 fields, and the headings 2")


def test_the_call_can_be_copied_and_runs(page, served):
    page.fill("#ask-first", "It's a dog.")
    sync_api.expect(page.locator("#curl")).to_contain_text("dog", timeout=WAIT)
    page.click("summary")
    page.click('[data-copies="curl"]')
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.startswith(f"curl '{served.address}/analyze'")
    if shutil.which("curl"):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        assert set(json.loads(done.stdout)["results"][0]["tasks"]) == set(tasks_of(served, 1))
    page.click('[data-copies="python"]')
    code = page.evaluate("navigator.clipboard.readText()")
    assert "plait.Client(" in code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_tabs_follow_the_keyboard(page):
    page.focus("#tab-ask")
    page.keyboard.press("ArrowRight")
    assert page.locator("#compare").is_visible() and not page.locator("#ask").is_visible()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.id") == "tab-file"
    page.keyboard.press("ArrowRight")
    assert page.locator("#ask").is_visible()


def test_colours_can_be_dark(page):
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.reload()
    assert page.get_attribute("html", "data-theme") == "dark"


@pytest.mark.parametrize("tab", ["ask", "compare", "nearest", "map", "file"])
def test_everything_fits_on_a_phone_and_has_a_name(page, tab):
    page.set_viewport_size({"width": 360, "height": 740})
    page.click(f"#tab-{tab}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    snapshot = page.locator("body").aria_snapshot()
    controls = re.findall(r"- (?:button|textbox|combobox|tab|link|checkbox)\b([^\n]*)", snapshot)
    assert len(controls) > 6
    assert [line for line in controls if not line.strip().startswith('"')] == []


def test_a_server_that_is_gone_is_reported(browser, served):
    opened = browser.new_page()
    opened.goto(served.address)
    opened.locator(".card").first.wait_for(timeout=WAIT)
    opened.route("**/analyze", lambda route: route.abort())
    opened.fill("#ask-first", "Nobody answers.")
    wait_for_text(opened.locator("#problem"), "The server does not answer.")
    opened.close()
