"""Files that are truncated, missing, renamed, extra or replaced by a link, in everything that plait reads back."""

from collections.abc import Callable
from pathlib import Path

from faults.bench import Bench
from faults.damage import TREES, files_of, judge

__all__ = ["check", "count"]

ROW = "damaged_files"


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _extra(path: Path) -> None:
    path.with_name(f"{path.stem}-extra{path.suffix}").write_bytes(path.read_bytes())


def _link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _moved_behind_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


WAYS: dict[str, Callable[[Path], object]] = {
    "truncated to half": _half,
    "emptied": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
    "renamed": lambda path: path.rename(path.with_name("renamed")),
    "extra": _extra,
    "a link to itself": _link_to_itself,
    "behind a link": _moved_behind_link,
}


def _cases(bench: Bench) -> list[tuple[str, str, str]]:
    """Tree, file and what is done to it."""
    return [(tree, file, way) for tree in TREES for file in files_of(bench, tree) for way in WAYS]


def count(bench: Bench) -> int:
    return len(_cases(bench))


def check(bench: Bench, number: int) -> str:
    tree, file, way = _cases(bench)[number]

    def damage(folder: Path, files: list[Path]) -> Path:
        WAYS[way](folder / file)
        return folder / file

    problem = judge(bench, tree, ROW, number, damage)
    return problem and f"{way}: {problem}"
