"""Results files: cells and gains of a suite in one JSON-lines file."""

import json
import multiprocessing
from dataclasses import replace

import pytest

from plait.errors import RunError
from plait.experiments.records import CellResult
from plait.experiments.results_file import RecordedGain, ResultsFile
from plait.experiments.tune import FinishedTrial

RESULT = CellResult(
    scores={"mood": 0.1 + 0.2},
    metrics={"mood": "accuracy"},
    kinds={"mood": "classes"},
    encoder="tiny",
    rows={"mood": 24},
    epochs=[2],
    seconds=1.25,
    recipe={"encoder": "tiny", "lr": 1e-3, "seed": 1, "fold": None},
    row={"grid": {"lr": [1, 2]}, "search": None},
    data={"mood.csv": "abc"},
    settings=["lr=2"],
    trials=[FinishedTrial(0, {"lr": 1}, 0.5, "complete"), FinishedTrial(1, {"lr": 2}, None, "pruned")],
    versions={"plait": "0.2"},
)
GAIN = RecordedGain("b", "mood", "a", [1, 2], 0.1, 0.05, 0.15, 0.01, None)


def with_seed(seed: int, fold: str | None = None, **keys: object) -> CellResult:
    return replace(RESULT, recipe={**RESULT.recipe, "seed": seed, "fold": fold, **keys})


def kinds(path) -> list[str]:
    return [json.loads(line)["kind"] for line in path.read_text(encoding="utf-8").splitlines()]


# The file


def test_cells_and_gains_are_read_as_they_were_added(tmp_path):
    path = tmp_path / "results" / "suite.jsonl"
    file = ResultsFile(path)
    file.add("a", 1, None, with_seed(1))
    file.add("a", 2, None, with_seed(2))
    file.add("b", 1, "3/5", with_seed(1, "3/5", lr=0.5))
    file.add_gains([GAIN])
    for read in (file, ResultsFile(path)):
        assert read.find("a", 2, None).result == with_seed(2)
        assert read.find("b", 1, "3/5").result == with_seed(1, "3/5", lr=0.5)
        assert read.find("b", 1, "3/5").where == f"{path}:5"
        assert read.find("a", 3, None) is None and read.find("b", 1, None) is None
        assert read.rows() == {"a", "b"}
        assert read.find_gain("b", "mood") == GAIN and read.find_gain("a", "mood") is None


def test_recipe_of_a_row_is_written_once(tmp_path):
    path = tmp_path / "suite.jsonl"
    file = ResultsFile(path)
    for seed in (1, 2):
        file.add("a", seed, None, with_seed(seed))
    assert kinds(path) == ["row", "cell", "cell"]
    row, *cells = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert row["recipe"] == {"encoder": "tiny", "lr": 1e-3} and row["keys"] == RESULT.row
    assert {cell["recipe"] for cell in cells} == {row["hash"]}
    file.add("a", 3, None, with_seed(3, precision="float32"))  # of a plait that has another key
    assert kinds(path) == ["row", "cell", "cell", "row", "cell"]
    assert file.find("a", 1, None).result == with_seed(1)


def test_listed_cell_is_not_added_again(tmp_path):
    path = tmp_path / "suite.jsonl"
    for scores in ({"mood": 0.1}, {"mood": 0.9}):
        ResultsFile(path).add("a", 1, None, replace(RESULT, scores=scores))
    assert kinds(path) == ["row", "cell"]
    assert ResultsFile(path).find("a", 1, None).result.scores == {"mood": 0.1}


def test_only_new_gains_are_added_and_the_last_counts(tmp_path):
    path = tmp_path / "suite.jsonl"
    file, newer = ResultsFile(path), replace(GAIN, seeds=[1, 2, 3], p=0.2)
    for gain in (GAIN, GAIN, newer):
        file.add_gains([gain])
    assert kinds(path) == ["gain", "gain"] and ResultsFile(path).find_gain("b", "mood") == newer


def test_file_that_another_process_changed_is_read_again(tmp_path):
    path = tmp_path / "suite.jsonl"
    file = ResultsFile(path)
    assert file.find("a", 1, None) is None
    ResultsFile(path).add("a", 1, None, RESULT)
    assert file.find("a", 1, None).result == RESULT


