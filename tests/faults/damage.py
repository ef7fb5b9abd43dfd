"""What plait reads back (models, exports, stopped and finished runs), and whether damage to it is found or harmless."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.bench import Bench, told, tree
from plait.errors import PlaitError
from small_runs import stop_after
from tiny import sentences

__all__ = ["TREES", "files_of", "judge"]

_UNREAD = (".lock", "report.html")  # files that no command reads


Read = Callable[[Path], dict[str, str]]  # a folder → what plait makes of it, by file or command


def _answers(folder: Path, engine: Any = "torch") -> dict[str, str]:
    from plait.inference.predictor import load

    texts = sentences(3, seed=4)
    model = load(folder, engine=engine)
    pairs = [(texts[0], texts[1])]
    found = [model.predict("mood", texts), model.predict("same", pairs), model.predict("near", pairs)]
    return {"answers": repr([list(one) for one in found]), "embeddings": repr(model.embed(texts).tolist())}


def _make_export(place: Path, bench: Bench) -> None:
    from plait.export import export

    export._SAMPLE = 20  # texts to check the graphs with
    export.export_onnx(str(bench.model), place)


def _make_stopped(place: Path, bench: Bench) -> None:
    """A run with baselines and kept models that was stopped before its last steps, and has two checkpoints."""
    from plait.training.train import Stopped, train

    recipe = bench.recipe(epochs=2, checkpoint_every=2, evaluate_every=2, schedule="round_robin", batch_size=12)
    try:
        train(recipe, place, keep=2, stop=stop_after(10))
    except Stopped:
        return
    raise AssertionError("the run was not stopped")


def _resumed(folder: Path) -> dict[str, str]:
    """Every file of the run once it is resumed, without those that hold times."""
    from plait.training.train import resume

    resume(folder)
    result = {**json.loads((folder / "result.json").read_text()), "seconds": 0, "sha256": ""}
    files = tree(folder, ".lock", "result.json", "run.json", "recipe.yaml", "README.md")
    return {"result.json": repr(result), **{name: digest for name, digest in files.items() if name[:5] != "check"}}


def _make_finished(place: Path, bench: Bench) -> None:
    from plait.training.train import train

    train(bench.recipe(evaluate_every=3), place, keep=2)


def _reported(folder: Path) -> dict[str, str]:
    """What `plait report` says about a run."""
    code, out, errors = told("report", folder, "--text")
    if code:
        raise PlaitError(*errors.removeprefix("plait: ").splitlines())
    return {"report": out}


# What is damaged → how it is made, and what is read from it.
TREES: dict[str, tuple[Callable[[Path, Bench], None], Read]] = {
    "model": (lambda place, bench: shutil.copytree(bench.model, place) and None, _answers),
    "export": (_make_export, lambda folder: _answers(folder, "onnx")),
    "stopped run": (_make_stopped, _resumed),
    "finished run": (_make_finished, _reported),
}


def _made(bench: Bench, name: str) -> Path:
    return bench.once(f"{name.replace(' ', '-')}-tree", lambda place: TREES[name][0](place, bench))


def files_of(bench: Bench, name: str) -> list[str]:
    """The files of a tree, by their paths in it."""
    folder = _made(bench, name)
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in _UNREAD
    ]


def judge(bench: Bench, name: str, row: str, number: int, damage: Callable[[Path, list[Path]], Path]) -> str:
    """Damage a copy; what is read must be the same as before, or an error must name the file."""
    folder, read = _made(bench, name), TREES[name][1]
    noted = bench.once(f"{folder.name}-read", lambda place: _note(place, read, bench.copy(folder, row, number)))
    copy = bench.copy(folder, row, number)
    before = tree(copy).keys()
    path = damage(copy, [copy / file for file in files_of(bench, name)])
    new = tree(copy).keys() - before  # files that the damage itself made
    file = str(path.relative_to(copy))
    what = f"{name}/{file}"
    try:
        found = _placeless(read(copy), copy)
    except PlaitError as error:
        named = any(part in str(error) for part in (path.name, str(path.parent)))
        return "" if named else f"{what}: the message does not name it: {error}"
    except Exception as error:
        return f"{what}: {type(error).__name__}: {str(error)[:200]}"
    finally:
        shutil.rmtree(copy.parent, ignore_errors=True)
    found = {key: value for key, value in found.items() if key not in new}
    expected: dict[str, str] = json.loads(noted.read_text())
    if file.startswith(("best/", "kept/")):  # stays damaged, and whoever loads the model is told so
        found[file] = expected[file] = ""
    differing = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
    told_of = "best model is missing or damaged" if file.startswith("best/") else path.name
    if differing == ["report"] and told_of in found["report"]:  # it says what it leaves out
        return ""
    return f"{what}: another {', '.join(sorted(differing))}, and no error" if differing else ""


def _note(place: Path, read: Read, copy: Path) -> None:
    place.write_text(json.dumps(_placeless(read(copy), copy)))


def _placeless(found: dict[str, str], folder: Path) -> dict[str, str]:
    return {key: value.replace(str(folder), "") for key, value in found.items()}
