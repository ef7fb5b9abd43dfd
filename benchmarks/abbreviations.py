"""Does an encoder learn that "BoE" is the Bank of England? The recipe `abbreviations` before and after training.

    python benchmarks/abbreviations.py --seeds 1 2 3 [--set key=value]

dev has the abbreviations of train in other sentences and selects the epoch; test has abbreviations that train lacks.
The last table has the pair of best-of-bert §6 and the same with another bank, and both without their sentence.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from plait.evaluation.evaluate import metric_on
from plait.evaluation.significance import paired_bootstrap
from plait.model.directory.load import load_model
from plait.model.encode_texts import predict_columns
from plait.model.model import Model
from plait.progress import SilentProgress
from plait.resolve.run import resolve_run
from plait.training.baselines import frozen_model
from plait.training.given_recipe import as_recipe
from plait.training.train import train

RECIPE, TASK = "abbreviations", "similarity"
SAME = 5.0  # the score of a pair with the same name
FRAME = "Carney sets high bar to changes at {}"
PAIRS = [
    ("Carney sets high bar to change at BoE", FRAME.format("Bank of England")),
    ("Carney sets high bar to change at BoE", FRAME.format("Bank of Japan")),
    ("BoE", "Bank of England"),
    ("BoE", "Bank of Japan"),
]


def both_models(seed: int, overrides: Sequence[str]) -> tuple[Model, Model]:
    """The model before training and after it."""
    changes = [*overrides, f"seed={seed}"]
    before, _ = frozen_model(resolve_run(as_recipe(RECIPE, None, None, changes)), SilentProgress())
    with tempfile.TemporaryDirectory() as folder:
        result = train(RECIPE, Path(folder) / "run", overrides=changes, baselines=False)
        after = load_model(result.model).model
    assert isinstance(after, Model), "a run has one model"
    return before, after


def shown(values: Sequence[float], digits: int) -> str:
    return " ".join(f"{value:.{digits}f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    arguments = parser.parse_args()
    models = [both_models(seed, arguments.overrides) for seed in arguments.seeds]
    task = resolve_run(as_recipe(RECIPE, None, None, arguments.overrides)).stages[-1].tasks[TASK]
    names = ["rows", "pearson before", "after", "gain", "95 % interval", "same name", "other name"]
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for split in ("dev", "test"):
        examples = task.splits[split]
        found = [tuple(predict_columns(m, TASK, examples.texts).predictions for m in pair) for pair in models]
        same_n = examples.labels == SAME

        def gain(rows: np.ndarray, found: list = found, labels_n: np.ndarray = examples.labels) -> float:
            ends = [[metric_on(task.spec, labels_n, end, rows) for end in pair] for pair in found]
            return float(np.mean([after - before for before, after in ends]))

        every = np.arange(len(examples))
        low, high = paired_bootstrap([(gain, len(every))])
        scores = [[metric_on(task.spec, examples.labels, pair[end]) for pair in found] for end in (0, 1)]
        means = [
            [float(np.mean([pair[end].values[rows_n].mean() for pair in found])) for end in (0, 1)]
            for rows_n in (same_n, ~same_n)
        ]
        cells = [split, f"{scores[0][0]:.3f}", shown(scores[1], 3), f"{gain(every):+.3f}", f"{low:+.3f} to {high:+.3f}"]
        cells += [f"{before:.2f} → {after:.2f}" for before, after in means]
        print(f"| {' | '.join(cells)} |")
    print("\n| first | second | before | after |\n|---|---|---|---|")
    columns = list(zip(*PAIRS, strict=True))
    answers = [[predict_columns(m, TASK, columns).predictions.values for m in pair] for pair in models]
    for row, (first, second) in enumerate(PAIRS):
        after = shown([pair[1][row] for pair in answers], 2)
        print(f"| {first} | {second} | {answers[0][0][row]:.2f} | {after} |")


if __name__ == "__main__":
    main()