def test_damaged_line_is_reported_with_its_number(tmp_path):
    path = tmp_path / "suite.jsonl"
    ResultsFile(path).add("a", 1, None, RESULT)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for damaged in (
        "half a line\n",
        '{"kind": "cell"}\n',
        '{"kind": "other"}\n',
        "[]\n",
        lines[1].replace("scores", "x"),
    ):
        path.write_text("".join([lines[0], damaged, lines[1]]), encoding="utf-8")
        with pytest.raises(RunError, match=rf"{path}:2: damaged; remove this line"):
            ResultsFile(path).find("a", 1, None)


@pytest.mark.parametrize("half", [b'{"kind": "cell", "ro', b"{", b"\xff"])
def test_line_that_a_killed_process_did_not_finish_is_removed(tmp_path, half):
    path = tmp_path / "suite.jsonl"
    ResultsFile(path).add("a", 1, None, RESULT)
    whole = path.read_bytes()
    path.write_bytes(whole + half)
    assert ResultsFile(path).find("a", 1, None).result == RESULT
    ResultsFile(path).add("a", 2, None, with_seed(2))
    assert path.read_bytes().startswith(whole) and kinds(path) == ["row", "cell", "cell"]


def test_last_line_may_lack_its_line_feed(tmp_path):
    path = tmp_path / "suite.jsonl"
    ResultsFile(path).add("a", 1, None, RESULT)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    ResultsFile(path).add("a", 2, None, with_seed(2))
    assert ResultsFile(path).find("a", 1, None) and kinds(path) == ["row", "cell", "cell"]


def add_cells(path, row: str) -> None:
    for seed in range(20):
        ResultsFile(path).add(row, seed, None, with_seed(seed, lr=len(row)))


def test_processes_add_to_one_file(tmp_path):
    path = tmp_path / "suite.jsonl"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add_cells, args=(path, row)) for row in ("a", "bb")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert kinds(path).count("cell") == 40 and kinds(path).count("row") == 2
    assert all(ResultsFile(path).find(row, seed, None) for row in ("a", "bb") for seed in range(20))


# The command


def table(out) -> dict:
    return json.loads((out / "table.json").read_text())


def test_cells_in_a_results_file_count_as_done(make_suite, experiment, tmp_path):
    suite, file = make_suite(), tmp_path / "results.jsonl"
    experiment(suite, "--out", tmp_path / "one", "--results", file, "--seeds", "1")
    assert kinds(file) == ["row", "cell", "row", "cell", *["gain"] * 4]
    _, notes = experiment(suite, "--out", tmp_path / "two", "--results", file, "--seeds", "1,2", "--rows", "plain")
    assert "1 of 2 cells are already done" in notes
    assert not (tmp_path / "two/plain/seed-1").exists() and (tmp_path / "two/plain/seed-2/cell.json").is_file()
    assert kinds(file).count("cell") == 3
    shown, _ = experiment(suite, "--out", tmp_path / "three", "--results", file, "--table")
    assert "2 of 2" in shown and "1 of 2" in shown
    versions = [json.loads(line).get("versions") for line in file.read_text().splitlines()]
    assert {"plait", "torch"} in [set(found) for found in versions if found]


def test_table_of_a_results_file_needs_neither_runs_nor_data(make_suite, experiment, tmp_path):
    suite, file, out = make_suite(), tmp_path / "results.jsonl", tmp_path / "out"
    experiment(suite, "--out", out, "--results", file, "--seeds", "1")
    before, lines = table(out), file.read_bytes()
    (tmp_path / "data").rename(tmp_path / "gone")
    experiment(suite, "--out", tmp_path / "other", "--results", file, "--seeds", "1", "--table")
    assert table(tmp_path / "other") == before
    assert any(entry["p"] is not None for entry in before["entries"]) and file.read_bytes() == lines
    _, error = experiment(suite, "--out", tmp_path / "other", "--results", file, "--seeds", "1,2", code=2)
    assert "no file" in error  # new cells need data


