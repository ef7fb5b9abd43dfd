"""Loading verifies every file, reads the manifest once, and copes with a run that replaces the model meanwhile."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

import plait
from plait.errors import ModelError, PlaitError
from plait.files import atomic_folder, save_tensors
from plait.model.directory import load, record
from plait.model.directory.load import load_model
from plait.model.directory.save import save_model

TASKS = ["mood", "same", "near"]


# Damaged directories


@pytest.mark.parametrize("name", ["heads.safetensors", "plait.json", "model.safetensors", "tokenizer.json"])
def test_a_modified_file_is_refused_by_name(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[-2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}: (modified after the model was saved|not valid JSON)"):
        plait.load(copy)


def test_a_modified_record_that_is_still_json_is_refused(copy):
    text = (copy / "plait.json").read_text()
    (copy / "plait.json").write_text(text.replace('"threshold": 0.5', '"threshold": 0.6'))
    with pytest.raises(ModelError, match=r"plait\.json: modified after the model was saved"):
        plait.load(copy)


def test_all_missing_files_are_listed(copy):
    for name in ("heads.safetensors", "config.json"):
        (copy / name).unlink()
    with pytest.raises(ModelError) as caught:
        plait.load(copy)
    assert len(caught.value.mistakes) == 2
    (copy / "manifest.json").unlink()
    with pytest.raises(ModelError, match=r"manifest\.json: missing or damaged"):
        plait.load(copy)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sha256": []}', '{"sha256": 1}'])
def test_a_damaged_manifest_is_refused(copy, text):
    (copy / "manifest.json").write_text(text)
    with pytest.raises(ModelError, match=r"manifest\.json: missing or damaged; copy the whole model directory again"):
        plait.load(copy)


@pytest.mark.parametrize("left_out", ["plait.json", "heads.safetensors", "tokenizer_config.json"])
def test_an_incomplete_manifest_is_refused(copy, left_out):
    manifest = json.loads((copy / "manifest.json").read_text())
    assert manifest["sha256"].pop(left_out)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=rf"manifest\.json: incomplete, it does not name {left_out}; copy the whole "):
        plait.load(copy)
    (copy / "manifest.json").write_text('{"sha256": {}}')
    with pytest.raises(ModelError, match=r"manifest\.json: incomplete, it does not name plait\.json"):
        plait.load(copy)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("file", ["model.safetensors", "heads.safetensors"])
def test_weights_that_are_not_finite_are_refused(copy, file, value):
    tensors = {name: tensor.clone() for name, tensor in load_file(copy / file).items()}
    name = next(name for name, tensor in tensors.items() if tensor.ndim > 1)
    tensors[name][-1, -1] = value
    digest = save_tensors(tensors, copy / file)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["sha256"][file] = digest
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(PlaitError, match=f"{name} has NaN or infinite values"):
        plait.load(copy)


def test_the_model_card_and_foreign_files_may_change(copy):
    (copy / "README.md").write_text("my own words")
    (copy / "notes.txt").write_text("mine")
    assert list(plait.load(copy).tasks) == TASKS


def test_a_model_without_plait_json_is_not_taken_for_a_plain_encoder(copy):
    (copy / "plait.json").unlink()
    with pytest.raises(ModelError, match=r"plait\.json is missing"):
        plait.load(copy)


def test_a_newer_format_is_refused(copy):
    text = (copy / "plait.json").read_text().replace('"format": 1', '"format": 99')
    (copy / "plait.json").write_text(text)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["sha256"]["plait.json"] = hashlib.sha256(text.encode()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match="format 99, but this plait reads 1 and 2; update plait"):
        plait.load(copy)


# Reading once


def test_the_manifest_and_the_record_are_read_once(saved, exported, monkeypatch):
    read: list[Path] = []

    def counted(path: Path):
        read.append(path)
        return json.loads(path.read_text(encoding="utf-8"))

    monkeypatch.setattr(record, "read_json", counted)
    for source, folder in ((saved, saved), (saved.parent, saved), (exported, exported)):  # a model, a run, an export
        read.clear()
        loaded = load_model(source, device="cpu", engine="onnx" if source == exported else "torch")
        assert loaded.identity and loaded.record
        assert read == [folder / "manifest.json", folder / "plait.json"]


def test_each_file_is_hashed_once(saved, monkeypatch):
    hashed: list[str] = []
    sha256_of = record.sha256_of
    monkeypatch.setattr(record, "sha256_of", lambda path: hashed.append(path.name) or sha256_of(path))
    plait.load(saved)
    assert len(hashed) == len(json.loads((saved / "manifest.json").read_text())["sha256"])


# Replaced while loading


def replace_model(folder: Path) -> None:
    """Save another model in the place of one, as a run does that found a better one: without the last task."""
    loaded = load_model(folder, device="cpu")
    model = loaded.model
    for parameter in model.heads.parameters():
        parameter.data.add_(1.0)
    del model.tasks["near"], model.heads["near"]
    save_model(model, folder, loaded.record.provenance)


@pytest.mark.parametrize("moment", ["open_directory", "build_model", "load_heads"])
def test_a_model_that_is_replaced_while_it_is_loaded_is_loaded_in_its_new_version(copy, monkeypatch, moment):
    """Just after the record was read, before the files are read, and before the last file is read."""
    original, calls = getattr(load, moment), []

    def replace_first(*arguments, **options):
        calls.append(1)
        done = original(*arguments, **options) if moment == "open_directory" else None
        if len(calls) == 1:
            with monkeypatch.context() as patch:
                patch.setattr(load, moment, original)
                replace_model(copy)
        return done or original(*arguments, **options)

    monkeypatch.setattr(load, moment, replace_first)
    loaded = load_model(copy, device="cpu")
    assert list(loaded.model.tasks) == list(loaded.record.tasks) == ["mood", "same"] and len(calls) == 2
    assert loaded.identity == record.open_directory(copy).identity


def test_a_model_that_is_damaged_and_then_replaced_while_it_is_loaded_is_loaded(saved, copy, monkeypatch):
    original, calls = load.build_model, []

    def damage_then_build(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            (copy / "heads.safetensors").write_bytes(b"of another model")
            (copy / "manifest.json").write_text("{}")
            with atomic_folder(copy) as place:
                shutil.copytree(saved, place, dirs_exist_ok=True)
        return original(*arguments, **options)

    monkeypatch.setattr(load, "build_model", damage_then_build)
    assert list(plait.load(copy).tasks) == TASKS and len(calls) == 2


def test_a_directory_that_stays_damaged_is_refused_even_if_its_record_was_read_before(copy):
    directory = record.open_directory(copy)
    (copy / "heads.safetensors").unlink()
    with pytest.raises(ModelError, match=r"heads\.safetensors is missing"):
        load.load_plait_model(copy, directory)
