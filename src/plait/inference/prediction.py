"""What a task predicts for one example."""

from dataclasses import dataclass

__all__ = ["Prediction"]


@dataclass(frozen=True)
class Prediction:
    """What a task predicts for one example.

    `label` is the name of a class or of yes/no, a tuple of names for a multilabel task, None for scores and for
    abstentions. `score` is the probability of that label (of the least certain one if there are several, of the
    withheld one after an abstention), or the score in the task's own range. `probabilities` has one number per class,
    or with `top_k` those of the most probable classes, the highest first; None for scores. For a triplet, `label` says
    which text is closer to the first: second or third.
    """

    label: str | tuple[str, ...] | None
    score: float
    probabilities: dict[str, float] | None

    @property
    def abstained(self) -> bool:
        """Whether the label was withheld because its probability was below `abstain_below`."""
        return self.label is None and self.probabilities is not None
