"""The keys of a recipe, what each may be, and its default. A recipe is frozen once it is read."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_serializer, model_validator

__all__ = ["Choice", "Label", "LossChoice", "Recipe", "Task"]


class Frozen(BaseModel):
    """No unknown key, no silent conversion, no change after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


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
        own = {name: getattr(self, name) for name in type(self).model_fields if name != "options"}
        return {**own, **self.options} if len(own) > 1 or self.options else self.name


class LossChoice(Choice):
    """A loss and its weight beside the task's other losses."""

    weight: Annotated[float, Field(gt=0)] = 1.0


def as_tuple(value: object) -> object:
    """One thing, or several in a list."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if value is None else (value,)


def as_range(value: object) -> object:
    """The two ends of the scores."""
    if value is None or (isinstance(value, list | tuple) and len(value) == 2):
        return value and tuple(value)
    raise ValueError("expected the two ends of the scores, such as [0, 5]")


def as_label(value: object) -> object:
    """A label given by its column alone."""
    return {"column": value} if isinstance(value, str) else value


def as_losses(value: object) -> object:
    """A loss or several, but not none in a list."""
    if value == []:
        raise ValueError("expected a loss, or a list of losses, found an empty list")
    return as_tuple(value)


def as_words(value: object) -> object:
    """Classes are words, even where YAML reads numbers: `[0, 1]` or `{0: awful, 1: fine}`."""
    if isinstance(value, Mapping):
        return {class_word(key): str(name) for key, name in value.items()}
    if isinstance(value, list | tuple):
        return {class_word(key): str(key) for key in value}
    return value


def class_word(value: object) -> str:
    """The word of a class as the data spells it: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_word(value: object) -> object:
    """A single class, even where YAML reads a number."""
    return value if value is None else class_word(value)


def as_interval(value: object) -> object:
    """`epoch`, or a number of steps."""
    if value == "epoch" or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise ValueError("expected 'epoch' or a number of steps above 0")


def as_class_weights(value: object) -> object:
    """`balanced`, or a weight for each class, which may be spelled as a number."""
    if isinstance(value, Mapping) and all(
        isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight < math.inf
        for weight in value.values()
    ):
        return {class_word(key): weight for key, weight in value.items()}
    if value is None or value == "balanced":
        return value
    raise ValueError("expected 'balanced' or a weight above 0 for each class")


Several = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
MaybeSeveral = Annotated[tuple[str, ...], BeforeValidator(lambda value: () if value is None else as_tuple(value))]
Losses = Annotated[tuple[LossChoice, ...], BeforeValidator(as_losses)]
Interval = Annotated[int | Literal["epoch"], BeforeValidator(as_interval)]
Positive = Annotated[int, Field(gt=0)]
ClassWeights = Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None
Share = Annotated[float, Field(ge=0, lt=1)]


class Label(Frozen):
    """Where the labels of a task stand and what they mean; what is not given is read from the training data."""

    column: str
    kind: Literal["classes", "yes_no", "score"] | None = None
    classes: Annotated[dict[str, str] | None, BeforeValidator(as_words)] = None  # as written → as shown
    range: Annotated[tuple[float, float] | None, BeforeValidator(as_range)] = None
    positive: Annotated[str | None, BeforeValidator(as_word)] = None  # the value that means yes

    @model_validator(mode="after")
    def one_kind(self) -> "Label":
        """Classes, a range and a positive value each say what kind of label this is."""
        kinds = {"classes": self.classes, "score": self.range, "yes_no": self.positive}
        given = [kind for kind, value in kinds.items() if value is not None]
        if len(given) > 1 or (self.kind and given and given != [self.kind]):
            raise ValueError("give only one of classes, range and positive, and a kind that agrees with it")
        if self.range and not self.range[0] < self.range[1]:
            raise ValueError(f"the range must rise, found {list(self.range)}")
        return self


class Task(Frozen):
    """A name, labelled data, a head, one or more losses, a metric."""

    train: Several
    dev: MaybeSeveral = ()
    test: MaybeSeveral = ()
    text: Several
    label: Annotated[Label, BeforeValidator(as_label)]
    quoting: Literal["quoted", "unquoted"] | None = None  # None: .csv is quoted, .tsv is not
    head: Choice | None = None  # None: by the kind of label
    loss: Losses | None = None  # None: by the kind of label
    metric: str | None = None  # None: accuracy for classes and yes/no, pearson for scores
    weight: Annotated[float, Field(gt=0)] = 1.0  # of this task's loss
    batch_size: Positive | None = None  # None: the recipe's
    take: Annotated[float, Field(gt=0, le=1)] = 1.0  # a new random share of the rows in each pass
    rows: Positive | None = None  # only this many training rows, drawn by the seed; None: the recipe's
    max_length: Positive | None = None  # None: the encoder's limit
    class_weights: Annotated[ClassWeights, BeforeValidator(as_class_weights)] = None
    label_smoothing: Share = 0.0


class Recipe(Frozen):
    """Everything about a run."""

    encoder: str
    pooling: str = "mean"
    normalise: bool | None = None  # unit vectors from `embed`; None: as the encoder says of itself
    dropout: Share = 0.1  # inside heads that have weights
    shared_layer: Choice | None = None  # one layer before every head
    train_encoder: bool = True
    tasks: Annotated[dict[str, Task], Field(min_length=1)]
    schedule: Choice = Choice(name="together")
    epochs: Positive | None = None  # None: 3, unless steps are given
    steps: Positive | None = None
    batch_size: Positive = 32
    rows: Positive | None = None  # of each task's training data; None: all
    optimizer: Choice = Choice(name="adamw")
    lr: Annotated[float, Field(gt=0)] = 5e-5
    head_lr: Annotated[float, Field(gt=0)] | None = None  # None: lr
    lr_schedule: Choice = Choice(name="linear")
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    clip: Annotated[float, Field(gt=0)] | None = 1.0  # the largest gradient norm; null: none
    evaluate_every: Interval = "epoch"
    early_stopping: Positive | None = None  # evaluations without a better score before stopping
    best_by: str = "mean"  # or the name of a task
    checkpoint_every: Interval = "epoch"
    seed: int = 11711
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"

    def __eq__(self, other: object) -> bool:
        """Recipes that say the same are equal, wherever they were written."""
        return isinstance(other, Recipe) and self.model_dump() == other.model_dump()

    _origins: dict[tuple[str | int, ...], str] = PrivateAttr(default_factory=dict)  # key → file:line

    def where(self, *path: str) -> str:
        """The start of a message about a key: where it was written, and its name."""
        for end in range(len(path), -1, -1):
            if path[:end] in self._origins:
                return f"{self._origins[path[:end]]}: {'.'.join(path)}: "
        return f"{'.'.join(path)}: "

    def files(self, task: str, split: str) -> tuple[Path, ...]:
        """The files of one split of a task, already made absolute by the reader."""
        return tuple(Path(name) for name in getattr(self.tasks[task], split))
