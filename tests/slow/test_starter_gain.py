"""On the starter data, training beats the frozen encoder by more than luck of the examples."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.slow


def test_the_mean_over_tasks_and_three_seeds_beats_the_frozen_encoder():
    command = [sys.executable, REPO / "benchmarks/starter_gain.py", "--seeds", "1", "2", "3", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["gain"] > 0 and found["interval"][0] > 0
