"""Training on STS and Quora, and on SST as well: plait, two trainers and a plain loop, on the same batches.

python benchmarks/train.py [--json] [--full] [--rounds N] [--threads N]

The warm-up round trains without dropout, and the losses of its steps must agree; the timed rounds train with the
dropout of the checkpoint. Timed from texts in memory to the last update: tokenization, batches and steps, but not the
loading of weights. Batches consist of rows of similar length, unless a contender says otherwise.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from compare import Benchmark, Contender, Ready, Setting, Table, Target, Work, agree, at_least, run
from trainers import (
    BATCH,
    CLIP,
    DECAY,
    DROPOUT,
    LR,
    MARGIN,
    PAIRS,
    Batches,
    fill_head,
    pairs_for,
    plain_loop,
    sentence_transformers_trainer,
    transformers_trainer,
    without_dropout_first,
)
from training_rows import batches_for, in_turns, lengths_of, write_task

ALL = (*PAIRS, "sst")
BOTH = ["text1", "text2"]
TASKS = {  # as the peers train them: squared errors of cosines in [0, 1], contrastive with a margin, 5 classes
    "sts": {
        "text": BOTH,
        "label": {"column": "label", "range": [0, 5]},
        "head": "cosine",
        "loss": "mse",
        "weight": 1 / 25,
    },
    "quora": {
        "text": BOTH,
        "label": "label",
        "loss": {"name": "contrastive", "distance": "cosine", "margin": MARGIN},
    },
    "sst": {"text": "text1", "label": {"column": "label", "kind": "classes"}, "head": "linear"},
}


def resolve_with_plait(rows: Batches, setting: Setting, **keys: str) -> Any:
    """The run that trains the rows of these batches, with more keys of a recipe."""
    from plait.resolve.run import resolve_run
    from plait.training.given_recipe import as_recipe

    recipe = {
        "encoder": setting.minilm,
        "tasks": {task: {"train": f"{task}.jsonl", **TASKS[task]} for task in rows},
        "schedule": "alternate",
        "epochs": 1,
        "batch_size": BATCH,
        "lr": LR,
        "lr_schedule": "constant",
        "weight_decay": DECAY,
        "clip": CLIP,
        "dropout": DROPOUT,
        "precision": "float32",
        **keys,
    }
    with tempfile.TemporaryDirectory() as folder:
        for task, own in rows.items():
            write_task(Path(folder) / f"{task}.jsonl", [row for batch in own for row in batch])
        return resolve_run(as_recipe(recipe, folder, None, []))


def train_with_plait(batches: Batches, setting: Setting) -> tuple[Any, Callable[[], Iterator[float]]]:
    """The model, and a function that trains it."""
    from plait.training.trainer import Trainer, build_start_model

    resolved = resolve_with_plait(batches, setting)
    model = build_start_model(resolved)
    if "sst" in batches:
        fill_head(model.heads["sst"].linear)
    rows = {
        task: [tuple(range(start, start + BATCH)) for start in range(0, BATCH * len(own), BATCH)]
        for task, own in batches.items()
    }

    def train() -> Iterator[float]:
        trainer = Trainer(resolved.stages[-1], model)
        for number, step in enumerate(in_turns(rows)):
            yield from trainer.step(number, [step]).values()

    return model, train


def with_plait(tasks: tuple[str, ...], threads: int | None = None) -> Callable[[Setting], Work]:
    """plait with as many threads as the other contenders, or with its own number."""

    def make(setting: Setting) -> Work:
        import torch

        torch.set_num_threads(threads or setting.threads)
        return without_dropout_first(*train_with_plait(batches_for(tasks, BATCH, setting), setting))

    return make


def products_alone(setting: Setting) -> Ready:
    """The products that each lane computes, one lane per thread; they wait for each other only at the end."""
    import torch
    from limit import Products

    from plait.thread_pool import run_lanes
    from plait.training import lanes

    recorded = [Products() for _ in range(setting.threads)]

    def record(work, count, _):
        results = []
        for number in range(count):
            with recorded[number % setting.threads]:
                results.append(work(number))
        return results

    _, train = train_with_plait(pairs_for(setting), setting)
    with mock.patch.object(lanes, "run_lanes", record):
        list(train())
    works = [products.work(torch.randn(products.largest)) for products in recorded]
    return Ready(
        lambda: run_lanes(lambda lane: works[lane](), len(works), len(works)) and None,
        how=f"{sum(len(products.calls) for products in recorded):,} products on {len(works)} threads",
    )


def check(outputs) -> dict[str, dict[str, object]]:
    """The losses of all steps agree among the contenders that train the same tasks."""
    with_sst = {name: losses for name, losses in outputs.items() if name.endswith(SST)}
    others = {name: losses for name, losses in outputs.items() if name not in with_sst}
    return {**agree(others, 1e-4), **agree(with_sst, 1e-4)}


def facts(table: Table) -> dict[str, object]:
    rows = [row for _, batch in in_turns(batches_for(PAIRS, BATCH, table.setting)) for row in batch]
    tokens, steps = sum(map(sum, lengths_of(rows, table.setting.minilm))), len(rows) // BATCH
    speed = {
        name: tokens / one.seconds
        for name, one in table.contenders.items()
        if name not in (LIMIT, ONE) and SST not in name
    }
    return {
        "steps": f"{steps} of {BATCH} pairs and {tokens / steps:,.0f} tokens each",
        "tokens per second": ", ".join(f"{name} {value:,.0f}" for name, value in speed.items()),
        "share of the limit": f"{table.ratio(LIMIT, PLAIT) or 0:.0%}",
    }


def targets(table: Table) -> list[Target]:
    fastest, with_sst = table.fastest([SORTED, TRAINER, LOOP]), table.fastest([TRAINER + SST, LOOP + SST])
    return [
        at_least(0.8, "of the limit", table.ratio(LIMIT, PLAIT)),
        at_least(1.8, f"× the speed of {ONE}", table.ratio(ONE, PLAIT)),
        at_least(2.5, f"× the speed of {DOCUMENTED}", table.ratio(DOCUMENTED, PLAIT)),
        at_least(
            1.6,
            f"× the speed of the fastest on batches of similar length, {fastest}",
            table.ratio(fastest or "", PLAIT),
        ),
        at_least(1.15, f"× the speed of the fastest with SST, {with_sst}", table.ratio(with_sst or "", PLAIT + SST)),
    ]


PLAIT, ONE, LIMIT, SST = "plait", "plait, 1 thread", "matrix products alone", ", with SST"
DOCUMENTED = "sentence-transformers' trainer"
SORTED = f"{DOCUMENTED}, rows of similar length"
TRAINER, LOOP = "transformers' trainer", "plain loop"
HALVES = "the texts of a batch sorted and padded in two halves"
THEIRS = {"peer": "trainers", "imports": ("torch", "transformers", "accelerate")}
OURS = {"imports": ("torch", "plait", "tokenizers")}
BENCHMARK = Benchmark(
    "Training on STS and Quora",
    {
        PLAIT: Contender(with_plait(PAIRS), how="`Trainer.step`, a recipe with `schedule: alternate`", **OURS),
        ONE: Contender(with_plait(PAIRS, 1), **OURS),
        DOCUMENTED: Contender(
            sentence_transformers_trainer(own_batches=True),
            peer="trainers",
            imports=("torch", "sentence_transformers", "datasets", "accelerate"),
            how="dictionaries of datasets and losses, round robin, its own shuffled batches",
        ),
        SORTED: Contender(
            sentence_transformers_trainer(own_batches=False),
            peer="trainers",
            imports=("torch", "sentence_transformers", "datasets", "accelerate"),
            how="the same, on plait's batches",
        ),
        TRAINER: Contender(transformers_trainer(PAIRS), how=f"a module around AutoModel; {HALVES}", **THEIRS),
        LOOP: Contender(plain_loop(PAIRS), how=f"AutoModel and fused AdamW; {HALVES}", **THEIRS),
        LIMIT: Contender(products_alone, how="those of plait, forward and backward, side by side", **OURS),
        PLAIT + SST: Contender(with_plait(ALL), **OURS),
        TRAINER + SST: Contender(transformers_trainer(ALL), **THEIRS),
        LOOP + SST: Contender(plain_loop(ALL), **THEIRS),
    },
    check=check,
    targets=targets,
    facts=facts,
)

if __name__ == "__main__":
    run(BENCHMARK)
