"""Dividing rows into parts such that no text is in two of them."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Folds", "components", "k_folds", "normal_form", "split_off", "stratified_sample"]


@dataclass(frozen=True)
class Folds:
    """The rows of each fold, and the sizes of groups that were too large for a fold."""

    parts: list[list[int]]
    broken: list[int]


def normal_form(text: str) -> str:
    """Texts that differ only in case and white space count as equal."""
    return " ".join(text.casefold().split())


def components(texts: Sequence[Sequence[str]]) -> list[list[int]]:
    """Groups of rows that share a text, directly or through other rows; `texts` is given by column."""
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        while parent.setdefault(text, text) != text:
            parent[text] = parent[parent[text]]
            text = parent[text]
        return text

    rows = [[normal_form(text) for text in row] for row in zip(*texts, strict=True)]
    for row in rows:
        for other in row[1:]:
            parent[root(other)] = root(row[0])
    groups: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        groups[root(row[0])].append(number)
    return list(groups.values())


def split_off(
    texts: Sequence[Sequence[str]], labels: Sequence[str], shares: Sequence[float], seed: str
) -> list[list[int]]:
    """The rows of one part per share, then the remaining rows; no text is in two parts.

    Classes keep their proportions as far as whole groups of rows with shared texts allow; a class too rare for a share
    of its own gives one row to each part and keeps one.
    """
    groups = components(texts)
    random.Random(seed).shuffle(groups)
    total = Counter(labels)
    left = Counter(total)
    parts: list[list[int]] = []
    for share in shares:
        most = {label: count - 1 for label, count in left.items()}  # every class stays represented
        quota = {label: min(round(share * count), most[label]) for label, count in total.items()}
        rows = round(share * len(labels))
        rare = {label: min(most[label], 0 if quota[label] else 1) for label in quota}
        first, groups = _fill(groups, labels, rare, rows)
        part, groups = _fill(groups, labels, quota, rows - len(first))
        part = first + part
        taken = Counter(labels[row] for row in part)
        room = {label: count - taken[label] for label, count in most.items()}
        others, groups = _fill(groups, labels, room, rows - len(part))  # from classes too rare for a share of their own
        parts.append(sorted(part + others))
        left.subtract(labels[row] for row in parts[-1])
    return [*parts, sorted(row for group in groups for row in group)]


def _fill(
    groups: Sequence[list[int]], labels: Sequence[str], quota: Mapping[str, int], rows: int
) -> tuple[list[int], list[list[int]]]:
    """As many whole groups as fit into the quota of each label and into `rows`, and the groups that remain."""
    taken: Counter[str] = Counter()
    part: list[int] = []
    left = []
    for group in groups:
        counts = Counter(labels[row] for row in group)
        fits = all(taken[label] + count <= quota[label] for label, count in counts.items())
        if fits and len(part) + len(group) <= rows:
            taken += counts
            part += group
        else:
            left.append(group)
    return sorted(part), left


def stratified_sample(labels: Sequence[str], count: int, seed: str) -> list[int]:
    """`count` rows with every class in proportion, and with one row of each if there is room; at most all rows.

    With the same seed, a smaller sample is part of a larger one. Common classes come first.
    """
    rows = list(range(len(labels)))
    random.Random(seed).shuffle(rows)
    left: dict[str, list[int]] = defaultdict(list)
    for row in reversed(rows):
        left[labels[row]].append(row)
    total = {label: len(left[label]) for label in sorted(left, key=lambda label: (-len(left[label]), label))}
    sample: list[int] = []
    taken: Counter[str] = Counter()

    def take(label: str) -> None:
        sample.append(left[label].pop())
        taken[label] += 1

    for label in list(total)[:count]:
        take(label)
    while len(sample) < min(count, len(labels)):
        due = (len(sample) + 1) / len(labels)
        take(max((label for label in total if left[label]), key=lambda label: due * total[label] - taken[label]))
    return sorted(sample)


def k_folds(texts: Sequence[Sequence[str]], labels: Sequence[str], count: int, seed: str) -> Folds:
    """Every row in one of `count` folds of similar size, with rows that share a text in the same fold.

    If all texts differ, folds differ by at most one row, in total and per class. A group of rows with shared texts that
    is larger than a fold is broken up: then only rows with identical texts stay together, if they fit.
    """
    most = -(-len(labels) // count)
    groups: list[list[int]] = []
    broken: list[int] = []
    for group in components(texts):
        if len(group) <= most:
            groups.append(group)
        else:
            broken.append(len(group))
            groups += _smaller_groups(texts, group, most)
    random.Random(seed).shuffle(groups)
    groups.sort(key=lambda group: (-len(group), labels[group[0]]))  # large groups first, single rows class by class
    total = Counter(labels)
    parts: list[list[int]] = [[] for _ in range(count)]
    held: list[Counter[str]] = [Counter() for _ in range(count)]
    for group in groups:
        counts = Counter(labels[row] for row in group)

        def fullness(fold: int, counts: Counter[str] = counts) -> tuple[float, int]:
            return sum(held[fold][label] * n / total[label] for label, n in counts.items()), len(parts[fold])

        fold = min(range(count), key=fullness)
        parts[fold] += group
        held[fold] += counts
    return Folds([sorted(part) for part in parts], sorted(broken, reverse=True))


def _smaller_groups(texts: Sequence[Sequence[str]], group: Sequence[int], most: int) -> list[list[int]]:
    """The rows of a group by their texts, in any order; single rows if even those are too many."""
    alike: dict[frozenset[str], list[int]] = defaultdict(list)
    for row in group:
        alike[frozenset(normal_form(column[row]) for column in texts)].append(row)
    return [part for rows in alike.values() for part in ([rows] if len(rows) <= most else [[row] for row in rows])]
