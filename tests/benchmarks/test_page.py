"""The page is written from stored results, and a finished benchmark is not run again."""

import json
import sys
from pathlib import Path

import pytest
import run
import store
from page import page, section


def measured(name: str, seconds: float, ratio: float, details: dict, how: str) -> dict:
    versions = {"torch": "2.13.0"} if how else {}
    spread = {"ratio": ratio, "low": ratio - 0.1, "high": ratio + 0.1}
    return {
        "name": name,
        "seconds": seconds,
        "megabytes": 1234.5,
        "megabytes_later": None,
        "told": details,
        "how": how,
        "versions": versions,
    } | spread


def result(**changes: object) -> dict:
    """The output of a benchmark with --json."""
    targets = [
        {"asked": "≥ 1.5 × peer", "measured": 1.6, "met": True},
        {"asked": "≥ 2 × peer", "measured": 1.6, "met": False},
        {"asked": "≥ 1 × other", "measured": None, "met": None},
    ]
    tables = [
        {
            "threads": threads,
            "facts": {"texts": 5000, "kind": "real"},
            "ways": [
                measured("plait", 10.0, 1.0, {"padding": "0 %"}, ""),
                measured("peer", 123.4, 1.6, {}, f"batches of {16 * threads}"),
            ],
            "targets": targets,
            "failed": {"other": "cannot be installed: no wheel"},
        }
        for threads in (2, 1)
    ]
    machine = {"processor": "A chip", "cores": 2, "gigabytes": 23.5}
    about = {"benchmark": "embed", "title": "Embedding", "size": "full", "rounds": 5, "machine": machine}
    return {**about, "versions": {"plait": "0.1.0", "torch": "2.13.0"}, "tables": tables, **changes}


@pytest.fixture
def docs(tmp_path, monkeypatch) -> Path:
    """A store and docs folder of the test's own, and fake benchmarks that log their arguments."""
    monkeypatch.setattr(store, "STORE", tmp_path / "store")
    monkeypatch.setattr(run, "DOCS", tmp_path)
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "NAMES", ("embed", "start"))
    (tmp_path / "benchmarks.head.md").write_text("# Benchmarks\n", encoding="utf-8")
    (tmp_path / "benchmarks.tail.md").write_text("The end.\n", encoding="utf-8")
    for name in run.NAMES:
        code = f"import sys; open({str(tmp_path / 'log')!r}, 'a').write(' '.join([{name!r}, *sys.argv[1:]]) + '\\n')\n"
        code += f"print({json.dumps(result(benchmark=name, title=name.title()))!r})\n"
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, docs: Path, *words: str) -> list[str]:
    """The benchmarks that a command ran."""
    (docs / "log").write_text("")
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    run.main()
    return (docs / "log").read_text().splitlines()


def test_section_has_a_table_per_number_of_threads_and_how_each_contender_was_called():
    lines = section(result()).splitlines()
    assert lines[:3] == ["## Embedding", "", "`python benchmarks/embed.py --full`: full size, 5 rounds."]
    assert "**2 threads.** texts: 5,000; kind: real." in lines and "**1 thread.** texts: 5,000; kind: real." in lines
    assert "| contender | seconds | time ratio | quartiles | MB | MB later | padding |" in lines
    assert lines.count("| plait | 10 | 1.00 | 0.90–1.10 | 1,234 |  | 0 % |") == 2
    assert lines.count("| peer | 123 | 1.60 | 1.50–1.70 | 1,234 |  |  |") == 2
    assert "- other did not take part: cannot be installed: no wheel" in lines
    assert lines[-2:] == [
        "- peer (threads: 2): batches of 32; torch 2.13.0",
        "- peer (threads: 1): batches of 16; torch 2.13.0",
    ]


def test_page_begins_with_all_targets_and_marks_those_that_are_missed():
    text = page([result()], {"start": "the outputs do not agree"}, "# Benchmarks\n", "## Failed attempts\n\nMany.\n")
    lines = text.splitlines()
    assert lines[0] == "# Benchmarks" and lines[-1] == "Many."
    assert "| Embedding | 2 | ≥ 1.5 × peer | 1.6 | met |" in lines
    assert "| Embedding | 1 | ≥ 2 × peer | 1.6 | **missed** |" in lines
    assert "| Embedding | 1 | ≥ 1 × other | – | not measured |" in lines
    assert "- `start` failed: the outputs do not agree" in lines
    assert "- `embed`: A chip, 2 cores, 23.5 GiB; plait 0.1.0, torch 2.13.0." in lines


def test_machine_is_listed_once_for_the_benchmarks_that_share_it():
    other = result(benchmark="start", machine={"processor": "Another", "cores": 4, "gigabytes": 8.0})
    lines = page([result(), result(benchmark="train"), other], {}, "", "").splitlines()
    assert "- `embed`, `train`: A chip, 2 cores, 23.5 GiB; plait 0.1.0, torch 2.13.0." in lines
    assert "- `start`: Another, 4 cores, 8.0 GiB; plait 0.1.0, torch 2.13.0." in lines


def test_full_size_does_not_rerun_finished_benchmarks_unless_named(docs, monkeypatch):
    assert call(monkeypatch, docs, "--full", "--again", "start") == ["embed --json --full", "start --json --full"]
    assert call(monkeypatch, docs, "--full") == []
    assert call(monkeypatch, docs, "--full", "--again", "start") == ["start --json --full"]
    (docs / "results/full/embed.json").unlink()
    assert call(monkeypatch, docs, "--full", "--page") == []
    assert "## Embed" not in (docs / "benchmarks.md").read_text(encoding="utf-8")
    assert call(monkeypatch, docs, "--full") == ["embed --json --full"]
    assert "## Embed" in (docs / "benchmarks.md").read_text(encoding="utf-8")


def test_reduced_size_runs_everything_each_time_or_only_those_named(docs, monkeypatch):
    assert call(monkeypatch, docs) == call(monkeypatch, docs) == ["embed --json", "start --json"]
    assert call(monkeypatch, docs, "--again", "start") == ["start --json"]
    assert (docs / "store/.gitignore").read_text() == "*\n"


def test_failed_benchmark_is_listed_without_its_old_figures(docs, monkeypatch):
    call(monkeypatch, docs)
    (docs / "start.py").write_text("raise SystemExit('start: the outputs do not agree')", encoding="utf-8")
    with pytest.raises(SystemExit, match="failed: start"):
        call(monkeypatch, docs)
    text = (docs / "benchmarks.md").read_text(encoding="utf-8")
    assert "- `start` failed: start: the outputs do not agree" in text
    assert "## Embed" in text and "## Start" not in text


def test_head_and_tail_of_the_page_are_current():
    docs = store.REPO / "docs"
    written, head, tail = (
        (docs / name).read_text(encoding="utf-8").strip()
        for name in ("benchmarks.md", "benchmarks.head.md", "benchmarks.tail.md")
    )
    assert written.startswith(head) and written.endswith(tail), "run python benchmarks/run.py --page"
