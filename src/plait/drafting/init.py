"""`plait.init`: data files → a commented recipe, ready to train."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plait.drafting.draft import DraftTask, data_files, draft_recipe
from plait.drafting.yaml_text import write_draft
from plait.errors import RequestError

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
    force: bool = False,
) -> DraftedRecipe:
    """Inspect data files, or the data files of a folder, and write a recipe for them.

    Detects the text and label columns, the kind of each task and its splits. An existing recipe is only overwritten
    with `force`.
    """
    target = Path(out)
    if target.is_dir():
        raise RequestError(f"`out` {target}: is a folder; give the name of a file")
    if target.exists() and not force:
        raise RequestError(f"{target}: already exists; choose another `out`, or use `force` to overwrite it")
    if not target.resolve().parent.is_dir():
        raise RequestError(f"{target}: its folder does not exist")
    places = [files] if isinstance(files, str | Path) else files
    draft = draft_recipe(data_files([Path(place) for place in places]))
    bad = write_draft(draft, target, encoder)
    return DraftedRecipe(target, draft.tasks, draft.unused, bad)
