"""The table of a suite, from its results file or from the folder of an experiment."""

from pathlib import Path
from typing import Any

from plait.errors import RequestError
from plait.experiments.cells import Experiment
from plait.experiments.compare import suite_table
from plait.experiments.results_file import ResultsFile
from plait.experiments.tables import as_json
from plait.files import read_json
from plait.recipe.bundled import BUNDLED
from plait.recipe.suite import is_suite, read_suite

__all__ = ["TABLE_NAME", "read_table"]

TABLE_NAME = "table.json"  # in the folder of an experiment


def read_table(source: Path, suite: str | None, profile: str | None) -> dict[str, Any]:
    """The table as table.json has it.

    A results file is read with its suite: the one given, or the bundled one that the file is named after, as
    SUITE.jsonl or SUITE-PROFILE.jsonl.
    """
    if source.is_dir():
        try:
            return {**read_json(source / TABLE_NAME)}
        except (OSError, ValueError):
            raise RequestError(
                f"{source / TABLE_NAME}: damaged; write it again with plait experiment --table"
            ) from None
    named, of_name = _named_after(source.stem)
    chosen = Path(suite) if suite else named
    if chosen is None or not is_suite(chosen):
        raise RequestError(f"{source}: which suite is it of? Give its folder or name with `suite`")
    results = ResultsFile(source)
    read = read_suite(chosen)
    seeds = results.seeds()
    if not seeds:
        raise RequestError(f"{source}: contains no cells; plait experiment --results {source} adds them")
    used = profile if suite or profile else of_name
    experiment = Experiment(read, source.parent / f"{source.stem}-runs", profile=used, results=results)
    return as_json(suite_table(experiment, seeds, read.trained))


def _named_after(stem: str) -> tuple[Path | None, str | None]:
    """The bundled suite and the profile in the name of a results file."""
    names = sorted((folder.name for folder in BUNDLED.iterdir() if is_suite(folder)), key=len, reverse=True)
    for name in names:
        if stem == name or stem.startswith(f"{name}-"):
            return Path(name), stem.removeprefix(name).removeprefix("-") or None
    return None, None
