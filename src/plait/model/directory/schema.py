"""The shape of plait.json: what must be there, of which type and size, before anything else looks at it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plait.data.kinds import KINDS
from plait.encoder.pooling import POOLINGS
from plait.model.decode import LINKS
from plait.names import excerpt
from plait.recipe.options import explain
from plait.recipe.tree import dotted
from plait.recipe.upgrade import FORMER_KINDS

__all__ = ["record_mistakes"]

_Texts = Annotated[list[str], Field(min_length=1, max_length=3)]
_Probability = Annotated[float, Field(ge=0, le=1)]
_Object = dict[str, Any]


_LINKS = {  # what gives predictions of a kind of label
    "classes": ("softmax", "one_vs_rest"),
    "multilabel": ("each",),
    "yes_no": ("sigmoid",),
    "triplets": ("sigmoid",),
    "score": ("identity", "scaled_sigmoid"),
}


class _Part(BaseModel):
    """Unknown keys are left to the classes that are made of it."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Labels(_Part):
    kind: str
    classes: list[str]
    names: list[str]
    low: float
    high: float
    separator: str | None = None
    map: dict[str, str] = Field(default_factory=dict)


class _Task(_Part):
    name: Annotated[str, Field(min_length=1)]
    text: _Texts
    label: str | list[str]
    quoting: Literal["quoted", "unquoted"] | None
    labels: _Labels
    head: str
    head_options: _Object
    link: str
    metric: str
    threshold: _Probability
    max_length: Annotated[int, Field(gt=0, le=10_000_000)]
    same_as: str | None = None
    temperature: Annotated[float, Field(gt=0)] = 1.0
    abstain_below: _Probability | None = None


class _Package(_Part):
    name: str
    version: str | None


class _Record(_Part):
    kind: Literal["ensemble"] | None = None
    pooling: str = ""
    normalise: bool = False
    shared_layer: str | _Object | None = None
    tasks: list[_Task]
    packages: dict[str, _Package] = Field(default_factory=dict)
    recipe: _Object = Field(default_factory=dict)
    data: _Object = Field(default_factory=dict)
    scores: dict[str, dict[str, Annotated[float, Field(allow_inf_nan=True)] | None]] = Field(default_factory=dict)
    baselines: dict[str, dict[str, _Object]] = Field(default_factory=dict)
    step: Annotated[int, Field(ge=0)] = 0
    kept: dict[str, _Object] = Field(default_factory=dict)
    refit: bool = False
    members: Annotated[list[_Object], Field(max_length=1000)] = Field(default_factory=list)
    calibration: dict[str, _Object] = Field(default_factory=dict)


def record_mistakes(value: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the content of plait.json, each with its place in the file."""
    try:
        record = _Record.model_validate(value)
    except ValidationError as error:
        for finding in error.errors():
            place = tuple(part for part in finding["loc"] if isinstance(part, int) or part in _KEYS)
            yield f"{dotted(place)}{'missing' if finding['type'] == 'missing' else explain(dict(finding))}"
        return
    if record.kind != "ensemble" and record.pooling not in POOLINGS:
        yield f"pooling: unknown name {record.pooling!r}"
    if record.kind == "ensemble" and not record.members:
        yield "members: an ensemble without members"
    names = [task.name for task in record.tasks]
    for number, task in enumerate(record.tasks):
        labels, where = task.labels, f"tasks.{number}"
        if names.index(task.name) < number:
            yield f"{where}.name: a second task {task.name!r}"
        if FORMER_KINDS.get(labels.kind, labels.kind) not in KINDS:
            yield f"{where}.labels.kind: unknown name {labels.kind!r}"
        elif len(labels.classes) != len(labels.names):
            yield f"{where}.labels: {len(labels.classes)} classes, but {len(labels.names)} names"
        elif labels.kind == "yes_no" and len(labels.classes) != 2:
            yield f"{where}.labels.classes: expected no and yes, found {len(labels.classes)}"
        elif labels.kind == "score" and not labels.low < labels.high:
            yield f"{where}.labels: expected the lower end of the range first, found {labels.low} and {labels.high}"
        elif task.link not in _LINKS.get(labels.kind, LINKS):
            yield f"{where}.link: {excerpt(task.link)!r} does not give {labels.kind}"
        owner = next((other for other in record.tasks if other.name == task.same_as), None)
        if task.same_as is not None and (owner is None or owner is task or owner.same_as is not None):
            yield f"{where}.same_as: {task.same_as!r} is no task with a head of its own"


_KEYS = {key for part in (_Record, _Task, _Labels, _Package) for key in part.model_fields}
