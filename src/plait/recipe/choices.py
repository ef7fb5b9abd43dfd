"""What a recipe chooses from a table, with its options: a head, a loss, a schedule, a pooling."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_serializer, model_validator

from plait.recipe.normalize import LARGEST, as_word

__all__ = ["Choice", "Frozen", "HeadChoice", "LossChoice"]


class Frozen(BaseModel):
    """No unknown keys, no silent conversion, no change after reading."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Choice(Frozen):
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
    chunk: Annotated[int, Field(gt=0, le=LARGEST)] | None = None
    """Rows that a cached loss encodes at a time. Null: 64."""
    mine: bool | None = None
    """Whether every pair gets a hard negative: before each epoch the encoder finds the second text of the training data
    that is closest to the pair's first text, among those that are less similar to it than its own second text. Null:
    false."""
