"""Predictions as a request wants them: threshold, abstention and top classes, as in `inference/decision.py`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plait.serving.errors import ApiError

__all__ = ["Wishes", "relevance"]


@dataclass(frozen=True)
class Wishes:
    """What a request asks of the predictions of a task."""

    threshold: float | None = None
    abstain_below: float | None = None
    top_k: int | None = None

    def check(self, task: str, about: Mapping[str, Any]) -> None:
        """Refuse what the task cannot do; all mistakes at once."""
        if mistakes := list(self._mistakes(about)):
            raise ApiError(422, "invalid_request", f"the task {task!r}: {'; '.join(mistakes)}")

    def _mistakes(self, about: Mapping[str, Any]) -> Iterator[str]:
        is_score = about["labels"] is None
        if self.threshold is not None and about["threshold"] is None:
            yield "threshold is for yes/no and multilabel tasks" + ("" if is_score else "; use abstain_below")
        if self.abstain_below is not None and is_score:
            yield "abstain_below is for labels, not for scores"
        if self.abstain_below is not None and about["kind"] == "multilabel":
            yield "abstain_below is for tasks with one label; use threshold"
        if self.top_k is not None and is_score:
            yield "top_k is for classes, not for scores"

    def apply(self, prediction: dict[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
        """A prediction with the label by another threshold, or without it, and with the most probable classes only."""
        shares: dict[str, float] | None = prediction["probabilities"]
        below = about["abstain_below"] if self.abstain_below is None else self.abstain_below
        if shares is None or (self == Wishes() and below is None):
            return prediction
        label, score = prediction["label"], prediction["score"]
        if self.threshold is not None:
            label, score = _assign(about, shares, self.threshold)
        if below is not None and score < below:
            label = None
        if self.top_k is not None:
            shares = dict(sorted(shares.items(), key=lambda item: -item[1])[: self.top_k])
        return {"label": label, "score": score, "probabilities": shares}


def _assign(about: Mapping[str, Any], shares: Mapping[str, float], threshold: float) -> tuple[Any, float]:
    """The label or labels by a threshold, and the probability of the least certain one."""
    if about["kind"] == "multilabel":
        assigned = [name for name, share in shares.items() if share >= threshold]
        return assigned, min(share if share >= threshold else 1 - share for share in shares.values())
    no, yes = about["labels"]
    label = yes if shares[yes] >= threshold else no
    return label, shares[label]


def relevance(task: str, about: Mapping[str, Any]) -> str | None:
    """The class whose probability says how well a pair fits; None if the task predicts a score."""
    if about["texts"] != 2 or about["kind"] not in ("yes_no", "score"):
        raise ApiError(422, "invalid_request", f"task: {task!r} does not score pairs; choose a yes/no or score task")
    return about["labels"][1] if about["kind"] == "yes_no" else None
