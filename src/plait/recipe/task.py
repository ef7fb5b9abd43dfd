"""The keys of a task: its data, labels, head, losses and metric."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_serializer, model_validator

from plait.recipe.choices import Choice, Frozen, HeadChoice, LossChoice
from plait.recipe.normalize import (
    LARGEST,
    as_class_weights,
    as_encoding,
    as_label,
    as_losses,
    as_map,
    as_path,
    as_range,
    as_share,
    as_sources,
    as_tuple,
    as_where,
    as_word,
    as_words,
    sources_or_share,
)

__all__ = ["SPLITS", "Label", "Positive", "Share", "Source", "Task"]

SPLITS = ("train", "dev", "test")

Positive = Annotated[int, Field(gt=0, le=LARGEST)]
Share = Annotated[float, Field(ge=0, lt=1)]
_Several = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
_Losses = Annotated[tuple[LossChoice, ...], BeforeValidator(as_losses)]
_ClassWeights = Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None


class Label(Frozen):
    """Where the labels of a task are and what they mean; whatever is not given is read from the training data."""

    column: Annotated[_Several, Field(min_length=1)]
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


class Source(Frozen):
    """Where rows come from: a file, or `{file: questions.csv, where: {split: train}}` for some of its rows."""

    file: Annotated[str, BeforeValidator(as_path)]
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


class Task(Frozen):
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
    batch_size: Positive | None = None
    """Rows in a batch. Null: the recipe's."""
    both_orders: bool = False
    """Whether every training pair is also read with its texts exchanged, for heads that depend on their order."""
    take: Annotated[float, Field(gt=0, le=1)] = 1.0
    """A new random share of the rows in each pass."""
    rows: Positive | None = None
    """At most this many training rows, drawn by the seed. Null: the recipe's."""
    train_rows: Positive | None = None
    """At most this many rows to train on, once dev, test and the fold are held out. Null: the recipe's."""
    dev_rows: Positive | None = None
    """At most this many rows of dev and of test, the same for every seed. Null: the recipe's."""
    choose_rows: Positive | None = None
    """This many dev rows choose the best model, and the others are scored. Null: the recipe's."""
    max_length: Positive | None = None
    """Tokens to which inputs are truncated. Null: the encoder's limit."""
    class_weights: Annotated[_ClassWeights, BeforeValidator(as_class_weights)] = None
    """`balanced`, so that every class counts equally; or a weight per class: `{0: 1, 1: 5}`."""
    label_smoothing: Share = 0.0
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
