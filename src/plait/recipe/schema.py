"""The keys of a recipe, what each may be, and its default. A recipe is frozen once it is read."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from plait.recipe.forms import (
    as_class_weights,
    as_fold,
    as_interval,
    as_label,
    as_losses,
    as_range,
    as_share,
    as_sources,
    as_tuple,
    as_where,
    as_word,
    as_words,
    sources_or_share,
)
from plait.recipe.tree import KeyPath, dotted, path_as_written

__all__ = ["SPLITS", "Choice", "Label", "LossChoice", "Recipe", "Source", "Stage", "Task", "WholeRun"]

SPLITS = ("train", "dev", "test")


class Frozen(BaseModel):
    """No unknown key, no silent conversion, no change after reading."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Choice(Frozen):
    """One of the variants in a table, and its options: `cosine` or `{name: cosine, scale: 5}`."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def spread(cls, value: object) -> object:
        """A bare name, or a mapping whose `name` is the choice and whose other keys are its options."""
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping):
            own = {key: item for key, item in value.items() if key in cls.model_fields and key != "options"}
            return {**own, "options": {str(key): item for key, item in value.items() if key not in own}}
        return value

    @model_serializer
    def gather(self) -> str | dict[str, Any]:
        """The way a recipe spells it."""
        own = {
            name: value
            for name in type(self).model_fields
            if name != "options" and (value := getattr(self, name)) is not None
        }
        return {**own, **self.options} if len(own) > 1 or self.options else self.name


class LossChoice(Choice):
    """A loss, its weight beside the task's other losses, and which pairs are positives to a loss of embeddings."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """Multiplies this loss."""
    positive_above: float | None = None
    """The score from which a pair is a positive."""
    positive_label: Annotated[str | None, BeforeValidator(as_word)] = None
    """The class whose pairs are positives. Null: yes, where the label is yes or no."""
    on: Literal["embedding", "head"] | None = None
    """What a loss of embeddings compares: what the encoder gives, or what the head `dot` projects it to. Null: the
    first."""
    cached: bool | None = None
    """Whether a loss of embeddings sees its whole batch at the memory of a chunk: the texts are encoded twice, a chunk
    at a time (Gao 2021). Null: no."""
    chunk: Annotated[int, Field(gt=0)] | None = None
    """Rows whose texts a cached loss encodes at once. Null: 64."""


Several = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
MaybeSeveral = Annotated[tuple[str, ...], BeforeValidator(lambda value: () if value is None else as_tuple(value))]
Losses = Annotated[tuple[LossChoice, ...], BeforeValidator(as_losses)]
Interval = Annotated[int | Literal["epoch"], BeforeValidator(as_interval)]
Positive = Annotated[int, Field(gt=0)]
ClassWeights = Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None
Share = Annotated[float, Field(ge=0, lt=1)]


class Label(Frozen):
    """Where the labels of a task stand and what they mean; what is not given is read from the training data."""

    column: Several
    """The column of the labels; or several columns of 0 and 1, one a class, for several labels at once."""
    kind: Literal["classes", "several", "yes_no", "score"] | None = None
    """What kind of label this is: one class of several, several labels at once, yes or no, or a score. Null: as the
    values look."""
    classes: Annotated[dict[str, str] | None, BeforeValidator(as_words)] = None
    """The classes as the data writes them, in the order of the outputs; or a mapping of each to the name it is shown
    by: `{0: awful, 1: fine}`. Null: those of the training data, numbers by size, then words by spelling."""
    range: Annotated[tuple[float, float] | None, BeforeValidator(as_range)] = None
    """The two ends of the scores: `[0, 5]`. Null: the lowest and the highest of the training data."""
    positive: Annotated[str | None, BeforeValidator(as_word)] = None
    """The value that means yes; every other means no. Null: 1, true and yes mean yes; 0, false and no mean no."""
    separator: str | None = None
    """What stands between several labels in one cell of text: `"|"`. Null: the cell is a JSON list."""

    @model_validator(mode="after")
    def one_kind(self) -> "Label":
        """Classes, a range and a positive value each say what kind of label this is."""
        kinds = {"classes": self.classes, "score": self.range, "yes_no": self.positive, "several": self.separator}
        given = [kind for kind, value in kinds.items() if value is not None]
        if len(self.column) > 1 or self.kind == "several" or self.separator is not None:
            given = [kind for kind in given if kind not in ("classes", "several")] + ["several"]
        if len(given) > 1 or (self.kind and given and given != [self.kind]):
            raise ValueError("give only one of classes, range and positive, and a kind that agrees with it")
        if self.range and not self.range[0] < self.range[1]:
            raise ValueError(f"the range must rise, found {list(self.range)}")
        if self.separator is not None and (not self.separator.strip() or len(self.column) > 1):
            raise ValueError("a separator parts the labels of one column, and is no blank")
        return self


