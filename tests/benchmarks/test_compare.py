"""Contenders take turns, ratios compare within a round, and failures are reported."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compare import (
    Benchmark,
    Disagreement,
    Measured,
    Setting,
    Table,
    Target,
    agree,
    at_least,
    at_most,
    measure,
    table_to_json,
    take_turns,
)
from workers import ContenderFailed

SETTING = Setting(full=False, threads=1)
SCRIPT = """
import sys
sys.path.insert(0, {benchmarks!r})
from compare import Benchmark, Contender, Disagreement, Ready, agree, run

def counted(setting):
    print("a library that prints")
    return Ready(lambda: 2.0, {{"asked": lambda: setting.prepared}}, how="chosen")

def other(setting):
    return lambda: {other}

def broken(setting):
    raise ValueError("no such model")

def breaks(setting):
    calls = []
    def work():
        calls.append(1)
        if len(calls) > 1:
            raise MemoryError("too large")
        return 2.0
    return work

BENCHMARK = Benchmark(
    "Counting",
    {{
        "ours": Contender(counted, prepare=lambda setting: setting.threads + 41, imports=("numpy",), how="as it is"),
        "other": Contender(other),
        "broken": Contender(broken),
        "breaks": Contender(breaks),
    }},
    check=lambda outputs: agree(outputs, 1e-4),
    targets=lambda table: [],
    facts=lambda table: {{}},
)
if __name__ == "__main__":
    run(BENCHMARK)
"""


class FakeWorker:
    """Takes the given seconds, one per round; None is a failure."""

    def __init__(self, name: str, seconds: list[float | None], log: list[str]) -> None:
        self.name, self.seconds, self.log = name, seconds, log

    def work(self, keep: Path | None = None) -> float:
        self.log.append(self.name)
        took = self.seconds.pop(0)
        if took is None:
            raise ContenderFailed("ran out")
        if keep:
            np.save(keep, np.asarray(took))
        return took


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr("compare.time.sleep", lambda seconds: None)


@pytest.fixture
def script(tmp_path, monkeypatch) -> Path:
    """A benchmark of four contenders, two of which fail, as the file that its workers run."""
    path = tmp_path / "counting.py"
    benchmarks = Path(__file__).parent.parent.parent / "benchmarks"
    path.write_text(SCRIPT.format(benchmarks=str(benchmarks), other="2.00001"), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


def load(path: Path) -> Benchmark:
    found: dict = {"__name__": "counting"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), found)
    return found["BENCHMARK"]


def table(**times: list[float]) -> Table:
    return Table(SETTING, {name: Measured(name, own, megabytes=sum(own)) for name, own in times.items()}, {})


def test_every_contender_works_once_per_round_in_rotating_order_and_the_warm_up_is_not_timed():
    log: list[str] = []
    workers = {name: FakeWorker(name, [9.0, 1.0, 2.0, 3.0], log) for name in ("a", "b", "c")}
    times, failed = take_turns(workers, 3, lambda outputs: None)
    assert "".join(log) == "cababcbcacab"
    assert times == {name: [1.0, 2.0, 3.0] for name in workers} and failed == {}


def test_outputs_of_the_warm_up_are_checked_before_anything_is_timed():
    log: list[str] = []
    workers = {"a": FakeWorker("a", [1.0, 1.0], log), "b": FakeWorker("b", [1.5, 1.0], log)}
    with pytest.raises(Disagreement, match=r"b differs from a by 0\.5, more than 0\.1"):
        take_turns(workers, 1, lambda outputs: agree(outputs, 0.1))
    assert len(log) == 2


def test_nan_does_not_agree_with_anything():
    with pytest.raises(Disagreement):
        agree({"a": np.array([1.0]), "b": np.array([np.nan])}, 0.1)


def test_a_crash_is_reported_and_the_others_continue():
    log: list[str] = []
    workers = {"a": FakeWorker("a", [1.0, 1.0, 1.0], log), "b": FakeWorker("b", [1.0, None], log)}
    times, failed = take_turns(workers, 2, lambda outputs: None)
    assert times == {"a": [1.0, 1.0]} and failed == {"b": "ran out"}


def test_ratio_is_the_median_over_rounds():
    found = table(ours=[1.0, 10.0, 2.0], peer=[2.0, 10.0, 8.0])  # the medians alone would give 8 / 2
    assert found.ratio("peer", "ours") == 2.0
    assert found.ratio("peer", "missing") is None
    assert found.memory("peer", "ours") == 20 / 13
    assert found.fastest(["peer", "missing"]) == "peer" and found.fastest(["missing"]) is None


def test_table_has_medians_and_quartiles_of_the_ratios():
    benchmark = Benchmark("T", {}, check=dict, targets=lambda table: [at_least(2, "×", 3.0)], facts=lambda table: {})
    found = table_to_json(benchmark, table(a=[1.0] * 5, b=[5.0, 1.0, 3.0, 2.0, 4.0]))
    b = found["ways"][1]
    assert (b["seconds"], b["ratio"], b["low"], b["high"], b["megabytes"]) == (3.0, 3.0, 1.5, 4.5, 15.0)
    assert found["targets"] == [{"asked": "≥ 2 ×", "measured": 3.0, "met": True}]


def test_target_is_met_missed_or_not_measured():
    assert at_least(1.5, "× fast", 1.5) == Target("≥ 1.5 × fast", 1.5, True)
    assert at_most(1.15, "× slow", 1.2) == Target("≤ 1.15 × slow", 1.2, False)
    assert at_least(1.5, "× fast", None) == Target("≥ 1.5 × fast", None, None)


def test_failed_workers_are_reported_with_the_last_line_of_their_output(script):
    found = measure(load(script), SETTING, rounds=2)
    assert list(found.contenders) == ["ours", "other"]
    assert found.failed == {"broken": "ValueError: no such model", "breaks": "MemoryError: too large"}
    ours = found.contenders["ours"]
    assert ours.how == "as it is; chosen" and ours.details == {"asked": 42}
    assert ours.versions == {"numpy": np.__version__} and len(ours.times) == 2 and ours.megabytes is not None
    assert found.contenders["other"].details == {"difference": "1.0e-05"}


def test_disagreeing_outputs_fail_the_benchmark_and_the_difference_is_shown(script, minilm):
    script.write_text(script.read_text(encoding="utf-8").replace("2.00001", "2.5"), encoding="utf-8")
    done = subprocess.run([sys.executable, script, "--json", "--rounds", "1"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    message = "counting: the outputs do not agree: other differs from ours by 0.5, more than 0.0001"
    assert done.stderr.splitlines()[-1] == message


def test_result_records_machine_and_versions(script, minilm):
    command = [sys.executable, script, "--json", "--rounds", "2", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["benchmark"], found["title"], found["size"], found["rounds"]) == (
        "counting",
        "Counting",
        "reduced",
        2,
    )
    assert set(found["machine"]) == {"processor", "cores", "gigabytes"} and set(found["versions"]) >= {"plait", "torch"}
    (only,) = found["tables"]
    assert only["threads"] == 1 and [way["name"] for way in only["ways"]] == ["ours", "other"]
    assert only["ways"][0]["ratio"] == 1.0 and set(only["failed"]) == {"broken", "breaks"}
