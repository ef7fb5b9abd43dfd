"""plait.calibrate: fitted, stored and used."""

import json
from pathlib import Path

import numpy as np
import pytest

import plait
from plait.cli.option_names import as_options
from plait.errors import ModelError, RequestError
from plait.model.directory.record import open_directory
from small_runs import Recorder
from tiny import sentences, write_tasks


@pytest.fixture(scope="module")
def run(tiny_bert, tmp_path_factory) -> Path:
    """A run with 60 rows of each split, overconfident by its many epochs; tests must not change it."""
    folder = tmp_path_factory.mktemp("calibrated")
    recipe = {**write_tasks(folder / "data", tiny_bert, rows=60), "epochs": 8, "lr": 3e-3}
    plait.train(recipe, folder / "run", baselines=False)
    return folder / "run"


@pytest.fixture(scope="module")
def calibrated(run) -> plait.Calibration:
    return plait.calibrate(run, out=run.parent / "copy")


TEXTS = sentences(30, 77)


def test_the_temperature_is_stored_and_used(run, calibrated):
    before, after = plait.load(run), plait.load(calibrated.model)
    assert calibrated.notes == ["near: not calibrated, it predicts a score"]
    assert any(found.temperature != 1 for found in calibrated.tasks.values())
    for task, texts in (("mood", TEXTS), ("same", list(zip(TEXTS, TEXTS[::-1], strict=True)))):
        plain, warm = before.predict(task, texts), after.predict(task, texts)
        assert warm.labels == plain.labels
        odds = [np.log(found.probabilities[:, 1] / found.probabilities[:, 0]) for found in (plain, warm)]
        # float64 probabilities near 0 and 1
        np.testing.assert_allclose(odds[0] / calibrated.tasks[task].temperature, odds[1], rtol=1e-6)
    same = [("a", "b")]
    assert before.predict("near", same) == after.predict("near", same)


def test_the_original_is_unchanged_and_of_the_old_format(run, calibrated):
    old, new = (json.loads((folder / "plait.json").read_text()) for folder in (run / "best", calibrated.model))
    assert old["format"] == 1 and new["format"] == 2
    assert "calibration" not in old and set(new["calibration"]) == {"mood", "same"}
    assert not any("temperature" in task for task in old["tasks"])
    assert open_directory(calibrated.model).record.to_json()["calibration"] == json.loads(
        json.dumps(new["calibration"])
    )
    assert "## Calibration" in (calibrated.model / "README.md").read_text()
    assert "## Calibration" not in (run / "best/README.md").read_text()


def test_dev_is_scored_by_fits_on_other_rows(calibrated):
    progress = Recorder()
    found = plait.evaluate(calibrated.model, data=calibrated.model.parent / "data", progress=progress)
    for task, one in calibrated.tasks.items():
        # the search for a temperature ends within 1e-6, and outputs come back rounded
        assert found.details[task].errors["ece"] == pytest.approx(one.ece[1], abs=1e-4)
        note = f"{task}: calibrated on dev, so each row is scored with what was fitted on other rows"
        assert note in found.notes


def test_decisions_are_stored_and_can_be_overruled(run, tmp_path):
    plain = plait.calibrate(run, tasks="mood", out=tmp_path / "plain").tasks["mood"]
    target = (plain.coverage[0].accuracy + max(point.accuracy for point in plain.coverage)) / 2
    found = plait.calibrate(run, tasks="mood", abstain_for=target, out=tmp_path / "copy")
    below = found.tasks["mood"].abstain_below
    assert list(found.tasks) == ["mood"] and below is not None
    model = plait.load(tmp_path / "copy")
    default, every = model.predict("mood", TEXTS), model.predict("mood", TEXTS, abstain_below=0)
    withheld = every.scores < below
    assert withheld.any() and not withheld.all()
    assert default.abstained.tolist() == withheld.tolist()
    assert None not in every.labels


def test_a_second_fit_does_not_build_on_the_first(run, calibrated, tmp_path):
    data = run.parent / "data"
    again = plait.calibrate(calibrated.model, tasks=["mood"], out=tmp_path / "again", data=data)
    # outputs come back from rounded probabilities
    assert again.tasks["mood"].temperature == pytest.approx(calibrated.tasks["mood"].temperature, rel=1e-4)
    assert (tmp_path / "again/README.md").read_text().count("## Calibration") == 1
    assert open_directory(tmp_path / "again").record.tasks["same"].temperature == calibrated.tasks["same"].temperature


