"""Training on STS and Quora with batches of random rows, and of rows of like length.

python benchmarks/batches.py [--json] [--full] [--rounds N] [--threads N]

The same rows, model and number of steps each time; only the rows that share a batch differ.
"""

from collections.abc import Callable

from compare import Benchmark, Contender, Setting, Table, Target, Work, at_least, run
from train import OURS, resolve_with_plait
from trainers import BATCH, PAIRS
from training_rows import batches_for

RANDOM, SORTED = "random", "sorted"


def with_batches(made: str) -> Callable[[Setting], Work]:
    """One pass over the rows of each task, in batches that plait's own plan makes."""

    def make(setting: Setting) -> Work:
        import torch

        from plait.training.trainer import Trainer, build_start_model

        torch.set_num_threads(setting.threads)
        resolved = resolve_with_plait(batches_for(PAIRS, BATCH, setting), setting, batches=made)
        model = build_start_model(resolved)

        def work() -> None:
            trainer = Trainer(resolved.stages[-1], model)
            for number, planned in enumerate(trainer.plan.epoch_plan(0)):
                trainer.step(number, planned)

        return work

    return make


def facts(table: Table) -> dict[str, object]:
    rows = [row for own in batches_for(PAIRS, BATCH, table.setting).values() for batch in own for row in batch]
    return {"steps": f"{len(rows) // BATCH} of {BATCH} pairs"}


def targets(table: Table) -> list[Target]:
    return [at_least(0.95, f"× the speed of {SORTED}", table.ratio(SORTED, RANDOM))]


BENCHMARK = Benchmark(
    "Training on random batches",
    {made: Contender(with_batches(made), how=f"`batches: {made}`", **OURS) for made in (RANDOM, SORTED)},
    check=lambda outputs: {},  # other batches, other losses
    targets=targets,
    facts=facts,
)

if __name__ == "__main__":
    run(BENCHMARK)
