"""Write a page with table and figures for each of results/*.jsonl, and the summary in docs/results.md.

python scripts/papers_results.py

A file is named after its suite, or its suite and profile; its page is docs/results/NAME.md. The data is not needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plait.cli.experiment import table_command
from plait.experiments.cells import Experiment
from plait.experiments.compare import suite_table
from plait.experiments.entries import SuiteTable
from plait.experiments.figures import draw_figures
from plait.experiments.results_file import ResultsFile
from plait.experiments.tables import as_markdown
from plait.recipe.suite import read_suite

REPO = Path(__file__).resolve().parent.parent
SEEDS = {  # tables with other seeds than their suite
    "best-of-bert-laptop": [11711, 2024],
    "minbert-downstream-laptop": [11711, 2024],
    "robust-embeddings-laptop": [11711, 2024],
    "triple-entropy-laptop": [2, 16],
}
CAPTIONS = {
    "figure": "The paper's figures and the measured ones",
    "groups": "The same by group of data sets",
    "curves": "Scores against the number of training rows",
}
LEVEL = 0.05  # of the corrected p, below which a gain holds
AUTHOR = "written by scripts/papers_results.py"
BEGIN, END = f"<!-- summary: {AUTHOR} -->", f"<!-- end of the summary: {AUTHOR} -->"


@dataclass(frozen=True)
class Question:
    """A finding of a paper, as a row of a table that is tested against another."""

    words: str
    table: str
    row: str
    column: str
    but: str = ""  # why the two rows do not answer it alone


BEST, MINBERT = "best-of-bert-laptop", "minbert-downstream-laptop"
ROBUST, TRIPLE = "robust-embeddings-laptop", "triple-entropy-laptop"
QUESTIONS = (
    Question("Cosine instead of the difference for STS?", BEST, "cosine", "sts"),
    Question("… in the mean over the tasks?", BEST, "cosine", "plain mean"),
    Question("Mean pooling instead of [CLS]?", BEST, "mean-pooling", "sts"),
    Question("The sum of all tasks' losses instead of turns?", BEST, "multi-task", "sts"),
    Question("Difference and product for Quora?", BEST, "concatenation", "quora"),
    Question("The absolute difference instead of the signed one?", BEST, "multi-task-absolute", "quora"),
    Question("Cosine of projections instead of a layer on both?", MINBERT, "dps-mse", "sts"),
    Question("InfoNCE at τ 0.007 instead of a layer on both?", MINBERT, "infonce", "sts"),
    Question("The average of five models?", MINBERT, "em", "sts"),
    Question(
        "Tasks in turns instead of one after the other?",
        ROBUST,
        "exp03",
        "mean",
        "165 updates at a constant rate against 99 at a falling one",
    ),
    Question("One after the other, with equal updates and rate?", ROBUST, "one-by-one", "mean"),
    Question("A shared layer?", ROBUST, "exp05", "mean"),
    Question("Gradient surgery?", ROBUST, "exp12", "mean", "the rows also differ in batch size and schedule"),
    Question("The mean of the gradients instead of surgery?", ROBUST, "exp12-mean", "mean"),
    Question("SimCSE first?", ROBUST, "exp15", "mean"),
    Question("SoftTriple on 1,000 rows of TREC?", TRIPLE, "trec-1k-te", "only"),
    Question("SoftTriple on 1,000 rows of CR?", TRIPLE, "cr-1k-te", "only"),
)


def main(repo: Path = REPO, questions: tuple[Question, ...] = QUESTIONS) -> None:
    for path, text in render(repo, questions).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def render(repo: Path, questions: tuple[Question, ...] = QUESTIONS) -> dict[Path, str]:
    """Every file that the script writes, and what it will hold."""
    folder, summary = repo / "docs" / "results", repo / "docs" / "results.md"
    tables: dict[str, SuiteTable] = {}
    found: dict[Path, str] = {}
    for name in sorted(file.stem for file in repo.glob("results/*.jsonl")):
        tables[name], command = read_table(repo, name)
        figures = draw_figures(tables[name])
        files = {kind: f"{name}.svg" if kind == "figure" else f"{name}-{kind}.svg" for kind in figures}
        found |= {folder / files[kind]: figure for kind, figure in figures.items()}
        found[folder / f"{name}.md"] = page_of(tables[name], command, files)
    page = summary.read_text(encoding="utf-8")
    return {**found, summary: fill(page, summary_of(tables, questions))}


def page_of(table: SuiteTable, command: str, figures: Mapping[str, str]) -> str:
    """A suite's own page."""
    pictures = [f"![{CAPTIONS[kind]}]({file})" for kind, file in figures.items()]
    text = as_markdown(table, command).strip().removeprefix("##")
    back = "What these figures say: [results.md](../results.md)."
    return "\n\n".join([f"<!-- {AUTHOR} -->", text, *pictures, back]) + "\n"


