"""The records of a run directory, written and read again; also those that plait 0.1 wrote."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

import plait
from plait.errors import RunError
from plait.files import write_json, write_json_with_digest
from plait.runs.best_models import RankedModel
from plait.runs.directory import RunDirectory
from plait.runs.metrics_file import mark_after_step, read_metrics
from plait.runs.records import (
    ConflictLine,
    MetricsMark,
    ResultRecord,
    RunRecord,
    ScoresLine,
    StageResult,
    TrainLine,
    parse_line,
)

FIXTURE = Path(__file__).parent.parent / "fixtures/plait-0.1"
RUN = RunRecord(
    plait="0.2",
    torch="2.13",
    threads=2,
    baselines=True,
    single_task=False,
    keep=3,
    recipe={"lr": 1e-3},
    encoder={"config.json": "ab"},
    data={"mood": {"train": [{"name": "a.csv", "sha256": "cd", "rows": 2}]}},
    kept={},
    variants={"head linear": "linear.v1"},
)
STAGE = StageResult(["mood"], 6, 3, 0.5, {"mood": {"accuracy": 0.5}}, {"mood/same": {"mean": 0.1}})
RESULT = ResultRecord(
    best_step=3,
    best_score=0.5,
    steps=6,
    seconds=1.5,
    threads=1,
    scores={"mood": {"accuracy": 0.5}},
    baselines={"dev": {"frozen encoder": {"mood": 0.4}}},
    conflicts={"mood/same": {"mean": -0.1, "negative": 1.0, "count": 2}},
    last_weights_sha256="ef",
    kept=[RankedModel("epoch1", 3, 0.5), RankedModel("epoch2", 6, None)],
)
LINES = [
    TrainLine(1, None, 0, {"mood": 0.7}),
    TrainLine(7, 1, 0, {"mood": 0.7, "same": 0.1}),
    ConflictLine(2, None, {"mood/same": -0.5, "mood/near": None}),
    ScoresLine(
        3,
        None,
        0,
        dev={"mood": {"accuracy": 0.5}},
        kept={},
        recall={"mood": {"low": 1.0, "high": None}},
        train={"mood": {"accuracy": 0.6}},
        mean=0.5,
    ),
]


# ---------------------------------------------------------------- run.json


def test_run_json_is_read_as_it_was_written(tmp_path):
    write_json(tmp_path / "run.json", RUN.to_json())
    assert RunRecord.read(tmp_path / "run.json") == RUN


def test_run_json_of_an_older_plait_gets_defaults(tmp_path):
    value = {key: item for key, item in RUN.to_json().items() if key not in ("single_task", "keep", "kept", "variants")}
    write_json(tmp_path / "run.json", {**value, "added later": 1})
    found = RunRecord.read(tmp_path / "run.json")
    assert (found.single_task, found.keep, found.kept, found.variants) == (False, 0, {}, {})
    assert found.recipe == RUN.recipe


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"plait": "0.2"}', "3"])
def test_a_damaged_run_json_is_refused(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunError, match=r"run\.json: damaged; this run cannot be resumed, start a new one"):
        RunRecord.read(tmp_path / "run.json")


def test_a_folder_without_run_json_is_not_a_run(tmp_path):
    with pytest.raises(RunError, match="not a run; start one with plait train RECIPE --out "):
        _ = RunDirectory(tmp_path).record


# ---------------------------------------------------------------- result.json


@pytest.mark.parametrize("stages", [[], [STAGE, STAGE]], ids=["one stage", "two stages"])
def test_result_json_is_read_as_it_was_written(tmp_path, stages):
    record = ResultRecord(**{**RESULT.__dict__, "stages": stages})
    write_json(tmp_path / "result.json", record.to_json())
    assert ResultRecord.read(tmp_path / "result.json") == record
    assert ("stages" in record.to_json()) == bool(stages)


def test_result_json_of_an_older_plait_gets_defaults(tmp_path):
    value = {key: item for key, item in RESULT.to_json().items() if key not in ("conflicts", "kept")}
    write_json(tmp_path / "result.json", value)
    found = ResultRecord.read(tmp_path / "result.json")
    assert (found.conflicts, found.kept, found.stages) == ({}, [], [])


@pytest.mark.parametrize("text", ["", "[1]", '{"steps": 1}'])
def test_a_damaged_result_json_is_refused(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(RunError, match=r"result\.json: damaged; delete it, then resume the run"):
        ResultRecord.read(tmp_path / "result.json")


# ---------------------------------------------------------------- metrics.jsonl


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.kind} {line.step}")
def test_a_line_is_read_as_it_was_written(line):
    text = json.dumps(line.to_json())
    assert parse_line(text) == line
    assert ("stage" in json.loads(text)) == (line.stage is not None)
    assert next(iter(json.loads(text).items())) == ("kind", line.kind)


def test_a_line_with_recall_under_its_former_name_is_read():
    value = LINES[-1].to_json()
    old = {("per_class" if key == "recall" else key): item for key, item in value.items()}
    assert "per_class" in old and parse_line(json.dumps(old)) == LINES[-1]


@pytest.mark.parametrize(
    "text", ["", "{", "3", "[]", "{}", '{"kind": "other", "step": 1}', '{"kind": "train", "step": 1}']
)
def test_a_damaged_line_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_line(text)


def test_the_lines_of_plait_0_1_are_read():
    lines = list(read_metrics(FIXTURE / "run/metrics.jsonl"))
    assert [(type(line), line.step) for line in lines] == [
        (TrainLine, 1),
        (TrainLine, 2),
        (ConflictLine, 2),
        (TrainLine, 3),
        (ScoresLine, 3),
        (TrainLine, 4),
        (ConflictLine, 4),
        (TrainLine, 5),
    ]
    scores = lines[4]
    assert "per_class" in (FIXTURE / "run/metrics.jsonl").read_text()
    assert isinstance(scores, ScoresLine) and set(scores.recall["mood"]) == {"low", "high"}


def test_a_run_writes_lines_that_read_back(tiny_recipe, tmp_path):
    run = plait.train(tiny_recipe(conflict_every=2), tmp_path / "run", baselines=False).run
    lines = list(RunDirectory(run).metrics_lines())
    assert {line.kind for line in lines} == {"train", "conflict", "scores"}
    assert [json.dumps(line.to_json()) for line in lines] == (run / "metrics.jsonl").read_text().splitlines()


# ---------------------------------------------------------------- cutting metrics.jsonl back


def write_lines(run: RunDirectory, end: str = "") -> None:
    run.metrics.write_text("".join(json.dumps(line.to_json()) + "\n" for line in LINES if line.stage is None) + end)


@pytest.mark.parametrize(("step", "kept"), [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_lines_after_a_step_are_dropped(tmp_path, step, kept):
    run = RunDirectory(tmp_path)
    write_lines(run)
    run.cut_metrics(mark_after_step(run.metrics, step))
    assert len(list(run.metrics_lines())) == kept


@pytest.mark.parametrize("end", ['{"kind": "train", "st', json.dumps(LINES[0].to_json()), "\x00\n"])
def test_a_line_that_was_cut_short_is_dropped(tmp_path, end):
    run = RunDirectory(tmp_path)
    write_lines(run, end)
    run.cut_metrics(mark_after_step(run.metrics, 9))
    assert len(list(run.metrics_lines())) == 3


def test_a_damaged_line_is_named_and_drops_no_later_ones(tmp_path):
    run = RunDirectory(tmp_path)
    write_lines(run)
    before = run.metrics.read_bytes()
    run.metrics.write_bytes(before.replace(b"train", b"tr\xffin", 1))
    for read in (run.metrics_lines, lambda: mark_after_step(run.metrics, 9)):
        with pytest.raises(RunError, match=r"metrics\.jsonl: line 1 is damaged; restore the file from a copy"):
            read()
    mark = MetricsMark(len(before), hashlib.sha256(before).hexdigest())
    run.metrics.write_bytes(before.replace(b"0.7", b"0.6", 1))  # still a line
    with pytest.raises(RunError, match=r"metrics\.jsonl: modified after it was written"):
        run.metrics_lines(mark)


def test_a_record_with_a_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "run.json"
    write_json_with_digest(path, replace(RUN, digests=True).to_json())
    content = path.read_bytes()
    assert RunRecord.read(path) == replace(RUN, digests=True)
    harmless = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert RunRecord.read(path) == replace(RUN, digests=True)
            harmless += 1
        except RunError as error:
            assert "run.json: damaged; this run cannot be resumed, start a new one" in str(error)
    assert harmless < 3  # 1e-3 and 1E-3 are the same number


def test_a_run_without_metrics_has_nothing_to_cut(tmp_path):
    RunDirectory(tmp_path).cut_metrics(None)
    assert not (tmp_path / "metrics.jsonl").exists()
