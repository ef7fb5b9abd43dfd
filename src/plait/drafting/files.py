"""Which of the given files and folders hold data, and why the others do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plait.data.read import FORMAT_NAMES, format_of
from plait.errors import RequestError

__all__ = ["DataFiles", "data_files", "unused_sentences"]

_SPREADSHEETS = (".xls", ".xlsm", ".ods", ".numbers")
_ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar")
_SHOWN = 5  # files that one line names; the others are only counted


@dataclass(frozen=True)
class DataFiles:
    """Files to inspect."""

    files: list[Path]
    named: frozenset[Path] = frozenset()  # those that were given, rather than found in a folder
    unused: dict[str, str] = field(default_factory=dict)  # file or folder → why it is left out


def data_files(places: Sequence[Path], *, recursive: bool = False) -> DataFiles:
    """The given files, and the data files in the given folders; in their sub-folders only if `recursive`."""
    mistakes: list[str] = []
    found: list[Path] = []
    named: list[Path] = []
    unused: dict[str, str] = {}
    for place in places:
        if place.is_dir():
            inside = _inside(place, recursive, unused, set())
            if not inside:
                unused.setdefault(str(place), f"contains no data files; plait reads {FORMAT_NAMES}")
            found += inside
        elif place.is_file():
            found.append(place)
            named.append(place)
        elif str(place).startswith("hub:"):
            mistakes.append(
                f"{place}: init reads only local files; download the dataset, or write a recipe that names it"
            )
        else:
            mistakes.append(f"{place}: no such file or folder; check the path")
    if mistakes:
        raise RequestError(*mistakes)
    if not found:
        raise RequestError(*(f"{file}: {why}" for file, why in unused.items()))
    return DataFiles(list(dict.fromkeys(found)), frozenset(named), unused)


def _inside(folder: Path, recursive: bool, unused: dict[str, str], seen: set[Path]) -> list[Path]:
    """The data files in a folder; adds the reason for leaving out any other to `unused`. Hidden ones are ignored."""
    seen.add(folder.resolve())
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        unused[str(folder)] = f"cannot be read: {error.strerror or error}"
        return []
    found: list[Path] = []
    for path in entries:
        if path.is_dir():
            if (path / "run.json").is_file() or (path / "plait.json").is_file():
                unused[str(path)] = "a run or a model of plait"
            elif not recursive:
                unused[str(path)] = "a sub-folder; --recursive goes into it"
            elif path.resolve() not in seen:  # links may form a circle
                found += _inside(path, recursive, unused, seen)
        elif format_of(path) and path.is_file():
            found.append(path)
        else:
            unused[str(path)] = _why_no_data(path)
    return found


def _why_no_data(path: Path) -> str:
    """Why a file cannot be read as data, by its name."""
    suffix = path.suffix.lower()
    if not path.is_file():
        return "not a regular file, or a broken link"
    if suffix in _SPREADSHEETS:
        return "a spreadsheet that plait cannot read; save it as .xlsx or .csv"
    if suffix in _ARCHIVES:
        return "an archive; unpack it"
    if suffix in (".txt", ".dat", ""):
        return "plain text; if it is a table, rename it to .csv, or to .tsv if its columns are separated by tabs"
    return f"not a data file; plait reads {FORMAT_NAMES}"


def unused_sentences(unused: Mapping[str, str]) -> list[str]:
    """One sentence for each reason, with the files that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for file, why in unused.items():
        by_reason.setdefault(why, []).append(file)
    sentences = []
    for why, files in by_reason.items():
        rest = f" and {len(files) - _SHOWN:,} more" if len(files) > _SHOWN else ""
        sentences.append(f"{', '.join(files[:_SHOWN])}{rest} {'is' if len(files) == 1 else 'are'} not used: {why}")
    return sentences
