"""The page of one run."""

import shlex
from collections.abc import Iterator

from plait.gradients.conflict import summarize
from plait.model.card import three_decimals
from plait.model.directory.record import portable
from plait.recipe.read import recipe_text
from plait.reporting import charts as drawn
from plait.reporting.cleaned_rows import cleaned_blocks
from plait.reporting.colours import task_colours
from plait.reporting.data_parts import data_blocks
from plait.reporting.embeddings import Embedder
from plait.reporting.facts import RunFacts
from plait.reporting.page.blocks import (
    Block,
    Card,
    Cards,
    Chart,
    ChartGroup,
    Code,
    Notes,
    Page,
    PageTable,
    Part,
    Section,
)
from plait.reporting.task_parts import map_chart, mistake_blocks, prediction_blocks
from plait.reporting.wording import interval_words, minutes, signed
from plait.runs.records import ConflictLine, Gain

__all__ = ["run_page"]


def run_page(facts: RunFacts) -> Page:
    """Everything about one run."""
    colours = task_colours(facts.tasks)
    sections = [
        Section(
            "Scores",
            "Dev scores of the best model with 95 % bootstrap intervals, beside baselines that cost no training.",
            list(_scores(facts, colours)),
        ),
        Section(
            "Training",
            "Losses and scores by step. The vertical line marks the best model, the dotted one the best baseline.",
            list(_training(facts, colours)),
        ),
    ]
    if facts.scored:
        sections.append(
            Section(
                "Predictions",
                "Where the best model is right and wrong, task by task.",
                [
                    Part(task, list(prediction_blocks(scored, colours[task])), colours[task])
                    for task, scored in facts.scored.items()
                ],
            )
        )
    if facts.scored and facts.model is not None:
        sections += _examples(facts, colours)
    if facts.data:
        sections.append(
            Section(
                "Data",
                "Rows, balance and lengths of each split, and what splits and tasks share.",
                list(data_blocks(facts, colours)),
            )
        )
    sections.append(
        Section("Do it again", "The recipe, the data and the versions that this run depends on.", _again(facts))
    )
    return Page(facts.name, _subtitle(facts), [one for one in sections if one.blocks], facts.notes)


def _subtitle(facts: RunFacts) -> str:
    parts = [
        f"encoder {portable(facts.run.record.recipe)['encoder']}",
        f"{len(facts.tasks)} task{'s' * (len(facts.tasks) != 1)}",
    ]
    if result := facts.result:
        best = f", best after {result.best_step:,}" if result.best_step is not None else ""
        threads = "1 thread" if result.threads == 1 else f"{result.threads} threads"
        parts += [f"{result.steps:,} steps{best}", f"{minutes(result.seconds)} with {threads}"]
    return " · ".join([*parts, f"plait {facts.run.record.plait}"])


def _scores(facts: RunFacts, colours: dict[str, str]) -> Iterator[Block]:
    """Cards, then the table with baselines."""
    cards = [_card(facts, task, colours[task]) for task in facts.specs if facts.value(task) is not None]
    if cards:
        yield Cards(cards)
    tasks, alone = list(facts.specs), facts.run.read_single_task_scores() or {}
    gains = facts.result.gains if facts.result else {}
    columns = {
        "task": tasks,
        "metric": [spec.metric for spec in facts.specs.values()],
        **{name: [three_decimals(found.get(task)) for task in tasks] for name, found in facts.baselines.items()},
        "single task": [three_decimals(alone.get(task)) for task in tasks],
        "plait": [three_decimals(facts.value(task)) for task in tasks],
        "95 % interval": [interval_words(facts.interval(task)) for task in tasks],
        "test": [three_decimals(facts.tested[task].scores.value if task in facts.tested else None) for task in tasks],
        "gain over the best baseline": [_gain_words(gains.get(task)) for task in tasks],
    }
    shown = {name: cells for name, cells in columns.items() if set(cells) != {"–"}}
    if tasks:
        yield PageTable(list(shown), list(zip(*shown.values(), strict=True)))
    if facts.single_task:
        yield from _together(facts, colours)


def _card(facts: RunFacts, task: str, colour: str) -> Card:
    """The headline of one task."""
    metric, scored, tested = facts.specs[task].metric, facts.scored.get(task), facts.tested.get(task)
    gain = facts.result.gains.get(task) if facts.result else None
    details = []
    if interval := facts.interval(task):
        details.append(f"95 % interval {interval_words(interval)}")
    if tested:
        details.append(f"test {three_decimals(tested.scores.value)} ({interval_words(tested.scores.interval)})")
    if gain:
        details.append(f"{signed(gain.difference)} over {gain.baseline} ({gain.split})")
    on = f"{metric} on {scored.rows:,} dev rows" if scored and scored.split == "dev" else f"{metric} on dev"
    verdict = gain.verdict if gain else ""
    return Card(task, three_decimals(facts.value(task)), on, tuple(details), verdict, colour)


def _gain_words(gain: Gain | None) -> str:
    return f"{signed(gain.difference)} ({signed(gain.low)} to {signed(gain.high)})" if gain else "–"


def _together(facts: RunFacts, colours: dict[str, str]) -> Iterator[Block]:
    """Whether training together helps: the gain of each task over its single-task model."""
    rows = [
        [
            one.task,
            f"{one.rows:,}",
            three_decimals(one.first),
            three_decimals(one.second),
            signed(one.difference),
            " to ".join(map(signed, one.interval)) if one.interval else "–",
            one.verdict,
        ]
        for one in facts.single_task
    ]
    names = ("task", "rows", "single task", "together", "gain", "95 % interval", "verdict")
    yield PageTable(names, rows, "Does training together help?")
    marks = [
        {
            "task": one.task,
            "run": one.task,
            "difference": one.difference,
            "low": one.interval[0],
            "high": one.interval[1],
        }
        for one in facts.single_task
        if one.interval
    ]
    if marks:
        caption = (
            "To the right of the line, training together is better; an interval that crosses it shows no difference."
        )
        tasks = [one.task for one in facts.single_task]
        shown = {task: colours[task] for task in tasks}
        title = "gain over single-task training"
        chart = Chart(
            "Together or alone.", caption, lambda: drawn.comparisons.draw_differences(marks, tasks, shown, title)
        )
        yield ChartGroup([chart], columns=1)


