"""The page of several runs: side by side, paired with the first, and the examples that changed."""

from collections.abc import Iterator, Mapping, Sequence

from plait.model.card import three_decimals
from plait.model.decode import within_range
from plait.reporting import charts as drawn
from plait.reporting.colours import task_colours
from plait.reporting.comparison import Change, PairedDifference, compare_predictions, correct_differences
from plait.reporting.facts import RunFacts
from plait.reporting.page.blocks import (
    Block,
    Card,
    Cards,
    Chart,
    ChartGroup,
    ExampleList,
    Notes,
    Page,
    PageTable,
    Part,
    Section,
    ShownExample,
    Tag,
)
from plait.reporting.wording import interval_words, label_words, minutes, place_words, shown_texts, signed
from plait.resolve.saved import recipe_differences

__all__ = ["comparison_page"]

_CHANGED = 6  # examples of each kind
_Differences = Mapping[str, Mapping[str, PairedDifference]]  # run → task → difference from the first run


def comparison_page(runs: Sequence[RunFacts]) -> Page:
    """Several runs beside each other; the first is what the others are compared with."""
    first, *others = runs
    tasks = list(dict.fromkeys(task for run in runs for task in run.specs))
    colours, of_runs = task_colours(tasks), task_colours([run.name for run in runs])
    differences = correct_differences({other.name: dict(_paired(first, other)) for other in others})
    skipped = [
        f"{task}: {other.name} and {first.name} share no predicted rows with equal labels, so they are not paired."
        for other in others
        for task in tasks
        if task in first.scored and task in other.scored and task not in differences[other.name]
    ]
    notes = [f"{run.name}: {note}" for run in runs for note in run.notes] + skipped
    sections = [
        Section(
            "Scores",
            f"Each run by each task's own metric. Differences are from {first.name}, on the same rows, with 95 % "
            "paired bootstrap intervals; what is better or worse is tested with a correction for several tests (Holm).",
            list(_scores(runs, tasks, differences, of_runs)),
        ),
        Section("Training", "Dev scores over the steps.", list(_curves(runs, tasks, of_runs))),
        Section(
            "Changed examples",
            f"Rows that another run gets right and {first.name} wrong, or the reverse.",
            [
                Part(f"{name}: {task}", list(_changed(first.name, name, found)), colours[task])
                for name, tasks_of in differences.items()
                for task, found in tasks_of.items()
                if found.changes
            ],
        ),
        Section("Settings", "What differs between the recipes.", list(_settings(runs))),
    ]
    title = " and ".join([", ".join(run.name for run in runs[:-1]), runs[-1].name])
    subtitle = f"{len(runs)} runs, {len(tasks)} tasks; compared with {first.name}"
    return Page(title, subtitle, [section for section in sections if section.blocks], notes)


def _paired(first: RunFacts, other: RunFacts) -> Iterator[tuple[str, PairedDifference]]:
    for task, scored in first.scored.items():
        if task in other.scored and (found := compare_predictions(scored, other.scored[task])):
            yield task, found


def _scores(
    runs: Sequence[RunFacts], tasks: Sequence[str], differences: _Differences, colours: dict[str, str]
) -> Iterator[Block]:
    cards = [
        Card(
            f"{name}: {task}",
            signed(found.compared.difference),
            f"{found.first.spec.metric} on {found.compared.rows:,} {found.first.split} rows",
            (f"95 % interval {_signed_interval(found)}",),
            found.compared.verdict,
            colours[name],
        )
        for name, tasks_of in differences.items()
        for task, found in tasks_of.items()
    ]
    if cards:
        yield Cards(cards)
    metrics = {task: spec.metric for run in reversed(runs) for task, spec in run.specs.items()}
    rows = []
    for task in tasks:
        row = [task, metrics[task]]
        for run in runs:
            known = task in run.specs
            value, interval = (run.value(task), run.interval(task)) if known else (None, None)
            row.append(f"{three_decimals(value)} ({interval_words(interval)})" if interval else three_decimals(value))
        for tasks_of in differences.values():
            found = tasks_of.get(task)
            row.append(
                f"{signed(found.compared.difference)} ({_signed_interval(found)}), {found.compared.verdict}"
                if found
                else "–"
            )
        rows.append(row)
    gains = [f"{name} − {runs[0].name}" for name in differences]
    yield PageTable(("task", "metric", *(run.name for run in runs), *gains), rows)
    marks = [
        {
            "task": task,
            "run": name,
            "difference": found.compared.difference,
            "low": found.compared.interval[0],
            "high": found.compared.interval[1],
        }
        for name, tasks_of in differences.items()
        for task, found in tasks_of.items()
        if found.compared.interval
    ]
    if marks:
        caption = (
            "To the right of the line a run is better than the first; an interval that crosses it shows no difference."
        )
        shown = {name: colours[name] for name in differences}
        chart = Chart("Paired differences.", caption, lambda: drawn.comparisons.draw_differences(marks, tasks, shown))
        yield ChartGroup([chart], columns=1)