def test_recorded_gain_counts_only_for_the_cells_that_it_was_measured_on(make_suite, experiment, tmp_path):
    suite, file = make_suite(), tmp_path / "results.jsonl"
    experiment(suite, "--out", tmp_path / "one", "--results", file, "--seeds", "1")
    shown, _ = experiment(suite, "--out", tmp_path / "two", "--results", file, "--seeds", "1,2")
    assert "faster is not tested against plain" in shown and "predictions of some of their cells are not here" in shown
    assert kinds(file).count("gain") == 4  # nothing new was tested
    shown, _ = experiment(suite, "--out", tmp_path / "three", "--results", file, "--seeds", "1", "--table")
    assert "not tested" not in shown


def test_finished_cells_of_a_folder_are_added_to_the_file(make_suite, experiment, tmp_path):
    suite, file, out = make_suite(), tmp_path / "results.jsonl", tmp_path / "out"
    experiment(suite, "--out", out, "--seeds", "1")
    experiment(suite, "--out", out, "--seeds", "1", "--results", file, "--table")
    assert kinds(file).count("cell") == 2 and kinds(file).count("gain") == 4


def test_predictions_of_another_run_do_not_test_a_listed_cell(make_suite, experiment, tmp_path):
    suite, file, out = make_suite(), tmp_path / "results.jsonl", tmp_path / "out"
    experiment(suite, "--out", out, "--results", file, "--seeds", "1")
    text = file.read_text().splitlines()
    file.write_text("".join(f"{line}\n" for line in text if '"gain"' not in line))
    cell = CellResult.read(out / "plain/seed-1/cell.json")
    cell.scores["mood"] += 0.5
    cell.write(out / "plain/seed-1/cell.json")
    shown, _ = experiment(suite, "--out", out, "--results", file, "--seeds", "1", "--table")
    assert "faster is not tested against plain" in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--set", "lr=1e-4"], "plain/seed-1 was run by another recipe: lr: 0.001 → 0.0001"),
        ([], "plain/seed-1 was run on other data: mood-train.csv: "),
    ],
    ids=["recipe", "data"],
)
def test_cells_of_another_recipe_or_other_data_are_refused(make_suite, experiment, tmp_path, change, message):
    suite, file = make_suite(), tmp_path / "results.jsonl"
    experiment(suite, "--out", tmp_path / "out", "--results", file, "--rows", "plain", "--seeds", "1")
    if not change:
        with (tmp_path / "data/mood-train.csv").open("a", encoding="utf-8") as data:
            data.write("a good film,high\n")
    options = ("--results", file, "--rows", "plain", "--seeds", "1", *change)
    _, error = experiment(suite, "--out", tmp_path / "other", *options, code=2)
    assert f"{file}:2: {message}" in error and f"remove this line, or give another --results than {file}" in error


def test_key_that_was_added_with_a_default_does_not_matter(make_suite, experiment, tmp_path):
    suite, file = make_suite(), tmp_path / "results.jsonl"
    experiment(suite, "--out", tmp_path / "out", "--results", file, "--rows", "plain", "--seeds", "1")
    row, *rest = file.read_text().splitlines()
    older = json.loads(row)
    del older["recipe"]["conflict_every"], older["recipe"]["tasks"]["mood"]["derive"]
    file.write_text("\n".join([json.dumps(older), *rest]) + "\n")
    _, notes = experiment(suite, "--out", tmp_path / "new", "--results", file, "--rows", "plain", "--seeds", "1")
    assert "1 of 1 cells are already done" in notes


def test_trials_of_a_grid_are_listed(make_suite, experiment, tmp_path):
    file = tmp_path / "results.jsonl"
    suite = make_suite(rows={"plain": {"grid": {"lr": [1e-9, 1e-2]}}})
    experiment(suite, "--out", tmp_path / "out", "--results", file, "--seeds", "1", "--no-models")
    found = ResultsFile(file).find("plain", 1, None).result
    assert [trial.values for trial in found.trials] == [{"lr": 1e-9}, {"lr": 1e-2}]
    assert found.row == {"grid": {"lr": [1e-9, 1e-2]}, "search": None} and found.settings
    _, notes = experiment(suite, "--out", tmp_path / "new", "--results", file, "--seeds", "1")
    assert "1 of 1 cells are already done" in notes
