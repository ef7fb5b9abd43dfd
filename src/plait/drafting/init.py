"""`plait.init`: data files → a commented recipe, ready to train."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plait.drafting.draft import DraftTask, draft_recipe
from plait.drafting.files import data_files
from plait.drafting.guess import GivenColumns
from plait.drafting.yaml_text import write_draft
from plait.errors import RequestError
from plait.recipe.normalize import known_encoding

__all__ = ["DraftedRecipe", "init"]


@dataclass(frozen=True)
class DraftedRecipe:
    """A recipe that was written, and what it says."""

    file: Path
    tasks: list[DraftTask]
    unused: dict[str, str]  # file → why
    bad_rows: int  # which the recipe skips


def init(
    files: str | Path | Sequence[str | Path],
    out: str | Path = "recipe.yaml",
    *,
    encoder: str = "minilm",
    text_columns: str | Sequence[str] = (),
    label_column: str | None = None,
    encoding: str = "utf-8",
    recursive: bool = False,
    force: bool = False,
) -> DraftedRecipe:
    """Inspect data files, or the data files of a folder, and write a recipe for them.

    Detects the text and label columns, unless they are given, the kind of each task and its splits. Goes into
    sub-folders if `recursive`. An existing recipe is only overwritten with `force`.
    """
    target = Path(out)
    if target.is_dir():
        raise RequestError(f"`out` {target}: is a folder; give the name of a file")
    if target.exists() and not force:
        raise RequestError(f"{target}: already exists; choose another `out`, or use `force` to overwrite it")
    if not target.resolve().parent.is_dir():
        raise RequestError(f"{target}: its folder does not exist")
    columns = (text_columns,) if isinstance(text_columns, str) else tuple(text_columns)
    if len(columns) > (3 if label_column is None else 2):
        raise RequestError(
            f"`text_columns`: {len(columns)} columns; a task has one text, a pair, or a triplet, which has no "
            "`label_column`"
        )
    if double := next((name for name in columns if (*columns, label_column).count(name) > 1), None):
        raise RequestError(f"`text_columns` {double}: the column is given twice; each column has one role")
    known = known_encoding(encoding)
    places = [Path(place) for place in ([files] if isinstance(files, str | Path) else files)]
    draft = draft_recipe(data_files(places, recursive=recursive), GivenColumns(columns, label_column), known)
    bad = write_draft(draft, target, encoder)
    return DraftedRecipe(target, draft.tasks, draft.unused, bad)
