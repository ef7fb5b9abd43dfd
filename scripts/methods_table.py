"""Train every recipe of tests/methods and write the table of their scores into docs/methods.md.

    python scripts/methods_table.py                        train what is missing, then write the table
    python scripts/methods_table.py --only h09-cosine      train this recipe again, then write the table
    python scripts/methods_table.py --table                only write the table

Results are stored in .methods/, so an interrupted script continues with the next recipe; a recipe that has changed
since is trained again. The script fails if a loss does not decrease.
"""

import argparse
import csv
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from click.testing import CliRunner

import plait
from plait.cli.main import cli
from plait.model.directory.record import open_directory

REPO = Path(__file__).resolve().parent.parent
RECIPES = REPO / "tests/methods"
STORE = REPO / ".methods"
PAGE = REPO / "docs/methods.md"
STARTER = REPO / "src/plait/data/starter"
BEGIN, END = "<!-- table of scores: written by make methods -->", "<!-- end of the table of scores -->"
THREADS = 1  # another number of threads would sum in another order
RANDOM_ROBERTA = "e02-roberta"  # trained on a tiny random encoder, since no RoBERTa weights are bundled

HEAD = f"""
Written by `make methods` with {THREADS} thread: each recipe of `tests/methods` unchanged, with seed 11711. The encoder
is `minilm`. The data is the starter data, 320 training and 80 dev rows per task (fewer training rows if several tasks
are trained together), and `nli.csv`, 60 premises with three hypotheses each.

The loss is the mean over the first and over the last quarter of the steps, summed over the tasks; losses of different
methods are not comparable. The score is that of the best epoch on dev. With 80 dev rows the 95 % interval of an
accuracy is about ±0.1: the table shows that each method learns, not which is better. Rows with the same settings have
the same figures. Seconds include training and evaluation.
""".strip()

Scores = dict[str, tuple[str, float]]  # task → metric and its value


@dataclass(frozen=True)
class Measured:
    """The result of training one recipe."""

    name: str
    about: str  # the recipe's first line
    first: float  # the mean loss of each task over the first quarter of its steps, summed over the tasks
    last: float
    scores: Scores  # on dev
    seconds: float
    note: str = ""
    fingerprint: str = ""
    falls: dict[str, tuple[float, float]] = field(default_factory=dict)  # task → first and last

    @property
    def learned(self) -> bool:
        """Whether the loss decreased."""
        return self.last < self.first


def recipe_names() -> list[str]:
    """Every recipe, in the order of docs/methods.md."""
    names = [path.stem for path in RECIPES.glob("[a-z][0-9]*.yaml")]
    return sorted(names, key=lambda name: ("ehlsga".index(name[0]), name))


