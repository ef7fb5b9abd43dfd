"""`plait export` and `--engine` on the command line."""

import json

import numpy as np
import pytest

from every_task import make_model, save
from plait.export import export
from streaming import read_rows, rows_of, write_rows


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache of measurements."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def few_texts(monkeypatch):
    """Check exports with few texts, for speed."""
    monkeypatch.setattr(export, "_SAMPLE", 20)


@pytest.fixture
def model(tiny_bert, tmp_path):
    return save(make_model(tiny_bert, ["mood", "near"]), tmp_path / "model")


def test_an_export_reports_what_it_wrote_and_how_closely_it_agrees(model, plait, tmp_path):
    out, err = plait("export", model, "--to", "onnx", "--out", tmp_path / "out")
    rows = [line.split() for line in out.splitlines() if ".onnx" in line]
    assert [row[:2] for row in rows] == [
        ["single.onnx", "embedding"],
        ["single.onnx", "mood"],
        ["apart.onnx", "near"],
        ["encoder.onnx", "pooled"],
    ]
    assert all(float(row[2]) < 1e-4 for row in rows)
    assert f"MB in {tmp_path}/out/onnx, where README.md explains how to run them; " in out
    assert out.endswith("; plait uses them with --engine onnx\n")
    assert err == ""


def test_the_result_as_json(model, plait, tmp_path):
    out, _ = plait("export", model, "--to", "onnx", "--int8", "--out", tmp_path / "out", "--json")
    found = json.loads(out)
    assert found["precision"] == "int8" and found["graphs"] == ["single.onnx", "apart.onnx", "encoder.onnx"]
    assert found["bytes"] > 1000 and found["output"] == str(tmp_path / "out")
    by_output = {one["output"]: one for one in found["agreement"]}
    assert by_output["embedding"]["least_cosine"] > 0.98 and "least_cosine" not in by_output["mood"]


def test_an_invalid_request_gives_one_message(model, plait, tmp_path):
    assert "Missing option '--out'" in plait("export", model, "--to", "onnx", code=2)[1]
    assert "Missing option '--to'" in plait("export", model, "--out", tmp_path / "out", code=2)[1]
    _, err = plait("export", tmp_path / "none", "--to", "onnx", "--out", tmp_path / "out", code=2)
    assert err.startswith(f"plait: {tmp_path}/none: no such directory")
    _, err = plait("export", model, "--to", "onnx", "--out", model, code=2)
    assert err == f"plait: --out {model}: already exists; choose another name\n"
    _, err = plait("predict", model, "mood", "good", "--engine", "onnx", code=2)
    assert f"no ONNX graphs; plait export {model} --to onnx --out NEW" in err


def test_an_export_that_differs_too_much_gives_one_message_per_output(model, few_texts, plait, tmp_path, monkeypatch):
    from plait.export import check

    monkeypatch.setattr(check, "_LARGEST_DIFFERENCE", -1.0)
    _, err = plait("export", model, "--to", "onnx", "--out", tmp_path / "out", code=1)
    assert len(err.splitlines()) == 4 and all("differs from the model by" in line for line in err.splitlines())
    assert not (tmp_path / "out").exists()


def test_every_command_accepts_an_engine(trained_run, few_texts, plait, tmp_path):
    out, data = tmp_path / "out", trained_run.parent / "data"
    plait("export", trained_run, "--to", "onnx", "--out", out)
    source = write_rows(tmp_path / "in.csv", rows_of(9))
    for engine in ("torch", "onnx"):
        options = ("--input", source, "--engine", engine)
        _, err = plait("predict", out, "same", *options, "--output", tmp_path / f"{engine}.csv")
        assert "engine" not in err
        plait("embed", out, *options, "--text", "sentence", "--output", tmp_path / f"{engine}.npy")
        every = ("--every", f"mood={source}", "--engine", engine, "--output", tmp_path / engine)
        plait("predict", out, *every)
    for one, other in zip(*(read_rows(tmp_path / f"{engine}.csv") for engine in ("torch", "onnx")), strict=True):
        assert float(one["p(yes)"]) == pytest.approx(float(other["p(yes)"]), abs=1e-4)
    np.testing.assert_allclose(np.load(tmp_path / "onnx.npy"), np.load(tmp_path / "torch.npy"), atol=1e-5)
    assert [row["prediction"] for row in read_rows(tmp_path / "onnx/mood.csv")] == [
        row["prediction"] for row in read_rows(tmp_path / "torch/mood.csv")
    ]
    found = {}
    for engine in ("torch", "onnx"):
        predicted, _ = plait("predict", out, "near", "a dog", "a cat", "--engine", engine, "--json")
        scored, _ = plait("evaluate", out, "--engine", engine, "--data", data, "--json")
        scores = json.loads(scored.splitlines()[-1])["scores"]
        found[engine] = (
            json.loads(predicted)["score"],
            scores["near"]["values"]["pearson"],
            scores["mood"]["values"]["accuracy"],
        )
    assert found["torch"] == pytest.approx(found["onnx"], abs=1e-4)


def test_auto_reports_its_choice_if_it_has_one(model, few_texts, plait, tmp_path, monkeypatch):
    from plait.model.engines import onnx as onnx_engine

    monkeypatch.setattr(onnx_engine, "_measure_speed", lambda model, engine: 1.5)
    out = tmp_path / "out"
    plait("export", model, "--to", "onnx", "--out", out)
    source = write_rows(tmp_path / "in.csv", rows_of(3))
    for where, expected in (
        (out, "engine: onnx; when measured here, onnx had 1.50 times"),
        (model, ""),
    ):
        _, err = plait("embed", where, "--input", source, "--text", "sentence", "--output", tmp_path / "out.npy")
        assert expected in err and ("engine" in err) == bool(expected)
    _, err = plait("predict", out, "mood", "good")  # measuring is not worth it for one text
    assert err == ""
