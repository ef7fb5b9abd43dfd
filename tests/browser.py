"""A browser for the tests of pages."""

import os
import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
    """A chromium without a window; it is closed before tests of other modules, whose event loops it would disturb."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no chromium: apt-get install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=sandbox)
        yield opened
        opened.close()
