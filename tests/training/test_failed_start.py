"""A run that fails before it has done any work leaves nothing behind; its errors name arguments and rows."""

from contextlib import ExitStack

import pandas
import pytest

import plait
from plait.errors import DataError, ExecutionError, PlaitError, RecipeError, RunError
from plait.progress import SilentProgress
from plait.runs.directory import RunDirectory
from plait.training.train import Stopped, resume


class Failing(SilentProgress):
    """Fails at the first event of a kind."""

    def __init__(self, event: str, error: BaseException) -> None:
        self.event, self.error = event, error

    def begin(self, what: str, total: int, done: int = 0) -> None:
        if what.startswith(self.event):
            raise self.error

    def advance(self, count: int = 1, **facts: object) -> None:
        if self.event == "step" and "loss" in facts:
            raise self.error


def tables(recipe: dict) -> dict:
    recipe["tasks"]["mood"]["train"] = pandas.read_csv(recipe["tasks"]["mood"]["train"])
    return recipe


@pytest.mark.parametrize("changes", [{"lr": "fast"}, {"encoder": "nowhere/at-all"}, {"max_length": 1}])
def test_an_invalid_recipe_leaves_nothing(tiny_recipe, tmp_path, changes):
    recipe = tables(tiny_recipe(**changes))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PlaitError):
        plait.train(recipe, tmp_path / "runs/new/run")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_failure_before_the_first_work_leaves_nothing(tiny_recipe, tmp_path):
    with pytest.raises(ExecutionError, match="full"):
        plait.train(tables(tiny_recipe()), tmp_path / "runs/new/run", progress=Failing("", OSError("full")))
    assert not (tmp_path / "runs").exists()


def test_directories_that_others_use_stay(tiny_recipe, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "given").mkdir()
    for out in ("runs/run", "given"):
        with pytest.raises(PlaitError):
            plait.train(tables(tiny_recipe(lr="fast")), tmp_path / out)
    assert (tmp_path / "runs").is_dir() and not (tmp_path / "runs/run").exists() and (tmp_path / "given").is_dir()


def test_a_run_that_another_process_began_meanwhile_stays(tiny_recipe, tmp_path, monkeypatch):
    with ExitStack() as other:

        def begin_elsewhere(*_):
            other.enter_context(RunDirectory(tmp_path / "runs/run").locked())
            raise DataError("no such column")

        monkeypatch.setattr("plait.training.train.resolve_run", begin_elsewhere)
        with pytest.raises(DataError):
            plait.train(tiny_recipe(), tmp_path / "runs/run")
        assert (tmp_path / "runs/run/.lock").exists()


def test_a_run_that_has_trained_stays_and_resumes(tiny_recipe, tmp_path):
    with pytest.raises(ExecutionError, match="full"):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, progress=Failing("step", OSError("full")))
    assert resume(tmp_path / "run").steps > 0


def test_a_run_that_is_stopped_stays_and_resumes(tiny_recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "stopped", baselines=False, stop=lambda: True)
    with pytest.raises(KeyboardInterrupt):
        plait.train(tiny_recipe(), tmp_path / "killed", progress=Failing("", KeyboardInterrupt()))
    assert resume(tmp_path / "stopped").steps == resume(tmp_path / "killed").steps > 0


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda out: plait.train(None, out), RecipeError, "the argument `recipe`: expected a file, a name, a mapping"),
        (
            lambda out: plait.train({}, out, keep=-1),
            RunError,
            "the argument `keep`: expected a number of models, found -1",
        ),
        (lambda out: plait.train({}, out, threads=0), RunError, "the argument `threads`: expected a number of threads"),
        (lambda out: plait.train({}, out.parent), RunError, "choose another `out`"),
        (lambda out: plait.train({}, out, overrides=["lr"]), RecipeError, "`overrides` lr: "),
    ],
)
def test_errors_name_arguments(tmp_path, call, kind, message):
    (tmp_path / "something").touch()
    with pytest.raises(kind) as caught:
        call(tmp_path / "run")
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()
