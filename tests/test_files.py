"""Atomic files and folders: a reader sees the old content or the new one."""

import threading

import pytest

from plait.files import atomic_file, atomic_folder, lock, read_json, remove_leftovers, write_json


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
