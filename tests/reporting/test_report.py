"""`plait report` and `plait.report`: runs, several runs, suites; and what they refuse."""

import json
import re
import shutil
from pathlib import Path

import pytest

import plait
from hostile import HOSTILE, KINDS
from plait.errors import RequestError, RunError
from plait.files import read_json_with_digest, write_json_with_digest
from plait.reporting import extra
from plait.reporting.report import report_text, write_run_report
from small_runs import Recorder

RESULTS = Path(__file__).parent.parent.parent / "results"


def specs_in(page: Path) -> list[dict]:
    data = re.search(r'id="charts">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1]
    return json.loads(data)


def titles_in(page: Path) -> list[str]:
    return re.findall(r"<figcaption><b>(.*?)</b>", page.read_text(encoding="utf-8"))


@pytest.fixture
def without_extra(monkeypatch):
    """As if altair were not installed."""
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "altair" else object())


# ---------------------------------------------------------------- one run


def test_a_page_has_every_chart_of_every_task(page_file):
    titles = titles_in(page_file)
    for task, kind in KINDS.items():
        assert f"{task}: loss." in titles and f"{task}: lengths." in titles
        assert f"{task}." in titles  # the map
        assert (f"{task}: classes." in titles) is (kind != "score")
    assert {"Schedule.", "Gradient cosines.", "Confusion matrix.", "Reliability."} <= set(titles)
    assert titles.count("Predicted against true.") == 1
    assert titles.count("Confusion matrix.") == 2  # not of a multilabel task, nor of scores
    assert len(specs_in(page_file)) == len(titles)


def test_a_page_has_the_scores_of_the_run(hostile_run, page_file):
    html = page_file.read_text(encoding="utf-8")
    scores = json.loads((hostile_run / "result.json").read_text())["scores"]
    evaluated = plait.evaluate(hostile_run)
    for task, found in evaluated.scores.items():
        assert f'<div class="value">{scores[task][found.metric]:.3f}</div>' in html
        assert f"95 % interval {found.interval[0]:.3f} to {found.interval[1]:.3f}" in html
    for baseline in ("majority or mean", "frozen encoder"):
        assert baseline in html


def test_a_page_says_how_to_do_it_again(hostile_run, page_file):
    html = page_file.read_text(encoding="utf-8")
    record = json.loads((hostile_run / "run.json").read_text())
    assert f"--threads {record['threads']}" in html and record["torch"] in html
    assert record["data"]["mood"]["train"][0]["sha256"] in html
    assert str(hostile_run.parent) not in html  # no folders of this machine


def test_hostile_texts_are_in_the_map_and_in_the_mistakes_as_text(page_file):
    html = page_file.read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    texts = [row["text"] for spec in specs_in(page_file) for row in _values(spec) if "text" in row]
    assert any(HOSTILE in text for text in texts)


def _values(spec: dict) -> list[dict]:
    own = spec.get("data", {}).get("values", [])
    named = [row for rows in spec.get("datasets", {}).values() for row in rows]
    return [*own, *named, *(row for layer in spec.get("layer", []) for row in _values(layer))]


def test_mistakes_come_with_the_nearest_training_rows(page_file):
    html = page_file.read_text(encoding="utf-8")
    part = html.partition('id="mistakes"')[2].partition('id="map"')[0]
    assert "nearest training examples" in part and "cosine" in part


def test_large_splits_are_sampled_and_the_page_says_so(hostile_run):
    text = report_text(hostile_run, rows=20)
    assert "mood: 20 of 49 dev rows, drawn evenly, are shown; its score is that of all of them." in text
    score = plait.evaluate(hostile_run).scores["mood"]
    assert f"mood  {score.value:.3f}  accuracy on 49 dev rows" in text


def test_text_has_scores_classes_and_mistakes(hostile_run):
    text = report_text(hostile_run)
    for words in ("Scores\n", "95 % interval", "mean cosine", "precision", "mistakes in 49 dev rows", "median words"):
        assert words in text


def test_a_run_without_its_data_still_has_scores_and_curves(hostile_run, tmp_path):
    shutil.copytree(hostile_run, tmp_path / "run")
    record, _ = read_json_with_digest(tmp_path / "run/run.json")
    moved = json.loads(json.dumps(record).replace(str(hostile_run.parent / "data"), "/nowhere"))
    write_json_with_digest(tmp_path / "run/run.json", moved)
    page = plait.report(tmp_path / "run")
    html = page.read_text(encoding="utf-8")
    assert page == tmp_path / "run/report.html"
    assert "mood: its train and dev rows are not shown" in html and "mood: loss." in html
    assert 'id="predictions"' not in html and "/nowhere" not in html
    found = plait.report(tmp_path / "run", data=hostile_run.parent / "data").read_text(encoding="utf-8")
    assert 'id="predictions"' in found and "are not shown" not in found


