"""scripts/papers_results.py: a page for each of results/*.jsonl, and the summary in docs/results.md."""

import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from plait.experiments.statistics import MeanDifference

REPO = Path(__file__).parents[2]


def results_script() -> ModuleType:
    place = importlib.util.spec_from_file_location("papers_results", REPO / "scripts/papers_results.py")
    assert place is not None and place.loader is not None
    script = importlib.util.module_from_spec(place)
    place.loader.exec_module(script)
    return script


SCRIPT = results_script()
NAME = "tiny-short"
QUESTION = SCRIPT.Question("Faster?", NAME, "faster", "near")


@pytest.fixture
def repo(make_suite, experiment, tmp_path):
    """A repository with one suite, its results and a page for the summary."""
    repo = tmp_path / "repo"
    for folder in ("docs", "recipes/tin", "results"):
        (repo / folder).mkdir(parents=True)
    (repo / "recipes/tin/suite.yaml").touch()
    shutil.copytree(make_suite(seeds=[1]), repo / "recipes/tiny")
    file = repo / "results" / f"{NAME}.jsonl"
    suite = repo / "recipes/tiny"
    experiment(suite, "--out", tmp_path / "out", "--profile", "short", "--results", file, "--rows", "plain")
    (repo / "docs/results.md").write_text(f"before\n{SCRIPT.BEGIN}\nold\n{SCRIPT.END}\nafter\n", encoding="utf-8")
    return repo


def test_page_figure_and_summary_are_written(repo):
    for _ in range(2):  # the second time changes nothing
        SCRIPT.main(repo, (QUESTION, SCRIPT.Question("Elsewhere?", "other", "plain", "near")))
        page = (repo / f"docs/results/{NAME}.md").read_text(encoding="utf-8")
        command = (
            f"plait experiment recipes/tiny --data DIR --profile short --results results/{NAME}.jsonl --rows plain"
        )
        assert page.startswith(f"<!-- {SCRIPT.AUTHOR} -->\n\n# Tiny table\n\n`{command}`\n\n| row |")
        assert f"![The paper's figures and the measured ones]({NAME}.svg)" in page
        assert "| plain | 0." in page and "1 of 1" in page and "| faster |" not in page
        assert (repo / f"docs/results/{NAME}.svg").read_text(encoding="utf-8").startswith("<svg")
        summary = (repo / "docs/results.md").read_text(encoding="utf-8")
        assert summary.startswith(f"before\n{SCRIPT.BEGIN}\n\n| question |")
        assert summary.endswith(f"\n\n{SCRIPT.END}\nafter\n") and "old" not in summary
        assert "| Faster? | `faster`, `plain`: " in summary and "| not run |" in summary and "Elsewhere" not in summary


@pytest.mark.parametrize(
    ("gain", "p", "verdict"),
    [(0.1, 0.049, "holds"), (0.1, 0.051, "not shown"), (-0.1, 0.01, "a loss"), (-0.1, 0.2, "not shown")],
)
def test_verdict_follows_the_corrected_test(gain, p, verdict):
    table, _ = SCRIPT.read_table(REPO, "best-of-bert-laptop")
    rows = [
        replace(row, entries={**row.entries, "sts": replace(row.entries["sts"], gain=found, p=p)})
        if row.name == "cosine"
        else row
        for found in [MeanDifference(gain, gain - 0.05, gain + 0.05, p)]
        for row in table.rows
    ]
    question = SCRIPT.Question("Cosine?", "best-of-bert-laptop", "cosine", "sts", "or so")
    line = SCRIPT.summary_of({question.table: replace(table, rows=tuple(rows))}, (question,)).splitlines()[-1]
    assert line.endswith(f"| {verdict}; or so |") and "| +0.537 |" in line  # the paper's .592 − .055


@pytest.mark.parametrize("marks", [("BEGIN",), ("END",), ("END", "BEGIN"), ("BEGIN", "BEGIN", "END"), ()])
def test_page_without_both_marks_in_order_is_left_alone(repo, marks):
    path, page = repo / "docs/results.md", "\n".join(getattr(SCRIPT, mark) for mark in marks) + "rest"
    path.write_text(page, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"docs/results\.md has no place for the summary; add the line"):
        SCRIPT.main(repo)
    assert path.read_text(encoding="utf-8") == page


def test_file_that_is_not_named_after_a_suite_is_reported(repo):
    (repo / "results/other.jsonl").touch()
    with pytest.raises(SystemExit, match="other: is not named after a suite in recipes/: tin, tiny"):
        SCRIPT.main(repo)


def test_pages_and_figures_are_those_of_the_committed_results():
    assert len(list((REPO / "results").glob("*.jsonl"))) == 4
    for path, text in SCRIPT.render(REPO).items():
        assert path.read_text(encoding="utf-8") == text, path


@pytest.mark.parametrize(
    ("name", "row", "column", "figures"),
    [
        ("best-of-bert-laptop", "cosine", "plain mean", ("+0.262", "+0.228", "+0.296", "0.002")),
        ("minbert-downstream-laptop", "dps-mse", "sts", ("+0.559", "+0.226", "+0.891", "0.146")),
        ("robust-embeddings-laptop", "exp03", "mean", ("+0.056", "+0.031", "+0.081", "0.041")),
        ("triple-entropy-laptop", "trec-1k-te", "only", ("+0.013", "-0.013", "+0.039", "0.949")),
    ],
)
def test_committed_gains_are_those_that_were_measured(name, row, column, figures):
    table, _ = SCRIPT.read_table(REPO, name)
    entry = next(found for found in table.rows if found.name == row).entries[column]
    assert (f"{entry.gain.mean:+.3f}", f"{entry.gain.low:+.3f}", f"{entry.gain.high:+.3f}", f"{entry.p:.3f}") == figures
