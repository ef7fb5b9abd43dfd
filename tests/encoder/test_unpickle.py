"""The process that reads pickled checkpoints: `python -m plait.encoder.unpickle OUT FILE…`."""

import argparse
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file


def unpickle(out: Path, *files: Path) -> dict[str, Any]:
    """The line of JSON that the process prints."""
    command = [sys.executable, "-m", "plait.encoder.unpickle", str(out), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def mistake_of(out: Path, file: Path) -> str:
    report = unpickle(out, file)
    assert report["others"] == {} and not out.exists()
    (mistake,) = report["mistakes"]
    assert mistake.startswith(f"{file}: ")
    return mistake.removeprefix(f"{file}: ")


def test_tensors_of_all_files_are_written_and_the_rest_is_described(tmp_path):
    first, second, out = tmp_path / "one.bin", tmp_path / "two.bin", tmp_path / "out.safetensors"
    shared = torch.arange(6.0).view(2, 3)
    torch.save({"a": shared, "transposed": shared.T, "steps": 7}, first)
    torch.save({"state_dict": {"b": torch.ones(2).half(), "ids": torch.arange(3), "\x1b[31m": None}}, second)
    report = unpickle(out, first, second)
    assert report == {
        "mistakes": [],
        "others": {"steps": "int", "ids": "int64 tensor", "'\\x1b[31m'": "NoneType"},
    }
    found = load_file(out)
    assert found.keys() == {"a", "transposed", "b"} and found["b"].dtype == torch.float16
    assert torch.equal(found["a"], shared) and torch.equal(found["transposed"], shared.T)


REFUSAL = (
    "; reading it would run code from the file, which plait never does; where it was made, save only its weights, "
    "torch.save(model.state_dict(), 'weights.pt'), and convert those"
)


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ({"args": argparse.Namespace(lr=1)}, f"holds more than tensors (argparse.Namespace){REFUSAL}"),
        ([torch.zeros(1)], "holds a list, expected what torch.save(model.state_dict()) writes"),
        ({"lr": 0.1, "epoch": 2}, "has no named tensors; expected a state dict, found lr, epoch"),
        ({"model": {}, "epoch": 2}, "has no named tensors; expected a state dict, found nothing"),
        (
            {"model": {"a": torch.zeros(1)}, "state_dict": {"b": torch.zeros(1)}},
            "has weights under model and state_dict; save only those that you want",
        ),
    ],
    ids=["code", "list", "no tensors", "nothing", "two"],
)
def test_other_content_is_refused(tmp_path, content, mistake):
    torch.save(content, tmp_path / "weights.pt")
    assert mistake_of(tmp_path / "out", tmp_path / "weights.pt") == mistake


class MakesDirectory:
    """Unpickling it makes a directory."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.marker),)


def test_code_in_a_pickle_is_not_run(tmp_path):
    torch.save({"a": torch.zeros(1), "b": MakesDirectory(tmp_path / "marker")}, tmp_path / "weights.pt")
    assert mistake_of(tmp_path / "out", tmp_path / "weights.pt") == f"holds more than tensors (posix.mkdir){REFUSAL}"
    assert not (tmp_path / "marker").exists()


def test_truncated_file_is_reported(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"a": torch.zeros(1000)}, path)
    path.write_bytes(path.read_bytes()[:-500])
    expected = "is damaged or truncated (its end is missing); copy or download it again"
    assert mistake_of(tmp_path / "out", path) == expected


def test_zip_file_of_another_program_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "weights.pt", "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert mistake_of(tmp_path / "out", tmp_path / "weights.pt") == "is a zip file that torch.save did not write"
