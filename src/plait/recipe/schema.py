"""The keys of a recipe, their types and defaults. A recipe is frozen once it is read."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from plait.recipe.choices import Choice, Frozen
from plait.recipe.normalize import as_device, as_fold, as_interval, as_path, as_tuple
from plait.recipe.task import Positive, Share, Task
from plait.recipe.tree import KeyPath, dotted, path_as_written

__all__ = ["FOLDERS", "Recipe", "RunSettings", "Stage"]

FOLDERS = ("encoder", "teacher")  # keys that name a folder, or something on the hub

_MaybeSeveral = Annotated[tuple[str, ...], BeforeValidator(lambda value: () if value is None else as_tuple(value))]
_Trackers = Annotated[
    tuple[Literal["tensorboard", "mlflow", "wandb", "trackio"], ...],
    BeforeValidator(lambda value: () if value is None else as_tuple(value)),
]
_Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Interval = Annotated[int | Literal["epoch"], BeforeValidator(as_interval)]


class RunSettings(Frozen):
    """Keys that hold for a whole run."""

    encoder: Annotated[str, BeforeValidator(as_path)]
    """A bundled name (`minilm`), a directory in Hugging Face's layout, a plait model to continue from, or a name on the
    hub such as `bert-base-uncased`."""
    pooling: Choice = Choice(name="mean")
    """How token states become one embedding. A plait model keeps its own."""
    normalise: bool | None = None
    """Whether `embed` returns unit vectors. Null: as the encoder's own files say."""
    dropout: Share = 0.1
    """Dropout in heads that have weights."""
    shared_layer: Choice | None = None
    """One layer before every head."""
    head_start: Literal["frozen", "random"] = "frozen"
    """The first weights of new heads: solved for the training rows on the encoder as it is, or drawn from the seed.
    With `frozen`, step 0 is scored and can be the best model."""
    refit: bool = False
    """Whether to train once more in the end, on train and on the dev rows that were split off it. The scores remain
    those of the first training, which did not see these rows. If dev scored the start of the heads clearly higher than
    the last epoch, only the heads are solved again."""
    calibrate: Literal["probabilities", "accuracy", "f1"] | None = None
    """What is fitted for each task with labels once it is trained, as by `plait calibrate`: `probabilities`, so that
    0.8 means right in 8 of 10 cases; `accuracy` or `f1`, also the threshold of yes/no and multilabel tasks. It is
    fitted on the rows of `choose_rows`, or on dev. Null: nothing."""
    teacher: Annotated[str | None, BeforeValidator(as_path)] = None
    """A plait model, a run or an ensemble whose answers for the training rows are learned beside the labels, by the
    loss `distil`. Tasks that the teacher has and that name no loss get it. Null: no teacher."""
    freeze: _MaybeSeveral = ()
    """Tasks of the plait model in `encoder` whose heads are not trained."""
    bad_rows: Literal["stop", "skip"] = "stop"
    """What to do about unusable rows: stop and list them, or skip them and write them to `bad-rows.jsonl` in the
    run."""
    fold: Annotated[str | None, BeforeValidator(as_fold)] = None
    """Which fold of how many is the test data. With `2/5`, the training rows of each task, once limited to `rows`, are
    divided into five folds by the seed, and the second is its `test`. A share in `dev` is then split off the other
    four. Rows that share a text stay in one fold. Tasks without a head have no folds. Null: each task's own `test`."""
    draw: _Seed | None = None
    """Which draw of `train_rows`, whatever the seed. Null: drawn by the seed."""
    seed: _Seed = 11711
    """Determines every random choice."""
    device: Annotated[str, BeforeValidator(as_device)] = "auto"
    """Where to compute: `auto`, `cpu`, `mps`, `cuda`, or one GPU of several, such as `cuda:1`. auto is the first of
    cuda, mps and cpu that is available."""
    precision: Literal["auto", "bf16", "float32"] = "auto"
    """Of the encoder's products in training. `bf16` needs a processor or GPU with instructions for it; `auto` uses it
    where they are, which is faster, and float32 elsewhere. Evaluation and the saved model stay in float32."""
    tracker: _Trackers = ()
    """Where losses and scores go beside `metrics.jsonl`: `tensorboard`, `mlflow`, `wandb` or `trackio`, or a list. Each
    needs the extra of its name."""


