"""Every registered loss with the options worth testing, on random inputs of the shapes it takes.

B rows, C outputs, D width.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from plait.data.batch import VIEWS
from plait.losses import LOSSES, Loss

SEEDS = range(20)
CLASSES, WIDTH = 3, 8
SCORE_RANGE = (0.0, 5.0)
# Loss → further options to test; the defaults are always tested. Few proxies are enough, and faster.
OPTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "binary_cross_entropy": [{"threshold": 3.0}],
    "info_nce": [
        {"denominator": "others"},
        {"negatives": "labelled"},
        {"denominator": "others", "hardest": 2},
    ],
    "distil": [{"temperature": 2.5}],
    "multiple_negatives": [{"similarity": "dot", "scale": 1.0}],
    "contrastive": [{"distance": "euclidean", "margin": 5.0}, {"distance": "cosine", "margin": 0.5}],
    "triplet": [{"margin": 1.0}, {"distance": "euclidean", "margin": 3.0}, {"distance": "cosine", "margin": 0.5}],
    "class_contrastive": [{"distance": "euclidean", "margin": 5.0}, {"distance": "cosine", "margin": 0.5}],
    "class_triplet": [
        {"negatives": "all"},
        {"negatives": "hardest", "distance": "cosine", "margin": 0.5},
        {"negatives": "semi_hard", "distance": "euclidean", "margin": 3.0},
    ],
    "soft_triple": [{"proxies": 4}, {"proxies": 4, "tau": 0.2}],
    "proxy_nca": [{"denominator": "all", "scale": 3.0}],
}


@dataclass(frozen=True)
class LossCase:
    """One loss with its options, for one kind of label or one way to read texts."""

    name: str
    options: Mapping[str, Any]
    kind: str  # of label
    sides: int = 0  # embeddings that it takes; 0: outputs or token states

    def __str__(self) -> str:
        options = ", ".join(f"{key} {value}" for key, value in self.options.items())
        taken = f"{self.sides} embeddings" if self.sides else "tokens" if self.loss.takes == "tokens" else self.kind
        return ", ".join([f"{self.name} on {taken}", *([options] if options else [])])

    @property
    def loss(self) -> Loss:
        return LOSSES[self.name]

    @property
    def depends_on_lengths(self) -> bool:
        """Whether the lengths of the inputs matter; otherwise only their directions do."""
        others = ("dot", "euclidean")
        return self.loss.of_predictions or any(value in others for value in self.options.values())

    def build(self, dtype: torch.dtype = torch.float32) -> Callable[..., Tensor]:
        """The loss as a function of its inputs and labels."""
        if self.loss.takes == "predictions":
            weigh_and_smooth = {"class_weights_C": None, "label_smoothing": 0.0}
            return partial(self.loss.function, **weigh_and_smooth, **self.options)
        if self.loss.takes == "teacher":
            return partial(self.loss.function, link=self.loss.links[self.kind], **self.options)
        if self.loss.takes == "tokens":
            module: torch.nn.Module = self.loss.function(CLASSES, WIDTH, generator(0), **self.options)
            return module.to(dtype)
        if self.loss.takes == "anchors" and self.sides == 3:
            return self._anchors_third
        return partial(self.loss.function, **self.options)

    def _anchors_third(self, first_BD: Tensor, second_BD: Tensor, third_BD: Tensor, anchor_B: Tensor) -> Tensor:
        return self.loss.function(first_BD, second_BD, anchor_B, third_BD, **self.options)

    def draw(self, seed: int, rows: int = 7, dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], list[Tensor]]:
        """Random inputs, and labels if it takes any."""
        source = generator(seed)
        if self.loss.of_predictions:
            outputs = CLASSES if self.kind in ("classes", "multilabel") else 1
            inputs = [3 * torch.randn(rows, outputs, generator=source)]
            if self.loss.takes == "teacher":
                return [inputs[0].to(dtype)], [3 * torch.randn(rows, outputs, generator=source).to(dtype)]
        else:
            inputs = list(torch.randn(max(self.sides, 1), rows, WIDTH, generator=source))
        labels = [] if self.loss.takes in ("all", "positives") else [self._labels(rows, source)]
        return [side.to(dtype) for side in inputs], labels

    def _labels(self, rows: int, source: torch.Generator) -> Tensor:
        if self.loss.takes in ("same", "anchors") or self.kind == "yes_no":
            return torch.randint(2, (rows,), generator=source)
        if self.kind == "multilabel":
            return torch.randint(2, (rows, CLASSES), generator=source)
        if self.kind == "score":
            return SCORE_RANGE[1] * torch.rand(rows, generator=source)
        return torch.randint(CLASSES, (rows,), generator=source)


def draw_sides(seed: int, rows: int = 5, width: int = WIDTH) -> tuple[Tensor, Tensor, Tensor]:
    """Random embeddings (B, D): anchors, positives, negatives."""
    anchor_BD, positive_BD, negative_BD = torch.randn(3, rows, width, generator=generator(seed))
    return anchor_BD, positive_BD, negative_BD


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def cases_of(name: str, loss: Loss) -> list[LossCase]:
    """The cases of one loss: every kind of label for predictions, every number of sides for embeddings."""
    found = []
    for options in ({}, *OPTIONS.get(name, ())):
        if loss.of_predictions:
            kinds = [kind for kind in loss.links if loss.problem(kind, options, SCORE_RANGE) is None]
            found += [LossCase(name, options, kind) for kind in kinds]
        elif loss.takes == "tokens":
            found.append(LossCase(name, options, "classes"))
        else:
            kind = "classes" if loss.takes == "label" else "yes_no"
            found += [LossCase(name, options, kind, sides) for sides in sorted({len(VIEWS[way]) for way in loss.reads})]
    return found


CASES = [case for name, loss in LOSSES.items() for case in cases_of(name, loss)]
EMBEDDING_CASES = [case for case in CASES if case.sides]
EMPTY_CASES = [case for case in CASES if not case.loss.of_predictions and not case.options.get("tau")]
