"""The keys of a recipe, their types and defaults. A recipe is frozen once it is read."""

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

from plait.recipe.normalize import (
    as_class_weights,
    as_device,
    as_encoding,
    as_fold,
    as_interval,
    as_label,
    as_losses,
    as_map,
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

__all__ = ["SPLITS", "Choice", "HeadChoice", "Label", "LossChoice", "Recipe", "RunSettings", "Source", "Stage", "Task"]

SPLITS = ("train", "dev", "test")


class _Frozen(BaseModel):
    """No unknown keys, no silent conversion, no change after reading."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Choice(_Frozen):
    """A variant from a table, and its options: `cosine` or `{name: cosine, scale: 5}`."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def spread(cls, value: object) -> object:
        """Accept a bare name, or a mapping with `name` and the options."""
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping):
            own = {key: item for key, item in value.items() if key in cls.model_fields and key != "options"}
            return {**own, "options": {str(key): item for key, item in value.items() if key not in own}}
        return value

    @model_serializer
    def collapse(self) -> str | dict[str, Any]:
        """As a recipe writes it."""
        own = {
            name: value
            for name in type(self).model_fields
            if name != "options" and (value := getattr(self, name)) is not None
        }
        return {**own, **self.options} if len(own) > 1 or self.options else self.name


class HeadChoice(Choice):
    """A head and its options, or `{same_as: sts}` for the very head of another task."""

    name: str = ""  # of a head that is shared: that of the other task, once it is resolved
    same_as: str | None = None
    """The task whose head this task uses, weights included; nothing may stand beside it. Null: a head of its own."""

    @model_validator(mode="after")
    def one_of_two(self) -> "HeadChoice":
        """A head of its own, or that of another task."""
        if self.same_as is None and not self.name:
            raise ValueError("give the name of a head, or same_as and the name of a task")
        if self.same_as is not None and (self.name or self.options):
            others = ["name"] * bool(self.name) + list(self.options)
            raise ValueError(f"same_as takes the other task's head as it is; remove {', '.join(others)}")
        return self

    @model_serializer
    def collapse(self) -> str | dict[str, Any]:
        """As a recipe writes it."""
        if self.same_as is not None:
            return {"same_as": self.same_as}
        return {"name": self.name, **self.options} if self.options else self.name


