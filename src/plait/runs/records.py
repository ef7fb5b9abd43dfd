"""The records of a run directory: run.json, result.json and the lines of metrics.jsonl."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from plait.errors import RunError
from plait.files import read_json_with_digest
from plait.recipe.upgrade import upgrade_origins, upgrade_recipe
from plait.runs.best_models import RankedModel

__all__ = [
    "ConflictLine",
    "Gain",
    "MetricsLine",
    "MetricsMark",
    "ResultRecord",
    "RunRecord",
    "ScoresLine",
    "StageResult",
    "TrainLine",
    "parse_line",
]


@dataclass(frozen=True)
class RunRecord:
    """run.json: how a run began. It is written once."""

    plait: str  # versions
    torch: str
    threads: int
    baselines: bool  # whether they are measured
    single_task: bool  # whether each task is trained alone as well
    keep: int  # how many of the best models are kept
    recipe: dict[str, Any]
    encoder: dict[str, str]  # file of the checkpoint → sha256
    data: dict[str, Any]  # task → split → files, or {"stages": [the same per stage]}
    kept: dict[str, Any]  # task of the start model → where its data came from
    variants: dict[str, str] = field(default_factory=dict)  # "head linear" → "linear.v1"
    digests: bool = False  # whether every file of the run has a digest, as since 0.2
    processes: int = 1  # that trained together at the beginning
    precision: str | None = None  # of the products in training; None: as the recipe says, before 0.2

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def read(path: Path) -> "RunRecord":
        try:
            value, has_digest = read_json_with_digest(path)
            known = {name: value[name] for name in RunRecord.__dataclass_fields__ if name in value}
            if known.get("digests") and not has_digest:
                raise ValueError("its digest is missing")
            known["recipe"] = upgrade_recipe(known["recipe"])
            known["kept"] = upgrade_origins(known.get("kept", {}))
            return RunRecord(**{"single_task": False, "keep": 0, **known})
        except (ValueError, TypeError, KeyError, AttributeError):
            raise RunError(f"{path}: damaged; this run cannot be resumed, start a new one") from None


@dataclass(frozen=True)
class MetricsMark:
    """The lines of metrics.jsonl up to some moment."""

    size: int  # bytes
    sha256: str

    def fits(self, content: bytes) -> bool:
        """Whether a file begins with these lines."""
        return hashlib.sha256(content[: self.size]).hexdigest() == self.sha256


@dataclass(frozen=True)
class StageResult:
    """What a stage achieved."""

    tasks: list[str]
    steps: int
    best_step: int | None
    best_score: float | None
    scores: dict[str, Any]  # task → metric → value, of the best model on dev
    conflicts: dict[str, dict[str, float]]  # pair of tasks → mean cosine, share below 0, count


@dataclass(frozen=True)
class Gain:
    """A task's score beside that of the best baseline, on the same examples."""

    split: str  # dev or test
    rows: int
    baseline: str
    baseline_score: float
    score: float
    low: float  # 95 % interval of the difference, over the examples
    high: float

    @property
    def difference(self) -> float:
        return self.score - self.baseline_score

    @property
    def verdict(self) -> str:
        """What the interval shows: better, worse or nothing."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else "no difference shown"


@dataclass(frozen=True)
class ResultRecord:
    """result.json: what a finished run achieved."""

    best_step: int | None
    best_score: float | None
    steps: int
    seconds: float
    threads: int
    scores: dict[str, Any]
    baselines: dict[str, Any]
    conflicts: dict[str, dict[str, float]]
    last_weights_sha256: str
    kept: list[RankedModel] = field(default_factory=list)
    stages: list[StageResult] = field(default_factory=list)  # empty if there is only one
    gains: dict[str, Gain] = field(default_factory=dict)  # by task, over the best baseline; empty without baselines
    metrics: MetricsMark | None = None  # all lines; None before 0.2

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        return value if self.stages else {key: item for key, item in value.items() if key != "stages"}

    @staticmethod
    def read(path: Path, *, needs_digest: bool = False) -> "ResultRecord":
        try:
            value, has_digest = read_json_with_digest(path)
            if needs_digest and not has_digest:
                raise ValueError("its digest is missing")
            known = {name: value[name] for name in ResultRecord.__dataclass_fields__ if name in value}
            kept = [RankedModel(**model) for model in known.pop("kept", ())]
            stages = [StageResult(**stage) for stage in known.pop("stages", ())]
            gains = {task: Gain(**gain) for task, gain in known.pop("gains", {}).items()}
            metrics = MetricsMark(**found) if (found := known.pop("metrics", None)) else None
            return ResultRecord(**{"conflicts": {}, **known}, kept=kept, stages=stages, gains=gains, metrics=metrics)
        except (ValueError, TypeError, AttributeError):
            raise RunError(f"{path}: damaged; delete it, then resume the run") from None


@dataclass(frozen=True)
class MetricsLine:
    """A line of metrics.jsonl."""

    kind: ClassVar[str]
    step: int
    stage: int | None  # None if there is only one

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        if self.stage is None:
            del value["stage"]
        return {"kind": self.kind, **value}


@dataclass(frozen=True)
class TrainLine(MetricsLine):
    """One step."""

    kind = "train"
    epoch: int
    loss: dict[str, float]  # by task


@dataclass(frozen=True)
class ConflictLine(MetricsLine):
    """The cosines between the tasks' gradients at one step."""

    kind = "conflict"
    cosines: dict[str, float | None]  # "first/second" → cosine


@dataclass(frozen=True)
class ScoresLine(MetricsLine):
    """One evaluation."""

    kind = "scores"
    epoch: int
    dev: dict[str, dict[str, float]]  # task → metric → value
    kept: dict[str, dict[str, float]]  # the same for tasks that the stage does not train
    recall: dict[str, dict[str, float | None]]  # task → class → recall on dev
    train: dict[str, dict[str, float]]  # on a sample of the training rows
    mean: float | None  # over the tasks, each by its own metric, on the rows that choose the best model
    choose: dict[str, dict[str, float]] = field(default_factory=dict)  # as dev, for tasks where other rows choose

    def to_json(self) -> dict[str, Any]:
        value = super().to_json()
        return value if self.choose else {key: item for key, item in value.items() if key != "choose"}


_LINES: Mapping[str, type[MetricsLine]] = {line.kind: line for line in (TrainLine, ConflictLine, ScoresLine)}
_FORMER_FIELDS = {"per_class": "recall"}


def parse_line(text: str | bytes) -> MetricsLine:
    """A line of metrics.jsonl; raises ValueError if it is damaged."""
    try:
        value = {_FORMER_FIELDS.get(key, key): item for key, item in json.loads(text).items()}
        line = _LINES[value.pop("kind")]
        return line(**{"stage": None, **value})
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a line of metrics.jsonl: {error}") from None
