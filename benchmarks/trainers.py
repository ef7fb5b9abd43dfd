"""Peers in training: sentence-transformers' trainer, transformers' trainer, and a plain loop on AutoModel."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from compare import Ready, Setting
from training_rows import LIMIT, Row, batches_for, in_turns

BATCH, LR, DECAY, CLIP, MARGIN, DROPOUT = 32, 2e-5, 0.01, 1.0, 0.5, 0.1
PAIRS = ("sts", "quora")
Batches = Mapping[str, list[list[Row]]]  # by task


def pairs_for(setting: Setting) -> Batches:
    """The batches of both tasks of pairs."""
    return batches_for(PAIRS, BATCH, setting)


def set_dropout(model: Any, dropout: float) -> None:
    """Of a model of plait or of transformers."""
    for module in model.modules():
        if type(module).__name__ == "Dropout":
            module.p = dropout
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = dropout


def without_dropout_first(model: Any, train: Callable[[], Iterator[float] | Sequence[float]]) -> Callable[[], Any]:
    """The work, which returns the losses of its steps; without dropout the first time, then with the checkpoint's."""
    dropout = 0.0

    def work() -> list[float]:
        nonlocal dropout
        set_dropout(model, dropout)
        dropout = DROPOUT
        return list(train())

    return work


def fill_head(linear: Any) -> None:
    """Give SST's head the same weights for every contender."""
    import torch

    with torch.no_grad():
        linear.weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(0))
        linear.bias.zero_()


class Padding:
    """Counts the tokens that go through an encoder of transformers, and how many of them (id 0) are padding."""

    def __init__(self, encoder: Any) -> None:
        self.real = self.all = 0
        encoder.get_input_embeddings().register_forward_pre_hook(self.count)

    def count(self, _: Any, inputs: tuple[Any, ...]) -> None:
        """Called before each forward pass."""
        self.real += int(inputs[0].count_nonzero())
        self.all += inputs[0].numel()

    def share(self) -> str:
        return f"{1 - self.real / self.all:.0%}"


# For any trainer based on that of transformers: on the CPU, and nothing is saved or reported.
QUIET = {
    "output_dir": tempfile.gettempdir(),
    "use_cpu": True,
    "disable_tqdm": True,
    "report_to": "none",
    "save_strategy": "no",
    "logging_strategy": "no",
}


def arguments_for(kind: Any, **more: Any) -> Any:
    """The arguments of both trainers."""
    return kind(
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        learning_rate=LR,
        lr_scheduler_type="constant",
        weight_decay=DECAY,
        max_grad_norm=CLIP,
        optim="adamw_torch_fused",
        **QUIET,
        **more,
    )


def sentence_transformers_trainer(
    *,
    own_batches: bool,
    batches: Callable[[Setting], Batches] = pairs_for,
    work_of: Callable[[Any, Callable[[], list[float]]], Callable[[], Any]] = without_dropout_first,
    after_step: Callable[[], None] = lambda: None,
) -> Callable[[Setting], Ready]:
    """Several datasets as its documentation sets them up; `own_batches` shuffles rows, except in the warm-up."""

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
        padding = Padding(model[0].auto_model)
        losses = {"sts": CosineSimilarityLoss(model), "quora": ContrastiveLoss(model, margin=MARGIN)}
        found: list[float] = []

        def after_loss(_: Any, __: Any, value: Any) -> None:
            found.append(value.item())
            after_step()

        for loss in losses.values():
            loss.register_forward_hook(after_loss)
        sets = {}
        for task, own in batches(setting).items():
            rows = [row for batch in own for row in batch]
            texts = {f"sentence{side + 1}": [row.texts[side] for row in rows] for side in (0, 1)}
            sets[task] = Dataset.from_dict(
                {**texts, "label": [row.label / 5 if task == "sts" else int(row.label) for row in rows]}
            )
        arguments = arguments_for(
            SentenceTransformerTrainingArguments, multi_dataset_batch_sampler="round_robin", batch_sampler=in_order
        )
        trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=sets, loss=losses)

        def train() -> list[float]:
            found.clear()
            trainer.train()
            if own_batches:  # from the next round on
                arguments.batch_sampler = BatchSamplers.BATCH_SAMPLER
            return found

        return Ready(work_of(model, train), {"padding": padding.share})

    return make


