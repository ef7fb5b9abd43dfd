"""Classes that are probably the same one, spelt in two ways."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from plait.data.labels import as_number
from plait.recipe.yaml_quote import quoted

__all__ = ["similar_classes", "similar_note"]

_SHORTEST = 4  # letters; one letter more or less makes another word of a shorter one
_RARER = 3  # a typo occurs at most once for this many correct labels
_SHOWN = 12  # in a message


def similar_note(counts: Mapping[str, int]) -> str | None:
    """A sentence about classes that are probably typos, with the map that puts them together."""
    typos = similar_classes(counts)
    if not typos:
        return None
    shown = [f"{quoted(word)}: {quoted(meant)}" for word, meant in list(typos.items())[:_SHOWN]]
    rest = f", and {len(typos) - _SHOWN:,} more" if len(typos) > _SHOWN else ""
    return (
        f"{len(counts):,} classes, {len(counts) - len(typos):,} if these are typos; to put them together, write "
        f"map: {{{', '.join(shown)}{rest}}} in the label"
    )


def similar_classes(counts: Mapping[str, int]) -> dict[str, str]:
    """Each class that is probably a typo, and the class that it should be.

    Classes that differ by case, spaces, hyphens or underscores are the same. A rare class that differs by one letter,
    or by two letters that changed places, from a far more common one is the same.
    """
    groups: dict[str, list[str]] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        if as_number(word) is None and (key := re.sub(r"[\W_]+", "", word.casefold())):
            groups.setdefault(key, []).append(word)
    totals = {key: sum(counts[word] for word in words) for key, words in groups.items()}
    near = _near_words([key for key in groups if len(key) >= _SHORTEST])
    meant = {key: _more_common(near.get(key, ()), totals, _RARER * totals[key]) for key in groups}
    found: dict[str, str] = {}
    for key, (best, *others) in groups.items():
        target = key
        while (better := meant[target]) is not None:  # ends: each is more common than the one before
            target = better
        words = others if target == key else (best, *others)
        found |= dict.fromkeys(words, groups[target][0])
    return found


def _more_common(words: Iterable[str], totals: Mapping[str, int], least: int) -> str | None:
    """The most common of some words, if it occurs at least so often."""
    best = max(words, key=lambda word: (totals[word], word), default=None)
    return best if best is not None and totals[best] >= least else None


def _near_words(words: Sequence[str]) -> dict[str, set[str]]:
    """For each word those that are near it. Two such words become equal if at most one letter of each is left out."""
    shortened: dict[str, list[str]] = {}
    for word in words:
        for variant in {word, *(word[:place] + word[place + 1 :] for place in range(len(word)))}:
            shortened.setdefault(variant, []).append(word)
    near: dict[str, set[str]] = {}
    for alike in shortened.values():
        for one, other in itertools.permutations(alike, 2):
            if _is_near(one, other):
                near.setdefault(one, set()).add(other)
    return near


def _is_near(one: str, other: str) -> bool:
    """Whether two words differ by one letter, which is no digit, or by two adjacent letters that changed places."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    left, right = one[start : len(one) - end], other[start : len(other) - end]
    if not (left + right).isalpha():
        return False
    return max(len(left), len(right)) == 1 or (len(left) == 2 and left == right[::-1])
