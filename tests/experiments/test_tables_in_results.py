"""scripts/papers_results.py: tables of results/ in docs/results.md."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).parents[2]


def results_script() -> ModuleType:
    place = importlib.util.spec_from_file_location("papers_results", REPO / "scripts/papers_results.py")
    assert place is not None and place.loader is not None
    script = importlib.util.module_from_spec(place)
    place.loader.exec_module(script)
    return script


SCRIPT = results_script()
BEGIN, END = (f"<!-- {word} ours-laptop: written by scripts/papers_results.py -->" for word in ("table", "end of"))


@pytest.fixture
def repo(tmp_path):
    """A repository with one suite, its table and a page for it."""
    for folder in ("docs", "results/ours-laptop", "recipes/ours", "recipes/our"):
        (tmp_path / folder).mkdir(parents=True)
    for suite in ("ours", "our"):
        (tmp_path / "recipes" / suite / "suite.yaml").touch()
    (tmp_path / "results/ours-laptop/table.md").write_text("| a |\n", encoding="utf-8")
    (tmp_path / "results/ours-laptop/figure.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "docs/results.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    return tmp_path


def test_the_table_stands_between_its_marks_each_time(repo):
    for _ in range(2):
        SCRIPT.main(repo)
        page = (repo / "docs/results.md").read_text(encoding="utf-8")
        picture = "![The paper's figures and the measured ones](ours-laptop.svg)"
        assert page == f"before\n{BEGIN}\n\n| a |\n\n{picture}\n\n{END}\nafter\n"
        assert (repo / "docs/ours-laptop.svg").read_text() == "<svg/>"


@pytest.mark.parametrize(
    "page", [f"{BEGIN}\nrest", f"{END}\nrest", f"{END}\n{BEGIN}\nrest", f"{BEGIN}\n" * 2 + END, ""]
)
def test_a_page_without_both_marks_in_order_is_left_alone(repo, page):
    path = repo / "docs/results.md"
    path.write_text(page, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"docs/results\.md has no place for ours-laptop; it needs one line"):
        SCRIPT.main(repo)
    assert path.read_text(encoding="utf-8") == page


@pytest.mark.parametrize("file", ["table.md", "figure.svg"])
def test_a_marked_suite_without_a_table_is_told_with_the_command_for_it(repo, file):
    (repo / "results/ours-laptop" / file).unlink()
    command = "plait experiment recipes/ours --profile laptop --data DIR --out results/ours-laptop --table"
    with pytest.raises(SystemExit, match=f"results/ours-laptop has no {file}; write it with: {command}"):
        SCRIPT.main(repo)


def test_the_page_has_a_place_for_every_folder_of_results():
    page = (REPO / "docs/results.md").read_text(encoding="utf-8")
    for folder in (REPO / "results").iterdir():
        if folder.is_dir():
            SCRIPT.filled(page, folder.name, "")
