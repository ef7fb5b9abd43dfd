"""A loss as the table of losses describes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Loss", "ScoreRange", "Takes"]

Takes = Literal["predictions", "teacher", "all", "positives", "anchors", "same", "label", "tokens"]
ScoreRange = tuple[float, float] | None  # of a score; None for other kinds of label


@dataclass(frozen=True)
class Loss:
    """A loss and what it takes.

    `predictions`: `function(outputs_BC, label_B, class_weights_C, label_smoothing, *, options)`.
    `teacher`: `function(outputs_BC, teacher_BC, link, *, options)`, with the outputs of another model for these rows.
    Embeddings: `function(*embeddings_BD, *, options)` on `all` rows, on the `positives` only, or on all rows with one
    more argument: whether each row is a positive (`same`), or its `label`. `anchors` puts whether each row is a
    positive after the first two embeddings; a third one, if there is one, follows.
    `tokens`: a module built by `function(classes, width, generator, *, options)` and called with the states of the
    tokens and the label of each.
    """

    function: Callable[..., Any]
    links: Mapping[str, str]  # kind of label it can learn from → link from outputs to predictions
    takes: Takes = "predictions"
    reads: tuple[str, ...] = ()  # of embeddings and tokens: ways to read the texts, at most one per number of texts
    problem: Callable[[str, Mapping[str, Any], ScoreRange], str | None] = lambda kind, options, score_range: None
    """Why its options do not suit a kind of label, if they do not."""
    implied_kind: Callable[[Mapping[str, Any]], str | None] = lambda options: None
    """The kind of label that its options ask for, if they ask for one."""

    @property
    def of_predictions(self) -> bool:
        """Whether it trains the head; all others train the encoder only."""
        return self.takes in ("predictions", "teacher")

    @property
    def needs_positives(self) -> bool:
        """Whether it must know which pairs are positives."""
        return self.takes in ("positives", "anchors", "same")

    @property
    def of_head_input(self) -> bool:
        """Whether it looks at the single input that the head reads, and so needs a head that reads one."""
        return self.takes in ("label", "tokens")
