"""Ways take turns, ratios are those of one round, and who fails is named."""

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
    Way,
    agree,
    at_least,
    at_most,
    measure,
    table_to_json,
    take_turns,
)
from workers import WayFailed

HERE = Setting(full=False, threads=1)
SCRIPT = """
import sys
sys.path.insert(0, {benchmarks!r})
from compare import Benchmark, Disagreement, Ready, Way, agree, run

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
        "ours": Way(counted, prepare=lambda setting: setting.threads + 41, imports=("numpy",), how="as it is"),
        "other": Way(other),
        "broken": Way(broken),
        "breaks": Way(breaks),
    }},
    check=lambda outputs: agree(outputs, 1e-4),
    targets=lambda table: [],
    facts=lambda table: {{}},
)
if __name__ == "__main__":
    run(BENCHMARK)
"""


class Doer:
    """Takes the seconds that it is given, one a round; None is a failure."""

    def __init__(self, name: str, seconds: list[float | None], log: list[str]) -> None:
        self.name, self.seconds, self.log = name, seconds, log

    def work(self, keep: Path | None = None) -> float:
        self.log.append(self.name)
        took = self.seconds.pop(0)
        if took is None:
            raise WayFailed("ran out")
        if keep:
            np.save(keep, np.asarray(took))
        return took


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr("compare.time.sleep", lambda seconds: None)


@pytest.fixture
def script(tmp_path, monkeypatch) -> Path:
    """A benchmark of four ways, two of which fail, as the file that its workers run."""
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
    return Table(HERE, {name: Measured(name, own, megabytes=sum(own)) for name, own in times.items()}, {})


def test_every_way_works_once_a_round_in_an_order_that_turns_and_the_first_round_does_not_count():
    log: list[str] = []
    doers = {name: Doer(name, [9.0, 1.0, 2.0, 3.0], log) for name in ("a", "b", "c")}
    times, failed = take_turns(doers, 3, lambda outputs: None)
    assert "".join(log) == "cababcbcacab"
    assert times == {name: [1.0, 2.0, 3.0] for name in doers} and failed == {}


def test_the_outputs_of_the_first_round_are_checked_before_anything_is_counted():
    log: list[str] = []
    doers = {"a": Doer("a", [1.0, 1.0], log), "b": Doer("b", [1.5, 1.0], log)}
    with pytest.raises(Disagreement, match=r"b differs from a by 0\.5, more than 0\.1"):
        take_turns(doers, 1, lambda outputs: agree(outputs, 0.1))
    assert len(log) == 2


def test_an_output_that_is_not_a_number_does_not_agree():
    with pytest.raises(Disagreement):
        agree({"a": np.array([1.0]), "b": np.array([np.nan])}, 0.1)


def test_who_breaks_down_is_named_and_the_others_go_on():
    log: list[str] = []
    doers = {"a": Doer("a", [1.0, 1.0, 1.0], log), "b": Doer("b", [1.0, None], log)}
    times, failed = take_turns(doers, 2, lambda outputs: None)
    assert times == {"a": [1.0, 1.0]} and failed == {"b": "ran out"}


def test_a_ratio_is_the_median_of_the_ratios_of_each_round():
    found = table(ours=[1.0, 10.0, 2.0], peer=[2.0, 10.0, 8.0])  # the medians alone would give 8 / 2
    assert found.ratio("peer", "ours") == 2.0
    assert found.ratio("peer", "gone") is None
    assert found.memory("peer", "ours") == 20 / 13
    assert found.fastest(["peer", "gone"]) == "peer" and found.fastest(["gone"]) is None


def test_a_table_tells_medians_and_quartiles_of_the_ratios():
    benchmark = Benchmark("T", {"a": Way(lambda setting: dict), "b": Way(lambda setting: dict)}, dict, list, dict)
    found = table_to_json(
        Benchmark(**{**vars(benchmark), "targets": lambda table: [at_least(2, "×", 3.0)], "facts": lambda table: {}}),
        table(a=[1.0] * 5, b=[5.0, 1.0, 3.0, 2.0, 4.0]),
    )
    b = found["ways"][1]
    assert (b["seconds"], b["ratio"], b["low"], b["high"], b["megabytes"]) == (3.0, 3.0, 1.5, 4.5, 15.0)
    assert found["targets"] == [{"asked": "≥ 2 ×", "measured": 3.0, "met": True}]


def test_a_target_is_met_missed_or_not_measured():
    assert at_least(1.5, "× fast", 1.5) == Target("≥ 1.5 × fast", 1.5, True)
    assert at_most(1.15, "× slow", 1.2) == Target("≤ 1.15 × slow", 1.2, False)
    assert at_least(1.5, "× fast", None) == Target("≥ 1.5 × fast", None, None)


def test_workers_answer_and_those_that_fail_are_named_with_what_they_said(script):
    found = measure(load(script), HERE, rounds=2)
    assert list(found.ways) == ["ours", "other"]
    assert found.failed == {"broken": "ValueError: no such model", "breaks": "MemoryError: too large"}
    ours = found.ways["ours"]
    assert ours.how == "as it is; chosen" and ours.told == {"asked": 42}
    assert ours.versions == {"numpy": np.__version__} and len(ours.times) == 2 and ours.megabytes is not None
    assert found.ways["other"].told == {"difference": "1.0e-05"}


def test_a_benchmark_whose_outputs_do_not_agree_fails_and_says_by_how_much(script, minilm):
    script.write_text(script.read_text(encoding="utf-8").replace("2.00001", "2.5"), encoding="utf-8")
    done = subprocess.run([sys.executable, script, "--json", "--rounds", "1"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    said = "counting: the outputs do not agree: other differs from ours by 0.5, more than 0.0001"
    assert done.stderr.splitlines()[-1] == said


def test_the_result_tells_what_it_was_measured_on(script, minilm):
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