class Stage(Frozen):
    """A part of a run with its own tasks and training settings."""

    tasks: Annotated[dict[str, Task], Field(min_length=1)]
    """The tasks, by name. A stage may also list the names of tasks at the top level."""
    schedule: Choice = Choice(name="together")
    """Which task the next step trains."""
    epochs: Annotated[int, Field(gt=0, le=100_000)] | None = None
    """How many times the schedule goes through the data. Null: 3, unless steps are given."""
    steps: Annotated[int, Field(gt=0, le=10_000_000)] | None = None
    """How many steps to train, instead of epochs."""
    batch_size: Positive = 32
    """Rows of a task in one step."""
    batches: Literal["random", "sorted"] = "random"
    """Which rows share a batch, drawn anew in each pass: any, or texts of like length out of 32 batches. Sorting trains
    no faster, and in small data mostly the same rows meet in every pass; plait 0.1 did so."""
    rows: Positive | None = None
    """At most this many training rows of each task, drawn by the seed. Null: all."""
    train_rows: Positive | None = None
    """At most this many rows of each task to train on, once dev, test and the fold are held out; `rows` counts before a
    fold is held out. Classes keep their proportions, and each has a row if there is room. Fewer rows are part of more
    rows: 20 of the same 100. Null: all."""
    dev_rows: Positive | None = None
    """At most this many rows of dev and of test of each task, the same for every seed. Null: all."""
    choose_rows: Positive | None = None
    """This many dev rows of each task choose the best model, and only the others are scored and reported. They are the
    same for every seed, with classes in proportion. Null: all dev rows choose and are scored."""
    train_encoder: bool = True
    """Whether the encoder is trained, or only the heads."""
    adapt: Choice | None = None
    """What is trained in place of the encoder's weights, and merged into them when the model is saved: `lora`. Null:
    the encoder's weights."""
    chunk: Positive | None = None
    """Rows of a batch that are encoded at a time (gradient accumulation): the memory is that of so many rows, while
    losses and the update are those of the whole batch. Texts are encoded twice, so a step takes longer. Null: all
    rows, unless a loss is `cached`."""
    optimizer: Choice = Choice(name="adamw")
    """What updates the weights."""
    lr: Annotated[float, Field(gt=0)] = 5e-5
    """The learning rate."""
    head_lr: Annotated[float, Field(gt=0)] | None = None
    """The learning rate of the heads, of the shared layer and of weighted pooling. Null: lr."""
    lr_schedule: Choice = Choice(name="linear")
    """How the learning rate changes over the run, or over the stage."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Pulls weights towards 0; not applied to biases and layer norms."""
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    """The largest allowed norm of the gradient. Null: unlimited."""
    conflict_every: Positive | None = None
    """Every this many steps, write the cosines between the tasks' gradients of shared weights to `metrics.jsonl`; below
    0, two tasks conflict. It does not change the training, and needs memory for one more such gradient per task.
    Methods such as `surgery` compare the step's own gradients; otherwise one more batch of every task goes forward and
    backward through the encoder. Null: never."""
    evaluate_every: _Interval = "epoch"
    """When dev is scored: every epoch, or every this many steps and at the end of each epoch."""
    early_stopping: Positive | None = None
    """Evaluations without a better score before the run, or the stage, stops. Null: never."""
    best_by: str = "mean"
    """What selects the best model: the mean over the tasks, or one task by name."""
    checkpoint_every: _Interval = "epoch"
    """When a checkpoint is written, from which the run can resume: at the end of an epoch, at most every 30 seconds, or
    every this many steps."""

    @property
    def learning(self) -> tuple[str, ...]:
        return tuple(name for name, task in self.tasks.items() if task.learn)


class Recipe(Stage, RunSettings):
    """Everything about a run. With stages, the stage keys at the top level are those of the last stage."""

    stages: tuple[Stage, ...] = ()
    """Consecutive parts of the run, each with its own stage keys; those at the top level are their defaults."""

    def __eq__(self, other: object) -> bool:
        """Recipes with the same content are equal, wherever they were read from."""
        return isinstance(other, Recipe) and self.model_dump() == other.model_dump()

    @model_serializer(mode="wrap")
    def collapse(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Every key once: with stages, stage keys appear in the stages only."""
        keys: dict[str, Any] = handler(self)
        left_out = Stage.model_fields.keys() if self.stages else {"stages"}
        return {key: value for key, value in keys.items() if key not in left_out}

    _origins: dict[KeyPath, str] = PrivateAttr(default_factory=dict)  # key → file:line
    _written: tuple[dict[KeyPath, KeyPath], ...] = PrivateAttr(default=())  # per stage: key → its path in the recipe

    def where(self, *path: str) -> str:
        """The start of a message about a key: file, line and name."""
        written = path_as_written(path, self._written[-1] if self._written else {})
        for end in range(len(written), -1, -1):
            if written[:end] in self._origins:
                return f"{self._origins[written[:end]]}: {dotted(written)}"
        return dotted(written)

    def stage_recipes(self) -> "tuple[Recipe, ...]":
        """Each stage as a recipe of its own; a run without stages has one."""
        return tuple(self._stage_recipe(number) for number in range(len(self.stages))) or (self,)

    def _stage_recipe(self, number: int) -> "Recipe":
        recipe = self.model_copy(update={**dict(self.stages[number]), "stages": ()})
        recipe._written = self._written[number : number + 1]
        return recipe

    @staticmethod
    def of_stages(recipes: "Sequence[Recipe]") -> "Recipe":
        """The recipe with these stages."""
        if len(recipes) == 1:
            return recipes[0]
        keys = Stage.model_fields
        stages = tuple(Stage.model_construct(**{key: getattr(recipe, key) for key in keys}) for recipe in recipes)
        joined = recipes[-1].model_copy(update={"stages": stages})
        joined._written = tuple(written for recipe in recipes for written in recipe._written)
        return joined
