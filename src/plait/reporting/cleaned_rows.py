"""What `plait clean` found for a run: training rows whose label is probably wrong."""

import csv
from collections import defaultdict

from plait.reporting.page.blocks import Block, ExampleList, ShownExample, Tag
from plait.reporting.sampling import shorten_text
from plait.reporting.wording import place_words
from plait.runs.directory import RunDirectory

__all__ = ["cleaned_blocks"]

_SHOWN = 20  # rows of a task


def cleaned_blocks(run: RunDirectory) -> dict[str, list[Block]]:
    """A list of rows for each task that was cleaned; empty if none was."""
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    if run.label_errors.is_file():
        with run.label_errors.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                rows[row["task"]].append(row)
    return {
        task: [
            ExampleList(
                f"{len(own):,} training rows, found by plait clean; shown are the {min(_SHOWN, len(own))} worst.",
                [_example(row) for row in own[:_SHOWN]],
            )
        ]
        for task, own in rows.items()
    }


def _example(row: dict[str, str]) -> ShownExample:
    tags = [Tag("label", row["label"], "right"), Tag("predicted", row["predicted"], "wrong")]
    if row["probability"]:
        tags.append(Tag("confidence", f"{float(row['probability']):.0%}"))
    texts = tuple(shorten_text(row[name]) for name in ("text", "text2", "text3") if row.get(name))
    return ShownExample(texts, tuple(tags), place_words(row["where"]))
