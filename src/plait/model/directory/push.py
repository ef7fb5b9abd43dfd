"""`plait.push`: a model directory → the hub."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from plait.encoder.find import is_owner_and_name
from plait.errors import ExecutionError, ModelError, PlaitError, RequestError
from plait.files import read_json
from plait.model.card_metadata import published_card
from plait.model.directory.find import COPY_AGAIN, MANIFEST
from plait.model.directory.record import open_directory, verify_files

__all__ = ["Pushed", "push"]

_CARD = "README.md"
# Parts that an earlier model under this name may have had; those that the new one lacks are deleted.
_PARTS = ["onnx/*", "members/*", "2_Dense/*"]


@dataclass(frozen=True)
class Pushed:
    """A model that was uploaded."""

    url: str
    commit: str
    files: tuple[str, ...]


def push(model: str | Path, name: str, *, private: bool = False, message: str | None = None) -> Pushed:
    """Upload a model directory, or the best model of a run, to the hub as OWNER/NAME.

    The files are verified first. Only what the model consists of is uploaded, with its card; other files under that
    name stay. The repository is created if necessary, and must not be public with `private`. `message` is that of the
    commit. The token is that of HF_TOKEN or of `hf auth login`.
    """
    if not is_owner_and_name(name):
        raise RequestError(f"{name}: not a name on the hub; write it as OWNER/NAME")
    directory = open_directory(model)
    files = _files_of(directory.folder)
    with tempfile.TemporaryDirectory(prefix="plait-") as place:
        for file in files:
            target = Path(place) / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(directory.folder / file, target)
        if (card := Path(place) / _CARD).is_file():
            card.write_text(published_card(card.read_text(encoding="utf-8"), name), encoding="utf-8")
        tasks = ", ".join(directory.record.tasks) or "an encoder"
        url, commit = _upload(Path(place), name, private, message or f"plait model: {tasks}")
    return Pushed(url, commit, tuple(files))


def _files_of(folder: Path) -> list[str]:
    """The files that the manifests in a model directory name, once verified, and its cards."""
    files: list[str] = []
    for path in sorted(folder.rglob(MANIFEST)):  # the members of an ensemble and ONNX graphs have their own
        try:
            named: Mapping[str, str] = {**read_json(path)["sha256"]}
        except (OSError, ValueError, KeyError, TypeError):
            raise ModelError(f"{path}: missing or damaged; {COPY_AGAIN}") from None
        verify_files(path.parent, named)
        inside = path.parent.relative_to(folder)
        cards = [_CARD] if (path.parent / _CARD).is_file() else []
        files += ((inside / file).as_posix() for file in (*named, MANIFEST, *cards))
    return [*dict.fromkeys(files)]


def _upload(folder: Path, name: str, private: bool, message: str) -> tuple[str, str]:
    """Create the repository if it does not exist, and upload a folder; returns the address and the commit."""
    from huggingface_hub import HfApi  # slow to import, and rarely needed

    hub = HfApi()
    try:
        url = str(hub.create_repo(name, private=True if private else None, exist_ok=True))
        if private and not hub.model_info(name).private:
            raise RequestError(
                f"{name}: exists on the hub and is public; make it private in its settings, or choose another name"
            )
        with _bars_on_terminals_only():
            done = hub.upload_folder(
                repo_id=name, folder_path=folder, commit_message=message, delete_patterns=[*_PARTS]
            )
    except PlaitError:
        raise
    except Exception as error:  # the hub's client raises errors of several libraries
        raise ExecutionError(f"{name}: {_explain(error)}") from None
    return url, done.oid


@contextmanager
def _bars_on_terminals_only() -> Iterator[None]:
    """Without a terminal, the hub's client shows no progress bars."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if sys.stderr.isatty() or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _explain(error: Exception) -> str:
    """Why a model could not be uploaded, and what to do."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    if isinstance(error, RuntimeError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # it only says which file
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, HFValidationError):
        return f"not a valid name on the hub ({reason})"
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set; unset it and connect"
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status in (401, 403):
            return f"the hub refuses the upload ({status}); set HF_TOKEN to a token that may write there"
        return f"the hub failed ({status}); try again later"
    if isinstance(error, ValueError):  # of the card, which the hub checks
        return f"the hub refuses the model card ({reason}); correct its front matter"
    return f"the upload failed ({reason}); check the network and try again"
