"""Does fine-tuning pay on the starter data? The starter recipe against the same recipe on a frozen encoder.

    python benchmarks/starter_gain.py --seeds 1 2 3 [--json] [--set key=value]

Both are scored on the rows of dev and test together, task by task; the paired bootstrap resamples rows, the same for
both, and averages over tasks and seeds. dev also chose the epoch of both.
"""

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from plait.data.examples import Examples
from plait.evaluation.evaluate import decode_examples, metric_on
from plait.evaluation.significance import paired_bootstrap
from plait.model.decode import Decoded
from plait.model.load import load_model
from plait.model.model import Model
from plait.model.tasks import TaskSpec
from plait.model.watch import Silent
from plait.training.baselines import frozen_model
from plait.training.loop import as_recipe, train
from plait.training.settle import settle_recipe


def both_splits(splits: dict[str, Examples]) -> Examples:
    dev, test = splits["dev"], splits["test"]
    texts = tuple([*a, *b] for a, b in zip(dev.texts, test.texts, strict=True))
    return Examples(texts, np.concatenate([dev.labels, test.labels]), [*dev.origins, *test.origins])


def gain(spec: TaskSpec, labels: np.ndarray, pairs: list[tuple[Decoded, Decoded]], rows: np.ndarray) -> float:
    """The difference between the trained and the frozen model on some rows, mean over the seeds."""
    return float(
        np.mean(
            [metric_on(spec, labels, tuned, rows) - metric_on(spec, labels, frozen, rows) for tuned, frozen in pairs]
        )
    )


def measure(seeds: list[int], assignments: list[str]) -> dict:
    decoded: dict[str, list[tuple[Decoded, Decoded]]] = {}
    examples: dict[str, Examples] = {}
    specs: dict[str, TaskSpec] = {}
    seconds = []
    for seed in seeds:
        changes = [*assignments, f"seed={seed}"]
        settled = settle_recipe(as_recipe("starter", None, None, changes))
        frozen, _ = frozen_model(settled, Silent())
        with tempfile.TemporaryDirectory() as folder:
            result = train("starter", Path(folder) / "run", assignments=changes, baselines=False)
            seconds.append(result.seconds)
            tuned: Model = load_model(result.model)
        for name, task in settled.tasks.items():
            specs[name], examples[name] = task.spec, both_splits(task.splits)
            pair = decode_examples(tuned, name, examples[name]), decode_examples(frozen, name, examples[name])
            decoded.setdefault(name, []).append(pair)
    table, differences = {}, []
    for name, pairs in decoded.items():
        labels, every = examples[name].labels, np.arange(len(examples[name]))
        difference = partial(gain, specs[name], labels, pairs)
        differences.append((difference, len(every)))
        table[name] = {
            "metric": specs[name].metric,
            "trained": [metric_on(specs[name], labels, tuned, every) for tuned, _ in pairs],
            "frozen": [metric_on(specs[name], labels, frozen, every) for _, frozen in pairs],
            "gain": difference(every),
            "interval": paired_bootstrap([(difference, len(every))]),
        }
    mean = float(np.mean([row["gain"] for row in table.values()]))
    return {"seeds": seeds, "tasks": table, "gain": mean, "interval": paired_bootstrap(differences), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", dest="assignments", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.seeds, arguments.assignments)
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
    print(f"\nSeeds {found['seeds']}, training {', '.join(f'{value:.0f}' for value in found['seconds'])} s each.")


if __name__ == "__main__":
    main()