def test_in_place_with_other_data(run, tmp_path):
    plait.calibrate(run, {"mood": run.parent / "data/mood-dev.csv"}, out=tmp_path / "model")
    (tmp_path / "model/notes.txt").write_text("mine")
    found = plait.calibrate(tmp_path / "model", {"same": run.parent / "data/same-dev.csv"}, threshold="f1")
    assert found.tasks["same"].data == "the data given" and list(found.tasks) == ["same"]
    assert (tmp_path / "model/notes.txt").read_text() == "mine"
    assert set(open_directory(tmp_path / "model").record.provenance.calibration) == {"mood", "same"}
    plait.load(tmp_path / "model")  # the manifest is right


def test_rows_that_chose_the_model_are_not_scored(tiny_bert, tmp_path):
    recipe = {**write_tasks(tmp_path / "data", tiny_bert, rows=60), "choose_rows": 30, "calibrate": "probabilities"}
    progress = Recorder()
    plait.train(recipe, tmp_path / "run", baselines=False, progress=progress)
    stored = open_directory(tmp_path / "run").record.provenance.calibration
    assert {task: (one["data"], one["rows"]) for task, one in stored.items()} == {
        "mood": ("choose", 30),
        "same": ("choose", 30),
    }
    assert any(note.startswith("mood: calibrated, temperature") for note in progress.notes)
    again = plait.calibrate(tmp_path / "run", out=tmp_path / "again")
    for task, one in again.tasks.items():
        assert one.temperature == pytest.approx(stored[task]["temperature"], rel=1e-4)  # as above
    notes = plait.evaluate(tmp_path / "run").notes
    assert not [note for note in notes if "calibrated" in note]


def test_a_refitted_model_keeps_what_was_fitted_before(tiny_bert, tmp_path):
    recipe = {**write_tasks(tmp_path / "data", tiny_bert, rows=120), "calibrate": "probabilities", "refit": True}
    recipe["tasks"] = {"mood": {**recipe["tasks"]["mood"], "dev": 0.4}}
    plait.train({**recipe, "epochs": 6, "lr": 3e-3}, tmp_path / "run", baselines=False)
    record = open_directory(tmp_path / "run").record
    assert record.provenance.refit and record.provenance.calibration["mood"]["rows"] >= 40
    assert record.tasks["mood"].temperature == record.provenance.calibration["mood"]["temperature"]


def test_mistakes_are_named(run, calibrated, tmp_path):
    with pytest.raises(RequestError, match=r"no task 'mod'; did you mean 'mood'\?"):
        plait.calibrate(run, tasks="mod")
    with pytest.raises(RequestError, match=r"`out` .*copy: already exists; choose another name"):
        plait.calibrate(run, out=calibrated.model)
    with pytest.raises(RequestError) as error:
        plait.calibrate(run, abstain_for=95)
    assert as_options(str(error.value)) == "--abstain-for: expected an accuracy above 0 and up to 1, found 95"
    with pytest.raises(RequestError, match="expected accuracy or f1, found 'recall'"):
        plait.calibrate(run, threshold="recall")
    with pytest.raises(ModelError, match="no such directory"):
        plait.calibrate(tmp_path / "nothing")
    few = [{"sentence": text, "mood": "low"} for text in TEXTS[:5]]
    found = plait.calibrate(run, {"mood": few}, out=tmp_path / "few")
    assert found.notes == ["mood: not calibrated, 5 rows are too few; 20 are needed"]
    assert not found.tasks and not (tmp_path / "few").exists()


def test_ensembles_and_exports_are_refused(run, calibrated, exported, tmp_path):
    with pytest.raises(RequestError, match="has ONNX graphs; calibrate the model that was exported"):
        plait.calibrate(exported)
    from plait.model.ensemble_build import build_ensemble, build_soup

    members = [str(run / "best"), str(calibrated.model)]
    build_ensemble(members, tmp_path / "both")
    with pytest.raises(RequestError, match="an ensemble; calibrate its members"):
        plait.calibrate(tmp_path / "both")
    build_soup(members, tmp_path / "soup")
    assert not any(spec.is_calibrated for spec in open_directory(tmp_path / "soup").record.tasks.values())


def test_a_calibration_shows_as_a_table(calibrated):
    shown = calibrated._repr_html_()
    assert "temperature" in shown and "mood" in shown
