"""Write the tables and figures of results/*.jsonl into docs/results.md, between the marks of each suite.

python scripts/papers_results.py

A file is named after its suite, or its suite and profile. The data is not needed.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from plait.cli.experiment import table_command
from plait.experiments.cells import Experiment
from plait.experiments.compare import compare
from plait.experiments.entries import SuiteTable
from plait.experiments.figure import draw_figure
from plait.experiments.groups import draw_groups
from plait.experiments.results_file import ResultsFile
from plait.experiments.tables import as_markdown, figure_marks
from plait.recipe.suite import read_suite

REPO = Path(__file__).resolve().parent.parent
SEEDS = {"triple-entropy-laptop": [2, 16]}  # tables with other seeds than their suite
_AUTHOR = "written by scripts/papers_results.py"
_MARK = re.compile(rf"<!-- (?:table|end of) (\S+): {re.escape(_AUTHOR)} -->")


def main(repo: Path = REPO) -> None:
    path = repo / "docs" / "results.md"
    page = path.read_text(encoding="utf-8")
    names = sorted({*_MARK.findall(page), *(file.stem for file in repo.glob("results/*.jsonl"))})
    figures = {}
    for name in names:
        table, command = read_table(repo, name)
        own = figures_of(name, table)
        page = fill(page, name, as_markdown(table, command).strip(), list(own))
        figures |= own
    path.write_text(page, encoding="utf-8")
    for file, figure in figures.items():
        (repo / "docs" / file).write_text(figure, encoding="utf-8")


def figures_of(name: str, table: SuiteTable) -> dict[str, str]:
    """The figures of a table by file: the table itself, and the gains by group if it has groups."""
    groups = {f"{name}-groups.svg": draw_groups(table)} if table.pooled else {}
    return {f"{name}.svg": draw_figure(table.suite.title, figure_marks(table)), **groups}


def read_table(repo: Path, name: str) -> tuple[SuiteTable, str]:
    """The table of a results file with all rows that have cells, and the command that fills it."""
    file = repo / "results" / f"{name}.jsonl"
    folder, profile = suite_of(repo, name)
    options: dict[str, object] = {"results": f"results/{name}.jsonl"}
    if not file.is_file():
        command = table_command(folder, profile, options)
        raise SystemExit(
            f"docs/results.md has a place for {name}, but no results/{name}.jsonl; make it with: {command}"
        )
    suite, results = read_suite(repo / folder), ResultsFile(file)
    seeds, rows = SEEDS.get(name, suite.seeds), [row for row in suite.trained if row in results.rows()]
    options["seeds"] = ",".join(map(str, seeds)) if name in SEEDS else None
    options["rows"] = ",".join(rows) if rows != suite.trained else None
    experiment = Experiment(suite, file.with_suffix(""), profile=profile, results=results)
    return compare(experiment, seeds, rows), table_command(folder, profile, options)


def suite_of(repo: Path, name: str) -> tuple[str, str | None]:
    """The folder of the suite, and the profile, that a results file is named after."""
    suites = [file.parent.name for file in repo.glob("recipes/*/suite.yaml")]
    suite = max((suite for suite in suites if f"{name}-".startswith(f"{suite}-")), key=len, default=None)
    if suite is None:
        raise SystemExit(f"{name}: is not named after a suite in recipes/: {', '.join(sorted(suites))}")
    return f"recipes/{suite}", name.removeprefix(suite).removeprefix("-") or None


def fill(page: str, name: str, table: str, figures: Sequence[str]) -> str:
    """The page with a table and its figures between the marks of a suite."""
    begin, end = (f"<!-- {word} {name}: {_AUTHOR} -->" for word in ("table", "end of"))
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"docs/results.md has no place for {name}; add the line {begin!r}, and below it {end!r}")
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    captions = ("The paper's figures and the measured ones", "The same by group of data sets")
    pictures = [f"![{caption}]({file})" for caption, file in zip(captions, figures, strict=False)]
    return "\n\n".join([f"{before}{begin}", table, *pictures, f"{end}{after}"])


if __name__ == "__main__":
    main()
