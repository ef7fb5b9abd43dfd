"""Parts of a data set such that no text stands in two of them."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

__all__ = ["components", "normal_form", "split_off"]


def normal_form(text: str) -> str:
    """Texts that differ only in case and white space are one."""
    return " ".join(text.casefold().split())


def components(texts: Sequence[Sequence[str]]) -> list[list[int]]:
    """Rows that share a text, directly or over other rows, together; `texts` is given by column."""
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
    """The rows of each part: one for each share, then the rest; no text is in two parts.

    Classes keep their proportions as far as whole groups of rows that share a text allow.
    """
    groups = components(texts)
    random.Random(seed).shuffle(groups)
    total = Counter(labels)
    left = Counter(total)
    parts: list[list[int]] = []
    for share in shares:
        most = {label: count - 1 for label, count in left.items()}  # no class goes away whole
        quota = {label: min(round(share * count), most[label]) for label, count in total.items()}
        rows = round(share * len(labels))
        part, groups = fill(groups, labels, quota, rows)
        taken = Counter(labels[row] for row in part)
        room = {label: count - taken[label] for label, count in most.items()}
        others, groups = fill(groups, labels, room, rows - len(part))  # of classes too rare for a share of their own
        parts.append(sorted(part + others))
        left.subtract(labels[row] for row in parts[-1])
    return [*parts, sorted(row for group in groups for row in group)]


def fill(
    groups: Sequence[list[int]], labels: Sequence[str], quota: Mapping[str, int], rows: int
) -> tuple[list[int], list[list[int]]]:
    """As many whole groups as fit into the quota of each label and into so many rows, and the other groups."""
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
