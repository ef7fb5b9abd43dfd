"""Worker processes instead of threads: the same predictions, and none is left behind."""

import gc
import os
import select
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from click.testing import CliRunner

import plait
from plait.cli.embed import command as embed_command
from plait.errors import ExecutionError, RequestError
from plait.model.ensemble_build import build_ensemble
from tiny import sentences, write_tasks

TEXTS = sentences(50, seed=3)


@pytest.fixture(scope="module")
def run(tiny_bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    return plait.train(write_tasks(folder / "data", tiny_bert), folder / "run", baselines=False).run


def processes(predictor):
    engine = predictor._model.engine
    return [engine.free.get() for _ in range(engine.lanes)]


def test_workers_predict_the_same_as_one_process(run):
    alone, together = plait.load(run), plait.load(run, workers=2)
    np.testing.assert_allclose(together.embed(TEXTS), alone.embed(TEXTS), atol=1e-6)
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    ours, theirs = (model.predict("near", pairs) for model in (alone, together))
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-5)


def test_each_member_of_an_ensemble_has_its_own_workers(run, tmp_path, tiny_bert):
    recipe = {**write_tasks(tmp_path / "data", tiny_bert), "seed": 5}
    other = plait.train(recipe, tmp_path / "other", baselines=False).run
    build_ensemble([str(run), str(other)], tmp_path / "both")
    together = plait.load(tmp_path / "both", workers=1)
    np.testing.assert_allclose(together.embed(TEXTS), plait.load(tmp_path / "both").embed(TEXTS), atol=1e-6)


def test_a_file_is_embedded_by_workers(tiny_bert, tmp_path):
    (tmp_path / "in.csv").write_text("text\n" + "\n".join(TEXTS) + "\n", encoding="utf-8")
    options = ["--input", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.npy"), "--workers", "2"]
    done = CliRunner().invoke(embed_command, [str(tiny_bert), *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), plait.load(tiny_bert).embed(TEXTS), atol=1e-6)


def test_a_worker_that_dies_is_reported(tiny_bert):
    predictor = plait.load(tiny_bert, workers=1)
    (process,) = processes(predictor)
    process.kill()
    predictor._model.engine.free.put(process)
    with pytest.raises(ExecutionError, match=r"a worker stopped \(exit code -9\)"):
        predictor.embed(TEXTS)


def test_workers_end_with_the_model(tiny_bert):
    predictor = plait.load(tiny_bert, workers=2)
    predictor.embed(TEXTS)
    found = processes(predictor)
    assert [process.poll() for process in found] == [None, None]
    del predictor
    gc.collect()
    assert [process.poll() for process in found] == [-signal.SIGKILL] * 2


def test_workers_end_when_their_parent_is_killed(tiny_bert):
    program = textwrap.dedent(
        """
        import os, signal, sys, plait
        predictor = plait.load(sys.argv[1], workers=1)
        predictor.embed(["a dog"])
        print(predictor._model.engine.free.get().pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    parent = subprocess.run([sys.executable, "-c", program, str(tiny_bert)], capture_output=True, text=True)
    assert parent.returncode == -signal.SIGKILL
    try:
        worker = os.pidfd_open(int(parent.stdout))
    except ProcessLookupError:
        return  # gone already
    assert select.select([worker], [], [], 60)[0], "the worker is still running"
    os.close(worker)


def test_a_negative_number_of_workers_is_refused(tiny_bert):
    with pytest.raises(RequestError, match="workers: expected a number of processes, found -1"):
        plait.load(tiny_bert, workers=-1)
