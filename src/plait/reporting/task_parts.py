"""A task's predictions as blocks of a page: charts, mistakes with their neighbours, likely label errors."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from plait.data.examples import Examples
from plait.evaluation.details import find_details
from plait.evaluation.label_errors import SURE, find_label_errors
from plait.evaluation.mistakes import find_mistakes
from plait.model.card import three_decimals
from plait.model.decode import within_range
from plait.reporting import charts as drawn
from plait.reporting.diagnostics import by_length, reliability
from plait.reporting.embeddings import Embedder, Neighbour, draw_map, find_nearest
from plait.reporting.facts import ScoredSplit
from plait.reporting.page.blocks import Block, Chart, ChartGroup, ExampleList, Notes, PageTable, ShownExample, Spec, Tag
from plait.reporting.sampling import sample_rows, word_counts
from plait.reporting.wording import label_words, place_words, shown_texts, text_of

__all__ = ["map_chart", "mistake_blocks", "prediction_blocks"]

_MISTAKES = 8
_SUSPECTS = 6
_CLASSES = 25  # that a confusion matrix shows
_MAPPED = 600
_COLOURED = 8  # classes that have a colour of their own on the map
_OTHERS = "other classes"


def prediction_blocks(scored: ScoredSplit, colour: str) -> Iterator[Block]:
    """How a task's predictions compare with the labels."""
    spec, labels, predictions = scored.spec, scored.examples.labels, scored.predictions
    details = find_details(spec, labels, predictions)
    every = [f"{name} {three_decimals(value)}" for name, value in {**scored.scores.values, **details.errors}.items()]
    yield Notes([f"On {len(labels):,} {scored.split} rows: {', '.join(every)}."])
    charts: list[Chart] = []
    if spec.labels.about.is_score:
        charts.append(_scatter(scored, colour))
    if details.confusion:
        charts.append(_confusion(np.array(details.confusion), spec.labels.names, colour))
    if details.classes:
        by_size = sorted(details.classes.items(), key=lambda one: -one[1].support)[:_CLASSES]
        common = {name: found for name, found in details.classes.items() if name in dict(by_size)}
        caption = "A class that is far to the left is missed or over-used."
        charts.append(Chart("Scores per class.", caption, lambda: drawn.tasks.draw_classes(common, colour)))
    if bins := reliability(labels, predictions):
        error = f" Calibration error {details.errors['ece']:.3f}." if "ece" in details.errors else ""
        caption = f"Below the dashed line the model is too sure of itself.{error}"
        charts.append(Chart("Reliability.", caption, lambda: drawn.tasks.draw_reliability(bins, colour)))
    if lengths := by_length(spec, labels, predictions, word_counts(scored.examples.texts)):
        caption = "The score on shorter and longer texts, with 95 % intervals."
        charts.append(Chart("By length.", caption, lambda: drawn.tasks.draw_lengths(lengths, spec.metric, colour)))
    yield ChartGroup(charts)
    if details.classes:
        rows = [
            [name, f"{one.support:,}", *map(three_decimals, (one.precision, one.recall, one.f1))]
            for name, one in details.classes.items()
        ]
        yield PageTable(("class", "rows", "precision", "recall", "F1"), rows)


def _scatter(scored: ScoredSplit, colour: str) -> Chart:
    examples, labels = scored.examples, scored.spec.labels
    shown = within_range(scored.predictions, scored.spec).values

    def draw() -> Spec:
        rows = [
            {"true": float(examples.labels[row]), "predicted": float(shown[row]), "text": text_of(examples, row)}
            for row in range(len(examples))
        ]
        return _as_spec(drawn.tasks.draw_scatter(rows, labels.low, labels.high, colour))

    return Chart("Predicted against true.", "Points on the dashed line are exact.", draw)


def _confusion(counts_CC: np.ndarray, names: Sequence[str], colour: str) -> Chart:
    common = sorted(np.argsort(-counts_CC.sum(axis=1), kind="stable")[:_CLASSES].tolist())
    shown, kept = counts_CC[np.ix_(common, common)], [names[place] for place in common]
    more = f" The {_CLASSES} most common of {len(names)} classes." if len(names) > _CLASSES else ""
    caption = f"Rows are labels, columns predictions; darker is a larger share of the label.{more}"
    return Chart("Confusion matrix.", caption, lambda: drawn.tasks.draw_confusion(shown, kept, colour))


