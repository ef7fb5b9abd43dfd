"""The data of a run as blocks of a page."""

from collections import Counter
from collections.abc import Iterator

from plait.reporting import charts as drawn
from plait.reporting.data_facts import class_balance, describe_splits, histogram, overlap_sentences
from plait.reporting.facts import RunFacts
from plait.reporting.page.blocks import Block, Chart, ChartGroup, Notes, PageTable
from plait.reporting.sampling import word_counts

__all__ = ["data_blocks"]

_CLASSES = 25  # that a chart shows


def data_blocks(facts: RunFacts, colours: dict[str, str]) -> Iterator[Block]:
    """Sizes, overlaps, balance and lengths."""
    rows = [
        [one.task, one.split, f"{one.rows:,}", f"{one.repeated:,}", f"{one.words:g}", f"{one.longest:,}"]
        for one in describe_splits(facts.data)
    ]
    yield PageTable(("task", "split", "rows", "repeated inputs", "median words", "longest"), rows)
    shared = list(overlap_sentences(facts.specs, facts.data))
    bad = facts.run.bad_rows
    skipped = (
        [f"{len(bad.read_bytes().splitlines()):,} bad rows were skipped; they are listed in {bad.name}"]
        if bad.is_file()
        else []
    )
    found = [f"{sentence}." for sentence in [*shared, *skipped]]
    yield Notes(found or ["No text is in two splits or in two tasks, and no input has two labels."])
    charts = []
    for task in facts.data:
        charts += list(_charts(facts, task, colours[task]))
    yield ChartGroup(charts)


def _charts(facts: RunFacts, task: str, colour: str) -> Iterator[Chart]:
    spec, splits = facts.specs[task], facts.data[task]
    balance = class_balance(spec, splits)
    words = histogram({split: word_counts(part.texts) for split, part in splits.items()})
    scores = histogram({split: part.labels for split, part in splits.items()}) if spec.labels.about.is_score else []
    if balance:
        common = Counter({row["label"]: 0 for row in balance})
        for row in balance:
            common[row["label"]] += row["rows"]
        named = {name for name, _ in common.most_common(_CLASSES)}
        names = [name for name in spec.labels.names if name in named]
        shown = [row for row in balance if row["label"] in named]
        more = f" The {_CLASSES} most common of {len(common)} classes." if len(named) < len(common) else ""
        caption = f"Splits with other shares make scores misleading.{more}"
        yield Chart(f"{task}: classes.", caption, lambda: drawn.data.draw_balance(shown, names, colour))
    if scores:
        caption = "How often each score occurs."
        yield Chart(f"{task}: scores.", caption, lambda: drawn.data.draw_histogram(scores, "score", colour))
    caption = "Words of an example."
    yield Chart(f"{task}: lengths.", caption, lambda: drawn.data.draw_histogram(words, "words", colour))
