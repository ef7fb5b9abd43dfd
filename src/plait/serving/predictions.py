"""Predictions as a request wants them: its own threshold, only the most likely classes."""

from collections.abc import Mapping
from typing import Any

from plait.serving.errors import ApiError

__all__ = ["relevance", "shape_prediction", "validate_shape"]


def validate_shape(task: str, about: Mapping[str, Any], top_k: int | None, threshold: float | None) -> None:
    """Refuse options that make no sense for a task."""
    if about["labels"] is None and (top_k or threshold is not None):
        option = "top_k" if top_k else "threshold"
        raise ApiError(422, "invalid_request", f"{option}: the task {task!r} predicts a score, which has no classes")


def shape_prediction(
    prediction: dict[str, Any], about: Mapping[str, Any], top_k: int | None, threshold: float | None
) -> dict[str, Any]:
    """A prediction with labels by another threshold, and only its `top_k` most likely classes."""
    shares: dict[str, float] | None = prediction["probabilities"]
    if shares is None or (top_k is None and threshold is None):
        return prediction
    label, score = prediction["label"], prediction["score"]
    if threshold is not None:
        label, score = _assign(about, shares, label, score, threshold)
    if top_k is not None:
        shares = dict(sorted(shares.items(), key=lambda item: -item[1])[:top_k])
    return {"label": label, "score": score, "probabilities": shares}


def _assign(
    about: Mapping[str, Any], shares: Mapping[str, float], label: Any, score: float, threshold: float
) -> tuple[Any, float]:
    """The label by a threshold, and its probability."""
    if about["kind"] == "multilabel":
        assigned = [name for name, share in shares.items() if share >= threshold]
        return assigned, min(share if share >= threshold else 1 - share for share in shares.values())
    if about["kind"] == "yes_no":
        no, yes = about["labels"]
        label = yes if shares[yes] >= threshold else no
        return label, shares[label]
    return (label if shares[label] >= threshold else None), score


def relevance(task: str, about: Mapping[str, Any]) -> str | None:
    """The class whose probability says how well a pair fits; None if the task predicts a score."""
    if about["texts"] != 2 or about["kind"] not in ("yes_no", "score"):
        raise ApiError(422, "invalid_request", f"task: {task!r} does not score pairs; choose a yes/no or score task")
    return about["labels"][1] if about["kind"] == "yes_no" else None
