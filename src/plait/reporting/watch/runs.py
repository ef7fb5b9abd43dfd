"""Runs as the page shows them: how far they are, and their curves so far."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plait.errors import RequestError, RunError
from plait.reporting.curves import CurvePoint, read_curves
from plait.runs.records import MetricsLine, RunRecord, ScoresLine, parse_line

__all__ = ["WatchedRuns"]

_MOST = 100  # runs that are shown, the newest first


class WatchedRuns:
    """The runs in some folders; what was read is kept until a file changes."""

    def __init__(self, folders: Sequence[Path]) -> None:
        if missing := [f"{folder}: no such folder" for folder in folders if not folder.is_dir()]:
            raise RequestError(*missing)
        self.folders = [folder.resolve() for folder in folders]
        self._known: dict[Path, _WatchedRun] = {}

    def describe(self) -> list[dict[str, Any]]:
        """Every run, the one that changed last first."""
        found = {record.parent for folder in self.folders for record in folder.rglob("run.json")}
        self._known = {folder: self._known.get(folder) or _WatchedRun(folder) for folder in found}
        described = [run.describe(self._name_of(run.folder)) for run in self._known.values()]
        return sorted((run for run in described if run), key=lambda run: (-run["changed"], run["name"]))[:_MOST]

    def _name_of(self, folder: Path) -> str:
        """The folder of a run as seen from those that are watched; its own name if it is watched itself."""
        for watched in self.folders:
            if folder.is_relative_to(watched):
                inside = folder.relative_to(watched).as_posix()
                name = watched.name if inside == "." else inside
                return name if len(self.folders) == 1 or inside == "." else f"{watched.name}/{name}"
        return folder.name


class _WatchedRun:
    """A run directory and the lines of its metrics that were read so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: list[MetricsLine] = []
        self._read = 0  # bytes of metrics.jsonl
        self._metrics: dict[str, str] | None = None

    def describe(self, name: str) -> dict[str, Any] | None:
        """What the page knows about the run; None if it is damaged or was deleted meanwhile."""
        try:
            metrics = self._task_metrics()
            self._read_on()
            changed = max(path.stat().st_mtime for path in self.folder.glob("*.json*"))
        except (OSError, ValueError, RunError):
            return None
        curves = read_curves(self._lines, metrics)
        means = [line.mean for line in self._lines if isinstance(line, ScoresLine) and line.mean is not None]
        return {
            "name": name,
            "finished": (self.folder / "result.json").is_file(),
            "changed": changed,
            "step": curves.last,
            "best": max((mean for mean in means if mean == mean), default=None),
            "metrics": metrics,
            "losses": _by_task(curves.losses),
            "scores": _by_task([point for point in curves.scores if point.of == "dev"]),
        }

    def _task_metrics(self) -> dict[str, str]:
        """Each task's own metric; a complete recipe names it."""
        if self._metrics is None:
            recipe = RunRecord.read(self.folder / "run.json").recipe
            blocks = recipe.get("stages") or [recipe]
            tasks = {name: task for block in blocks for name, task in block["tasks"].items()}
            self._metrics = {name: task.get("metric") or "" for name, task in tasks.items()}
        return self._metrics

    def _read_on(self) -> None:
        """Read the lines that were added; all of them again if the file was cut, as a resumed run does."""
        path = self.folder / "metrics.jsonl"
        size = path.stat().st_size if path.is_file() else 0
        if size < self._read:
            self._lines, self._read = [], 0
        if size == self._read:
            return
        with path.open("rb") as file:
            file.seek(self._read)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]  # the last line may be half written
        self._lines += [parse_line(line) for line in whole.decode().splitlines()]
        self._read += len(whole)


def _by_task(points: Sequence[CurvePoint]) -> dict[str, list[tuple[int, float | None]]]:
    """Task → (step, value); JSON has no numbers that are not finite."""
    found: dict[str, list[tuple[int, float | None]]] = {}
    for point in points:
        finite = point.value if abs(point.value) < float("inf") else None
        found.setdefault(point.task, []).append((point.step, finite))
    return found
