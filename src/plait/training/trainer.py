"""Everything that a stage of a run keeps in memory, built from its settled recipe."""

from functools import partial

import torch
from torch import Tensor, nn

from plait.data.batch import Batch, make_batch, tokenize_views
from plait.data.tokenize import TokenTable
from plait.encoder.find import find_checkpoint
from plait.errors import NotFiniteError, RecipeError
from plait.gradients.combine import ByGram, find_combiner
from plait.gradients.conflict import Cosines, cosines
from plait.gradients.rows import Rows
from plait.model.apply import embed_views
from plait.model.load import build_model, load_heads, pick_device
from plait.model.model import Encoded, Model
from plait.model.watch import Watcher
from plait.schedules import LR_SCHEDULES, SCHEDULES, Plan, TaskRows
from plait.training.objective import Objective, make_objective
from plait.training.optimizer import make_optimizer, set_lr
from plait.training.seeds import seeded
from plait.training.settle import Settled, SettledRun
from plait.training.step import measure_rows, shared_parameters, train_step

__all__ = ["Trainer", "begin_model", "choose_weights", "model_for"]


def begin_model(settled: SettledRun) -> Model:
    """The model of a run before its first step; refuses a stage in which nothing would learn."""
    model = model_for(settled.stages[0])
    for stage in settled.stages:
        choose_weights(model, stage)
    return model


def model_for(settled: Settled) -> Model:
    """The model of a run before its first step, with the heads of all stages; new ones are drawn from the seed."""
    recipe = settled.recipe
    device = pick_device(recipe.device)
    with seeded(f"{recipe.seed}/heads", torch.device("cpu")):
        model = build_model(
            settled.start.folder if settled.start else find_checkpoint(recipe.encoder),
            settled.specs,
            pooling=recipe.pooling,
            normalise=recipe.normalise,
            dropout=recipe.dropout,
            shared_layer=recipe.model_dump(mode="json")["shared_layer"],
            precision=recipe.precision,
        )
    if settled.start:
        load_heads(model, settled.start.folder, [name for name in settled.specs if name in settled.start.tasks])
    return model.to(device)


def choose_weights(model: Model, settled: Settled) -> None:
    """Let learn what a stage trains, and nothing else; refuses a stage in which nothing would learn."""
    recipe = settled.recipe
    model.tasks = settled.specs
    model.zero_grad(set_to_none=True)
    for name, head in model.heads.items():
        head.requires_grad_(name in settled.learning and name not in recipe.freeze)
    model.encoder.requires_grad_(recipe.train_encoder)
    if model.shared_layer is not None:  # the heads that a model had before stand behind it
        model.shared_layer.requires_grad_(recipe.train_encoder or not settled.start)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(
            f"{recipe.where('train_encoder')}the encoder is frozen and no head has weights: nothing to train"
        )


