"""The model directory: whole, checked on loading, and open to look into."""

import hashlib
import json
import shutil
import threading

import pytest

import plait
from plait.errors import ModelError
from plait.model import load
from plait.model.about import portable, read_about
from plait.model.files import whole_file, whole_folder


@pytest.fixture(scope="module")
def saved(tiny_bert, tmp_path_factory):
    from tiny import write_tasks

    folder = tmp_path_factory.mktemp("saved")
    return plait.train(write_tasks(folder / "data", tiny_bert), folder / "run").model


def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def test_the_directory_holds_what_it_promises(saved):
    names = {path.relative_to(saved).as_posix() for path in saved.rglob("*") if path.is_file()}
    assert names == {
        "1_Pooling/config.json",
        "README.md",
        "config.json",
        "heads.safetensors",
        "manifest.json",
        "model.safetensors",
        "modules.json",
        "plait.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    manifest = json.loads((saved / "manifest.json").read_text())["sha256"]
    assert set(manifest) == names - {"README.md", "manifest.json"}


def test_the_card_tells_data_scores_recipe_and_limits(saved):
    card = (saved / "README.md").read_text()
    for part in ("## Use", "## Tasks", "## Scores on dev", "## Data", "## Recipe", "## Limits", "frozen encoder"):
        assert part in card
    assert "mood-train.csv | 24" in card and "encoder: bert" in card
    assert str(saved.parent.parent) not in card, "a path of the machine that trained it"


def test_no_file_but_the_run_itself_tells_where_it_was_trained(saved):
    for path in saved.rglob("*.json"):
        assert str(saved.parent.parent) not in path.read_text(), path.name
    assert portable(read_about(saved)["recipe"]) == read_about(saved)["recipe"]


@pytest.mark.parametrize("name", ["heads.safetensors", "plait.json", "model.safetensors", "tokenizer.json"])
def test_a_changed_file_is_refused_by_name(saved, tmp_path, name):
    model = copy(saved, tmp_path)
    content = bytearray((model / name).read_bytes())
    content[-2] ^= 1
    (model / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}: was changed after the model was saved"):
        plait.load(model)


def test_missing_files_are_all_named(saved, tmp_path):
    model = copy(saved, tmp_path)
    for name in ("heads.safetensors", "config.json"):
        (model / name).unlink()
    with pytest.raises(ModelError) as caught:
        plait.load(model)
    assert len(caught.value.mistakes) == 2
    (model / "manifest.json").unlink()
    with pytest.raises(ModelError, match=r"manifest\.json: is missing or broken"):
        plait.load(model)


def test_the_card_and_files_of_others_may_change(saved, tmp_path):
    model = copy(saved, tmp_path)
    (model / "README.md").write_text("my own words")
    (model / "notes.txt").write_text("mine")
    assert list(plait.load(model).tasks) == ["mood", "same", "near"]


def test_every_file_may_be_read_by_others(saved):
    modes = {path.stat().st_mode & 0o777 for path in saved.rglob("*") if path.is_file()}
    assert len(modes) == 1, "the weights have other permissions than the rest"


def test_a_model_without_its_plait_json_is_no_plain_encoder(saved, tmp_path):
    model = copy(saved, tmp_path)
    (model / "plait.json").unlink()
    with pytest.raises(ModelError, match=r"plait\.json is missing"):
        plait.load(model)


def test_a_newer_format_is_refused(saved, tmp_path):
    model = copy(saved, tmp_path)
    text = (model / "plait.json").read_text().replace('"format": 1', '"format": 99')
    (model / "plait.json").write_text(text)
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["sha256"]["plait.json"] = hashlib.sha256(text.encode()).hexdigest()
    (model / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match="format 99, this plait reads 1; update plait"):
        plait.load(model)


def test_a_reader_always_finds_a_whole_folder(tmp_path):
    target = tmp_path / "model"
    seen, stop = [], threading.Event()

    def write(number):
        with whole_folder(target) as place:
            (place / "x").write_text(str(number))

    def read():
        while not stop.is_set():
            try:
                seen.append(int((target / "x").read_text()))
            except (FileNotFoundError, ValueError) as error:
                seen.append(error)

    write(0)
    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 60):
        write(number)
    stop.set()
    reader.join()
    assert all(isinstance(number, int) for number in seen) and seen == sorted(seen) and len(set(seen)) > 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_loading_a_model_while_it_is_replaced_gives_one_of_the_two(saved, tmp_path, monkeypatch):
    model = copy(saved, tmp_path)
    original, times = load.build_model, []

    def replace_then_build(*arguments, **options):
        times.append(1)
        if len(times) == 1:  # another process saves a new model between the check and the reading
            (model / "heads.safetensors").write_bytes(b"of another model")
            (model / "manifest.json").write_text("{}")
            shutil.rmtree(model)
            shutil.copytree(saved, model)
            manifest = json.loads((model / "manifest.json").read_text())
            manifest["sha256"].pop("modules.json")  # so that it is another manifest
            (model / "manifest.json").write_text(json.dumps(manifest))
        return original(*arguments, **options)

    monkeypatch.setattr(load, "build_model", replace_then_build)
    assert list(plait.load(model).tasks) == ["mood", "same", "near"] and len(times) == 2


def test_a_file_or_folder_that_fails_leaves_the_old_one(tmp_path):
    for make in (whole_file, whole_folder):
        target = tmp_path / make.__name__
        with make(target) as place:
            (place / "x" if make is whole_folder else place).write_text("old")
        with pytest.raises(ZeroDivisionError), make(target) as place:
            (place / "x" if make is whole_folder else place).write_text("new")
            raise ZeroDivisionError
        assert (target / "x" if make is whole_folder else target).read_text() == "old"
    assert not list(tmp_path.glob(".*"))