class Source(Frozen):
    """Where rows come from: a file, or `{file: questions.csv, where: {split: train}}` for some of its rows."""

    file: str
    """A file, or a data set of the hub: `hub:OWNER/NAME`, `hub:OWNER/NAME:CONFIG` or `hub:OWNER/NAME:CONFIG@SPLIT`."""
    where: Annotated[dict[str, str], BeforeValidator(as_where)] = Field(default_factory=dict)
    """Only the rows that have these values in these columns."""

    @model_validator(mode="before")
    @classmethod
    def spread(cls, value: object) -> object:
        """A source given by its file alone."""
        return {"file": value} if isinstance(value, str) else value

    @model_serializer
    def gather(self) -> str | dict[str, Any]:
        """The way a recipe spells it."""
        return {"file": self.file, "where": self.where} if self.where else self.file

    @property
    def on_hub(self) -> bool:
        """Whether the rows are those of a data set of the hub."""
        return self.file.startswith("hub:")


Sources = Annotated[tuple[Source, ...], BeforeValidator(as_sources)]
SourcesOrShare = Annotated[
    Annotated[Sources, Tag("sources")] | Annotated[float, BeforeValidator(as_share), Tag("share")],
    Discriminator(sources_or_share),
]


class Task(Frozen):
    """A name, labelled data, a head, one or more losses, a metric."""

    train: Sources
    """The training data: a file (csv, tsv, jsonl, each also as .gz, or parquet), a `hub:` name, `{file, where}`, or a
    list of these."""
    dev: SourcesOrShare = ()
    """The data that chooses the best model; or a share such as 0.2 to be split off the training data, with no text on
    both sides."""
    test: SourcesOrShare = ()
    """Data that training never looks at; or a share, as in `dev`."""
    text: Several
    """The column of the text; two for a pair; three for a triplet of anchor, positive and hard negative."""
    label: Annotated[Label | None, BeforeValidator(as_label)] = None
    """The column of the labels, or the keys below. Triplets have none, and tasks whose losses compare texts need
    none."""
    make: Choice | None = None
    """What rows are made into on reading: `triplets` makes anchor, positive and hard negative of premise, hypothesis
    and label."""
    quoting: Literal["quoted", "unquoted"] | None = None
    """Whether fields may stand in quotes. Null: they may in .csv, whatever its delimiter, and not in .tsv."""
    head: Choice | None = None
    """What turns embeddings into the prediction. Null: by the kind of label; none where no loss would train it."""
    loss: Losses | None = None
    """What is made small: a loss, or a list of them, each with a `weight`. Null: by the kind of label."""
    metric: str | None = None
    """The score that counts. Null: the first in the table of metrics for the kind of label."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Multiplies this task's loss."""
    batch_size: Positive | None = None
    """Rows in a batch. Null: the recipe's."""
    take: Annotated[float, Field(gt=0, le=1)] = 1.0
    """A new random share of the rows in each pass."""
    rows: Positive | None = None
    """Only this many training rows, drawn by the seed. Null: the recipe's."""
    dev_rows: Positive | None = None
    """Only this many rows of dev, and of test, the same with every seed. Null: the recipe's."""
    max_length: Positive | None = None
    """Tokens at which inputs are cut. Null: the encoder's limit."""
    class_weights: Annotated[ClassWeights, BeforeValidator(as_class_weights)] = None
    """`balanced`, so that every class counts alike; or a weight for each class: `{0: 1, 1: 5}`."""
    label_smoothing: Share = 0.0
    """How much of each target is spread over the other answers."""
    learn: bool = True
    """Whether steps train this task. If not, it is only scored, with its head as it was drawn, or as the model in
    `encoder` has it."""

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the labels, none for triplets."""
        return self.label.column if self.label else ()

    def sources(self, split: str, fold: str | None = None) -> tuple[Source, ...]:
        """Where the rows of a split come from; those of a share or a fold come from the training data."""
        found: tuple[Source, ...] = getattr(self, self.key(split, fold))
        return found

    def key(self, split: str, fold: str | None = None) -> str:
        """The key that names the sources of a split."""
        return "train" if self.share(split) is not None or (fold and split == "test") else split

    def share(self, split: str) -> float | None:
        """The share of the training data that a split is, if it is one."""
        found = getattr(self, split)
        return found if isinstance(found, float) else None


class WholeRun(Frozen):
    """What is the same from the beginning of a run to its end."""

    encoder: str
    """A bundled name (`minilm`), a directory in Hugging Face's layout, a model of plait's own to go on from, or a name
    on the hub such as `bert-base-uncased`."""
    pooling: str = "mean"
    """How token states become one embedding. A plait model keeps its own."""
    normalise: bool | None = None
    """Whether `embed` gives unit vectors. Null: as the encoder says of itself."""
    dropout: Share = 0.1
    """Inside heads that have weights."""
    shared_layer: Choice | None = None
    """One layer before every head."""
    freeze: MaybeSeveral = ()
    """Tasks of the plait model in `encoder` whose heads stay as they are."""
    bad_rows: Literal["stop", "skip"] = "stop"
    """What to do about rows that cannot be used: stop and list them, or leave them out and write them to
    `bad-rows.jsonl` in the run."""
    fold: Annotated[str | None, BeforeValidator(as_fold)] = None
    """Which fold of how many is the test data: with `2/5`, the training rows of each task, once cut to `rows`, are
    parted into five by the seed, and the second is its `test`. A share in `dev` is then split off the other four. Rows
    that share a text stay in one fold. A task without a head is not parted. Null: each task's own `test`."""
    seed: int = 11711
    """Every random choice follows from it."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute; auto is the first of cuda, mps and cpu that is there."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the encoder's arithmetic."""


