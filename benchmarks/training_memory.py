"""The memory of a long training run on STS and Quora: plait and sentence-transformers' trainer, on the same batches.

python benchmarks/training_memory.py [--json] [--full] [--threads N]

plait trains 2,000 steps with dropout at full size, 150 otherwise, and the peer at most the first 300 of them. Resident
memory is read after every step. It includes Python and all libraries, as the estimate of `plait check` does.
"""

import random
from collections.abc import Callable, Iterator

from compare import Benchmark, Contender, Ready, Setting, Table, Target, at_most, run
from machine import process_megabytes
from texts import SEED
from train import resolve_with_plait, train_with_plait
from trainers import BATCH, PAIRS, Batches, sentence_transformers_trainer
from training_rows import read_task

EARLY = 100  # steps after which memory should have reached its level
PEER_STEPS = 300
resident: list[float] = []  # megabytes after each step


def steps_of(setting: Setting) -> int:
    return 2_000 if setting.full else 150


def long_batches(setting: Setting) -> Batches:
    """Random batches of each task for all steps, as in plait's own plan; a task with few rows gets several passes."""
    needed = steps_of(setting) // len(PAIRS)
    found = {}
    for task in PAIRS:
        rows, batches = read_task(task), []
        chance = random.Random(f"{SEED}/{task}/memory")
        while len(batches) < needed:
            drawn = chance.sample(rows, min(len(rows), needed * BATCH) // BATCH * BATCH)
            batches += [drawn[start : start + BATCH] for start in range(0, len(drawn), BATCH)]
        found[task] = batches[:needed]
    return found


def first_batches(setting: Setting) -> Batches:
    """The beginning of the same batches, for the peer."""
    return {task: own[: PEER_STEPS // len(PAIRS)] for task, own in long_batches(setting).items()}


def note_memory() -> None:
    resident.append(process_megabytes("VmRSS"))


EXTRAS = {
    f"MB after {EARLY} steps": lambda: resident[EARLY - 1],
    "MB after the last step": lambda: resident[-1],
    "peak MB": lambda: process_megabytes("VmHWM"),
}


def with_plait(setting: Setting) -> Ready:
    _, train = train_with_plait(long_batches(setting), setting)

    def watched() -> Iterator[float]:
        for loss in train():
            note_memory()
            yield loss

    return Ready(lambda: list(watched()) and None, EXTRAS)


def with_sentence_transformers(setting: Setting) -> Ready:
    def work_of(_: object, train: Callable[[], object]) -> Callable[[], None]:
        return lambda: train() and None

    make = sentence_transformers_trainer(
        own_batches=False, batches=first_batches, work_of=work_of, after_step=note_memory
    )
    return Ready(make(setting).work, EXTRAS)


def estimate(setting: Setting) -> Ready:
    """What `plait check` says about a recipe with the same rows."""
    from plait.training.estimate import preview_run, total_cost

    found: list[int] = []
    resolved = resolve_with_plait(long_batches(setting), setting)

    def check() -> None:
        cost = total_cost(preview_run(resolved, trial=True))
        assert cost is not None
        found.append(cost.peak_memory)

    return Ready(check, {"peak MB": lambda: found[0] / 2**20})


def facts(table: Table) -> dict[str, object]:
    return {"steps": f"{steps_of(table.setting):,} of {BATCH} pairs"}


def targets(table: Table) -> list[Target]:
    def detail(name: str, key: str) -> float | None:
        one = table.contenders.get(name)
        value = one.details.get(key) if one else None
        return value if isinstance(value, float) else None

    def ratio(one: float | None, other: float | None) -> float | None:
        return one / other if one and other else None

    early, late, peak = (detail(PLAIT, key) for key in EXTRAS)
    return [
        at_most(1.15, f"× the memory after {EARLY} steps, after the last", ratio(late, early)),
        at_most(1.3, f"× the peak that {CHECK} estimates", ratio(peak, detail(CHECK, "peak MB"))),
        at_most(1, f"× the peak of {PEER}", ratio(peak, detail(PEER, "peak MB"))),
    ]


PLAIT, PEER, CHECK = "plait", "sentence-transformers' trainer", "`plait check`"
BENCHMARK = Benchmark(
    "The memory of a long training run",
    {
        PLAIT: Contender(with_plait, imports=("torch", "plait", "tokenizers"), how="`Trainer.step`"),
        PEER: Contender(
            with_sentence_transformers,
            peer="trainers",
            imports=("torch", "sentence_transformers", "datasets", "accelerate"),
            how=f"on plait's batches, {PEER_STEPS} steps at most",
        ),
        CHECK: Contender(estimate, imports=("torch", "plait", "tokenizers"), how="estimated from four steps"),
    },
    check=lambda outputs: {},
    targets=targets,
    facts=facts,
    rounds=1,
    warm_up=False,
)

if __name__ == "__main__":
    run(BENCHMARK)
