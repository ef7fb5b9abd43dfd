"""A contrastive loss over a big batch at the memory of a chunk: plait cached, plait whole, and sentence-transformers.

    python benchmarks/cached_contrastive.py [--json] [--full] [--rounds N] [--threads N]

One step forwards and backwards of multiple negatives on pairs of Quora's duplicates, without an update. The loss that
is compared is taken without dropout; what is timed has the dropout of the checkpoint. A batch of 4,096 pairs (512 at
reduced size) is done by plait alone.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compare import Benchmark, Outputs, Setting, Table, Target, Told, Way, Work, agree, at_least, at_most, run
from training_rows import Row, read_task, write_task

SCALE, DROPOUT = 20.0, 0.1
CHUNK = 64
CACHED, WHOLE, PEER = "plait, cached", "plait, the whole batch at once", "sentence-transformers, cached"
CHUNK_ALONE, LARGE = "plait, one chunk", "plait, cached, many pairs"


def pairs(count: int) -> list[Row]:
    """Questions that mean the same."""
    return [row for row in read_task("quora") if row.label == 1][:count]


def size_of(setting: Setting) -> int:
    return 512 if setting.full else 256


def without_dropout(model: Any, measure: Callable[[], float]) -> float:
    """The loss with every dropout at 0; afterwards it is that of the checkpoint."""
    found = 0.0
    for dropout in (0.0, DROPOUT):
        if dropout:
            found = measure()
        for module in model.modules():
            if type(module).__name__ == "Dropout":
                module.p = dropout
            if hasattr(module, "attention_dropout"):
                module.attention_dropout = dropout
    return found


def of_plait(count: Callable[[Setting], int], **loss: object) -> Callable[[Setting], Work]:
    def make(setting: Setting) -> Work:
        from plait.training.backward import backward
        from plait.training.loop import as_recipe
        from plait.training.settle import settle_recipe
        from plait.training.trainer import Trainer

        rows = pairs(count(setting))
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
            "epochs": 1,
        }
        with tempfile.TemporaryDirectory() as folder:
            write_task(Path(folder) / "same.jsonl", rows)
            trainer = Trainer(settle_recipe(as_recipe(recipe, folder, None, [])))
        trainer.model.train()
        (batch,) = trainer.batches([("same", tuple(range(len(rows))))])

        def step() -> float:
            trainer.model.zero_grad(set_to_none=True)
            return backward(trainer.model, trainer.encode, trainer.objectives["same"], batch, "0").item()

        loss_without = without_dropout(trainer.model, step)
        return lambda: [step() and loss_without]

    return make


def of_sentence_transformers(setting: Setting) -> Work:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

    model = SentenceTransformer(setting.minilm, device="cpu")
    loss = CachedMultipleNegativesRankingLoss(model, scale=SCALE, mini_batch_size=CHUNK)
    rows = sorted(pairs(size_of(setting)), key=lambda row: sum(map(len, row.texts)))  # so that it pads little
    sides = [model.preprocess([row.texts[side] for row in rows]) for side in (0, 1)]
    model.train()

    def step() -> float:
        model.zero_grad(set_to_none=True)
        found = loss([dict(side) for side in sides], None)
        found.backward()
        return found.item()

    loss_without = without_dropout(model, step)
    return lambda: [step() and loss_without]


def check(outputs: Outputs) -> dict[str, Told]:
    """The losses of the same batch agree."""
    return agree({name: outputs[name] for name in (CACHED, WHOLE, PEER) if name in outputs}, 1e-4)


def targets(table: Table) -> list[Target]:
    return [
        at_most(1.5, f"× the memory of {CHUNK_ALONE} of {CHUNK} pairs", table.memory(CACHED, CHUNK_ALONE)),
        at_most(1.35, f"× the time of {WHOLE}", table.ratio(CACHED, WHOLE)),
        at_least(1, f"× the speed of {PEER}", table.ratio(PEER, CACHED)),
    ]


def facts(table: Table) -> Told:
    return {"encoder": "minilm", "pairs": size_of(table.setting), "chunk": CHUNK}


WAYS = {
    CACHED: Way(of_plait(size_of, cached=True, chunk=CHUNK), how=f"`cached: true, chunk: {CHUNK}`"),
    WHOLE: Way(of_plait(size_of)),
    PEER: Way(
        of_sentence_transformers,
        peer="sentence-transformers",
        imports=("torch", "sentence_transformers"),
        how=f"CachedMultipleNegativesRankingLoss, mini_batch_size {CHUNK}, pairs sorted by length",
    ),
    CHUNK_ALONE: Way(of_plait(lambda setting: CHUNK), how="for its memory"),
    LARGE: Way(of_plait(lambda setting: 4096 if setting.full else 512, cached=True, chunk=CHUNK), how="4,096 or 512"),
}
BENCHMARK = Benchmark("A contrastive loss over a big batch", WAYS, check=check, targets=targets, facts=facts)

if __name__ == "__main__":
    run(BENCHMARK)
