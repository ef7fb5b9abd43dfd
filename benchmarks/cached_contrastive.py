"""A contrastive loss over a large batch in the memory of a chunk: plait cached, plait whole, and sentence-transformers.

    python benchmarks/cached_contrastive.py [--json] [--full] [--rounds N] [--threads N]

One forward and backward pass of multiple negatives on duplicate pairs from Quora, without an update. Losses are
compared without dropout and timed with the dropout of the checkpoint. Only plait runs the batch of 4,096 pairs (512 at
reduced size).
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compare import Benchmark, Contender, Details, Outputs, Setting, Table, Target, Work, agree, at_least, at_most, run
from trainers import DROPOUT, set_dropout
from training_rows import Row, read_task, write_task

SCALE = 20.0
CHUNK = 64
CACHED, WHOLE, PEER = "plait, cached", "plait, the whole batch at once", "sentence-transformers, cached"
ONE_CHUNK, LARGE = "plait, one chunk", "plait, cached, many pairs"


def duplicates(count: int) -> list[Row]:
    """Pairs of questions with the same meaning."""
    return [row for row in read_task("quora") if row.label == 1][:count]


def batch_size(setting: Setting) -> int:
    return 512 if setting.full else 256


def without_dropout(models: Sequence[Any], measure: Callable[[], float]) -> float:
    """The loss with every dropout at 0; then dropout is set to that of the checkpoint."""
    for model in models:
        set_dropout(model, 0.0)
    found = measure()
    for model in models:
        set_dropout(model, DROPOUT)
    return found


def with_plait(count: Callable[[Setting], int], **loss: object) -> Callable[[Setting], Work]:
    def make(setting: Setting) -> Work:
        from plait.data.batch import make_batch
        from plait.resolve.run import resolve_run
        from plait.training.backward import backward
        from plait.training.given_recipe import as_recipe
        from plait.training.lanes import Lanes
        from plait.training.trainer import Trainer, build_start_model

        rows = duplicates(count(setting))
        recipe = {
            "encoder": setting.minilm,
            "tasks": {
                "same": {
                    "train": "same.jsonl",
                    "text": ["text1", "text2"],
                    "head": None,
                    "label": None,
                    "loss": {"name": "multiple_negatives", "scale": SCALE, **loss},
                    "batch_size": len(rows),
                }
            },
            "precision": "float32",
            "epochs": 1,
        }
        with tempfile.TemporaryDirectory() as folder:
            write_task(Path(folder) / "same.jsonl", rows)
            resolved = resolve_run(as_recipe(recipe, folder, None, []))
        model = build_start_model(resolved).train()
        trainer = Trainer(resolved.stages[-1], model)
        lanes = Lanes(model)
        labels = resolved.stages[-1].tasks["same"].splits["train"].labels
        batch = make_batch("same", range(len(rows)), labels, trainer.tokens["same"])

        def step() -> float:
            model.zero_grad(set_to_none=True)
            return backward(model, lanes, {}, trainer.objectives, [batch], "0")[0].item()

        loss_without = without_dropout(lanes.encoders, step)
        return lambda: [step() and loss_without]

    return make


def with_sentence_transformers(setting: Setting) -> Work:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

    model = SentenceTransformer(setting.minilm, device="cpu")
    loss = CachedMultipleNegativesRankingLoss(model, scale=SCALE, mini_batch_size=CHUNK)
    rows = sorted(duplicates(batch_size(setting)), key=lambda row: sum(map(len, row.texts)))  # to keep padding low
    sides = [model.preprocess([row.texts[side] for row in rows]) for side in (0, 1)]
    model.train()

    def step() -> float:
        model.zero_grad(set_to_none=True)
        found = loss([dict(side) for side in sides], None)
        found.backward()
        return found.item()

    loss_without = without_dropout([model], step)
    return lambda: [step() and loss_without]


def check(outputs: Outputs) -> dict[str, Details]:
    """The losses on the same batch agree."""
    return agree({name: outputs[name] for name in (CACHED, WHOLE, PEER) if name in outputs}, 1e-4)


def targets(table: Table) -> list[Target]:
    return [
        at_most(1.5, f"× the memory of {ONE_CHUNK} of {CHUNK} pairs", table.memory(CACHED, ONE_CHUNK)),
        at_most(1.35, f"× the time of {WHOLE}", table.ratio(CACHED, WHOLE)),
        at_least(1, f"× the speed of {PEER}", table.ratio(PEER, CACHED)),
    ]


def facts(table: Table) -> Details:
    return {"encoder": "minilm", "pairs": batch_size(table.setting), "chunk": CHUNK}


CONTENDERS = {
    CACHED: Contender(with_plait(batch_size, cached=True, chunk=CHUNK), how=f"`cached: true, chunk: {CHUNK}`"),
    WHOLE: Contender(with_plait(batch_size)),
    PEER: Contender(
        with_sentence_transformers,
        peer="sentence-transformers",
        imports=("torch", "sentence_transformers"),
        how=f"CachedMultipleNegativesRankingLoss, mini_batch_size {CHUNK}, pairs sorted by length",
    ),
    ONE_CHUNK: Contender(with_plait(lambda setting: CHUNK), how="to compare memory"),
    LARGE: Contender(
        with_plait(lambda setting: 4096 if setting.full else 512, cached=True, chunk=CHUNK),
        how="4,096 pairs at full size, 512 at reduced size",
    ),
}
BENCHMARK = Benchmark("Contrastive loss over a large batch", CONTENDERS, check=check, targets=targets, facts=facts)

if __name__ == "__main__":
    run(BENCHMARK)
