"""Pickled checkpoints → safetensors, in a process of its own: `python -m plait.encoder.unpickle OUT FILE…`

A pickle is a program. torch's safe loading runs none of it but what makes tensors and plain containers, and refuses the
rest; here it is the only thing that ever opens one. What became of the files is printed as one line of JSON.
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

__all__ = ["main"]

WRAPPERS = ("model", "state_dict", "model_state_dict")  # where training scripts put the weights beside other things
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DAMAGED = "is damaged or cut off"


def main() -> None:
    """Write the tensors of FILE… to OUT, and print what else was there, or why nothing was written."""
    out, *files = map(Path, sys.argv[1:])
    tensors: dict[str, Tensor] = {}
    others: dict[str, str] = {}
    try:
        for file in files:
            for name, value in state_of(load_safely(file), file).items():
                if is_weight(value):
                    tensors[shown(name)] = value
                else:
                    others[shown(name)] = kind_of(value)
    except EncoderError as error:
        print(json.dumps({"mistakes": error.mistakes, "others": {}}))
        return
    # Of tensors that share their memory, or stand in it with gaps, each becomes one of its own.
    save_file(
        {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}, out
    )
    print(json.dumps({"mistakes": [], "others": others}))


def load_safely(file: Path) -> Any:
    """What a file holds, provided that it holds tensors and plain containers alone."""
    try:
        return torch.load(str(file), map_location="cpu", weights_only=True, mmap=is_mappable(file))
    except EncoderError:
        raise
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        unknown = "is damaged, or not pickled as torch.save pickles tensors"
        raise refusal(file, f"holds more than tensors ({named[1]})" if named else unknown) from None
    except Exception as error:  # bytes that are no pickle fail in many ways
        reason = shown((str(error) or type(error).__name__).splitlines()[0].strip())
        if isinstance(error, MemoryError) or re.search("(not enough|can't allocate) memory", reason):
            raise
        if "weights_only" in reason:  # the two old forms that torch cannot read safely
            what = "a TorchScript program" if zipfile.is_zipfile(file) else "pickles in a tar"
            raise refusal(file, f"holds more than tensors ({what})") from None
        raise EncoderError(f"{file}: {DAMAGED} ({reason}); copy or download it again") from None


def refusal(file: Path, what: str) -> EncoderError:
    """A file that cannot be read without trusting it."""
    return EncoderError(
        f"{file}: {what}, so code would have to be run to read it, which plait never does; where it was made, save its "
        "weights alone, torch.save(model.state_dict(), 'weights.pt'), and convert those"
    )


def is_mappable(file: Path) -> bool:
    """Whether the tensors lie in the file as they lie in memory: torch.save's zip since 2020, not compressed."""
    with file.open("rb") as opened:
        if opened.read(4) != b"PK\x03\x04":
            return False
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile:
        raise EncoderError(f"{file}: {DAMAGED} (its end is missing); copy or download it again") from None
    if not any(entry.filename.endswith("/data.pkl") for entry in entries):
        raise EncoderError(f"{file}: is a zip file, but none that torch.save wrote")
    return all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)


def state_of(content: Any, file: Path) -> Mapping[Any, Any]:
    """The state dict of a file: all of it, or the one part of it that has the weights."""
    if not isinstance(content, Mapping):
        raise EncoderError(f"{file}: holds a {kind_of(content)}, expected what torch.save(model.state_dict()) writes")
    inside = [key for key in WRAPPERS if isinstance(content.get(key), Mapping)]
    if len(inside) > 1:
        raise EncoderError(f"{file}: has weights under {' and '.join(inside)}; save those that you want alone")
    state: Mapping[Any, Any] = content[inside[0]] if inside else content
    if not any(isinstance(value, Tensor) for value in state.values()):
        found = ", ".join(shown(key) for key in list(state)[:5]) or "nothing"
        raise EncoderError(f"{file}: has no tensors by name; expected a state dict, found {found}")
    return state


def is_weight(value: Any) -> bool:
    """Whether a value is a plain tensor of floating-point numbers."""
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_meta and value.dtype in FLOATS


def kind_of(value: Any) -> str:
    """What a value is, in a word or two."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    form = "meta " if value.is_meta else "" if value.layout == torch.strided else "sparse "
    return f"{form}{str(value.dtype).removeprefix('torch.')} tensor"


def shown(name: object) -> str:
    """A name that can be printed; one from a stranger's file could hold a terminal's control characters."""
    return name if isinstance(name, str) and name.isprintable() else ascii(name)


if __name__ == "__main__":
    main()