def test_a_run_without_a_model_still_has_curves(hostile_run, tmp_path):
    shutil.copytree(hostile_run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/best")
    (tmp_path / "run/result.json").unlink()
    titles = titles_in(plait.report(tmp_path / "run"))
    assert "mood: loss." in titles and "Schedule." in titles


# ---------------------------------------------------------------- several runs


def test_several_runs_are_paired_with_the_first(hostile_run, other_run, tmp_path):
    page = plait.report(hostile_run, other_run, out=tmp_path / "both.html")
    html = page.read_text(encoding="utf-8")
    first, second = plait.evaluate(hostile_run).scores, plait.evaluate(other_run).scores
    for task in KINDS:
        assert f"{second[task].value - first[task].value:+.3f}".replace("-", "−") in html
    for words in ("Paired differences.", "right in second, wrong in first", "schedule.name", "lr"):
        assert words in html


def test_differences_are_on_the_same_rows(hostile_run, other_run):
    from plait.progress import SilentProgress
    from plait.reporting.comparison import compare_predictions
    from plait.reporting.facts import collect_run

    one, two = (collect_run(run, run.name, 1000, None, SilentProgress()) for run in (hostile_run, other_run))
    found = compare_predictions(one.scored["mood"], two.scored["mood"])
    assert found.compared.difference == pytest.approx(two.scored["mood"].scores.value - one.scored["mood"].scores.value)
    better = sum(change.better for change in found.changes)
    worse = len(found.changes) - better
    assert (better - worse) / found.compared.rows == pytest.approx(found.compared.difference)
    assert compare_predictions(one.scored["mood"], one.scored["mood"]).changes == []
    assert compare_predictions(one.scored["mood"], two.scored["same"]) is None


def test_a_run_with_single_task_models_shows_whether_training_together_helps(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    del recipe["tasks"]["near"]
    run = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True).run
    html = plait.report(run).read_text(encoding="utf-8")
    assert "Does training together help?" in html and "Together or alone." in html
    for one in plait.compare_single_task(run).tasks.values():
        assert f"{one.difference:+.3f}".replace("-", "−") in html


# ---------------------------------------------------------------- suites


def test_a_results_file_is_named_after_its_suite(tmp_path):
    page = plait.report(RESULTS / "best-of-bert-laptop.jsonl", out=tmp_path / "suite.html")
    html = page.read_text(encoding="utf-8")
    assert "The best of BERT worlds, table 1" in html
    assert "paper 0.532" in html and "SST accuracy." in titles_in(page)


def test_the_folder_of_an_experiment(tmp_path, command):
    out = tmp_path / "experiment"
    command("experiment", "best-of-bert", "--profile", "laptop", "--table", "--out", out, "--seeds", "11711,2024",
            "--results", shutil.copy(RESULTS / "best-of-bert-laptop.jsonl", tmp_path))  # fmt: skip
    from_folder = report_text(out)
    assert from_folder == report_text(RESULTS / "best-of-bert-laptop.jsonl")
    assert "more-epochs" in from_folder


def test_a_results_file_of_an_unknown_suite(tmp_path):
    file = shutil.copy(RESULTS / "best-of-bert-laptop.jsonl", tmp_path / "mine.jsonl")
    with pytest.raises(RequestError, match="which suite is it of"):
        plait.report(file)
    page = plait.report(file, suite="best-of-bert", profile="laptop")
    assert page == tmp_path / "mine.html" and page.is_file()


# ---------------------------------------------------------------- the command line


def test_the_command_writes_the_page_and_names_it(hostile_run, tmp_path, command):
    out, _ = command("report", hostile_run, "--out", tmp_path / "page.html", "--rows", 10)
    assert out == f"the report: {tmp_path / 'page.html'}\n" and (tmp_path / "page.html").is_file()
    out, _ = command("report", hostile_run, "--text")
    assert out.startswith("first\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{run}", "{folder}/nothing"], "nothing: no such file or folder"),
        (["{folder}"], "not a run; give the folder that plait train wrote"),
        (["{run}", "{run}"], "the same run is given twice"),
        (["{run}", "{results}"], "results of a suite have a page of their own"),
        (["{run}", "--out", "{folder}/no/where.html"], "--out {folder}/no/where.html: its folder does not exist"),
        (["{run}", "--out", "{folder}"], "a folder; give the name of a file"),
        (["{run}", "--suite", "best-of-bert"], "--suite and --profile belong to a results file"),
        (["{run}", "--text", "--json"], "--text prints and writes nothing"),
    ],
)
def test_requests_that_are_refused(words, message, hostile_run, tmp_path, command):
    places = {"run": hostile_run, "folder": tmp_path, "results": RESULTS / "best-of-bert-laptop.jsonl"}
    _, errors = command("report", *(word.format(**places) for word in words), code=2)
    assert message.format(**places) in errors


