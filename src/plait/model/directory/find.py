"""Where a plait model is: its directory, a run, or the hub."""

from pathlib import Path

from plait.encoder.find import SETTINGS, fetch, is_owner_and_name
from plait.errors import ModelError
from plait.files import read_json
from plait.names import path_inside

__all__ = ["COPY_AGAIN", "MANIFEST", "RECORD", "find_model"]

RECORD, MANIFEST = "plait.json", "manifest.json"
COPY_AGAIN = "copy the whole model directory again"


def find_model(source: str | Path) -> Path | None:
    """The directory of a plait model: `source` itself, the best model of a run, or OWNER/NAME on the hub.

    None for anything else. A model on the hub is downloaded, unless the hub's local cache has it.
    """
    for folder in (Path(source), Path(source) / "best"):
        if (folder / RECORD).is_file():
            return folder
    if (Path(source) / MANIFEST).is_file() and (Path(source) / "heads.safetensors").is_file():
        raise ModelError(f"{source}: {RECORD} is missing; {COPY_AGAIN}")
    if (Path(source) / "recipe.yaml").is_file():
        raise ModelError(f"{source}: this run has no model yet; resume it with plait train --resume {source}")
    return _fetch_model(str(source)) if _is_hub_name(source) else None


def _is_hub_name(source: str | Path) -> bool:
    """Whether this is OWNER/NAME, and not the path of something that is missing from a folder here."""
    path = Path(source)
    return is_owner_and_name(str(source)) and not path.exists() and not path.parent.exists()


def _fetch_model(name: str) -> Path | None:
    """A model on the hub with the files that its manifests name; None if it is a plain encoder."""
    folder = fetch(name, SETTINGS)
    if not (folder / RECORD).is_file():
        return None
    named = [
        (path.parent / file).relative_to(folder).as_posix()
        for path in folder.rglob(MANIFEST)  # the members of an ensemble and ONNX graphs have their own
        for file in _files_of(path)
        if path_inside(path.parent, file)
    ]
    return fetch(name, [*SETTINGS, *named])


def _files_of(manifest: Path) -> list[str]:
    try:
        return [*read_json(manifest)["sha256"]]
    except (OSError, ValueError, KeyError, TypeError):  # reported when the model is opened
        return []
