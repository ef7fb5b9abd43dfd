"""Training on STS and Quora, and on SST beside them: plait against two trainers and a plain loop, on the same batches.

python benchmarks/train.py [--json] [--full] [--rounds N] [--threads N]
The data is looked for in PLAIT_DATA, or in ../shared/data beside the repository.

The first round, which is not counted, trains without dropout, and the losses of its steps must agree; the others train
with the dropout of the checkpoint. What is timed is everything from texts in memory to the last update (tokens, batches
and steps), not the loading of weights. Batches are made of rows of like length, except where a way says otherwise.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compare import Benchmark, Outputs, Ready, Setting, Table, Target, Told, Way, Work, agree, at_least, run
from products import Products
from training_data import BATCH, Row, batches_of, lengths_of, write_rows

LR, DECAY, CLIP, MARGIN, DROPOUT = 2e-5, 0.01, 1.0, 0.5, 0.1
PAIRS = ("sts", "quora")
ALL = (*PAIRS, "sst")
WITH_SST = ", SST too"


def batches_for(tasks: tuple[str, ...], setting: Setting) -> dict[str, list[list[Row]]]:
    """The batches of each task; a step trains one batch, the tasks take turns."""
    count = (48 if setting.full else 12) // len(tasks)
    return {task: batches_of(task, count, setting.minilm) for task in tasks}


def in_turns(batches: Mapping[str, list[Any]]) -> Iterator[tuple[str, Any]]:
    """The task and the batch of each step."""
    for turn in zip(*batches.values(), strict=True):
        yield from zip(batches, turn, strict=True)


def first_without_dropout(model: Any, train: Callable[[], Iterable[float]]) -> Work:
    """The work: without dropout the first time, then with that of the checkpoint."""
    dropout = 0.0

    def work() -> list[float]:
        nonlocal dropout
        for module in model.modules():
            if type(module).__name__ == "Dropout":
                module.p = dropout
            if hasattr(module, "attention_dropout"):
                module.attention_dropout = dropout
        dropout = DROPOUT
        return list(train())

    return work


def fill_head(linear: Any) -> None:
    """The same weights for every way."""
    import torch

    with torch.no_grad():
        linear.weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(0))
        linear.bias.zero_()


def of_plait(tasks: tuple[str, ...]) -> Callable[[Setting], Work]:
    def make(setting: Setting) -> Work:
        from plait.training.loop import as_recipe
        from plait.training.settle import settle_recipe
        from plait.training.trainer import Trainer, model_for

        batches = batches_for(tasks, setting)
        pair = ["first", "second"]
        contrastive = {"name": "contrastive", "distance": "cosine", "margin": MARGIN}
        score = {"column": "label", "range": [0, 5]}
        known = {
            "sts": {"text": pair, "label": score, "head": "cosine", "loss": "mse", "weight": 1 / 25},
            "quora": {"text": pair, "label": "label", "loss": contrastive},
            "sst": {"text": "first", "label": {"column": "label", "kind": "classes"}},
        }
        recipe = {
            "encoder": setting.minilm,
            "tasks": {task: {"train": f"{task}.jsonl", **known[task]} for task in tasks},
            "schedule": "alternate",
            "epochs": 1,
            "lr": LR,
            "lr_schedule": "constant",
            "dropout": DROPOUT,
        }
        with tempfile.TemporaryDirectory() as folder:
            for task in tasks:
                write_rows(Path(folder) / f"{task}.jsonl", batches[task])
            settled = settle_recipe(as_recipe(recipe, folder, None, []))
        model = model_for(settled)
        if "sst" in tasks:
            fill_head(model.heads["sst"].linear)
        rows = {
            task: [tuple(range(start, start + BATCH)) for start in range(0, len(own) * BATCH, BATCH)]
            for task, own in batches.items()
        }

        def train() -> Iterator[float]:
            trainer = Trainer(settled, model)
            for number, step in enumerate(in_turns(rows)):
                yield from trainer.step(number, [step]).values()

        return first_without_dropout(model, train)

    return make


class Counter:
    """Counts the tokens that go through a Hugging Face encoder, padding (id 0) included."""

    def __init__(self, encoder: Any) -> None:
        self.real = self.all = 0
        encoder.get_input_embeddings().register_forward_pre_hook(self.count)

    def count(self, _: Any, inputs: tuple[Any, ...]) -> None:
        """Told before each forward pass."""
        self.real += int(inputs[0].count_nonzero())
        self.all += inputs[0].numel()

    def padding(self) -> str:
        """The share of padding."""
        return f"{1 - self.real / self.all:.0%}"


def arguments_for(kind: Any, **more: Any) -> Any:
    """What both trainers are told."""
    return kind(
        output_dir=tempfile.mkdtemp(),  # nothing is saved
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        learning_rate=LR,
        lr_scheduler_type="constant",
        weight_decay=DECAY,
        max_grad_norm=CLIP,
        optim="adamw_torch_fused",
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        **more,
    )


def of_sentence_transformers(*, own_batches: bool) -> Callable[[Setting], Ready]:
    def make(setting: Setting) -> Ready:
        from datasets import Dataset
        from sentence_transformers import (
            SentenceTransformer,
            SentenceTransformerTrainer,
            SentenceTransformerTrainingArguments,
        )
        from sentence_transformers.base.sampler import BatchSamplers, DefaultBatchSampler
        from sentence_transformers.sentence_transformer.losses import ContrastiveLoss, CosineSimilarityLoss
        from torch.utils.data import SequentialSampler

        def in_order(dataset: Any, batch_size: int, drop_last: bool, **_: Any) -> DefaultBatchSampler:
            return DefaultBatchSampler(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last)

        model = SentenceTransformer(setting.minilm, device="cpu")
        counter = Counter(model[0].auto_model)
        losses = {"sts": CosineSimilarityLoss(model), "quora": ContrastiveLoss(model, margin=MARGIN)}
        found: list[float] = []
        for loss in losses.values():
            loss.register_forward_hook(lambda _, __, value: found.append(value.item()))
        sets = {}
        for task, batches in batches_for(PAIRS, setting).items():
            rows = [row for batch in batches for row in batch]
            texts = {f"sentence{side + 1}": [row.texts[side] for row in rows] for side in (0, 1)}
            label = [row.label / 5 if task == "sts" else int(row.label) for row in rows]
            sets[task] = Dataset.from_dict({**texts, "label": label})
        arguments = arguments_for(
            SentenceTransformerTrainingArguments, multi_dataset_batch_sampler="round_robin", batch_sampler=in_order
        )
        trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=sets, loss=losses)

        def train() -> list[float]:
            found.clear()
            trainer.train()
            if own_batches:  # from now on
                arguments.batch_sampler = BatchSamplers.BATCH_SAMPLER
            return found

        return Ready(first_without_dropout(model, train), {"padding": counter.padding})

    return make


def multitask_module(setting: Setting) -> Any:
    """AutoModel with what the tasks need, as people write it by hand."""
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
    from transformers import AutoModel

    class Multitask(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = AutoModel.from_pretrained(setting.minilm, add_pooling_layer=False)
            self.dropout = nn.Dropout(DROPOUT)
            self.linear = nn.Linear(self.encoder.config.hidden_size, 5)
            fill_head(self.linear)

        def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
            states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask.unsqueeze(-1).to(states.dtype)
            return (states * weights).sum(dim=1) / weights.sum(dim=1)

        def forward(self, task: str, sides: list[tuple[Tensor, Tensor]], labels: Tensor) -> dict[str, Tensor]:
            embedded = [self.embed(*side) for side in sides]
            if task == "sst":
                return {"loss": F.cross_entropy(self.linear(self.dropout(embedded[0])), labels.long())}
            cosine = F.cosine_similarity(*embedded)
            if task == "sts":
                return {"loss": F.mse_loss(cosine, labels / 5)}
            distance = 1 - cosine
            return {"loss": (torch.where(labels > 0, distance, F.relu(MARGIN - distance)) ** 2 / 2).mean()}

    return Multitask()


class Collator:
    """Rows, tokenized beforehand, to padded batches."""

    def __init__(self, minilm: str) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(minilm)

    def tokenize(self, batches: Mapping[str, list[list[Row]]]) -> list[dict[str, Any]]:
        """Every row, in the order of the steps, with its tokens."""
        rows = [(task, row) for task, batch in in_turns(batches) for row in batch]
        texts = [text for _, row in rows for text in row.texts]
        tokens = iter(self.tokenizer(texts, truncation=True, max_length=256)["input_ids"])
        return [{"task": task, "sides": [next(tokens) for _ in row.texts], "label": row.label} for task, row in rows]

    def __call__(self, items: list[dict[str, Any]]) -> dict[str, Any]:
        import torch

        sides = []
        for tokens in zip(*(item["sides"] for item in items), strict=True):
            padded = self.tokenizer.pad({"input_ids": list(tokens)}, return_tensors="pt")
            sides.append((padded["input_ids"], padded["attention_mask"]))
        return {"task": items[0]["task"], "sides": sides, "labels": torch.tensor([item["label"] for item in items])}


def of_transformers(tasks: tuple[str, ...]) -> Callable[[Setting], Ready]:
    def make(setting: Setting) -> Ready:
        from transformers import Trainer, TrainingArguments

        batches, model, collator = batches_for(tasks, setting), multitask_module(setting), Collator(setting.minilm)
        counter, found = Counter(model.encoder), []
        model.register_forward_hook(lambda _, __, given: found.append(given["loss"].item()))
        arguments = arguments_for(TrainingArguments, train_sampling_strategy="sequential", remove_unused_columns=False)
        trainer = Trainer(model, arguments, data_collator=collator, train_dataset=[])

        def train() -> list[float]:
            found.clear()
            trainer.train_dataset = collator.tokenize(batches)
            trainer.train()
            return found

        return Ready(first_without_dropout(model, train), {"padding": counter.padding})

    return make


def plain_loop(tasks: tuple[str, ...]) -> Callable[[Setting], Ready]:
    def make(setting: Setting) -> Ready:
        import torch

        batches, model, collator = batches_for(tasks, setting), multitask_module(setting), Collator(setting.minilm)
        counter = Counter(model.encoder)
        model.train()

        def train() -> Iterator[float]:
            decaying = [weight for weight in model.parameters() if weight.ndim > 1]
            others = [weight for weight in model.parameters() if weight.ndim == 1]
            groups = [{"params": decaying, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
            optimizer = torch.optim.AdamW(groups, lr=LR, fused=True)
            items = collator.tokenize(batches)
            for start in range(0, len(items), BATCH):
                loss = model(**collator(items[start : start + BATCH]))["loss"]
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
                optimizer.step()
                yield loss.item()

        return Ready(first_without_dropout(model, train), {"padding": counter.padding})

    return make


def products_alone(setting: Setting) -> Work:
    batches = [batch for _, batch in in_turns(batches_for(PAIRS, setting))]
    products = [Products([length for row in lengths_of(batch, setting.minilm) for length in row]) for batch in batches]

    def work() -> None:
        for step in products:
            step.forward_and_backward()

    return work


def check(outputs: Outputs) -> dict[str, Told]:
    """The losses of all steps agree among the ways that train the same tasks."""
    with_sst = {name: losses for name, losses in outputs.items() if name.endswith(WITH_SST)}
    others = {name: losses for name, losses in outputs.items() if name not in with_sst}
    return {**agree(others, 1e-4), **(agree(with_sst, 1e-4) if with_sst else {})}


def targets(table: Table) -> list[Target]:
    fastest = table.fastest(GROUPED)
    fastest_of_three = table.fastest([name + WITH_SST for name in (TRAINER, LOOP)])
    return [
        at_least(1.5, f"× the speed of {DOCUMENTED}", table.ratio(DOCUMENTED, PLAIT)),
        at_least(1.15, f"× the speed of the fastest on batches of like length ({fastest})", ratio(table, fastest)),
        at_least(1.15, f"× that of {fastest_of_three}", ratio(table, fastest_of_three, PLAIT + WITH_SST)),
    ]


def ratio(table: Table, slower: str | None, faster: str = "plait") -> float | None:
    return table.ratio(slower, faster) if slower else None


def facts(table: Table) -> Told:
    batches = batches_for(PAIRS, table.setting)
    steps = sum(map(len, batches.values()))
    rows = [row for own in batches.values() for batch in own for row in batch]
    tokens = sum(map(sum, lengths_of(rows, table.setting.minilm)))
    share = table.ratio(LIMIT, PLAIT)
    return {
        "encoder": "minilm",
        "steps": steps,
        "batch": BATCH,
        "tokens of a step": round(tokens / steps),
        "tokens/s of plait": round(tokens / table.ways[PLAIT].seconds),
        "share of the limit": None if share is None else f"{share:.0%}",
    }


PLAIT, LIMIT = "plait", "matrix products alone"
DOCUMENTED = "sentence-transformers' trainer"
SAME = f"{DOCUMENTED}, batches of like length"
TRAINER, LOOP = "transformers' trainer", "plain loop"
GROUPED = [SAME, TRAINER, LOOP]
PEER = {"peer": "trainers", "imports": ("torch", "transformers")}
BENCHMARK = Benchmark(
    "Training on STS and Quora",
    {
        PLAIT: Way(of_plait(PAIRS), how="`Trainer.step` of a recipe with `schedule: alternate`"),
        DOCUMENTED: Way(
            of_sentence_transformers(own_batches=True),
            peer="trainers",
            imports=("sentence_transformers",),
            how="a dictionary of datasets, one of losses, round robin, rows shuffled",
        ),
        SAME: Way(of_sentence_transformers(own_batches=False), peer="trainers", imports=("sentence_transformers",)),
        TRAINER: Way(of_transformers(PAIRS), how="a module around AutoModel", **PEER),
        LOOP: Way(plain_loop(PAIRS), how="AutoModel, padding to the longest of a side, fused AdamW", **PEER),
        LIMIT: Way(products_alone, how="of plait's tokens, forwards and backwards", imports=("torch",)),
        PLAIT + WITH_SST: Way(of_plait(ALL)),
        TRAINER + WITH_SST: Way(of_transformers(ALL), **PEER),
        LOOP + WITH_SST: Way(plain_loop(ALL), **PEER),
    },
    check=check,
    targets=targets,
    facts=facts,
)

if __name__ == "__main__":
    run(BENCHMARK)
