"""Put the tables and figures of results/ into docs/results.md, between the marks that each suite has there.

python scripts/papers_results.py

The tables are not kept with the results: `plait experiment … --table` writes them anew from the cells.
"""

import re
import shutil
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
AUTHOR = "written by scripts/papers_results.py"
PLACE = re.compile(rf"<!-- (?:table|end of) (\S+): {re.escape(AUTHOR)} -->")


def main(repo: Path = REPO) -> None:
    """Every suite that has a place in the page or a table."""
    path = repo / "docs" / "results.md"
    page = path.read_text(encoding="utf-8")
    names = sorted({*PLACE.findall(page), *(table.parent.name for table in repo.glob("results/*/table.md"))})
    for name in names:
        page = filled(page, name, table_of(repo, name))
    path.write_text(page, encoding="utf-8")
    for name in names:
        shutil.copy(repo / "results" / name / "figure.svg", repo / "docs" / f"{name}.svg")


def table_of(repo: Path, name: str) -> str:
    """The table of a suite; without it, or its figure, there is nothing to put in."""
    folder = repo / "results" / name
    for file in ("table.md", "figure.svg"):
        if not (folder / file).is_file():
            raise SystemExit(f"results/{name} has no {file}; write it with: {command_for(repo, name)}")
    return (folder / "table.md").read_text(encoding="utf-8").strip()


def command_for(repo: Path, name: str) -> str:
    """What writes the table of a folder that is named for its suite, or for its suite and profile."""
    suites = [file.parent.name for file in repo.glob("recipes/*/suite.yaml")]
    suite = max((suite for suite in suites if f"{name}-".startswith(f"{suite}-")), key=len, default="SUITE")
    profile = name.removeprefix(suite).removeprefix("-") if suite in suites else ""
    chosen = f" --profile {profile}" if profile else ""
    return f"plait experiment recipes/{suite}{chosen} --data DIR --out results/{name} --table"


def filled(page: str, name: str, table: str) -> str:
    """The page with a table and its figure between the marks of a suite."""
    begin, end = (f"<!-- {word} {name}: {AUTHOR} -->" for word in ("table", "end of"))
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"docs/results.md has no place for {name}; it needs one line {begin!r} and then one {end!r}")
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    picture = f"![The paper's figures and the measured ones]({name}.svg)"
    return f"{before}{begin}\n\n{table}\n\n{picture}\n\n{end}{after}"


if __name__ == "__main__":
    main()