def _signed_interval(found: PairedDifference) -> str:
    return " to ".join(map(signed, found.compared.interval)) if found.compared.interval else "–"


def _curves(runs: Sequence[RunFacts], tasks: Sequence[str], colours: dict[str, str]) -> Iterator[Block]:
    charts = []
    for task in tasks:
        points = [
            {"run": run.name, "step": point.step, "score": point.value}
            for run in runs
            for point in run.curves.scores
            if point.task == task and point.of == "dev"
        ]
        metric = next(run.specs[task].metric for run in runs if task in run.specs)
        if points:
            charts.append(_curve_chart(task, metric, points, colours))
    if charts:
        yield ChartGroup(charts)
    rows = [
        [
            run.name,
            f"{run.result.steps:,}" if run.result else "–",
            f"{run.result.best_step:,}" if run.result and run.result.best_step is not None else "–",
            minutes(run.result.seconds) if run.result else "–",
            str(run.run.record.recipe.get("seed", "–")),
        ]
        for run in runs
    ]
    yield PageTable(("run", "steps", "best step", "time", "seed"), rows)


def _curve_chart(task: str, metric: str, points: list[dict[str, object]], colours: dict[str, str]) -> Chart:
    return Chart(f"{task}.", f"{metric} on dev.", lambda: drawn.comparisons.draw_run_curves(points, metric, colours))


def _changed(first: str, second: str, found: PairedDifference) -> Iterator[Block]:
    """The examples that became better, then those that became worse."""
    score = found.first.spec.labels.about.is_score
    for better in (True, False):
        changes = [change for change in found.changes if change.better is better]
        if not changes:
            continue
        what = "nearer to the label" if better else "farther from the label"
        if not score:
            what = f"right in {second}, wrong in {first}" if better else f"wrong in {second}, right in {first}"
        shown = changes[:_CHANGED]
        caption = f"{len(changes):,} of {found.compared.rows:,} rows are {what}; shown are {len(shown)}."
        yield ExampleList(caption, [_example(first, second, found, change) for change in shown])


def _example(first: str, second: str, found: PairedDifference, change: Change) -> ShownExample:
    spec = found.first.spec
    before, after = (within_range(side.predictions, spec).values for side in (found.first, found.second))
    tags = (
        Tag("label", label_words(found.first.examples.labels[change.row], spec.labels)),
        Tag(first, label_words(before[change.row], spec.labels), "wrong" if change.better else "right"),
        Tag(second, label_words(after[change.other], spec.labels), "right" if change.better else "wrong"),
    )
    examples = found.first.examples
    return ShownExample(shown_texts(examples, change.row), tags, place_words(examples.origins[change.row]))


def _settings(runs: Sequence[RunFacts]) -> Iterator[Block]:
    first, *others = runs
    for other in others:
        changed = recipe_differences(first.run.record.recipe, other.run.record.recipe)
        rows = [[key, *(value.split(" → ", 1))] for key, value in (line.split(": ", 1) for line in changed)]
        if rows:
            yield PageTable(("key", first.name, other.name), rows, f"{other.name} beside {first.name}")
        else:
            yield Notes([f"{other.name} has the recipe of {first.name}."])
