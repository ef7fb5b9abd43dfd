"""Whole runs in float32 and in bf16: their time, and the dev scores of the same seeds.

python benchmarks/precision.py [--json] [--full] [--rounds N] [--threads N]

Every round trains SST, STS and Quora together with another seed, 1,000 rows of each, or 4,000 at full size. The
difference of two scores is that of the same seed. Only for processors with instructions for bf16.
"""

import statistics
import tempfile
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from compare import Benchmark, Contender, Ready, Setting, Table, Target, at_least, run
from texts import data_folder

TASKS = {
    "sst": ("ids-sst", {"text": "sentence", "label": {"column": "sentiment", "kind": "classes"}}),
    "sts": ("sts", {"text": ["sentence1", "sentence2"], "label": {"column": "similarity", "range": [0, 5]}}),
    "quora": ("quora", {"text": ["sentence1", "sentence2"], "label": "is_duplicate"}),
}


def train_in(precision: str) -> Callable[[Setting], Ready]:
    """Runs with one seed after the other, and their scores by task."""

    def make(setting: Setting) -> Ready:
        import plait

        seeds = count(1)
        scores: dict[str, list[float]] = {task: [] for task in TASKS}
        recipe = {
            "encoder": setting.minilm,
            "tasks": {
                task: {"train": f"{name}-train.csv", "dev": f"{name}-dev.csv", **keys}
                for task, (name, keys) in TASKS.items()
            },
            "epochs": 1,
            "rows": 4_000 if setting.full else 1_000,
            "dev_rows": 1_000 if setting.full else 500,
            "schedule": "round_robin",
            "precision": precision,
        }

        def work() -> None:
            with tempfile.TemporaryDirectory() as folder:
                seeded = {**recipe, "seed": next(seeds)}
                result = plait.train(seeded, Path(folder) / "run", data=data_folder(), baselines=False)
            for task, found in result.scores.items():
                scores[task].append(next(iter(found.values())))

        return Ready(work, {task: lambda task=task: scores[task] for task in TASKS})

    return make


def differences(table: Table) -> dict[str, list[float]]:
    """By task, the score in bf16 minus that in float32, one per seed."""
    if HALF not in table.contenders:
        return {}
    full, half = (table.contenders[name].details for name in (FULL, HALF))
    return {task: [b - a for a, b in zip(full[task], half[task], strict=True)] for task in TASKS}  # type: ignore[call-overload]


def facts(table: Table) -> Mapping[str, object]:
    """The mean difference of each task, and its standard error over the seeds."""
    found: dict[str, object] = {}
    for task, gaps in differences(table).items():
        error = statistics.stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else float("nan")
        found[f"{task}, bf16 minus float32"] = f"{statistics.mean(gaps):+.4f} ± {error:.4f}"
    return found


def targets(table: Table) -> list[Target]:
    return [at_least(1, f"× the speed of {FULL}", table.ratio(FULL, HALF))]


FULL, HALF = "float32", "bf16"
OURS = ("torch", "plait", "tokenizers")
BENCHMARK = Benchmark(
    "Training in bf16",
    {FULL: Contender(train_in(FULL), imports=OURS), HALF: Contender(train_in(HALF), imports=OURS)},
    check=lambda outputs: {},
    targets=targets,
    facts=facts,
    warm_up=False,
)

if __name__ == "__main__":
    run(BENCHMARK)