def test_without_the_packages_the_page_is_refused_and_the_text_is_not(hostile_run, without_extra, command):
    _, errors = command("report", hostile_run, code=2)
    assert errors == 'plait: a report needs the packages altair; pip install "plait[report]"\n'
    out, _ = command("report", hostile_run, "--text", "--rows", 10)
    assert out.startswith("first\n")


def test_no_source_is_refused():
    with pytest.raises(RequestError, match="give at least one run"):
        plait.report()


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="not a run"):
        report_text(tmp_path)


# ---------------------------------------------------------------- at the end of training


def test_training_ends_with_a_report(tiny_recipe, tmp_path, command):
    (tmp_path / "recipe.yaml").write_text(json.dumps(tiny_recipe(epochs=1)))
    out, _ = command("train", tmp_path / "recipe.yaml", "--out", tmp_path / "run", "--no-baselines")
    assert out.endswith(f"the report: {tmp_path / 'run/report.html'}\n")
    assert "mood: loss." in titles_in(tmp_path / "run/report.html")
    out, _ = command("train", tmp_path / "recipe.yaml", "--out", tmp_path / "two", "--no-baselines", "--no-report")
    assert "report" not in out and not (tmp_path / "two/report.html").exists()


def test_training_without_the_packages_says_nothing(hostile_run, without_extra):
    recorder = Recorder()
    assert write_run_report(hostile_run, recorder) is None
    assert recorder.notes == [] and recorder.parts == []


def test_a_report_that_fails_does_not_fail_the_training(hostile_run, tmp_path):
    shutil.copytree(hostile_run, tmp_path / "run")
    (tmp_path / "run/metrics.jsonl").write_text("not JSON\n")
    recorder = Recorder()
    assert write_run_report(tmp_path / "run", recorder) is None
    assert recorder.notes == [f"the report could not be written; plait report {tmp_path / 'run'} says why"]


# ---------------------------------------------------------------- unusual runs


def test_a_run_with_triplets_and_tasks_without_dev(trained_run, tmp_path):
    """Tasks without dev have curves and data, but no predictions."""
    page = plait.report(trained_run, out=tmp_path / "page.html")
    titles = titles_in(page)
    assert "far: loss." in titles and "far: lengths." in titles and "tags: classes." in titles
    assert "far." not in titles and "mood." in titles


def test_a_run_of_stages(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    stages = [{"tasks": {"mood": recipe["tasks"]["mood"]}}, {"tasks": {"same": recipe["tasks"]["same"]}}]
    keys = {key: value for key, value in recipe.items() if key != "tasks"}
    result = plait.train({**keys, "stages": stages}, tmp_path / "run", baselines=False)
    page = plait.report(result)
    html = page.read_text(encoding="utf-8")
    assert page == tmp_path / "run/report.html"
    assert "Solid lines separate stages." in html
    assert {"mood: accuracy.", "same: accuracy.", "mood.", "same."} <= set(titles_in(page))


def test_a_refitted_run_is_not_scored_on_dev_again(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, refit=True)
    for task in recipe["tasks"].values():
        task["dev"] = 0.25
    plait.train(recipe, tmp_path / "run", baselines=False)
    text = report_text(tmp_path / "run")
    assert "trained once more on all rows (refit), so dev is not predicted again" in text
    assert "mood  " in text and "95 % interval" not in text.partition("task")[0]


def test_the_data_of_a_run_in_memory(tiny_bert, tmp_path):
    rows = [
        {"text": f"{word} film", "label": str(place % 2)}
        for place, word in enumerate("good bad great dull".split() * 6)
    ]
    recipe = {
        "encoder": str(tiny_bert),
        "epochs": 1,
        "tasks": {"mood": {"train": rows, "dev": rows, "text": "text", "label": "label"}},
    }
    plait.train(recipe, tmp_path / "run", baselines=False)
    text = report_text(tmp_path / "run")
    assert "mood: 24 dev rows also occur in train; scores are optimistic." in text
    assert "mood: 4 training inputs have contradictory labels" not in text
