"""`plait watch`: runs are listed and drawn while they train, in a real browser."""

import json
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from plait.errors import RequestError
from plait.reporting.watch.runs import WatchedRuns
from plait.reporting.watch.server import WatchServer

WAIT = 30_000  # milliseconds
NAME = "<img src=x>"


def write_run(folder: Path, steps: int = 3) -> Path:
    """A run that has begun: two tasks, and some steps with a score each."""
    folder.mkdir(parents=True)
    tasks = {"mood": {"metric": "accuracy"}, "near": {"metric": "pearson"}}
    versions = {"plait": "0", "torch": "0", "threads": 1}
    record = {**versions, "baselines": False, "encoder": {}, "data": {}, "kept": {}, "recipe": {"tasks": tasks}}
    (folder / "run.json").write_text(json.dumps(record))
    for step in range(1, steps + 1):
        add_step(folder, step)
    return folder


def add_step(folder: Path, step: int, end: str = "\n") -> None:
    dev = {"mood": {"accuracy": 0.5 + step / 100}, "near": {"pearson": 0.25}}
    lines = [
        {"kind": "train", "step": step, "epoch": 0, "loss": {"mood": 1 / step, "near": 2.0}},
        {"kind": "scores", "step": step, "epoch": 0, "dev": dev, "kept": {}, "recall": {}, "train": {}, "mean": 0.4},
    ]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("\n".join(map(json.dumps, lines)) + end)


def test_runs_are_described_as_far_as_they_are(tmp_path):
    first = write_run(tmp_path / "first")
    write_run(tmp_path / "deep/second", steps=0)
    runs = WatchedRuns([tmp_path])
    found = {run["name"]: run for run in runs.describe()}
    assert found.keys() == {"first", "deep/second"} and found["deep/second"]["step"] == 0
    assert found["first"]["step"] == 3 and not found["first"]["finished"] and found["first"]["best"] == 0.4
    assert found["first"]["losses"]["mood"] == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert found["first"]["scores"]["mood"][-1] == (3, 0.53)
    add_step(first, 4, end="")  # half a line
    assert next(run for run in runs.describe() if run["name"] == "first")["losses"]["mood"][-1][0] == 4
    with (first / "metrics.jsonl").open("a") as file:
        file.write("\n")
    (first / "result.json").write_text("{}")
    run = next(run for run in runs.describe() if run["name"] == "first")
    assert run["scores"]["mood"][-1] == (4, 0.54) and run["finished"]


def test_metrics_that_were_cut_are_read_again(tmp_path):
    folder = write_run(tmp_path / "run")
    runs = WatchedRuns([folder])
    assert runs.describe()[0]["step"] == 3 and runs.describe()[0]["name"] == "run"
    (folder / "metrics.jsonl").write_text("")
    add_step(folder, 1)
    assert [run["step"] for run in runs.describe()] == [1]


def test_a_damaged_run_is_left_out(tmp_path):
    write_run(tmp_path / "good")
    (write_run(tmp_path / "bad") / "run.json").write_text("{")
    assert [run["name"] for run in WatchedRuns([tmp_path]).describe()] == ["good"]


def test_a_folder_that_is_missing_is_refused(tmp_path):
    with pytest.raises(RequestError, match="nowhere: no such folder"):
        WatchedRuns([tmp_path / "nowhere"])


@pytest.fixture
def server(tmp_path):
    write_run(tmp_path / "first")
    write_run(tmp_path / NAME, steps=2)
    with WatchServer([tmp_path], port=0) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server: WatchServer, path: str, **headers: str) -> Any:
    return urllib.request.urlopen(urllib.request.Request(server.address + path, headers=headers), timeout=30)


def test_what_is_known_is_not_sent_again(server):
    first = ask(server, "/runs.json")
    assert len(json.load(first)["runs"]) == 2
    with pytest.raises(urllib.error.HTTPError, match="304"):
        ask(server, "/runs.json", **{"If-None-Match": first.headers["ETag"]})


def test_only_local_names_and_known_paths_are_answered(server):
    for path, headers, status in (
        ("/runs.json", {"Host": "evil.example:80"}, "403"),
        ("/../run.json", {}, "404"),
        ("/nothing", {}, "404"),
    ):
        with pytest.raises(urllib.error.HTTPError, match=status):
            ask(server, path, **headers)
    with pytest.raises(RequestError, match=f"`port` {server.server_port}: .*; choose another `port`"):
        WatchServer(server.runs.folders, server.server_port)


def test_the_page_draws_runs_as_they_train(server, browser, tmp_path):
    expect = pytest.importorskip("playwright.sync_api").expect
    context = browser.new_context(color_scheme="dark", viewport={"width": 390, "height": 800})
    context.set_default_timeout(WAIT)
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(server.address)
    page.locator("polyline").first.wait_for()
    assert page.locator("#runs li").count() == 2 and page.locator("#runs img").count() == 0
    assert NAME in page.locator("#runs").inner_text()
    assert page.locator("h2").all_text_contents() == ["mood", "near"]
    assert page.locator("figure").count() == 4 and page.locator("polyline").count() == 8
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing to scroll on a phone
    page.locator("svg").first.hover()
    expect(page.locator("output").first).to_contain_text("at step", timeout=WAIT)
    before = page.locator("polyline").first.get_attribute("points")
    for folder in (tmp_path / "first", tmp_path / NAME):
        add_step(folder, 9)
    expect(page.locator("polyline").first).not_to_have_attribute("points", before, timeout=WAIT)
    page.locator("#runs input").first.uncheck()
    expect(page.locator("polyline")).to_have_count(4, timeout=WAIT)
    context.close()
    assert errors == [] and all(url.startswith(server.address) for url in requests)
