"""Everything that a stage of a run keeps in memory, built from its resolved recipe."""

import math
from collections.abc import Collection
from functools import partial

import torch
from torch import Tensor, nn

from plait.data.batch import Batch, make_batch, tokenize_views
from plait.data.tokenize import TokenTable
from plait.encoder.adapters import ADAPTERS, remove_adapters
from plait.encoder.find import Checkpoint
from plait.encoder.weights import is_finite, largest
from plait.errors import NotFiniteError, RecipeError
from plait.gradients.combine import ByGram, find_combiner
from plait.gradients.conflict import Cosines, cosines
from plait.gradients.rows import GradientRows
from plait.model.directory.load import build_model, load_heads, load_model, pick_device
from plait.model.encode_texts import embed_tables
from plait.model.model import Model
from plait.progress import Progress
from plait.recipe.schema import Recipe
from plait.resolve.run import ResolvedRun, ResolvedStage
from plait.schedules import LR_SCHEDULES, SCHEDULES, Plan, TaskRows
from plait.training.lanes import Lanes
from plait.training.mining import MinedNegatives
from plait.training.objective import make_objective
from plait.training.optimizer import make_optimizer, set_lr
from plait.training.seeds import seed_number, seeded
from plait.training.step import StepParts, measure_conflict, shared_parameters, train_step
from plait.training.teacher import TeacherOutputs
from plait.training.warm_heads import SolvedHeads, start_heads
from plait.world import World

__all__ = ["Trainer", "build_stage_model", "build_start_model"]

_LARGEST_WEIGHT = 1e5  # of an encoder; the largest of trained ones are some tens
PlannedStep = list[tuple[str, tuple[int, ...]]]  # the tasks of a step and their rows


def build_start_model(resolved: ResolvedRun) -> Model:
    """The model of a run before its first step; refuses a stage with nothing to train."""
    model = build_stage_model(resolved.stages[0], resolved.checkpoint)
    for stage in resolved.stages:
        _choose_trained_weights(model, stage)
    return model


def build_stage_model(resolved: ResolvedStage, checkpoint: Checkpoint) -> Model:
    """The model of a run before its first step, with the heads of all stages; new heads are drawn from the seed."""
    recipe = resolved.recipe
    with seeded(f"{recipe.seed}/heads", torch.device("cpu")):
        model = build_model(
            checkpoint.folder,
            resolved.specs,
            pooling=recipe.pooling.name,
            normalise=recipe.normalise,
            dropout=recipe.dropout,
            shared_layer=recipe.model_dump(mode="json")["shared_layer"],
        )
    if resolved.start:
        load_heads(model, checkpoint.folder, [name for name in resolved.specs if name in resolved.start.tasks])
    model.to(pick_device(recipe.device))
    model.precision = _pick_precision(recipe, model.device)
    return model


def _pick_precision(recipe: Recipe, device: torch.device) -> str:
    """The precision of the encoder's products in training."""
    if recipe.precision == "float32":
        return "float32"
    if _computes_in_bf16(device):
        return "bf16"
    if recipe.precision == "auto":
        return "float32"
    where = recipe.where("precision")
    raise RecipeError(f"{where}this {device.type} has no instructions for bf16; use precision: auto or float32")


