"""What `plait experiment` says once, and what it leaves out."""

import torch

from plait import measurement_cache
from plait.runs.directory import RunDirectory
from plait.training import threads


def test_the_number_of_threads_is_chosen_once(make_suite, experiment, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(measurement_cache, "_TOLERATED", -1e9)  # a busy machine, so that nothing is stored
    measured = iter([[3.0, 1.0], [1.0, 3.0]])
    monkeypatch.setattr(threads, "measure_threads", lambda config, counts: next(measured))
    torch.set_num_threads(2)
    try:
        _, err = experiment(make_suite(), "--out", tmp_path / "out", "--profile", "short", "--rows", "plain")
    finally:
        torch.set_num_threads(1)
    assert err.count("threads: 2, the fastest when measured") == err.count("threads: ") == 1
    runs = [RunDirectory(path.parent) for path in (tmp_path / "out").rglob("run.json")]
    assert [run.record.threads for run in runs] == [2, 2]


def test_a_table_of_ones_own_has_no_signs_of_a_paper(make_suite, experiment, tmp_path):
    suite = make_suite(paper_rows={}, rows={"plain": {}, "faster": {}})
    out, _ = experiment(suite, "--out", tmp_path / "out", "--profile", "short", "--seeds", "1")
    assert "he paper" not in out and not any(sign in out for sign in "ᵉʳⁿ")
    figure = (tmp_path / "out/figure.svg").read_text()
    assert ">measured: mean and 95 % interval over cells<" in figure and ">paper<" not in figure
    assert 'class="paper"' not in figure and "the paper's figure" not in figure
    assert "he paper" not in (tmp_path / "out/table.md").read_text()
