"""`plait convert` on the command line, in its own process."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

PLAIT = [sys.executable, "-m", "plait"]


def plait(*arguments: object, code: int = 0) -> subprocess.CompletedProcess:
    out = subprocess.run([*PLAIT, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert out.returncode == code, out.stdout + out.stderr
    assert "Traceback" not in out.stderr
    return out


@pytest.fixture
def weights(tiny_bert, tmp_path) -> Path:
    """What a training script saves: the tiny BERT with heads, in half precision, without a config beside it."""
    state = {
        f"module.bert.{name}": tensor.half() for name, tensor in load_file(tiny_bert / "model.safetensors").items()
    }
    state |= {f"module.head{number}.weight": torch.zeros(2, 16) for number in range(25)}
    torch.save({"epoch": 1, "model_state_dict": state}, tmp_path / "weights.pt")
    return tmp_path / "weights.pt"


def test_weights_of_a_script_become_an_encoder_for_other_commands(weights, tiny_bert, tmp_path):
    lines = plait("convert", weights, "--config", tiny_bert, "--out", tmp_path / "new").stdout.splitlines()
    count = sum(tensor.numel() for tensor in load_file(tiny_bert / "model.safetensors").values())
    names = sorted(f"module.head{number}.weight" for number in range(25))
    assert lines == [
        f"bert encoder with 2 layers of width 16, {count:,} weights in float32 (was float16) in {tmp_path / 'new'}",
        f"left out: {', '.join(names[:20])} and 5 more",
    ]
    (tmp_path / "texts.csv").write_text("text\nthe film was good\na bad meal\n")
    plait("embed", tmp_path / "new", "--input", tmp_path / "texts.csv", "--output", tmp_path / "vectors.npy")
    assert np.load(tmp_path / "vectors.npy").shape == (2, 16)


def test_the_result_as_json(weights, tiny_bert, tmp_path):
    out = plait("convert", weights, "--config", tiny_bert, "--out", tmp_path / "new", "--json").stdout
    facts = json.loads(out)
    assert facts.pop("weights") > 0 and len(facts.pop("left_out")) == 25
    assert facts == {
        "kind": "result",
        "output": str(tmp_path / "new"),
        "model_type": "bert",
        "layers": 2,
        "width": 16,
        "was": ["float16"],
    }


def test_a_mistake_is_one_line_and_the_exit_code_2(weights, tiny_bert, tmp_path):
    out = plait("convert", weights, "--out", tmp_path / "new", code=2)
    assert out.stdout == "" and len(out.stderr.splitlines()) == 1
    assert out.stderr.startswith(f"plait: {weights}: no config.json beside the weights; ")
    shutil.copytree(tiny_bert, tmp_path / "new")
    taken = plait("convert", weights, "--config", tiny_bert, "--out", tmp_path / "new", code=2).stderr
    assert taken.startswith(f"plait: {tmp_path / 'new'}: already exists")


def test_the_command_is_listed():
    assert "convert     Convert pickled weights" in plait("--help").stdout
