"""scripts/papers_results.py: tables of results/*.jsonl in docs/results.md."""

import importlib.util
import shutil
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
NAME = "tiny-short"
BEGIN, END = (f"<!-- {word} {NAME}: written by scripts/papers_results.py -->" for word in ("table", "end of"))


@pytest.fixture
def repo(make_suite, experiment, tmp_path):
    """A repository with one suite, its results and a page for its table."""
    repo = tmp_path / "repo"
    for folder in ("docs", "recipes/tin", "results"):
        (repo / folder).mkdir(parents=True)
    (repo / "recipes/tin/suite.yaml").touch()
    shutil.copytree(make_suite(seeds=[1]), repo / "recipes/tiny")
    file = repo / "results" / f"{NAME}.jsonl"
    suite = repo / "recipes/tiny"
    experiment(suite, "--out", tmp_path / "out", "--profile", "short", "--results", file, "--rows", "plain")
    (repo / "docs/results.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    return repo


def test_table_and_figure_are_written_between_the_marks(repo):
    for _ in range(2):  # the second time changes nothing
        SCRIPT.main(repo)
        page = (repo / "docs/results.md").read_text(encoding="utf-8")
        command = (
            f"plait experiment recipes/tiny --data DIR --profile short --results results/{NAME}.jsonl --rows plain"
        )
        assert page.startswith(f"before\n{BEGIN}\n\n### Tiny table\n\n`{command}`\n\n| row |")
        assert page.endswith(f"\n\n![The paper's figures and the measured ones]({NAME}.svg)\n\n{END}\nafter\n")
        assert "| plain | 0." in page and "1 of 1" in page and "| faster |" not in page
        assert (repo / f"docs/{NAME}.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    "page", [f"{BEGIN}\nrest", f"{END}\nrest", f"{END}\n{BEGIN}\nrest", f"{BEGIN}\n" * 2 + END, ""]
)
def test_page_without_both_marks_in_order_is_left_alone(repo, page):
    path = repo / "docs/results.md"
    path.write_text(page, encoding="utf-8")
    with pytest.raises(SystemExit, match=rf"docs/results\.md has no place for {NAME}; add the line"):
        SCRIPT.main(repo)
    assert path.read_text(encoding="utf-8") == page


def test_mark_without_results_is_reported_with_the_command_for_them(repo):
    (repo / f"results/{NAME}.jsonl").unlink()
    command = f"plait experiment recipes/tiny --data DIR --profile short --results results/{NAME}.jsonl"
    with pytest.raises(SystemExit, match=rf"but no results/{NAME}\.jsonl; make it with: {command}"):
        SCRIPT.main(repo)


def test_file_that_is_not_named_after_a_suite_is_reported(repo):
    (repo / "results/other.jsonl").touch()
    with pytest.raises(SystemExit, match="other: is not named after a suite in recipes/: tin, tiny"):
        SCRIPT.main(repo)


def test_page_has_the_tables_and_figures_of_the_committed_results():
    page = (REPO / "docs/results.md").read_text(encoding="utf-8")
    names = [file.stem for file in sorted((REPO / "results").glob("*.jsonl"))]
    assert len(names) == 4
    for name in names:
        table, command = SCRIPT.read_table(REPO, name)
        figures = SCRIPT.figures_of(name, table)
        assert SCRIPT.fill(page, name, SCRIPT.as_markdown(table, command).strip(), list(figures)) == page
        for file, figure in figures.items():
            assert (REPO / "docs" / file).read_text(encoding="utf-8") == figure


@pytest.mark.parametrize(
    ("name", "row", "column", "figures"),
    [
        ("best-of-bert-laptop", "cosine", "plain mean", ("+0.262", "+0.228", "+0.296", "0.002")),
        ("minbert-downstream-laptop", "dps-mse", "sts", ("+0.559", "+0.226", "+0.891", "0.175")),
        ("robust-embeddings-laptop", "exp03", "mean", ("+0.056", "+0.031", "+0.081", "0.041")),
        ("triple-entropy-laptop", "trec-1k-te", "only", ("+0.013", "-0.013", "+0.039", "0.949")),
    ],
)
def test_committed_gains_are_those_that_were_measured(name, row, column, figures):
    table, _ = SCRIPT.read_table(REPO, name)
    entry = next(found for found in table.rows if found.name == row).entries[column]
    assert (f"{entry.gain.mean:+.3f}", f"{entry.gain.low:+.3f}", f"{entry.gain.high:+.3f}", f"{entry.p:.3f}") == figures