class LossChoice(Choice):
    """A loss, its weight among the task's losses, and which pairs a loss on embeddings treats as positives."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """Multiplies this loss."""
    positive_above: float | None = None
    """The score from which a pair is a positive."""
    positive_label: Annotated[str | None, BeforeValidator(as_word)] = None
    """The class whose pairs are positives. Null: yes, for yes/no labels."""
    on: Literal["embedding", "head"] | None = None
    """What a loss on embeddings compares: the encoder's embeddings, or their projection by the head `dot`. Null:
    embedding."""
    cached: bool | None = None
    """Whether a loss on embeddings sees the whole batch in the memory of a chunk: texts are encoded twice, one chunk at
    a time (Gao 2021). Null: false."""
    chunk: Annotated[int, Field(gt=0)] | None = None
    """Rows that a cached loss encodes at a time. Null: 64."""
    mine: bool | None = None
    """Whether every pair gets a hard negative: before each epoch the encoder finds the second text of the training data
    that is closest to the pair's first text, among those that are less similar to it than its own second text. Null:
    false."""


_Several = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
_MaybeSeveral = Annotated[tuple[str, ...], BeforeValidator(lambda value: () if value is None else as_tuple(value))]
_Losses = Annotated[tuple[LossChoice, ...], BeforeValidator(as_losses)]
_Interval = Annotated[int | Literal["epoch"], BeforeValidator(as_interval)]
_Positive = Annotated[int, Field(gt=0)]
_ClassWeights = Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None
_Share = Annotated[float, Field(ge=0, lt=1)]


class Label(_Frozen):
    """Where the labels of a task are and what they mean; whatever is not given is read from the training data."""

    column: _Several
    """The column of the labels; or several columns of 0 and 1, one per class, for a multilabel task."""
    kind: Literal["classes", "multilabel", "yes_no", "score"] | None = None
    """The kind of label: one class of several, any number of classes, yes or no, or a score. Null: inferred from the
    values."""
    classes: Annotated[dict[str, str] | None, BeforeValidator(as_words)] = None
    """The classes as the data writes them, in the order of the outputs; or a mapping from each to a display name:
    `{0: awful, 1: fine}`. Null: those in the training data, numbers by size, then words alphabetically."""
    range: Annotated[tuple[float, float] | None, BeforeValidator(as_range)] = None
    """The lowest and highest possible score: `[0, 5]`. Null: the lowest and highest in the training data."""
    positive: Annotated[str | None, BeforeValidator(as_word)] = None
    """The value that means yes; every other means no. Null: 1, true and yes mean yes; 0, false and no mean no."""
    separator: str | None = None
    """What separates several labels in one cell: `"|"`. Null: the cell is a JSON list."""
    map: Annotated[dict[str, str] | None, BeforeValidator(as_map)] = None
    """What the labels of the data become before anything else looks at them: `{0: 0.5, 1: 4.5}` turns yes and no into
    scores, `{very good: good}` puts two classes together. Labels that it does not list stay as they are. Null: all
    stay."""

    @model_validator(mode="after")
    def one_kind(self) -> "Label":
        """Classes, a range and a positive value each imply a kind of label."""
        kinds = {"classes": self.classes, "score": self.range, "yes_no": self.positive, "multilabel": self.separator}
        given = [kind for kind, value in kinds.items() if value is not None]
        if len(self.column) > 1 or self.kind == "multilabel" or self.separator is not None:
            given = [kind for kind in given if kind not in ("classes", "multilabel")] + ["multilabel"]
        if len(given) > 1 or (self.kind and given and given != [self.kind]):
            raise ValueError("give only one of classes, range and positive, and a kind that agrees with it")
        if self.range and not self.range[0] < self.range[1]:
            raise ValueError(f"expected the lower end of the range first, found {list(self.range)}")
        if self.separator is not None and (not self.separator.strip() or len(self.column) > 1):
            raise ValueError("a separator applies to one column, and cannot be blank")
        if self.map and len(self.column) > 1:
            raise ValueError("a map applies to one column; with a column per class there is nothing to map")
        return self


class Source(_Frozen):
    """Where rows come from: a file, or `{file: questions.csv, where: {split: train}}` for some of its rows."""

    file: str
    """A file, or a data set on the hub: `hub:OWNER/NAME`, `hub:OWNER/NAME:CONFIG` or `hub:OWNER/NAME:CONFIG@SPLIT`."""
    where: Annotated[dict[str, str], BeforeValidator(as_where)] = Field(default_factory=dict)
    """Only rows with these values in these columns."""

    @model_validator(mode="before")
    @classmethod
    def spread(cls, value: object) -> object:
        """Accept a bare file name."""
        return {"file": value} if isinstance(value, str) else value

    @model_serializer
    def collapse(self) -> str | dict[str, Any]:
        """As a recipe writes it."""
        return {"file": self.file, "where": self.where} if self.where else self.file

    @property
    def on_hub(self) -> bool:
        """Whether it is a data set on the hub."""
        return self.file.startswith("hub:")


_Sources = Annotated[tuple[Source, ...], BeforeValidator(as_sources)]
_SourcesOrShare = Annotated[
    Annotated[_Sources, Tag("sources")] | Annotated[float, BeforeValidator(as_share), Tag("share")],
    Discriminator(sources_or_share),
]


class Task(_Frozen):
    """A name, labelled data, a head, one or more losses, a metric."""

    train: _Sources
    """The training data: a file (csv, tsv, jsonl, json, each also as .gz, or parquet, xlsx), a `hub:` name,
    `{file, where}`, or a list of these."""
    dev: _SourcesOrShare = ()
    """The data that selects the best model; or a share such as 0.2 to split off the training data, with no text on both
    sides."""
    test: _SourcesOrShare = ()
    """Data that training never sees; or a share, as in `dev`."""
    text: _Several
    """The column of the text; two for a pair; three for a triplet of anchor, positive and hard negative."""
    label: Annotated[Label | None, BeforeValidator(as_label)] = None
    """The column of the labels, or the keys below. Triplets have none, and tasks whose losses compare texts need
    none."""
    derive: Choice | None = None
    """What rows are turned into while reading: `triplets` derives anchor, positive and hard negative from premise,
    hypothesis and label."""
    quoting: Literal["quoted", "unquoted"] | None = None
    """Whether fields may be quoted. Null: quoted in .csv, whatever its delimiter, and unquoted in .tsv."""
    encoding: Annotated[str, BeforeValidator(as_encoding)] = "utf-8"
    """The encoding of the files of text: `latin-1`, `cp1252`, or another that Python knows."""
    head: HeadChoice | None = None
    """What turns embeddings into predictions; or `{same_as: TASK}`, the head of another task, weights included. Null:
    chosen by the kind of label; none if no loss would train it."""
    loss: _Losses | None = None
    """What is minimized: a loss, or a list of losses, each with a `weight`. Null: chosen by the kind of label."""
    metric: str | None = None
    """The score that counts. Null: the default for the kind of label."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Multiplies this task's loss."""
    batch_size: _Positive | None = None
    """Rows in a batch. Null: the recipe's."""
    take: Annotated[float, Field(gt=0, le=1)] = 1.0
    """A new random share of the rows in each pass."""
    rows: _Positive | None = None
    """At most this many training rows, drawn by the seed. Null: the recipe's."""
    train_rows: _Positive | None = None
    """At most this many rows to train on, once dev, test and the fold are held out. Null: the recipe's."""
    dev_rows: _Positive | None = None
    """At most this many rows of dev and of test, the same for every seed. Null: the recipe's."""
    choose_rows: _Positive | None = None
    """This many dev rows choose the best model, and the others are scored. Null: the recipe's."""
    max_length: _Positive | None = None
    """Tokens to which inputs are truncated. Null: the encoder's limit."""
    class_weights: Annotated[_ClassWeights, BeforeValidator(as_class_weights)] = None
    """`balanced`, so that every class counts equally; or a weight per class: `{0: 1, 1: 5}`."""
    label_smoothing: _Share = 0.0
    """How much of each target is spread over the other answers."""
    learn: bool = True
    """Whether steps train this task. If not, it is only scored, with a head that is random or comes from the model in
    `encoder`."""

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the labels; none for triplets."""
        return self.label.column if self.label else ()

    def sources(self, split: str, fold: str | None = None) -> tuple[Source, ...]:
        """Where the rows of a split come from; a share or a fold comes from the training data."""
        found: tuple[Source, ...] = getattr(self, self.key(split, fold))
        return found

    def key(self, split: str, fold: str | None = None) -> str:
        """The key that names the sources of a split."""
        return "train" if self.share(split) is not None or (fold and split == "test") else split

    def share(self, split: str) -> float | None:
        """The share of the training data that a split is, if it is one."""
        found = getattr(self, split)
        return found if isinstance(found, float) else None


class RunSettings(_Frozen):
    """Keys that hold for a whole run."""

    encoder: str
    """A bundled name (`minilm`), a directory in Hugging Face's layout, a plait model to continue from, or a name on the
    hub such as `bert-base-uncased`."""
    pooling: Choice = Choice(name="mean")
    """How token states become one embedding. A plait model keeps its own."""
    normalise: bool | None = None
    """Whether `embed` returns unit vectors. Null: as the encoder's own files say."""
    dropout: _Share = 0.1
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
    freeze: _MaybeSeveral = ()
    """Tasks of the plait model in `encoder` whose heads are not trained."""
    bad_rows: Literal["stop", "skip"] = "stop"
    """What to do about unusable rows: stop and list them, or skip them and write them to `bad-rows.jsonl` in the
    run."""
    fold: Annotated[str | None, BeforeValidator(as_fold)] = None
    """Which fold of how many is the test data. With `2/5`, the training rows of each task, once limited to `rows`, are
    divided into five folds by the seed, and the second is its `test`. A share in `dev` is then split off the other
    four. Rows that share a text stay in one fold. Tasks without a head have no folds. Null: each task's own `test`."""
    draw: int | None = None
    """Which draw of `train_rows`, whatever the seed. Null: drawn by the seed."""
    seed: int = 11711
    """Determines every random choice."""
    device: Annotated[str, BeforeValidator(as_device)] = "auto"
    """Where to compute: `auto`, `cpu`, `mps`, `cuda`, or one GPU of several, such as `cuda:1`. auto is the first of
    cuda, mps and cpu that is available."""
    precision: Literal["float32", "bf16"] = "float32"
    """Of the encoder's products in training. `bf16` needs a processor or GPU with instructions for it; evaluation and
    the saved model stay in float32."""


