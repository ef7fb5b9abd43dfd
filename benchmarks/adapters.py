"""LoRA and gradient accumulation against training all weights at once: one step of three tasks on minilm.

python benchmarks/adapters.py [--json] [--rounds N] [--threads N]

Losses are compared without dropout and timed with the dropout of the checkpoint. Processor seconds are the median over
all steps; on a busy machine they vary less than the time on the clock.
"""

import statistics
import time
from collections.abc import Callable

from compare import Benchmark, Contender, Ready, Setting, agree, at_most, run
from trainers import DROPOUT, set_dropout

from plait.resolve.run import resolve_run
from plait.training.given_recipe import as_recipe
from plait.training.trainer import Trainer, build_start_model

BATCH = 32


def with_plait(*keys: str) -> Callable[[Setting], Ready]:
    """A step of the starter recipe with these keys; with a learning rate near 0, every step costs the same."""

    def make(setting: Setting) -> Ready:
        resolved = resolve_run(
            as_recipe("starter", None, None, [f"batch_size={BATCH}", "lr=1e-9", "precision=float32", *keys])
        )
        model = build_start_model(resolved)
        set_dropout(model, 0.0)
        trainer = Trainer(resolved.stages[-1], model)
        planned = next(iter(trainer.plan.epoch_plan(0)))
        losses = list(trainer.step(0, planned).values())
        set_dropout(model, DROPOUT)
        spent: list[float] = []

        def step() -> list[float]:
            began = time.process_time()
            trainer.step(0, planned)
            spent.append(time.process_time() - began)
            return losses

        return Ready(step, {"processor seconds": lambda: round(statistics.median(spent), 3)})

    return make


BENCHMARK = Benchmark(
    "Adapters and chunks, one step of three tasks",
    {
        "all weights": Contender(with_plait(), how="plait's own step"),
        "lora": Contender(with_plait("adapt=lora"), how="`adapt: lora`, rank 8, all targets"),
        "lora on qkv": Contender(
            with_plait("adapt={name: lora, targets: [qkv]}"), how="`adapt: {name: lora, targets: [qkv]}`"
        ),
        "chunk": Contender(with_plait("chunk=8"), how="all weights, `chunk: 8`"),
        "lora, chunk": Contender(with_plait("adapt=lora", "chunk=8"), how="`adapt: lora`, `chunk: 8`"),
    },
    check=lambda losses: agree(losses, 1e-4),
    targets=lambda table: [
        at_most(1, "× the time of all weights", table.ratio("lora", "all weights")),
        at_most(1, "× the memory of all weights", table.memory("lora", "all weights")),
    ],
    facts=lambda table: {"encoder": "minilm", "tasks": 3, "batch of each task": BATCH},
)

if __name__ == "__main__":
    run(BENCHMARK)
