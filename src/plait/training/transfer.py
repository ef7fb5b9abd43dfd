"""`plait.transfer`: which task helps which, by training each pair of tasks without the others."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import torch

from plait.errors import RequestError, RunError
from plait.evaluation.compare import compare_evaluations
from plait.evaluation.evaluate_model import Evaluation, evaluate
from plait.evaluation.paired import TaskComparison, correct_for_several
from plait.html_table import html_table
from plait.progress import Progress, SilentProgress
from plait.resolve.run import ResolvedRun
from plait.runs.directory import RunDirectory
from plait.training.given_recipe import resolve_again
from plait.training.threads import restore_threads
from plait.training.train import train_part

__all__ = ["Transfer", "transfer"]


@dataclass(frozen=True)
class Transfer:
    """What each task gains by being trained together with one other task."""

    run: Path
    data: str  # the split
    gains: dict[str, dict[str, TaskComparison]]  # task → the task beside it → the pair compared with the task alone
    notes: list[str] = field(default_factory=list)  # such as tasks that cannot be trained alone

    def to_json(self) -> dict[str, Any]:
        gains = {task: {other: one.to_json() for other, one in row.items()} for task, row in self.gains.items()}
        return {"run": self.run, "data": self.data, "gains": gains, "notes": self.notes}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The matrix as text: its headings, and a row for each task; a star marks a difference that is shown."""
        names = list(self.gains)
        rows = [[task, *(_cell(self.gains[task].get(other)) for other in names)] for task in names]
        return ["task", *(f"with {name}" for name in names)], rows

    def _repr_html_(self) -> str:
        names, rows = self.table()
        caption = f"{self.run}: the gain of each task on {self.data} from training with one other"
        return html_table(caption, names, rows, "A star marks a difference that the test shows.")


def _cell(one: TaskComparison | None) -> str:
    if one is None:
        return "–"
    return f"{one.difference:+.3f}{'' if one.verdict == 'no difference shown' else ' *'}"


@restore_threads()
def transfer(
    run: str | Path,
    *,
    split: Literal["dev", "test"] = "dev",
    data: str | Path | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Transfer:
    """Measure which task helps which: every task of a run is trained alone, and every pair of tasks without the others.

    The models are trained with the settings of the run, inside its folder; those that are there already are used, so
    an interrupted measurement continues where it was. K tasks need K·(K + 1)/2 trainings at most. p is corrected for
    all pairs.
    """
    directory = RunDirectory(Path(run))
    threads = directory.record.threads
    if not directory.is_trained:
        raise RunError(f"{run}: not finished; resume it with plait train --resume {run}")
    progress = progress or SilentProgress()
    resolved = resolve_again(directory, data=data)
    torch.set_num_threads(threads)
    tasks = resolved.stages[-1].tasks
    names = [name for name, task in tasks.items() if task.settings.learn and task.spec.head and split in task.splits]
    if len(names) < 2:
        raise RequestError(f"{run}: transfer needs two trained tasks with {split} data, found {len(names)}")
    notes: list[str] = []
    alone: dict[str, Evaluation] = {}
    again = _again(directory)
    with directory.locked():
        for name in names:
            part = train_part(directory, directory.single_tasks / name, resolved, [name], progress, stop, again=again)
            if part is None:
                notes.append(f"{name}: cannot be trained alone, so what it gains is not measured")
            else:
                alone[name] = evaluate(part.folder, split=split, data=data)
        compared: list[tuple[str, str, TaskComparison]] = []
        for pair in combinations(names, 2):
            trained = _train_pair(directory, resolved, pair, progress, stop)
            if trained is None:
                notes.append(f"{pair[0]} and {pair[1]}: cannot be trained without the others")
                continue
            together = evaluate(trained.folder, split=split, data=data)
            for task, other in (pair, pair[::-1]):
                if task in alone and (found := compare_evaluations(task, alone[task], together, notes)):
                    compared.append((task, other, found))
    corrected = correct_for_several([found for _, _, found in compared])
    gains: dict[str, dict[str, TaskComparison]] = {name: {} for name in names}
    for (task, other, _), found in zip(compared, corrected, strict=True):
        gains[task][other] = found
    return Transfer(directory.folder, split, gains, notes)


def _train_pair(
    run: RunDirectory, resolved: ResolvedRun, pair: tuple[str, str], progress: Progress, stop: Callable[[], bool]
) -> RunDirectory | None:
    """The run that trains two tasks: the run itself if it has no others."""
    learning = [name for name, task in resolved.stages[-1].tasks.items() if task.settings.learn]
    if set(learning) == set(pair) and not resolved.recipe.refit:
        return run
    return train_part(run, run.pairs / "+".join(pair), resolved, pair, progress, stop, again=_again(run))


def _again(run: RunDirectory) -> str:
    return f"plait compare {run.folder} --transfer"