def _training(facts: RunFacts, colours: dict[str, str]) -> Iterator[Block]:
    """Learning curves, the schedule, gradient conflicts."""
    curves = facts.curves
    baselines = facts.baselines
    best = facts.result.best_step if facts.result else None
    charts: list[Chart] = []
    for task in facts.tasks:
        own = {name: found[task] for name, found in baselines.items() if found.get(task) is not None}
        charts += _task_curves(facts, task, colours[task], best, max(own.items(), key=lambda one: one[1], default=None))
    if charts:
        yield ChartGroup(charts)
    if curves.turns:
        stages = " Solid lines separate stages." if curves.stages else ""
        caption = f"Which task is trained when; dotted lines separate epochs.{stages}"
        marks = curves.turns, colours, curves.epochs, curves.stages
        yield ChartGroup([Chart("Schedule.", caption, lambda: drawn.training.draw_schedule(*marks))], columns=1)
    yield from _cosines(facts)


def _task_curves(
    facts: RunFacts, task: str, colour: str, best: int | None, baseline: tuple[str, float] | None
) -> Iterator[Chart]:
    """The loss and the scores of one task."""
    losses = [point for point in facts.curves.losses if point.task == task]
    scores = [point for point in facts.curves.scores if point.task == task]
    if losses:
        caption = "Of single steps, and smoothed."
        yield Chart(f"{task}: loss.", caption, lambda: drawn.training.draw_losses(losses, colour))
    if scores:
        metric, caption = facts.specs[task].metric, "Train far above dev means overfitting."
        marks = scores, metric, colour, best, baseline
        yield Chart(f"{task}: {metric}.", caption, lambda: drawn.training.draw_scores(*marks))


def _cosines(facts: RunFacts) -> Iterator[Block]:
    cosines = facts.curves.cosines
    if not cosines:
        if len(facts.tasks) > 1:
            yield Notes(["Gradient conflicts were not measured; set conflict_every: 10 in the recipe to see them."])
        return
    caption = "Above 0 two tasks pull the encoder in the same direction, below 0 they disagree."
    yield ChartGroup([Chart("Gradient cosines.", caption, lambda: drawn.training.draw_cosines(cosines))], columns=1)
    lines = (line.cosines for line in facts.run.metrics_lines() if isinstance(line, ConflictLine))
    rows = [
        [pair, signed(found["mean"]), f"{found['negative']:.0%}", f"{found['count']:,}"]
        for pair, found in summarize(lines).items()
    ]
    yield PageTable(("tasks", "mean cosine", "below 0", "steps measured"), rows)


def _examples(facts: RunFacts, colours: dict[str, str]) -> Iterator[Section]:
    """The sections about single rows: mistakes, label errors, the map."""
    assert facts.model is not None
    embedder = Embedder(facts.model)
    mistakes: list[Block] = []
    errors: list[Block] = []
    maps: list[Chart] = []
    cleaned = cleaned_blocks(facts.run)
    for task, scored in facts.scored.items():
        wrong, doubted = mistake_blocks(embedder, scored, facts.data.get(task, {}).get("train"))
        mistakes.append(Part(task, wrong, colours[task]))
        doubted += cleaned.get(task, [])
        if doubted:
            errors.append(Part(task, doubted, colours[task]))
        if chart := map_chart(embedder, scored, colours[task]):
            maps.append(chart)
    about = "The predictions that are most wrong, with the training examples that the encoder finds most similar."
    yield Section("Mistakes", about, mistakes)
    why = "Rows that the model never trained on and confidently answers differently. Some labels may be wrong."
    yield Section("Label errors", why, errors)
    what = "Embeddings in the two directions in which they differ most (PCA). Labels that form clusters are easy."
    yield Section("Map", what, [ChartGroup(maps, columns=min(2, len(maps)))] if maps else [])


def _again(facts: RunFacts) -> list[Block]:
    """The recipe, the command, versions and digests."""
    record = facts.run.record
    recipe = portable(record.recipe)
    command = ["plait", "train", "recipe.yaml", "--data", "DIR", "--threads", str(record.threads)]
    options = [("--no-baselines", not record.baselines), ("--single-task", record.single_task)]
    command += [name for name, given in options if given] + (["--keep", str(record.keep)] if record.keep else [])
    stages = record.data.get("stages", [record.data]) if record.data else []
    files = [
        [task, split, file["name"], f"{file['rows']:,}", str(file["sha256"])]
        for tasks in stages
        for task, splits in tasks.items()
        for split, listed in splits.items()
        for file in listed
    ]
    facts_rows = [["plait", record.plait], ["torch", record.torch], ["threads", str(record.threads)]]
    facts_rows += [["seed", str(recipe.get("seed", "–"))]]
    facts_rows += [[f"encoder: {name}", f"sha256 {digest}"] for name, digest in record.encoder.items()]
    if facts.result:
        facts_rows.append(["last weights", f"sha256 {facts.result.last_weights_sha256}"])
    return [
        Code("Command", shlex.join(command)),
        Code("recipe.yaml", recipe_text(recipe), closed=True),
        PageTable(("what", "value"), facts_rows, brief=False),
        PageTable(("task", "split", "file", "rows", "sha256"), files, "Data files", brief=False),
    ]
