"""Training killed at random moments and resumed: the same weights, optimizer, metrics and models as without a kill."""

from pathlib import Path
from typing import Any

from faults.bench import Bench, same_files

__all__ = ["check"]

ROW = "kills"
# What must survive a kill: every schedule, stages, surgery, a loss with weights of its own, kept models, single tasks.
RUNS: dict[str, dict[str, Any]] = {
    "sequential": {"schedule": "sequential"},
    "round_robin": {"schedule": {"name": "round_robin", "order": ["mood", "near", "mood", "same"]}},
    "sampled": {"schedule": {"name": "sampled", "by": "equal", "weights": {"same": 2.0}}},
    "alternate": {"schedule": "alternate", "pooling": "weighted"},
    "together": {"schedule": {"name": "together", "combine": "mean"}},
    "surgery": {"schedule": {"name": "together", "combine": "surgery"}},
    "stages": {"stages": [{"tasks": ["near"], "epochs": 2}, {"tasks": ["near", "same"], "epochs": 1}, {"epochs": 2}]},
    "proxies": {"schedule": "round_robin"},  # soft_triple
    "single_task": {"schedule": "round_robin", "epochs": 1},
    "refit": {"schedule": "together", "epochs": 1, "refit": True},  # which needs dev rows that come from train
}
FREQUENT = {"checkpoint_every": 2, "evaluate_every": 3, "conflict_every": 2}
SMALL = {"dropout": 0.3, "epochs": 2, "batch_size": 12}


def recipe_of(bench: Bench, name: str) -> dict[str, Any]:
    recipe = bench.recipe(**{**FREQUENT, **SMALL, **RUNS[name]})
    if name == "proxies":
        mood = {**recipe["tasks"]["mood"], "loss": ["cross_entropy", "soft_triple"]}
        recipe["tasks"] = {**recipe["tasks"], "mood": mood}
    if name == "refit":
        recipe["tasks"] = {task: {**keys, "dev": 0.25} for task, keys in recipe["tasks"].items()}
    return recipe


def train_or_resume(folder: Path, recipe: dict[str, Any], single_task: bool) -> None:
    """In a process of its own: begin the run, or resume it."""
    from plait.errors import RunError
    from plait.runs.directory import RunDirectory
    from plait.training.train import resume, train

    RunDirectory.drop_checkpoints = lambda self: None  # so that the last optimizer can be compared
    if not (folder / "run.json").is_file():
        train(recipe, folder, baselines=False, keep=2, single_task=single_task)
        return
    try:
        resume(folder)
    except RunError as error:
        if "already finished" not in str(error):
            raise


def check(bench: Bench, number: int) -> str:
    """Kill a run, then let it finish."""
    name = list(RUNS)[number % len(RUNS)]
    chance, work = bench.chance(ROW, number), (recipe_of(bench, name), name == "single_task")

    def uninterrupted(place: Path) -> None:
        ended = bench.start(place, train_or_resume, place, *work).end()
        assert ended.code == 0, ended.log
        place.with_suffix(".seconds").write_text(str(ended.seconds))

    expected = bench.once(f"kills-{name}", uninterrupted)
    length = float(expected.with_suffix(".seconds").read_text())
    place = bench.place(ROW, number)
    for _ in range(20):
        child = bench.start(place, train_or_resume, place / "run", *work)
        if child.wait(chance.uniform(0, length)) is None:
            child.kill()
            break
        bench.place(ROW, number)  # it was faster than the kill: once more
    ended = bench.start(place, train_or_resume, place / "run", *work).end()
    if ended.code or not ended.is_clean:
        return f"{name}: resuming ended with {ended.code}: {ended.log[-500:]}"
    return _differences(name, expected, place / "run")


def _differences(name: str, expected: Path, run: Path) -> str:
    if difference := same_files(expected, run):
        return f"{name}: {difference}"
    left = [path.name for path in run.rglob(".*") if path.suffix in (".part", ".old")]
    return f"{name}: temporary files are left: {left}" if left else ""
