"""Registration of heads, losses, schedules and metrics from other packages.

A package can also list its variants in the entry-point groups `plait.heads`, `plait.losses`, `plait.schedules` and
`plait.metrics`; then a recipe may use them without importing the package. An entry point refers to something that a
decorator below has registered under the same name, or to a Head class, a `Loss`, a `Schedule` or a `Metric`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from plait.data.batch import READS
from plait.data.kinds import KINDS
from plait.heads import HEADS, Head
from plait.losses import LOSSES, Loss
from plait.losses.loss import Takes
from plait.metrics import METRICS, Metric, MetricFunction
from plait.model.decode import LINKS
from plait.schedules import SCHEDULES, Schedule

__all__ = ["register_head", "register_loss", "register_metric", "register_schedule"]

_HeadClass = TypeVar("_HeadClass", bound=type[Head])
_Function = TypeVar("_Function", bound=Callable[..., Any])


def register_head(name: str) -> Callable[[_HeadClass], _HeadClass]:
    """Register a head under a name, which may carry a version: `@plait.register_head("product")`.

    The class derives from `plait.heads.Head`. Its keyword-only parameters are its options in a recipe.
    """

    def register(head: _HeadClass) -> _HeadClass:
        if not (isinstance(head, type) and issubclass(head, Head)):
            raise TypeError(f"the head {name!r} must be a class that derives from plait.heads.Head")
        if getattr(head, "reads", None) not in READS:
            raise ValueError(f"the head {name!r} must set `reads` to one of: {', '.join(READS)}")
        _check_names(f"the head {name!r}", "kinds of label", head.kinds, KINDS)
        HEADS.register(name, head, head.__module__)
        return head

    return register


def register_loss(
    name: str, *, links: Mapping[str, str], takes: Takes = "predictions", reads: Sequence[str] = ()
) -> Callable[[_Function], _Function]:
    """Register a loss under a name: `@plait.register_loss("huber", links={"score": "identity"})`.

    `links` maps each kind of label that it learns from to the link from outputs to predictions, a name in
    `plait.model.decode.LINKS`, or "" for unlabelled rows. `takes` and `reads` are those of `plait.losses.Loss`; a loss
    on predictions needs neither.
    """

    def register(function: _Function) -> _Function:
        _check_names(f"the loss {name!r}", "kinds of label", links, KINDS)
        _check_names(f"the loss {name!r}", "links", filter(None, links.values()), LINKS)
        _check_names(f"the loss {name!r}", "ways of reading", reads, READS)
        if (takes == "predictions") == bool(reads):
            raise ValueError(
                f"the loss {name!r}: a loss on embeddings or tokens needs `reads`, one on predictions none"
            )
        LOSSES.register(name, Loss(function, dict(links), takes, tuple(reads)), function.__module__)
        return function

    return register


def register_schedule(name: str, *, task_by_task: bool = False) -> Callable[[_Function], _Function]:
    """Register a schedule under a name: a function (batches, epochs, seed, *, options) → the steps of every epoch.

    With `task_by_task`, each task has its own epochs and the learning rate restarts for each task.
    """

    def register(function: _Function) -> _Function:
        SCHEDULES.register(name, Schedule(function, task_by_task), function.__module__)
        return function

    return register


def register_metric(name: str, *, kinds: Sequence[str]) -> Callable[[MetricFunction], MetricFunction]:
    """Register a metric for some kinds of label: a function (labels, predictions, probabilities) → one number.

    Higher is better. `probabilities` is None for scores.
    """

    def register(function: MetricFunction) -> MetricFunction:
        _check_names(f"the metric {name!r}", "kinds of label", kinds, KINDS)
        METRICS.register(name, Metric(dict.fromkeys(kinds, function)), function.__module__)
        return function

    return register


def _check_names(where: str, what: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    known = list(allowed)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{where} names unknown {what}: {', '.join(unknown)}; allowed: {', '.join(known)}")