def summary_of(tables: Mapping[str, SuiteTable], questions: tuple[Question, ...]) -> str:
    """Every question with the paper's gain, the measured one and a verdict."""
    lines = ["| question | rows compared | paper | here | |", "|---|---|---|---|---|"]
    for question in questions:
        if question.table not in tables:
            continue
        table = tables[question.table]
        suite, rows = table.suite, {row.name: row for row in table.rows}
        opponent = suite.opponent(question.row)
        papers = [suite.rows[name].paper.get(question.column) for name in (question.row, opponent) if name]
        paper = _signed(papers[0] - papers[1]) if len(papers) == 2 and None not in papers else "–"  # type: ignore[operator]
        entry = rows[question.row].entries[question.column] if question.row in rows else None
        here, verdict = "–", "not run"
        if entry and entry.gain:
            gain, p = entry.gain, entry.p
            here, verdict = _signed(gain.mean), "not tested"
            if gain.low is not None and gain.high is not None and p is not None:
                here += f" [{_signed(gain.low)}, {_signed(gain.high)}], p {p:.3f}"
                verdict = "not shown" if p >= LEVEL else "holds" if gain.mean > 0 else "a loss"
        if question.but:
            verdict += f"; {question.but}"
        heading = table.columns[question.column]
        lines.append(f"| {question.words} | `{question.row}`, `{opponent}`: {heading} | {paper} | {here} | {verdict} |")
    return "\n".join(lines)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def read_table(repo: Path, name: str) -> tuple[SuiteTable, str]:
    """The table of a results file with all rows that have cells, and the command that fills it."""
    file = repo / "results" / f"{name}.jsonl"
    folder, profile = suite_of(repo, name)
    options: dict[str, object] = {"results": f"results/{name}.jsonl"}
    suite, results = read_suite(repo / folder), ResultsFile(file)
    seeds, rows = SEEDS.get(name, suite.seeds), [row for row in suite.trained if row in results.rows()]
    options["seeds"] = ",".join(map(str, seeds)) if name in SEEDS else None
    options["rows"] = ",".join(rows) if rows != suite.trained else None
    experiment = Experiment(suite, file.with_suffix(""), profile=profile, results=results)
    return suite_table(experiment, seeds, rows), table_command(folder, profile, options)


def suite_of(repo: Path, name: str) -> tuple[str, str | None]:
    """The folder of the suite, and the profile, that a results file is named after."""
    suites = [file.parent.name for file in repo.glob("recipes/*/suite.yaml")]
    suite = max((suite for suite in suites if f"{name}-".startswith(f"{suite}-")), key=len, default=None)
    if suite is None:
        raise SystemExit(f"{name}: is not named after a suite in recipes/: {', '.join(sorted(suites))}")
    return f"recipes/{suite}", name.removeprefix(suite).removeprefix("-") or None


def fill(page: str, summary: str) -> str:
    """The page with the summary between its marks."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise SystemExit(f"docs/results.md has no place for the summary; add the line {BEGIN!r}, and below it {END!r}")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{summary}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    main()
