"""The gains of a method, pooled over groups of data sets such as those of one size."""

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from plait.experiments.entries import Entry, PooledGain, SuiteTable, TableRow
from plait.experiments.figure import Mark, draw_figure
from plait.experiments.statistics import pooled_difference
from plait.recipe.suite import Suite

__all__ = ["draw_groups", "group_marks", "pool_gains"]


@dataclass(frozen=True)
class _DataSet:
    """One column of a row, beside its opponent's."""

    method: str
    against: str
    group: str
    row: str
    ours: Entry
    theirs: Entry


def pool_gains(suite: Suite, rows: Sequence[TableRow], shown: Collection[str]) -> list[PooledGain]:
    """The gain of every method in every group, over the data sets where it was measured; of methods that are shown."""
    sets: dict[tuple[str, str, str], list[_DataSet]] = {}
    for found in _data_sets(suite, rows):
        sets.setdefault((found.method, found.against, found.group), []).append(found)
    order = list(suite.groups)
    pairs = list(dict.fromkeys((method, against) for method, against, _ in sets))
    keys = sorted(sets, key=lambda key: (pairs.index(key[:2]), order.index(key[2])))
    visible = {key[:2] for key in keys for found in sets[key] if found.row in shown}
    return [_pool(key, sets[key]) for key in keys if key[:2] in visible]


def _data_sets(suite: Suite, rows: Sequence[TableRow]) -> Iterator[_DataSet]:
    named: Mapping[str, TableRow] = {row.name: row for row in rows}
    for row in rows:
        keys = suite.rows[row.name]
        other = named.get(row.opponent or "")
        if other is None:
            continue
        for column in suite.scores:
            if group := keys.group or suite.score_groups.get(column):
                ours, theirs = row.entries[column], other.entries[column]
                against = suite.rows[other.name].method or other.name
                yield _DataSet(keys.method or row.name, against, group, row.name, ours, theirs)


def _pool(key: tuple[str, str, str], sets: Sequence[_DataSet]) -> PooledGain:
    measured = [(found, found.ours.gain) for found in sets if found.ours.gain]
    levels = [(found.ours.mean, found.theirs.mean) for found, _ in measured]
    compared = [found for found, _ in measured] or sets
    figures = [(found.ours.paper, found.theirs.paper) for found in compared]
    return PooledGain(
        *key,
        rows=tuple(dict.fromkeys(found.row for found in sets)),
        sets=len(measured),
        of=len(sets),
        gain=pooled_difference([gain for _, gain in measured]) if measured else None,
        levels=_means(levels),
        paper=_means(figures),
    )


def _means(pairs: Sequence[tuple[float | None, float | None]]) -> tuple[float, float] | None:
    """The mean of both sides over the data sets where both are known."""
    known = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
    if not known:
        return None
    return statistics.fmean(ours for ours, _ in known), statistics.fmean(theirs for _, theirs in known)


def group_marks(suite: Suite, pooled: Sequence[PooledGain]) -> list[Mark]:
    """The figure of the gains by group: a panel for each side's mean score, then one for each gain."""
    levels: dict[tuple[str, str], Mark] = {}
    for found in pooled:
        heading = suite.groups[found.group]
        for place, name in ((1, found.against), (0, found.method)):
            paper, measured = (side[place] if side else None for side in (found.paper, found.levels))
            levels.setdefault((name, heading), Mark(heading, name, paper, measured))
    gains = [
        Mark(
            suite.groups[found.group],
            f"{found.method} − {found.against}",
            found.paper_gain,
            *((found.gain.mean, found.gain.low, found.gain.high) if found.gain else ()),
        )
        for found in pooled
    ]
    headings = list(suite.groups.values())
    return sorted([*levels.values(), *gains], key=lambda mark: headings.index(mark.row))


def draw_groups(table: SuiteTable) -> str:
    """The SVG of the gains by group."""
    marks = group_marks(table.suite, table.pooled)
    return draw_figure(f"{table.suite.title}: gains by group", marks, "of the pooled gain")
