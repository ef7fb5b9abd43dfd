"""The ONNX Runtime engine: same predictions as torch, chosen if it is faster, and never with another model's graphs."""

import json
import math
import shutil
import sys

import numpy as np
import pytest
import torch

import plait
from every_task import TASKS, make_model, save
from plait import measurement_cache
from plait.errors import ModelError, RequestError
from plait.export import export
from plait.measurement_cache import cache_file
from plait.model.directory.load import load_model
from plait.model.engines import onnx as onnx_engine
from plait.model.engines.onnx import pad
from tiny import sentences

TEXTS = ["good", *sentences(40, seed=3, longest=30), " ".join(sentences(20))]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache of measurements."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def speed(monkeypatch):
    """The results of the next measurements, on a quiet machine; those that remain were never measured."""
    ratios: list[float] = []
    monkeypatch.setattr(measurement_cache, "_busy_seconds", lambda: 0.0)
    monkeypatch.setattr(onnx_engine, "_measure_speed", lambda model, engine: ratios.pop(0))
    return ratios


def test_embeddings_and_predictions_equal_those_of_torch(exported):
    torch_, onnx = (plait.load(exported, engine=engine) for engine in ("torch", "onnx"))
    assert (torch_.engine, onnx.engine) == ("torch", "onnx")
    np.testing.assert_allclose(onnx.embed(TEXTS), torch_.embed(TEXTS), atol=1e-5)
    assert onnx.embed([]).shape == (0, 16)
    for task, (text, *_) in TASKS.items():
        rows = TEXTS if len(text) == 1 else list(zip(TEXTS, TEXTS[::-1], TEXTS[1:] + TEXTS[:1], strict=True))
        examples = rows if len(text) == 1 else [row[: len(text)] for row in rows]
        ours, theirs = (model.predict(task, examples) for model in (torch_, onnx))
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4), task


def test_the_number_of_threads_changes_no_embedding(exported):
    predictor = plait.load(exported, engine="onnx")
    one = predictor.embed(TEXTS)
    torch.set_num_threads(3)
    try:
        np.testing.assert_allclose(predictor.embed(TEXTS), one, atol=1e-6)
    finally:
        torch.set_num_threads(1)


def test_worker_processes_use_the_engine_too(exported):
    workers = plait.load(exported, engine="onnx", workers=1)
    assert workers.engine == "onnx"
    np.testing.assert_allclose(workers.embed(TEXTS), plait.load(exported, engine="torch").embed(TEXTS), atol=1e-5)


def test_roberta_which_has_no_segments(tiny_roberta, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_SAMPLE", 20)
    save(make_model(tiny_roberta, ["order", "mood"], pooling="cls"), tmp_path / "model")
    export.export_onnx(str(tmp_path / "model"), tmp_path / "out")
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    ours, theirs = (plait.load(tmp_path / "out", engine=engine).predict("order", pairs) for engine in ("torch", "onnx"))
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)


def test_groups_of_similar_length_have_every_row_and_little_padding():
    lengths = [3, 500, 3, 100, 96, 97, 90, 600, 3, 20, 21, *[10] * 100]
    groups = onnx_engine._similar_lengths(lengths)
    assert sorted(row for rows in groups for row in rows) == list(range(len(lengths)))
    for rows in groups:
        longest, tokens = lengths[rows[0]], sum(lengths[row] for row in rows)
        padded = longest * len(rows)
        little_padding = tokens >= (1 - onnx_engine._MOST_PADDING) * padded
        assert len(rows) == 1 or (padded <= onnx_engine._CALL_TOKENS and little_padding)
    assert [3, 5, 4, 6] in groups and max(map(len, groups)) == onnx_engine._CALL_TOKENS // 10
    assert onnx_engine._similar_lengths([]) == []


def test_padding_by_hand():
    found = pad([np.array([7, 8, 9]), np.array([5])], [2, 1])
    assert {name: table.tolist() for name, table in found.items()} == {
        "input_ids": [[7, 8, 9], [5, 0, 0]],
        "attention_mask": [[1, 1, 1], [1, 0, 0]],
        "token_type_ids": [[0, 0, 1], [0, 0, 0]],
    }


def test_without_graphs_auto_is_torch_and_onnx_is_refused(untrained, tiny_bert, speed):
    logged = []
    for source in (untrained, tiny_bert):
        assert plait.load(source, log=logged.append).engine == "torch"
        with pytest.raises(RequestError, match=r"no ONNX graphs; plait export .* --to onnx --out NEW writes a copy"):
            plait.load(source, engine="onnx")
    assert logged == []