class Trainer:
    """Model, optimizer, plan and batches of one stage of a run."""

    def __init__(self, settled: Settled, model: Model | None = None) -> None:
        recipe = settled.recipe
        self.recipe = recipe
        self.settled = settled
        self.seed = f"{recipe.seed}/{settled.stage}"
        self.model = model or model_for(settled)
        choose_weights(self.model, settled)
        self.objectives = {name: self.make_objective(name) for name in settled.learning}
        self.optimizer = make_optimizer(
            self.model,
            recipe.optimizer.name,
            recipe.optimizer.options,
            lr=recipe.lr,
            head_lr=recipe.head_lr or recipe.lr,
            weight_decay=recipe.weight_decay,
            losses=self.losses,
        )
        self.tokens: dict[str, dict[str, TokenTable]] = {
            name: tokenize_views(self.model.text.tokenizer, task.train.texts, self.views(name), task.spec.max_length)
            for name, task in settled.learning.items()
        }
        self.plan = plan_for(settled, self.tokens)
        self.steps = min(self.plan.steps, recipe.steps or self.plan.steps)
        self.stored: dict[str, dict[str, Tensor]] = {}  # of a frozen encoder: task → view → embeddings
        self.combine: str | None = recipe.schedule.options.get("combine")
        self.by_gram = self.combine is not None and isinstance(find_combiner(self.combine), ByGram)
        shared = [parameter for parameter in shared_parameters(self.model) if parameter.requires_grad]
        self.watch = recipe.watch_conflict if shared and len(settled.learning) > 1 else None
        self.rows = Rows(shared, len(settled.learning)) if self.by_gram or self.watch else None
        self.cosines: Cosines = {}  # between the tasks' gradients at the last step, if it was watched

    def make_objective(self, name: str) -> Objective:
        """What a task is trained by; on a frozen encoder, only what its head can learn from."""
        task, recipe = self.settled.tasks[name], self.recipe
        return make_objective(
            task.settings,
            task.spec,
            width=self.model.encoder.config.width,
            class_weights=task.class_weights,
            device=self.model.device,
            seed=f"{self.seed}/{name}",
            predictions_only=not recipe.train_encoder,
        )

    @property
    def losses(self) -> dict[str, nn.Module]:
        """The losses that have weights of their own: in checkpoints, not in the model."""
        return {
            f"losses/{task}/{place}/": module
            for task, objective in self.objectives.items()
            for place, module in objective.modules()
        }

    @property
    def learning(self) -> dict[str, nn.Module]:
        """Everything whose weights a checkpoint holds."""
        return {"": self.model, **self.losses}

    def views(self, name: str) -> tuple[str, ...]:
        """The inputs of the encoder that a task's head and losses need in training."""
        spec = self.settled.tasks[name].spec
        head = spec.views if spec.head else ()
        return tuple(dict.fromkeys([*head, *self.objectives[name].views]))

    def lr_span(self, number: int) -> tuple[int, int]:
        """The first and the number of the steps through which the learning rate goes: all, or those of one task."""
        if self.recipe.schedule.name != "sequential":
            return 0, self.steps
        return next(turn for turn in reversed(self.plan.turns) if turn[0] <= number)

    def batches(self, planned: list[tuple[str, tuple[int, ...]]]) -> list[Batch]:
        """The batches of one planned step."""
        return [
            make_batch(task, rows, self.settled.tasks[task].train.labels, self.tokens[task]) for task, rows in planned
        ]

    def step(self, number: int, planned: list[tuple[str, tuple[int, ...]]]) -> dict[str, float]:
        """Train one step; the loss of each task."""
        recipe = self.recipe
        schedule = recipe.lr_schedule
        first, steps = self.lr_span(number)
        set_lr(self.optimizer, LR_SCHEDULES[schedule.name](number - first, steps, **schedule.options))
        self.model.train()
        if not recipe.train_encoder:
            self.model.encoder.eval()
        watched = self.watch is not None and (number + 1) % self.watch == 0
        if watched and self.combine is None:
            self.measure_apart(number)
        try:
            losses = train_step(
                self.model,
                self.encode,
                self.objectives,
                self.optimizer,
                self.batches(planned),
                combine=self.combine,
                clip=recipe.clip,
                seed=self.seed,
                step=number,
                rows=self.rows if self.by_gram or (watched and self.combine) else None,
            )
        except NotFiniteError as error:
            origins = [self.settled.tasks[task].train.origins[row] for task, row in error.rows]
            raise NotFiniteError(*error.mistakes, f"they were written at {', '.join(origins)}") from None
        tasks = [task for task, _ in planned] if self.combine else list(self.settled.learning)
        self.cosines = cosines(self.rows.gram_KK, tasks) if self.rows and watched else {}
        return losses

    def measure_apart(self, number: int) -> None:
        """Where a step trains one task: one more batch of every task, only to see how their gradients stand."""
        assert self.rows is not None and self.watch is not None, "only a run that watches measures"
        planned = [(task, self.plan.batch_rows(task, number // self.watch)) for task in self.settled.learning]
        parts = (self.model, self.encode, self.objectives, self.batches(planned), self.rows)
        measure_rows(*parts, seed=self.seed, step=number)

    def store_embeddings(self, watcher: Watcher) -> None:
        """With a frozen encoder, encode every training text once and for all."""
        if self.recipe.train_encoder:
            return
        inputs = sum(len(table) for tables in self.tokens.values() for table in tables.values())
        watcher.begin("encoding the training texts once", inputs)
        for name, task in self.settled.learning.items():
            self.stored[name] = embed_views(
                self.model, task.train.texts, self.views(name), task.spec.max_length, progress=watcher.advance
            )
        watcher.end()

    def encode(self, batch: Batch) -> Encoded:
        """A batch behind the encoder; from stored embeddings where there are any."""
        if batch.task not in self.stored:
            return self.model.encode(batch)
        rows = list(batch.rows)
        return Encoded({view: stored[rows].to(self.model.device) for view, stored in self.stored[batch.task].items()})


def plan_for(settled: Settled, tokens: dict[str, dict[str, TokenTable]]) -> Plan:
    """Every step of a stage; one by steps plans as many epochs as it needs."""
    recipe = settled.recipe
    rows = {
        name: TaskRows(
            sum(table.lengths for table in tokens[name].values()),  # type: ignore[arg-type]  # arrays, at least one
            task.settings.batch_size or recipe.batch_size,
            task.settings.take,
        )
        for name, task in settled.learning.items()
    }
    schedule = partial(SCHEDULES[recipe.schedule.name], **recipe.schedule.options)
    if recipe.steps is None:
        return Plan(rows, schedule, recipe.epochs or 1, recipe.seed, settled.stage)
    one = Plan(rows, schedule, 1, recipe.seed, settled.stage).steps
    return Plan(rows, schedule, -(-recipe.steps // one), recipe.seed, settled.stage)
