"""Pickled checkpoints → safetensors, in a process of its own: `python -m plait.encoder.unpickle OUT FILE…`

A pickle is a program. torch's safe loading runs only the parts that build tensors and plain containers and refuses
everything else; nothing but this module ever opens a pickle. The outcome is printed as one line of JSON.
"""

import json
import pickle
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from plait.errors import EncoderError

_WRAPPERS = ("model", "state_dict", "model_state_dict")  # keys under which training scripts store the weights
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_DAMAGED = "is damaged or truncated"


def _main() -> None:
    """Write the tensors of FILE… to OUT; print what else the files contain, or why nothing was written."""
    out, *files = map(Path, sys.argv[1:])
    tensors: dict[str, Tensor] = {}
    others: dict[str, str] = {}
    try:
        for file in files:
            for name, value in _find_state(_load_safely(file), file).items():
                if _is_weight(value):
                    tensors[_printable(name)] = value
                else:
                    others[_printable(name)] = _describe(value)
    except EncoderError as error:
        print(json.dumps({"mistakes": error.mistakes, "others": {}}))
        return
    # safetensors accepts neither tensors that share memory nor tensors with gaps in it.
    save_file(
        {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}, out
    )
    print(json.dumps({"mistakes": [], "others": others}))


def _load_safely(file: Path) -> Any:
    """The content of a file, which must consist of tensors and plain containers."""
    try:
        return torch.load(str(file), map_location="cpu", weights_only=True, mmap=_is_mappable(file))
    except EncoderError:
        raise
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        unknown = "is damaged or was not written by torch.save"
        raise _refusal(file, f"holds more than tensors ({named[1]})" if named else unknown) from None
    except Exception as error:  # bytes that are no pickle fail in many ways
        reason = _printable((str(error) or type(error).__name__).splitlines()[0].strip())
        if isinstance(error, MemoryError) or re.search("(not enough|can't allocate) memory", reason):
            raise
        if "weights_only" in reason:  # the two old formats that torch cannot read safely
            what = "a TorchScript program" if zipfile.is_zipfile(file) else "pickles in a tar"
            raise _refusal(file, f"holds more than tensors ({what})") from None
        raise EncoderError(f"{file}: {_DAMAGED} ({reason}); copy or download it again") from None


def _refusal(file: Path, what: str) -> EncoderError:
    """The error about a file that cannot be read without trusting it."""
    return EncoderError(
        f"{file}: {what}; reading it would run code from the file, which plait never does; where it was made, save "
        "only its weights, torch.save(model.state_dict(), 'weights.pt'), and convert those"
    )


def _is_mappable(file: Path) -> bool:
    """Whether the file can be memory-mapped: torch.save's zip format since 2020, not compressed."""
    with file.open("rb") as opened:
        if opened.read(4) != b"PK\x03\x04":
            return False
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile:
        raise EncoderError(f"{file}: {_DAMAGED} (its end is missing); copy or download it again") from None
    if not any(entry.filename.endswith("/data.pkl") for entry in entries):
        raise EncoderError(f"{file}: is a zip file that torch.save did not write")
    return all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)


def _find_state(content: Any, file: Path) -> Mapping[Any, Any]:
    """The state dict in a file: the whole content, or the one wrapper that has the weights."""
    if not isinstance(content, Mapping):
        raise EncoderError(f"{file}: holds a {_describe(content)}, expected what torch.save(model.state_dict()) writes")
    inside = [key for key in _WRAPPERS if isinstance(content.get(key), Mapping)]
    if len(inside) > 1:
        raise EncoderError(f"{file}: has weights under {' and '.join(inside)}; save only those that you want")
    state: Mapping[Any, Any] = content[inside[0]] if inside else content
    if not any(isinstance(value, Tensor) for value in state.values()):
        found = ", ".join(_printable(key) for key in list(state)[:5]) or "nothing"
        raise EncoderError(f"{file}: has no named tensors; expected a state dict, found {found}")
    return state


def _is_weight(value: Any) -> bool:
    """Whether a value is a plain tensor of floating-point numbers."""
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_meta and value.dtype in _FLOATS


def _describe(value: Any) -> str:
    """The kind of a value, in a word or two."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    form = "meta " if value.is_meta else "" if value.layout == torch.strided else "sparse "
    return f"{form}{str(value.dtype).removeprefix('torch.')} tensor"


def _printable(name: object) -> str:
    """A name that is safe to print: one from an untrusted file could contain terminal control characters."""
    return name if isinstance(name, str) and name.isprintable() else ascii(name)


if __name__ == "__main__":
    _main()
