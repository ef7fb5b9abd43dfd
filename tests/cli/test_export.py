"""`plait export` and `--engine` as a user meets them."""

import json

import numpy as np
import pytest

from every_task import make_model, save
from plait.export import export
from streaming import read_rows, rows_of, train_model, write_rows


@pytest.fixture(autouse=True)
def small_and_alone(tmp_path, monkeypatch):
    """Few texts to check with, and nothing measured before."""
    monkeypatch.setattr(export, "SAMPLE", 20)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tiny_bert, tmp_path):
    return save(make_model(tiny_bert, ["mood", "near"]), tmp_path / "model")


def test_it_says_what_it_wrote_and_how_near_it_is(model, plait, tmp_path):
    out, told = plait("export", model, "--to", "onnx", "--out", tmp_path / "out")
    rows = [line.split() for line in out.splitlines() if ".onnx" in line]
    assert [row[:2] for row in rows] == [
        ["single.onnx", "embedding"],
        ["single.onnx", "mood"],
        ["apart.onnx", "near"],
        ["encoder.onnx", "pooled"],
    ]
    assert all(float(row[2]) < 1e-4 for row in rows)
    assert f"MB in {tmp_path}/out/onnx, where README.md tells how to run them; in plait with --engine onnx" in out
    assert told == ""


def test_the_same_facts_as_json(model, plait, tmp_path):
    out, _ = plait("export", model, "--to", "onnx", "--int8", "--out", tmp_path / "out", "--json")
    found = json.loads(out)
    assert found["precision"] == "int8" and found["graphs"] == ["single.onnx", "apart.onnx", "encoder.onnx"]
    assert found["bytes"] > 1000 and found["output"] == str(tmp_path / "out")
    by_output = {one["output"]: one for one in found["agreement"]}
    assert by_output["embedding"]["least_cosine"] > 0.98 and "least_cosine" not in by_output["mood"]


def test_requests_that_make_no_sense(model, plait, tmp_path):
    assert "Missing option '--out'" in plait("export", model, "--to", "onnx", code=2)[1]
    assert "Missing option '--to'" in plait("export", model, "--out", tmp_path / "out", code=2)[1]
    _, told = plait("export", tmp_path / "none", "--to", "onnx", "--out", tmp_path / "out", code=2)
    assert told.startswith(f"plait: {tmp_path}/none: no such directory")
    _, told = plait("export", model, "--to", "onnx", "--out", model, code=2)
    assert told == f"plait: --out {model}: is there already; choose another name\n"
    _, told = plait("predict", model, "mood", "good", "--engine", "onnx", code=2)
    assert f"has no ONNX graphs; plait export {model} --to onnx --out NEW" in told


def test_an_export_that_differs_ends_in_one_message(model, plait, tmp_path, monkeypatch):
    from plait.export import check

    monkeypatch.setattr(check, "LARGEST", -1.0)
    _, told = plait("export", model, "--to", "onnx", "--out", tmp_path / "out", code=1)
    assert len(told.splitlines()) == 4 and all("differs from the model by" in line for line in told.splitlines())
    assert not (tmp_path / "out").exists()


def test_every_command_takes_the_engine(tiny_bert, plait, tmp_path):
    run, out = train_model(tmp_path, tiny_bert), tmp_path / "out"
    plait("export", run, "--to", "onnx", "--out", out)
    source = write_rows(tmp_path / "in.csv", rows_of(9))
    for engine in ("torch", "onnx"):
        options = ("--input", source, "--engine", engine)
        _, told = plait("predict", out, "same", *options, "--output", tmp_path / f"{engine}.csv")
        assert "engine" not in told
        plait("embed", out, *options, "--text", "sentence", "--output", tmp_path / f"{engine}.npy")
        every = ("--every", f"mood={source}", "--engine", engine, "--output", tmp_path / engine)
        plait("predict", out, *every)
    for one, other in zip(*(read_rows(tmp_path / f"{engine}.csv") for engine in ("torch", "onnx")), strict=True):
        assert float(one["p(yes)"]) == pytest.approx(float(other["p(yes)"]), abs=1e-4)
    np.testing.assert_allclose(np.load(tmp_path / "onnx.npy"), np.load(tmp_path / "torch.npy"), atol=1e-5)
    assert [row["label"] for row in read_rows(tmp_path / "onnx/mood.csv")] == [
        row["label"] for row in read_rows(tmp_path / "torch/mood.csv")
    ]
    found = {}
    for engine in ("torch", "onnx"):
        said, _ = plait("predict", out, "near", "a dog", "a cat", "--engine", engine, "--json")
        scored, _ = plait("evaluate", out, "--engine", engine, "--data", tmp_path / "data", "--json")
        scores = json.loads(scored.splitlines()[-1])["scores"]
        found[engine] = (
            json.loads(said)["score"],
            scores["near"]["values"]["pearson"],
            scores["mood"]["values"]["accuracy"],
        )
    assert found["torch"] == pytest.approx(found["onnx"], abs=1e-4)


def test_auto_says_what_it_took_where_there_is_a_choice(model, plait, tmp_path, monkeypatch):
    from plait.model import onnx_engine

    monkeypatch.setattr(onnx_engine, "measure_speed", lambda model, engine: 1.5)
    out = tmp_path / "out"
    plait("export", model, "--to", "onnx", "--out", out)
    source = write_rows(tmp_path / "in.csv", rows_of(3))
    for where, expected in (
        (out, "engine: onnx; when it was measured here, onnx had 1.50 times"),
        (model, ""),
    ):
        _, told = plait("embed", where, "--input", source, "--text", "sentence", "--output", tmp_path / "out.npy")
        assert expected in told and ("engine" in told) == bool(expected)
    _, told = plait("predict", out, "mood", "good")  # one text is not worth it
    assert told == ""