def about_of(name: str) -> str:
    """The recipe's first line: the method in words."""
    return (RECIPES / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def fingerprint_of(name: str) -> str:
    """A digest of the recipe, the recipes that it may extend, and its data."""
    digest = hashlib.sha256()
    for path in (RECIPES / f"{name}.yaml", RECIPES / "base.yaml", *sorted((RECIPES / "on").glob("*.yaml"))):
        digest.update(path.read_bytes())
    for path in (RECIPES / "nli.csv", *sorted(STARTER.glob("*.csv"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def losses_of(run: Path) -> dict[str, list[float]]:
    """The loss of each task at every step."""
    losses: dict[str, list[float]] = {}
    with (run / "metrics.jsonl").open(encoding="utf-8") as file:
        for record in map(json.loads, file):
            if record["kind"] == "train":
                for task, loss in record["loss"].items():
                    losses.setdefault(task, []).append(loss)
    return losses


def quarters(losses: Sequence[float]) -> tuple[float, float]:
    """The means of the first and the last quarter."""
    size = max(1, len(losses) // 4)
    return sum(losses[:size]) / size, sum(losses[-size:]) / size


def main_scores(result: plait.Result) -> Scores:
    """The score of each task by its own metric."""
    metrics = open_directory(result.model).record.metrics
    return {task: (metrics[task], values[metrics[task]]) for task, values in result.scores.items()}


def measure(name: str, folder: Path, overrides: Sequence[str] = ()) -> Measured:
    """Train a recipe into a folder, and do what its method does after training."""
    result = train_one(name, folder / "run", overrides, single_task=name in SINGLE_TASK)
    falls = {task: quarters(losses) for task, losses in losses_of(result.run).items()}
    scores, note = main_scores(result), ""
    if name in AFTER:
        scores, note = AFTER[name](result, folder, overrides)
    first, last = (sum(fall[end] for fall in falls.values()) for end in (0, 1))
    return Measured(name, about_of(name), first, last, scores, result.seconds, note, falls=falls)


def train_one(name: str, run: Path, overrides: Sequence[str], *, single_task: bool = False) -> plait.Result:
    """The recipe with these overrides."""
    recipe = RECIPES / f"{name}.yaml"
    return plait.train(recipe, run, overrides=list(overrides), baselines=False, single_task=single_task, threads=1)


def run_command(*words: object) -> str:
    """The output of a plait command, which must succeed."""
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, f"plait {' '.join(map(str, words))}: {done.output}"
    return done.stdout


def evaluate(model: Path, *words: object) -> dict[str, Any]:
    """The result of `plait evaluate --json`."""
    result: dict[str, Any] = json.loads(run_command("evaluate", model, "--json", *words).splitlines()[-1])
    return result


def build_ensemble(result: plait.Result, folder: Path, overrides: Sequence[str]) -> tuple[Scores, str]:
    """A4: the same recipe with another seed, and both models as an ensemble."""
    other = train_one("a04-ensemble", folder / "other", [*overrides, "seed=2"])
    run_command("ensemble", result.run, other.run, "--out", folder / "both")
    scores = {
        task: (found["metric"], found["values"][found["metric"]])
        for task, found in evaluate(folder / "both", "--data", STARTER)["scores"].items()
    }
    single = [main_scores(one)[task][1] for one in (result, other) for task in scores]
    return scores, f"the two models alone: {' and '.join(f'{value:.3f}' for value in single)}"


def list_mistakes(result: plait.Result, folder: Path, overrides: Sequence[str]) -> tuple[Scores, str]:
    """A7: the wrong predictions, written to a file."""
    evaluate(result.run, "--mistakes", folder / "wrong.csv")
    with (folder / "wrong.csv").open(encoding="utf-8", newline="") as file:
        counts: dict[str, int] = {}
        for row in csv.DictReader(file):
            counts[row["task"]] = counts.get(row["task"], 0) + 1
    listed = ", ".join(f"{count} of {task}" for task, count in counts.items())
    return main_scores(result), f"listed: {listed} (every row for scores)"


def write_leaderboard(result: plait.Result, folder: Path, overrides: Sequence[str]) -> tuple[Scores, str]:
    """A8: predictions for the test files, with the ids that a leaderboard needs."""
    words = []
    for task, name in (("sentiment", "reviews"), ("duplicate", "questions"), ("similarity", "pairs")):
        with (STARTER / f"{name}-test.csv").open(encoding="utf-8", newline="") as file:
            rows = [{"id": number, **row} for number, row in enumerate(csv.DictReader(file))]
        with (folder / f"{name}-test.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        words.append(f"{task}={folder / f'{name}-test.csv'}")
    run_command("predict", result.model, "--every", *words, "--leaderboard", "--output", folder / "board")
    files = sorted(path.name for path in (folder / "board").glob("*.csv"))
    return main_scores(result), f"written: {', '.join(files)}"


def compare_single_tasks(result: plait.Result, folder: Path, overrides: Sequence[str]) -> tuple[Scores, str]:
    """A9: the score of each task when it is trained alone."""
    listed = ", ".join(f"{task} {value:.3f}" for task, value in result.single_task.items())
    return main_scores(result), f"each task alone: {listed}"


After = Callable[[plait.Result, Path, Sequence[str]], tuple[Scores, str]]
AFTER: Mapping[str, After] = {
    "a04-ensemble": build_ensemble,
    "a07-mistakes": list_mistakes,
    "a08-leaderboard": write_leaderboard,
    "a09-single_task": compare_single_tasks,
}
SINGLE_TASK = ("a09-single_task",)


def random_roberta() -> Path:
    """A RoBERTa of 2 layers with random weights, as the tests use it."""
    folder = STORE / "roberta"
    if not folder.is_dir():
        sys.path.insert(0, str(REPO / "tests"))
        from tiny import make_checkpoint

        make_checkpoint(folder, "roberta")
    return folder


def overrides_of(name: str) -> list[str]:
    """The overrides that a recipe needs without the weights that it names."""
    return [f"encoder={random_roberta()}", "lr=3e-3", "epochs=10"] if name == RANDOM_ROBERTA else []


def run_recipes(names: Sequence[str], *, again: bool) -> None:
    """Train recipes one after the other, without those that have a stored result."""
    STORE.mkdir(exist_ok=True)
    (STORE / ".gitignore").write_text("*\n", encoding="utf-8")
    for number, name in enumerate(names, 1):
        if not again and stored(name) is not None:
            continue
        print(f"{number} of {len(names)}: {name}", flush=True)
        with tempfile.TemporaryDirectory(dir=STORE) as folder:
            found = measure(name, Path(folder), overrides_of(name))
        keys = {**asdict(found), "fingerprint": fingerprint_of(name)}
        temporary = STORE / f"{name}.json.part"
        temporary.write_text(json.dumps(keys, indent=1), encoding="utf-8")
        temporary.replace(STORE / f"{name}.json")
        fell = "" if found.learned else "  DOES NOT DECREASE"
        print(f"    loss {found.first:.3f} → {found.last:.3f}, {found.seconds:.0f} s{fell}", flush=True)


def stored(name: str) -> Measured | None:
    """The stored result of a recipe, if there is one and the recipe has not changed since."""
    path = STORE / f"{name}.json"
    keys = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if keys.get("fingerprint") != fingerprint_of(name):
        return None
    return Measured(**{**keys, "scores": {task: tuple(score) for task, score in keys["scores"].items()}})


def table(found: Sequence[Measured]) -> str:
    """The table as Markdown, after a description of how it was made."""
    lines = [HEAD, "", "| method | recipe | loss, first → last | on dev | seconds |", "|---|---|---|---|---|"]
    for one in found:
        what = one.about.rstrip(".")
        if one.name == RANDOM_ROBERTA:
            what += "; random weights (2 layers, 16 wide), since no RoBERTa weights are bundled"
        scores = ", ".join(f"{task} {metric} {value:.3f}" for task, (metric, value) in one.scores.items())
        cells = [escape(what), f"`{one.name}`", f"{shown(one.first)} → {shown(one.last)}"]
        cells += ["; ".join(part for part in (scores or "–", escape(one.note)) if part), f"{one.seconds:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(loss: float) -> str:
    """A loss with three decimals, or with two significant digits if it is small."""
    return f"{loss:.3f}" if abs(loss) >= 0.01 else f"{loss:.2g}"


def escape(text: str) -> str:
    """Text that can be a cell of a table."""
    return text.replace("|", "\\|")


def write_table(found: Sequence[Measured]) -> None:
    """Put the table between its markers on the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"{PAGE}: the markers of the table are missing: {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Train what is missing or requested, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="train these recipes again")
    parser.add_argument("--table", action="store_true", help="only write the table, from stored results")
    arguments = parser.parse_args()
    names = recipe_names()
    if unknown := set(arguments.only or ()) - set(names):
        raise SystemExit(f"no such recipe: {', '.join(sorted(unknown))}")
    torch.set_num_threads(THREADS)
    if not arguments.table:
        run_recipes(arguments.only or names, again=bool(arguments.only))
    found = [one for name in names if (one := stored(name)) is not None]
    if still := [one.name for one in found if not one.learned]:
        raise SystemExit(f"the table was not written, because the loss does not decrease: {', '.join(still)}")
    write_table(found)
    if missing := len(names) - len(found):
        print(f"the table lacks {missing} of {len(names)} recipes, which have no stored result")


if __name__ == "__main__":
    main()