def _computes_in_bf16(device: torch.device) -> bool:
    """Whether products of bfloat16 are computed in hardware, which makes them faster; emulated, they are slower."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _choose_trained_weights(model: Model, resolved: ResolvedStage) -> None:
    """Mark the weights that a stage trains, and no others; refuses a stage with nothing to train."""
    recipe = resolved.recipe
    model.tasks = resolved.specs
    model.zero_grad(set_to_none=True)
    frozen = {resolved.specs[name].head_task for name in recipe.freeze}
    learned = {spec.head_task for name, spec in resolved.own_specs.items() if name in resolved.learning}
    for name, head in model.heads.items():
        head.requires_grad_(name in learned and name not in frozen)
    _adapt_encoder(model, resolved)
    if model.shared_layer is not None:  # heads of a start model depend on it
        model.shared_layer.requires_grad_(recipe.train_encoder or not resolved.start)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(
            f"{recipe.where('train_encoder')}the encoder is frozen and no head has weights: nothing to train"
        )


def _adapt_encoder(model: Model, resolved: ResolvedStage) -> None:
    """Mark the weights of the encoder that a stage trains; with `adapt`, new adapters and the scores of the pooling."""
    recipe, encoder = resolved.recipe, model.encoder
    remove_adapters(encoder)
    encoder.requires_grad_(recipe.train_encoder and recipe.adapt is None)
    if recipe.adapt:
        generator = torch.Generator().manual_seed(seed_number(f"{recipe.seed}/{resolved.stage}/adapt"))
        ADAPTERS[recipe.adapt.name](encoder, generator, **recipe.adapt.options)
        if encoder.token_scores is not None:
            encoder.token_scores.requires_grad_()


class Trainer:
    """Model, optimizer, plan and batches of one stage of a run."""

    def __init__(self, resolved: ResolvedStage, model: Model, world: World | None = None) -> None:
        recipe = resolved.recipe
        self.recipe = recipe
        self.resolved = resolved
        self.model = model
        self.seed = f"{recipe.seed}/{resolved.stage}"
        self.cosines: Cosines = {}  # between the tasks' gradients at the last step, if they were measured
        _choose_trained_weights(model, resolved)
        self.objectives = {
            name: make_objective(
                task,
                width=model.encoder.config.width,
                device=model.device,
                seed=f"{self.seed}/{name}",
                predictions_only=not recipe.train_encoder,
                chunk=recipe.chunk,
            )
            for name, task in resolved.learning.items()
        }
        self.optimizer = make_optimizer(
            model,
            recipe.optimizer.name,
            recipe.optimizer.options,
            lr=recipe.lr,
            head_lr=resolved.head_lr,
            weight_decay=recipe.weight_decay,
            losses=self.loss_modules,
        )
        self.tokens: dict[str, dict[str, TokenTable]] = {
            name: tokenize_views(model.tokenizer, task.splits["train"].texts, self.views(name), task.spec.max_length)
            for name, task in resolved.learning.items()
        }
        self.plan = _make_plan(resolved, self.tokens)
        self.mined = {
            name: MinedNegatives(task.splits["train"].texts, self.objectives[name].anchors(task.splits["train"].labels))
            for name, task in resolved.learning.items()
            if self.objectives[name].mines
        }
        self._use_mined()
        self.steps = min(self.plan.steps, recipe.steps or self.plan.steps)
        self._stored: dict[str, dict[str, Tensor]] = {}  # with a frozen encoder: task → view → embeddings
        combine: str | None = recipe.schedule.options.get("combine")
        self._by_gram = combine is not None and isinstance(find_combiner(combine), ByGram)
        shared = [parameter for parameter in shared_parameters(model, resolved.learning) if parameter.requires_grad]
        self._conflict_every = recipe.conflict_every if shared and len(resolved.learning) > 1 else None
        needs_rows = self._by_gram or self._conflict_every
        self._parts = StepParts(
            model,
            Lanes(model),
            self.objectives,
            self.optimizer,
            self.seed,
            combine=combine,
            clip=recipe.clip,
            rows=GradientRows(shared, len(resolved.learning)) if needs_rows else None,
            stored=self._stored,
            world=world or World(),
        )

    @property
    def loss_modules(self) -> dict[str, nn.Module]:
        """The losses with weights of their own: part of checkpoints, not of the model."""
        return {
            f"losses/{task}/{place}/": module
            for task, objective in self.objectives.items()
            for place, module in objective.modules()
        }

    @property
    def checkpoint_modules(self) -> dict[str, nn.Module]:
        """Everything whose tensors a checkpoint holds."""
        mined = {f"mined/{task}/": module for task, module in self.mined.items()}
        taught = {f"teacher/{task}/": module for task, module in self._taught.items()}
        return {"": self.model, **self.loss_modules, **mined, **taught}

    @property
    def _taught(self) -> dict[str, TeacherOutputs]:
        """What the teacher says, for each task that learns from it."""
        return {name: objective.teacher for name, objective in self.objectives.items() if objective.teacher}

    def ask_teacher(self, progress: Progress) -> None:
        """Let the teacher answer the training rows of every task that learns from it."""
        if not self._taught or not self.recipe.teacher:
            return
        if self._parts.world.is_main:
            teacher = load_model(self.recipe.teacher, device=self.recipe.device).model
            examples = {name: self.resolved.learning[name].splits["train"] for name in self._taught}
            inputs = sum(len(own) * len(teacher.tasks[name].views) for name, own in examples.items())
            progress.begin("asking the teacher", inputs)
            for name, outputs in self._taught.items():
                outputs.ask(teacher, examples[name], progress.advance)
            progress.end()
        self._parts.world.copy_main(self._taught.values())

    def views(self, name: str) -> tuple[str, ...]:
        """The inputs of the encoder that a task's head and losses need for training."""
        spec = self.resolved.tasks[name].spec
        head, objective = spec.views if spec.head else (), self.objectives[name]
        views = dict.fromkeys([*head, *objective.views])
        return tuple(view for view in views if not (objective.mines and view == "third"))

    def begin_epoch(self, progress: Progress, *, resumed: bool) -> None:
        """Find the hard negatives of the epoch; an epoch that resumes has those of its checkpoint."""
        if self.mined and not resumed:
            progress.note(f"finding hard negatives: {', '.join(self.mined)}")
            if self._parts.world.is_main:
                for name, negatives in self.mined.items():
                    negatives.find(self.model, self.tokens[name])
            self._parts.world.copy_main(self.mined.values())
        self._use_mined()

    def step(self, number: int, planned: PlannedStep) -> dict[str, float]:
        """Train one step; the loss of each task."""
        first, steps = self._lr_span(number)
        schedule = self.recipe.lr_schedule
        set_lr(self.optimizer, LR_SCHEDULES[schedule.name](number - first, steps, **schedule.options))
        self.model.train()
        if not self.recipe.train_encoder:
            self.model.encoder.eval()
        self._parts.lanes.train(self.recipe.train_encoder)
        self.cosines = {}
        every = self._conflict_every
        measured = every is not None and (number + 1) % every == 0
        if every and measured and not self._by_gram:
            compared = planned
            if self._parts.combine is None:  # a step trains one task, so one more batch of every task is drawn
                compared = [(task, self.plan.batch_rows(task, number // every)) for task in self.resolved.learning]
            measure_conflict(self._parts, self._batches(compared), number)
            self._note_cosines(compared)
        try:
            losses = train_step(self._parts, self._batches(planned), number)
        except NotFiniteError as error:
            origins = [self.resolved.learning[task].splits["train"].origins[row] for task, row in error.rows]
            raise NotFiniteError(*error.mistakes, f"the rows come from {', '.join(origins)}") from None
        if measured and self._by_gram:
            self._note_cosines(planned)
        return losses

    def _note_cosines(self, compared: PlannedStep) -> None:
        """Keep the cosines between the gradients that were measured last."""
        assert self._parts.rows is not None, "a run that compares gradients has rows"
        self.cosines = cosines(self._parts.rows.gram_KK, [task for task, _ in compared])

    def check_weights(self, step: int) -> None:
        """Refuse weights, or a state of the optimizer, that are not finite: neither may be scored or saved.

        Weights of the encoder that are far larger than any encoder has are as useless, though their answers are finite.
        """
        modules, states = self.checkpoint_modules.items(), self.optimizer.state.values()
        weights = {prefix + name: tensor for prefix, module in modules for name, tensor in module.state_dict().items()}
        broken = [
            name
            for name, tensor in weights.items()
            if not largest(tensor) < (_LARGEST_WEIGHT if name.startswith("encoder.") else math.inf)
        ]
        if not all(is_finite(value) for state in states for value in state.values()):
            broken.append("the state of the optimizer")
        if broken:
            more = f" and {len(broken) - 1} others" if len(broken) > 1 else ""
            problem = f"{broken[0]}{more} became infinite, NaN or larger than {_LARGEST_WEIGHT:g}"
            raise NotFiniteError(f"after step {step:,}: {problem}; nothing was saved, try a lower lr or a clip")

    def start_heads(self, learned: Collection[str], solved: SolvedHeads, progress: Progress) -> None:
        """Solve the heads of tasks that were not learned before for their training rows, on the encoder as it is.

        A shared head is solved for the task that it belongs to, or for the first that learns it here. What is in
        `solved` is taken from there, what is not is added.
        """
        specs = self.resolved.specs
        before = {*learned, *(self.resolved.start.tasks if self.resolved.start else ())}
        known = {specs[name].head_task for name in before if name in specs}
        solved_for: dict[str, str] = {}
        for name, task in self.resolved.learning.items():
            if task.spec.head and (task.spec.head_task not in solved_for or not task.spec.same_as):
                solved_for[task.spec.head_task] = name
        new = {name: self.resolved.learning[name] for head, name in solved_for.items() if head not in known}
        start_heads(self.model, self.objectives, self.tokens, new, f"{self.seed}/start", solved, progress)

    def store_embeddings(self, progress: Progress) -> None:
        """With a frozen encoder, encode every training text once."""
        if self.recipe.train_encoder:
            return
        inputs = sum(len(table) for tables in self.tokens.values() for table in tables.values())
        progress.begin("encoding the training texts once", inputs)
        self.model.eval()
        for name, tables in self.tokens.items():
            self._stored[name] = embed_tables(self.model, tables, advance=progress.advance)
        progress.end()

    def _use_mined(self) -> None:
        for name, negatives in self.mined.items():
            self.tokens[name]["third"] = negatives.table(self.tokens[name])

    def _lr_span(self, number: int) -> tuple[int, int]:
        """The first step and the number of steps over which the learning rate runs: all, or those of one task."""
        if not SCHEDULES[self.recipe.schedule.name].task_by_task:
            return 0, self.steps
        return next(turn for turn in reversed(self.plan.turns) if turn[0] <= number)

    def _batches(self, planned: PlannedStep) -> list[Batch]:
        return [
            make_batch(task, rows, self.resolved.learning[task].splits["train"].labels, self.tokens[task])
            for task, rows in planned
        ]


def _make_plan(resolved: ResolvedStage, tokens: dict[str, dict[str, TokenTable]]) -> Plan:
    """Every step of a stage; with `steps`, as many epochs as they need."""
    recipe = resolved.recipe
    rows = {
        name: TaskRows(
            sum(table.lengths for table in tokens[name].values()),  # type: ignore[arg-type]  # arrays, at least one
            task.batch_size,
            task.settings.take,
            recipe.batches,
        )
        for name, task in resolved.learning.items()
    }
    schedule = partial(SCHEDULES[recipe.schedule.name].function, **recipe.schedule.options)
    if recipe.steps is None:
        return Plan(rows, schedule, recipe.epochs or 1, recipe.seed, resolved.stage)
    one = Plan(rows, schedule, 1, recipe.seed, resolved.stage).steps
    return Plan(rows, schedule, -(-recipe.steps // one), recipe.seed, resolved.stage)