def multitask_module(minilm: str) -> Any:
    """AutoModel and the tasks' losses, as one would write them by hand."""
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
    from transformers import AutoModel

    class Multitask(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = AutoModel.from_pretrained(minilm, add_pooling_layer=False)
            self.dropout = nn.Dropout(DROPOUT)
            self.linear = nn.Linear(self.encoder.config.hidden_size, 5)
            fill_head(self.linear)

        def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask.unsqueeze(-1).to(states.dtype)
            return (states * mask).sum(dim=1) / mask.sum(dim=1)

        def forward(self, task: str, parts: list[dict[str, Tensor]], places: Tensor, labels: Tensor) -> dict:
            embedded = torch.cat([self.embed(**part) for part in parts])[places]
            if task == "sst":
                return {"loss": F.cross_entropy(self.linear(self.dropout(embedded)), labels.long())}
            cosine = F.cosine_similarity(*embedded.chunk(2))
            if task == "sts":
                return {"loss": F.mse_loss(cosine, labels / 5)}
            distance = 1 - cosine
            return {"loss": (torch.where(labels > 0, distance, F.relu(MARGIN - distance)) ** 2 / 2).mean()}

    return Multitask()


class Collator:
    """Batches of tokenized rows; the texts of pairs are sorted by length and padded in two halves.

    Padding first and second texts separately, as trainers do, needs half as much padding again.
    """

    def __init__(self, minilm: str) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(minilm)

    def tokenize(self, batches: Mapping[str, list[list[Row]]]) -> list[dict[str, Any]]:
        """Every row with its tokens, in the order of the steps."""
        rows = [(task, row) for task, batch in in_turns(batches) for row in batch]
        texts = [text for _, row in rows for text in row.texts]
        tokens = iter(self.tokenizer(texts, truncation=True, max_length=LIMIT)["input_ids"])
        return [{"task": task, "sides": [next(tokens) for _ in row.texts], "label": row.label} for task, row in rows]

    def __call__(self, items: list[dict[str, Any]]) -> dict[str, Any]:
        import torch

        texts = [tokens for side in zip(*(item["sides"] for item in items), strict=True) for tokens in side]
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        parts = []
        for start in range(0, len(order), len(items)):
            half = [texts[place] for place in order[start : start + len(items)]]
            padded = self.tokenizer.pad({"input_ids": half}, return_tensors="pt")
            parts.append({name: padded[name] for name in ("input_ids", "attention_mask")})
        places = torch.tensor(order).argsort()
        labels = torch.tensor([item["label"] for item in items])
        return {"task": items[0]["task"], "parts": parts, "places": places, "labels": labels}


def transformers_trainer(tasks: tuple[str, ...]) -> Callable[[Setting], Ready]:
    def make(setting: Setting) -> Ready:
        from transformers import Trainer, TrainingArguments

        batches = batches_for(tasks, BATCH, setting)
        model, collator, found = multitask_module(setting.minilm), Collator(setting.minilm), []
        padding = Padding(model.encoder)
        model.register_forward_hook(lambda _, __, given: found.append(given["loss"].item()))
        arguments = arguments_for(TrainingArguments, train_sampling_strategy="sequential", remove_unused_columns=False)
        trainer = Trainer(model, arguments, data_collator=collator)

        def train() -> list[float]:
            found.clear()
            trainer.train_dataset = collator.tokenize(batches)
            trainer.train()
            return found

        return Ready(without_dropout_first(model, train), {"padding": padding.share})

    return make


def plain_loop(tasks: tuple[str, ...]) -> Callable[[Setting], Ready]:
    def make(setting: Setting) -> Ready:
        import torch

        batches = batches_for(tasks, BATCH, setting)
        model, collator = multitask_module(setting.minilm), Collator(setting.minilm)
        padding = Padding(model.encoder)
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

        return Ready(without_dropout_first(model, train), {"padding": padding.share})

    return make