def map_chart(embedder: Embedder, scored: ScoredSplit, colour: str) -> Chart | None:
    """The map of a task's examples; None if there are too few."""
    spec, labels = scored.spec, scored.spec.labels
    chosen = sample_rows(len(scored.examples), _MAPPED)
    part = scored.examples.chosen(chosen)
    found = draw_map(embedder, part)
    if found is None:
        return None
    numeric = labels.about.is_score
    predicted = within_range(scored.predictions, spec).values
    right_n = scored.right_n

    def draw() -> Spec:
        rows = [
            {
                "x": round(float(found.points_n2[point, 0]), 4),
                "y": round(float(found.points_n2[point, 1]), 4),
                "label": float(part.labels[point]) if numeric else label_words(part.labels[point], labels),
                "predicted": round(float(predicted[row]), 2) if numeric else label_words(predicted[row], labels),
                "prediction": "" if numeric else "right" if right_n[row] else "wrong",
                "text": text_of(part, point),
            }
            for point, row in enumerate(chosen)
        ]
        if numeric:
            return _as_spec(drawn.tasks.draw_points(rows, None, found.shown, colour))
        common = [name for name, _ in Counter(str(row["label"]) for row in rows).most_common()]
        named = common if len(common) <= _COLOURED else common[: _COLOURED - 1]
        names = sorted(named, key=[*labels.names, *sorted(common)].index) + [_OTHERS] * (len(named) < len(common))
        coloured = [{**row, "colour": row["label"] if row["label"] in named else _OTHERS} for row in rows]
        return _as_spec(drawn.tasks.draw_points(coloured, names, found.shown, colour))

    pairs = "" if len(spec.text) == 1 else " A point is a pair, placed by how its two texts differ."
    crosses = "" if numeric else " Crosses are wrong predictions."
    many = f" {len(part):,} of {scored.rows:,} rows." if len(part) < scored.rows else ""
    return Chart(f"{spec.name}.", f"Colour is the label; point at one to read it.{crosses}{pairs}{many}", draw)


def _as_spec(drawing: Spec) -> Spec:
    """Charts load on first use, so their types are not known here."""
    return drawing


def mistake_blocks(embedder: Embedder, scored: ScoredSplit, train: Examples | None) -> tuple[list[Block], list[Block]]:
    """The worst mistakes, and the likely label errors, each with the nearest training examples."""
    spec, examples = scored.spec, scored.examples
    place = {(where, texts): row for row, (where, texts) in enumerate(_keys(examples))}
    found = find_mistakes(spec, examples, scored.predictions)
    found.sort(key=lambda mistake: -(mistake.probability if mistake.error is None else mistake.error))  # type: ignore[operator]
    worst = [place[mistake.where, mistake.texts] for mistake in found[:_MISTAKES]]
    suspects = find_label_errors(spec, examples.labels, scored.predictions, SURE)
    shown = suspects[:_SUSPECTS]
    rows = list(dict.fromkeys([*worst, *shown]))
    symmetric = spec.labels.about.symmetric
    nearest = find_nearest(embedder, examples, rows, train, symmetric=symmetric) if train is not None else {}

    def listed(chosen: Sequence[int]) -> list[ShownExample]:
        return [_example(scored, row, train, nearest.get(row, [])) for row in chosen]

    many = "1 mistake" if len(found) == 1 else f"{len(found):,} mistakes"
    count = "Errors of scores" if spec.labels.about.is_score else f"{many} in {len(examples):,} {scored.split} rows"
    mistakes: list[Block] = (
        [ExampleList(f"{count}; shown are the {len(worst)} worst.", listed(worst))]
        if worst
        else [Notes(["No mistakes on these rows."])]
    )
    caption = f"{len(suspects):,} of {len(examples):,} {scored.split} rows; shown are the {len(shown)} most suspicious."
    errors: list[Block] = [ExampleList(caption, listed(shown))] if shown else []
    return mistakes, errors


def _keys(examples: Examples) -> Iterator[tuple[str, tuple[str, ...]]]:
    return zip(examples.origins, zip(*examples.texts, strict=True), strict=True)


def _example(scored: ScoredSplit, row: int, train: Examples | None, nearest: Sequence[Neighbour]) -> ShownExample:
    """A row with its label, its prediction and its neighbours."""
    labels, predictions = scored.spec.labels, within_range(scored.predictions, scored.spec)
    tags = [
        Tag("label", label_words(scored.examples.labels[row], labels), "right"),
        Tag("predicted", label_words(predictions.values[row], labels), "wrong"),
    ]
    if predictions.probabilities is not None and predictions.values.ndim == 1:
        tags.append(Tag("confidence", f"{predictions.probabilities[row, int(predictions.values[row])]:.0%}"))
    near = (
        tuple(
            ShownExample(
                shown_texts(train, one.row),
                (Tag("label", label_words(train.labels[one.row], labels)), Tag("cosine", f"{one.similarity:.2f}")),
            )
            for one in nearest
        )
        if train is not None
        else ()
    )
    return ShownExample(shown_texts(scored.examples, row), tuple(tags), place_words(scored.examples.origins[row]), near)