class Stage(Frozen):
    """A part of a run with its own tasks and its own way to train them."""

    tasks: Annotated[dict[str, Task], Field(min_length=1)]
    """The tasks, by name. In a stage also a list of names, of tasks at the top."""
    schedule: Choice = Choice(name="together")
    """Which task the next step trains."""
    epochs: Positive | None = None
    """How often the schedule goes through the data. Null: 3, unless steps are given."""
    steps: Positive | None = None
    """How many steps to train, in place of epochs."""
    batch_size: Positive = 32
    """Rows of a task in one step."""
    rows: Positive | None = None
    """At most this many training rows of each task, drawn by the seed. Null: all."""
    dev_rows: Positive | None = None
    """At most this many rows of dev, and of test, of each task, the same with every seed. Null: all."""
    train_encoder: bool = True
    """Whether the encoder learns, or only the heads."""
    optimizer: Choice = Choice(name="adamw")
    """What updates the weights."""
    lr: Annotated[float, Field(gt=0)] = 5e-5
    """The learning rate."""
    head_lr: Annotated[float, Field(gt=0)] | None = None
    """The learning rate of the heads and the shared layer. Null: lr."""
    lr_schedule: Choice = Choice(name="linear")
    """How the learning rate goes over the run, or over the stage."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Pulls weights to 0; biases and layer norms are left alone."""
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    """The largest norm of the gradient. Null: any."""
    watch_conflict: Positive | None = None
    """Every so many steps, the cosines between the tasks' gradients of the weights they share are written to
    `metrics.jsonl`; below 0, two tasks pull against each other. It changes nothing of the training and needs memory for
    one more such gradient a task. Under `together` the step's own gradients are compared; other schedules train one
    task a step, so one more batch of every task goes through the encoder, forwards and backwards. Null: never."""
    evaluate_every: Interval = "epoch"
    """When dev is scored: every epoch, or every so many steps and at the end of each epoch."""
    early_stopping: Positive | None = None
    """Evaluations without a better score before the run, or the stage, stops. Null: it never does."""
    best_by: str = "mean"
    """What chooses the best model: the mean over the tasks, or one task by name."""
    checkpoint_every: Interval = "epoch"
    """When a run can be gone on with: every epoch, or every so many steps."""

    @property
    def learning(self) -> tuple[str, ...]:
        """The tasks that steps train."""
        return tuple(name for name, task in self.tasks.items() if task.learn)


class Recipe(Stage, WholeRun):
    """Everything about a run. Where there are stages, the keys of a stage that stand at the top are the last one's."""

    stages: tuple[Stage, ...] = ()
    """Parts of the run, one after the other, each with its own keys of a stage; those at the top are their defaults."""

    def __eq__(self, other: object) -> bool:
        """Recipes that say the same are equal, wherever they were written."""
        return isinstance(other, Recipe) and self.model_dump() == other.model_dump()

    @model_serializer(mode="wrap")
    def gather(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Every key once: a stage's own stand in the stages, where there are some."""
        keys: dict[str, Any] = handler(self)
        left_out = Stage.model_fields.keys() if self.stages else {"stages"}
        return {key: value for key, value in keys.items() if key not in left_out}

    _origins: dict[KeyPath, str] = PrivateAttr(default_factory=dict)  # key → file:line
    _written: tuple[dict[KeyPath, KeyPath], ...] = PrivateAttr(default=())  # of each stage: key → where it stands

    def where(self, *path: str) -> str:
        """The start of a message about a key: where it was written, and its name."""
        written = path_as_written(path, self._written[-1] if self._written else {})
        for end in range(len(written), -1, -1):
            if written[:end] in self._origins:
                return f"{self._origins[written[:end]]}: {dotted(written)}"
        return dotted(written)

    def stage_recipes(self) -> "tuple[Recipe, ...]":
        """Each stage as a recipe of its own; a run without stages is one."""
        return tuple(self.stage_recipe(number) for number in range(len(self.stages))) or (self,)

    def stage_recipe(self, number: int) -> "Recipe":
        """One stage with the keys of the whole run."""
        recipe = self.model_copy(update={**dict(self.stages[number]), "stages": ()})
        recipe._written = self._written[number : number + 1]
        return recipe

    @staticmethod
    def of_stages(recipes: "Sequence[Recipe]") -> "Recipe":
        """The recipe whose stages these are; a run of one stage needs none."""
        if len(recipes) == 1:
            return recipes[0]
        keys = Stage.model_fields
        stages = tuple(Stage.model_construct(**{key: getattr(recipe, key) for key in keys}) for recipe in recipes)
        joined = recipes[-1].model_copy(update={"stages": stages})
        joined._written = tuple(written for recipe in recipes for written in recipe._written)
        return joined