def test_auto_measures_once_and_caches_the_result(exported, speed):
    speed += [2.0, 0.5]
    logged = []
    assert plait.load(exported, log=logged.append).engine == "onnx"
    assert plait.load(exported, log=logged.append).engine == "onnx"
    assert logged == ["engine: onnx; when measured here, onnx had 2.00 times the speed of torch"] * 2
    assert speed == [0.5]
    torch.set_num_threads(2)
    try:
        assert plait.load(exported).engine == "torch"  # another number of threads is measured separately
    finally:
        torch.set_num_threads(1)
    assert speed == []
    assert plait.load(exported).engine == "onnx"
    assert len(json.loads(cache_file().read_text())) == 2


def test_auto_stays_with_torch_if_the_gain_is_small(exported, speed):
    speed += [1.02]
    logged = []
    assert plait.load(exported, log=logged.append).engine == "torch"
    assert logged == ["engine: torch; when measured here, onnx had 1.02 times the speed of torch"]


def test_a_cache_that_cannot_be_written_is_not_an_error(exported, speed, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    speed += [2.0, 0.5]
    assert [plait.load(exported).engine for _ in range(2)] == ["onnx", "torch"]


def test_auto_never_uses_int8_graphs(exported_int8, speed):
    logged = []
    assert plait.load(exported_int8, log=logged.append).engine == "torch"
    assert logged == [
        f"engine: torch; the graphs in {exported_int8}/onnx are int8, so their predictions differ slightly; "
        "the engine onnx uses them"
    ]
    assert plait.load(exported_int8, engine="onnx").engine == "onnx"


def test_the_measurement_is_a_ratio_and_leaves_the_model_unchanged(exported):
    model = load_model(exported, device="cpu").model
    engine = load_model(exported, device="cpu", engine="onnx").model.engine
    assert 0 < onnx_engine._measure_speed(model, engine) < math.inf
    assert model.engine is None


def test_without_onnxruntime_auto_is_torch_and_onnx_names_the_extra(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert plait.load(exported).engine == "torch"
    with pytest.raises(RequestError, match=r'engine "onnx" needs the package onnxruntime; pip install "plait\[onnx\]"'):
        plait.load(exported, engine="onnx")


def test_an_unknown_engine_and_a_device_other_than_the_cpu_are_refused(exported):
    with pytest.raises(RequestError, match=r"unknown engine 'onx'; did you mean 'onnx'\?"):
        plait.load(exported, engine="onx")
    with pytest.raises(RequestError, match="device 'cuda': the engine onnx runs on the cpu"):
        plait.load(exported, engine="onnx", device="cuda")


@pytest.fixture
def copy(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copy")


@pytest.mark.parametrize("name", ["weights.bin", "encoder.onnx", "single.onnx"])
def test_a_modified_file_is_refused(name, copy):
    path = copy / "onnx" / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match=f"onnx/{name}: modified after the export; export the model again"):
        plait.load(copy, engine="onnx")
    assert plait.load(copy, engine="torch").embed(["good"]).shape == (1, 16)


def test_a_missing_file_is_refused(copy):
    (copy / "onnx/weights.bin").unlink()
    with pytest.raises(ModelError, match=r"onnx: weights\.bin is missing; export the model again"):
        plait.load(copy, engine="onnx")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "model": "x", "precision": "float32", "sha256": []}'])
def test_a_damaged_manifest_is_refused(text, copy):
    (copy / "onnx/manifest.json").write_text(text)
    with pytest.raises(ModelError, match=r"onnx/manifest\.json: missing or damaged; export the model again"):
        plait.load(copy, engine="onnx")


def test_graphs_of_a_newer_format_are_refused(copy):
    manifest = json.loads((copy / "onnx/manifest.json").read_text())
    (copy / "onnx/manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(ModelError, match="onnx: format 2, but this plait reads 1; update plait, or export again"):
        plait.load(copy, engine="onnx")


@pytest.mark.parametrize("engine", ["onnx", "auto"])
def test_graphs_of_another_model_are_refused(engine, exported, tiny_bert, tmp_path):
    """As when the weights beside the graphs were trained further."""
    other = save(make_model(tiny_bert, TASKS, pooling="cls"), tmp_path / "other")
    shutil.copytree(exported / "onnx", other / "onnx")
    with pytest.raises(
        ModelError, match="onnx: exported from a different model than the one beside it; export the model"
    ):
        plait.load(other, engine=engine)
    assert plait.load(other, engine="torch").engine == "torch"
