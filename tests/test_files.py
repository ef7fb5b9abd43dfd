"""Atomic files and folders: a reader sees the old content or the new one."""

import hashlib
import shutil
import threading

import pytest
import torch
from safetensors.torch import load_file, save_file

from full_disk import full_disk
from plait.files import (
    atomic_file,
    atomic_folder,
    lock,
    read_json,
    read_json_with_digest,
    remove_leftovers,
    save_tensors,
    write_json,
    write_json_with_digest,
)


def test_a_reader_never_sees_half_a_folder(tmp_path):
    target = tmp_path / "model"
    seen, stop = [], threading.Event()

    def write(number):
        with atomic_folder(target) as place:
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


def test_a_write_that_fails_leaves_the_old_content(tmp_path):
    for make in (atomic_file, atomic_folder):
        target = tmp_path / make.__name__
        with make(target) as place:
            (place / "x" if make is atomic_folder else place).write_text("old")
        with pytest.raises(ZeroDivisionError), make(target) as place:
            (place / "x" if make is atomic_folder else place).write_text("new")
            raise ZeroDivisionError
        assert (target / "x" if make is atomic_folder else target).read_text() == "old"
    assert not list(tmp_path.glob(".*"))


def test_json_is_written_atomically_and_readably(tmp_path):
    write_json(tmp_path / "x.json", {"ü": [1, None]})
    assert read_json(tmp_path / "x.json") == {"ü": [1, None]}
    assert (tmp_path / "x.json").read_text(encoding="utf-8") == '{\n  "ü": [\n    1,\n    null\n  ]\n}\n'
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {"x": object()})
    assert read_json(tmp_path / "x.json") == {"ü": [1, None]} and not list(tmp_path.glob(".*"))


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / ".model.123.part").mkdir()
    (tmp_path / ".model.123.part/x").touch()
    (tmp_path / ".run.json.123.part").touch()
    (tmp_path / "kept").touch()
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_lock_is_held_by_one_at_a_time(tmp_path):
    with lock(tmp_path / "lock", wait=False) as first, lock(tmp_path / "lock", wait=False) as second:
        assert first and not second
    with lock(tmp_path / "lock", wait=False) as third:
        assert third


def test_a_lock_knows_whether_its_file_was_deleted_or_replaced(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with lock(folder / "lock") as held:
        assert held is not None and held.is_current()
        shutil.rmtree(folder)
        assert not held.is_current()
        folder.mkdir()
        with lock(folder / "lock", wait=False) as other:
            assert other and other.is_current() and not held.is_current()


def test_json_with_a_digest_reads_back_and_refuses_changes(tmp_path):
    path = tmp_path / "x.json"
    value = {"b": 1, "a": [0.1, None, float("inf")], "ü": {"1": "x"}}
    write_json_with_digest(path, value)
    assert read_json_with_digest(path) == (value, True)
    path.write_text(path.read_text().replace("0.1", "0.2"))
    with pytest.raises(ValueError, match="does not match its digest"):
        read_json_with_digest(path)
    write_json(path, value)
    assert read_json_with_digest(path) == (value, False)  # of an older plait


def test_tensors_are_written_like_safetensors_does_with_their_digest(tmp_path):
    tensors = {
        "w": torch.randn(3, 5),
        "ü/a": torch.randn(5, 3),
        "count": torch.tensor(3),
        "none": torch.empty(0, 4),
        "flags": torch.tensor([True, False, True]),
        "half": torch.randn(3).to(torch.bfloat16),
    }
    digest = save_tensors({**tensors, "ü/a": tensors["ü/a"].T.contiguous().T}, tmp_path / "ours", {"format": "pt"})
    save_file(tensors, tmp_path / "theirs", {"format": "pt"})
    content = (tmp_path / "ours").read_bytes()
    assert content == (tmp_path / "theirs").read_bytes() and digest == hashlib.sha256(content).hexdigest()
    found = load_file(tmp_path / "ours")
    assert found.keys() == tensors.keys() and all(torch.equal(found[name], tensors[name]) for name in tensors)
    with pytest.raises(TypeError, match="complex64 cannot be saved"):
        save_tensors({"x": torch.zeros(1, dtype=torch.complex64)}, tmp_path / "x")


@pytest.mark.parametrize("make", [atomic_file, atomic_folder])
def test_a_full_disk_names_what_was_to_be_written(tmp_path, make):
    target = tmp_path / "target"
    with full_disk(1000), pytest.raises(OSError, match="File too large") as caught, make(target) as place:
        save_tensors({"x": torch.zeros(1000)}, place if make is atomic_file else place / "x")
    assert caught.value.filename == str(target)
    assert not list(tmp_path.iterdir())
