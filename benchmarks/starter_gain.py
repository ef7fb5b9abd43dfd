"""Does fine-tuning pay on the starter data? The starter recipe against the same recipe on a frozen encoder.

    python benchmarks/starter_gain.py --seeds 1 2 3 [--json] [--set key=value]

Both are scored on the rows of dev and test together, task by task. The paired bootstrap resamples the same rows for
both and averages over tasks and seeds. dev also selected the epoch of both.
"""

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.evaluate import metric_on
from plait.evaluation.significance import paired_bootstrap
from plait.model.directory.load import load_model
from plait.model.encode_texts import predict_columns
from plait.model.tasks import TaskSpec
from plait.progress import SilentProgress
from plait.resolve.run import resolve_run
from plait.training.baselines import frozen_model
from plait.training.given_recipe import as_recipe
from plait.training.train import train

Pair = tuple[PredictionArrays, PredictionArrays]  # of the trained and of the frozen model


def both_splits(splits: dict[str, Examples]) -> Examples:
    dev, test = splits["dev"], splits["test"]
    texts = tuple([*a, *b] for a, b in zip(dev.texts, test.texts, strict=True))
    return Examples(texts, np.concatenate([dev.labels, test.labels]), [*dev.origins, *test.origins])


def gain(spec: TaskSpec, labels_n: np.ndarray, pairs: list[Pair], rows: np.ndarray) -> float:
    """The score of the trained model minus that of the frozen one on some rows, averaged over seeds."""
    gains = [
        metric_on(spec, labels_n, tuned, rows) - metric_on(spec, labels_n, frozen, rows) for tuned, frozen in pairs
    ]
    return float(np.mean(gains))


def measure(seeds: list[int], overrides: list[str]) -> dict:
    predicted: dict[str, list[Pair]] = {}
    examples: dict[str, Examples] = {}
    specs: dict[str, TaskSpec] = {}
    seconds = []
    for seed in seeds:
        changes = [*overrides, f"seed={seed}"]
        resolved = resolve_run(as_recipe("starter", None, None, changes))
        frozen, _ = frozen_model(resolved, {}, SilentProgress())
        with tempfile.TemporaryDirectory() as folder:
            result = train("starter", Path(folder) / "run", overrides=changes, baselines=False)
            seconds.append(result.seconds)
            tuned = load_model(result.model).model
        for name, task in resolved.stages[-1].tasks.items():
            specs[name], examples[name] = task.spec, both_splits(task.splits)
            texts = examples[name].texts
            pair = tuple(predict_columns(model, name, texts).predictions for model in (tuned, frozen))
            predicted.setdefault(name, []).append(pair)
    table, differences = {}, []
    for name, pairs in predicted.items():
        labels, every = examples[name].labels, np.arange(len(examples[name]))
        difference = partial(gain, specs[name], labels, pairs)
        differences.append((difference, len(every)))
        table[name] = {
            "metric": specs[name].metric,
            "trained": [metric_on(specs[name], labels, tuned) for tuned, _ in pairs],
            "frozen": [metric_on(specs[name], labels, frozen) for _, frozen in pairs],
            "gain": difference(every),
            "interval": paired_bootstrap([(difference, len(every))]),
        }
    mean = float(np.mean([row["gain"] for row in table.values()]))
    return {"seeds": seeds, "tasks": table, "gain": mean, "interval": paired_bootstrap(differences), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.seeds, arguments.overrides)
    if arguments.json:
        print(json.dumps(found))
        return
    print("| task | metric | frozen | trained | gain | 95 % interval |\n|---|---|---|---|---|---|")
    for name, row in found["tasks"].items():
        cells = [" ".join(f"{value:.3f}" for value in row[key]) for key in ("frozen", "trained")]
        low, high = row["interval"]
        print(
            f"| {name} | {row['metric']} | {cells[0]} | {cells[1]} | {row['gain']:+.3f} | {low:+.3f} to {high:+.3f} |"
        )
    low, high = found["interval"]
    print(f"| mean | | | | {found['gain']:+.3f} | {low:+.3f} to {high:+.3f} |")
    print(f"\nSeeds {found['seeds']}; training took {', '.join(f'{value:.0f}' for value in found['seconds'])} s.")


if __name__ == "__main__":
    main()
