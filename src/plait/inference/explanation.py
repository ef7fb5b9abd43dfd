"""Which words a prediction depends on, by leaving out one word at a time.

No torch here: a server explains with answers that its workers computed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from plait.errors import RequestError, did_you_mean

__all__ = ["ExplainedWord", "Explanation", "explain_answers", "find_words", "variants"]

# Words with their inner hyphens and apostrophes, single Chinese and Japanese characters, runs of other signs.
_ALONE = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+(?:['’-][^\W{_ALONE}]+)*|[^\w\s]+")
_NOTHING = "."  # in place of a text whose only word is left out: there is no empty text


@dataclass(frozen=True)
class ExplainedWord:
    """A word of a text, where it stands, and what the answer loses without it."""

    word: str
    start: int  # its first character in the text
    end: int  # after its last
    weight: float


@dataclass(frozen=True)
class Explanation:
    """How much each word of an example matters for a task's answer.

    `score` is the probability of `label`, or the score of a task without labels (`label` is None). The weight of a word
    is what `score` loses if this word alone is left out: above zero it speaks for the answer, below zero against it.
    """

    task: str
    label: str | None
    score: float
    texts: tuple[str, ...]
    words: tuple[tuple[ExplainedWord, ...], ...]  # of each text
    truncated: bool = False  # words beyond the limit have no weight

    @property
    def strongest(self) -> list[tuple[int, ExplainedWord]]:
        """The words of all texts with the number of their text, from 0; the largest weights, of either sign, first."""
        every = [(side, word) for side, words in enumerate(self.words) for word in words]
        return sorted(every, key=lambda entry: -abs(entry[1].weight))


def find_words(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end."""
    return [found.span() for found in _WORD.finditer(text)]


def variants(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """The example itself, then without each of its words: those of the first text, of the second, and so on."""
    found = [tuple(texts)]
    for side, text in enumerate(texts):
        found += [(*texts[:side], _without(text, *span), *texts[side + 1 :]) for span in find_words(text)]
    return found


def _without(text: str, start: int, end: int) -> str:
    """A text without a word and without a second space in its place."""
    before, after = text[:start], text[end:]
    if not before or before[-1].isspace():
        after = after.lstrip()
    left = before + after
    return left if left.strip() else _NOTHING


def explain_answers(
    task: str, texts: Sequence[str], answers: Sequence[Mapping[str, Any]], label: str | None, *, truncated: bool = False
) -> Explanation:
    """The explanation from the predictions for all `variants`, with the keys of `Prediction`.

    Without a label, the one that was predicted is explained; of several, the most probable.
    """
    shares = answers[0]["probabilities"]
    if shares is None:
        if label is not None:
            raise RequestError(f"the argument `label`: the task {task!r} predicts a score; drop it")
        scores = [answer["score"] for answer in answers]
    else:
        if label is None:
            predicted = answers[0]["label"]
            label = predicted if isinstance(predicted, str) else max(shares, key=shares.__getitem__)
        elif label not in shares:
            hint = did_you_mean(label, shares)
            raise RequestError(f"the argument `label`: the task {task!r} has no {label!r}; {hint}")
        scores = [answer["probabilities"][label] for answer in answers]
    spans = [find_words(text) for text in texts]
    ends = [1]
    for found in spans:
        ends.append(ends[-1] + len(found))
    words = tuple(
        tuple(
            ExplainedWord(text[start:end], start, end, scores[0] - without)
            for (start, end), without in zip(found, scores[first:last], strict=True)
        )
        for text, found, (first, last) in zip(texts, spans, pairwise(ends), strict=True)
    )
    return Explanation(task, label, scores[0], tuple(texts), words, truncated)
