"""A trained model, and a way to run jobs through pipes."""

import io
import sys
from pathlib import Path

import pytest

from plait.inference.jobs import Job
from plait.inference.predictor import Predictor, load
from plait.inference.stream import run_job
from plait.progress import SilentProgress


@pytest.fixture(scope="package")
def predictor(trained_run) -> Predictor:
    return load(trained_run)


@pytest.fixture
def pipe(monkeypatch, capsysbinary):
    """Run a job from standard input to a file or to standard output, whose bytes are returned."""

    def through(job: Job, data: bytes, output: str = "-", **options) -> bytes:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        run_job(job, "-", output, None if output == "-" else Path(output).suffix[1:], SilentProgress(), **options)
        return capsysbinary.readouterr().out

    return through
