"""What a report looks at: at most some rows of each split, always the same ones."""

from collections.abc import Sequence

import numpy as np

from plait.data.examples import Examples

__all__ = ["REPORT_ROWS", "sample_examples", "sample_rows", "shorten_text", "word_counts"]

REPORT_ROWS = 1000  # of each task and split that are predicted
_LONGEST = 400  # letters of a text that are shown


def sample_rows(count: int, most: int) -> list[int]:
    """All rows, or an even sample of them in their order."""
    if count <= most:
        return list(range(count))
    return sorted(np.random.default_rng(0).choice(count, most, replace=False).tolist())


def sample_examples(examples: Examples, most: int) -> Examples:
    """All examples, or an even sample of them in their order."""
    return examples if len(examples) <= most else examples.chosen(sample_rows(len(examples), most))


def shorten_text(text: str, longest: int = _LONGEST) -> str:
    """A text as a page shows it."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def word_counts(texts: Sequence[Sequence[str]]) -> np.ndarray:
    """The number of words of each example (n,), over all its texts."""
    return np.array([sum(len(text.split()) for text in row) for row in zip(*texts, strict=True)], dtype=np.int64)
