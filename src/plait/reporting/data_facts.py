"""What the data of a run looks like: sizes, balance, lengths, and what its splits and tasks share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait.data.examples import Examples
from plait.data.overlap import count_overlaps
from plait.data.partition import normal_form
from plait.model.tasks import TaskSpec
from plait.reporting.sampling import word_counts

__all__ = ["SplitFacts", "class_balance", "describe_splits", "histogram", "overlap_sentences"]

_BINS = 24


@dataclass(frozen=True)
class SplitFacts:
    """One split of a task in numbers."""

    task: str
    split: str
    rows: int
    repeated: int  # rows whose whole input occurred before
    words: float  # median of an example
    longest: int


def describe_splits(data: Mapping[str, Mapping[str, Examples]]) -> list[SplitFacts]:
    """Every split of every task in numbers."""
    found = []
    for task, splits in data.items():
        for split, examples in splits.items():
            if not len(examples):
                continue
            inputs = {tuple(map(normal_form, row)) for row in zip(*examples.texts, strict=True)}
            words_n = word_counts(examples.texts)
            repeated = len(examples) - len(inputs)
            found.append(
                SplitFacts(task, split, len(examples), repeated, float(np.median(words_n)), int(words_n.max()))
            )
    return found


def class_balance(spec: TaskSpec, splits: Mapping[str, Examples]) -> list[dict[str, Any]]:
    """The rows of each class in each split; empty for labels without classes."""
    found = []
    for split, examples in splits.items():
        counts = spec.labels.about.class_counts(examples.labels)
        if counts is None:
            continue
        padded = [*counts.tolist(), *[0] * (len(spec.labels.names) - len(counts))]
        for name, count in zip(spec.labels.names, padded, strict=True):
            found.append({"label": name, "split": split, "rows": count, "share": count / max(len(examples), 1)})
    return found


def histogram(values: Mapping[str, Sequence[float] | np.ndarray]) -> list[dict[str, Any]]:
    """Shares of each split in bins that all splits have in common; the last bin holds what is larger."""
    known = {split: np.asarray(part, dtype=float) for split, part in values.items() if len(part)}
    if not known:
        return []
    everything = np.concatenate(list(known.values()))
    low, high = float(everything.min()), float(np.quantile(everything, 0.99))
    width = (high - low) / _BINS or 1.0
    if (everything == everything.round()).all():
        width = max(1.0, float(np.ceil(width)))
    edges = np.arange(low, high + 1.5 * width, width)
    found = []
    for split, part in known.items():
        counts, _ = np.histogram(part.clip(low, edges[-1]), edges)
        shares = [*(counts / len(part)).tolist(), 0.0]  # the curve ends at 0
        found += [
            {"from": float(edge), "to": float(edge + width), "split": split, "share": share}
            for edge, share in zip(edges, shares, strict=True)
        ]
    return found


def overlap_sentences(specs: Mapping[str, TaskSpec], data: Mapping[str, Mapping[str, Examples]]) -> Iterator[str]:
    """What splits and tasks share, one sentence per finding."""
    whole = {task: splits for task, splits in data.items() if "train" in splits}
    symmetric = {task: specs[task].labels.about.symmetric for task in whole}
    yield from count_overlaps(whole, symmetric).sentences()