class Stage(_Frozen):
    """A part of a run with its own tasks and training settings."""

    tasks: Annotated[dict[str, Task], Field(min_length=1)]
    """The tasks, by name. A stage may also list the names of tasks at the top level."""
    schedule: Choice = Choice(name="together")
    """Which task the next step trains."""
    epochs: Annotated[int, Field(gt=0, le=100_000)] | None = None
    """How many times the schedule goes through the data. Null: 3, unless steps are given."""
    steps: Annotated[int, Field(gt=0, le=10_000_000)] | None = None
    """How many steps to train, instead of epochs."""
    batch_size: _Positive = 32
    """Rows of a task in one step."""
    batches: Literal["random", "sorted"] = "random"
    """Which rows share a batch, drawn anew in each pass: any, or texts of like length out of 32 batches. Sorting trains
    no faster, and in small data mostly the same rows meet in every pass; plait 0.1 did so."""
    rows: _Positive | None = None
    """At most this many training rows of each task, drawn by the seed. Null: all."""
    train_rows: _Positive | None = None
    """At most this many rows of each task to train on, once dev, test and the fold are held out; `rows` counts before a
    fold is held out. Classes keep their proportions, and each has a row if there is room. Fewer rows are part of more
    rows: 20 of the same 100. Null: all."""
    dev_rows: _Positive | None = None
    """At most this many rows of dev and of test of each task, the same for every seed. Null: all."""
    choose_rows: _Positive | None = None
    """This many dev rows of each task choose the best model, and only the others are scored and reported. They are the
    same for every seed, with classes in proportion. Null: all dev rows choose and are scored."""
    train_encoder: bool = True
    """Whether the encoder is trained, or only the heads."""
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
    conflict_every: _Positive | None = None
    """Every this many steps, write the cosines between the tasks' gradients of shared weights to `metrics.jsonl`; below
    0, two tasks conflict. It does not change the training, and needs memory for one more such gradient per task. Under
    `together` the step's own gradients are compared; other schedules train one task per step, so one more batch of
    every task goes forward and backward through the encoder. Null: never."""
    evaluate_every: _Interval = "epoch"
    """When dev is scored: every epoch, or every this many steps and at the end of each epoch."""
    early_stopping: _Positive | None = None
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
