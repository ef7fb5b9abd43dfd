"""A pickled checkpoint → a directory that plait and transformers load.

The pickle itself is read by plait.encoder.unpickle in another process; only tensors come back.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from plait.data.tokenize import load_tokenizer
from plait.encoder.config import EncoderConfig, read_config, read_json
from plait.encoder.find import find_checkpoint
from plait.encoder.weights import load_encoder, to_checkpoint
from plait.errors import EncoderError, RequestError
from plait.model.files import save_tensors, whole_folder
from plait.model.load import TOKENIZER_FILES, build_model
from plait.model.save import write_json

__all__ = ["Converted", "convert", "list_some"]

SENTENCE_FILES = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
SUFFIXES = (".bin", ".pt", ".pth")
FIRST = "embeddings.word_embeddings.weight"  # what stands before it stands before every tensor of the encoder
PARTS = ("embeddings.", "encoder.layer.", "pooler.dense.")


@dataclass(frozen=True)
class Converted:
    """What a conversion wrote, and what it left out."""

    folder: Path
    config: EncoderConfig
    weights: int  # how many numbers
    was: tuple[str, ...]  # the types that the numbers had; all are float32 now
    left_out: tuple[str, ...]  # what the file has beside the encoder


def convert(source: Path, out: Path, *, encoder: str | None = None) -> Converted:
    """Write the encoder of a pickled checkpoint as a new directory, whole and tried, or not at all.

    `encoder` is a directory or a name with the config and the tokenizer, where they do not lie beside the weights.
    """
    out = out.resolve()
    check_free(out)
    files = find_pickles(source)
    for file in files:
        check_start(file)
    folder = find_checkpoint(encoder, weights=False) if encoder else files[0].parent
    for names in (("config.json",), ("tokenizer.json", "vocab.txt")):
        if not encoder and not any((folder / name).is_file() for name in names):
            raise EncoderError(
                f"{source}: no {' or '.join(names)} beside the weights; "
                "name with --config the directory that has the config and the tokenizer of its encoder"
            )
    config = read_config(folder)
    load_tokenizer(folder)
    with whole_folder(out) as place:
        tensors, others = unpickle(files, place / "unpickled.safetensors")
        found, left_out = pick_encoder(tensors, others, source)
        written = to_checkpoint(load_encoder(found, config, pooler=False, where=source))
        save_tensors(written, place / "model.safetensors", metadata={"format": "pt"})
        write_json(place / "config.json", plain_config(config.raw))
        copy_files(folder, place)
        try:
            build_model(place, {}, pooling=None, normalise=None)
        except EncoderError as error:
            raise EncoderError(*(mistake.replace(str(place), str(folder)) for mistake in error.mistakes)) from None
        check_free(out)
    return Converted(
        out,
        config,
        sum(tensor.numel() for tensor in written.values()),
        tuple(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in found.values()})),
        tuple(left_out),
    )


def check_free(out: Path) -> None:
    """Nothing is overwritten."""
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists():
        raise RequestError(f"{out}: is there already, and nothing is overwritten; give --out a new directory")


def find_pickles(source: Path) -> list[Path]:
    """The files that hold a checkpoint's weights: one, or those that an index names."""
    if source.is_file():
        return read_index(source) if source.name.endswith(".index.json") else [source]
    if not source.is_dir():
        raise EncoderError(f"{source}: no such file or directory; a checkpoint of the hub has to be downloaded first")
    if (source / "model.safetensors").is_file() or (source / "model.safetensors.index.json").is_file():
        raise EncoderError(
            f"{source}: has its weights as safetensors already, plait loads them as they are; "
            "to convert another file of it, name the file"
        )
    if (single := source / "pytorch_model.bin").is_file():
        return [single]
    if (index := source / "pytorch_model.bin.index.json").is_file():
        return read_index(index)
    found = sorted(path for path in source.iterdir() if path.suffix in SUFFIXES and path.is_file())
    if not found:
        raise EncoderError(f"{source}: no pytorch_model.bin, and no other .bin, .pt or .pth file")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise EncoderError(f"{source}: several files could be meant; name one of them instead: {names}")
    return found


def read_index(index: Path) -> list[Path]:
    """The files of a checkpoint in several parts, which lie beside their index."""
    try:
        names = sorted({Path(name).name for name in read_json(index)["weight_map"].values()})
    except (TypeError, KeyError, AttributeError):
        raise EncoderError(f"{index}: has no weight_map of tensors to files") from None
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing or not names:
        raise EncoderError(f"{index}: names {', '.join(missing) or 'no files'}, not here; copy the directory whole")
    return [index.parent / name for name in names]


def check_start(file: Path) -> None:
    """The first bytes of a file are those of a pickle or of torch's zip; what else it may be is said."""
    with file.open("rb") as opened:
        start = opened.read(64)
    if start.startswith((b"PK\x03\x04", b"\x80")):
        return
    if not start:
        found = "is empty; copy or download it again"
    elif start.startswith(b"version https://git-lfs"):
        found = "is a Git LFS pointer, not the weights; `git lfs pull` in its repository fetches them"
    elif start.lstrip().startswith(b"<"):
        found = "is a web page, not the weights; download the file itself"
    elif start[8:9] == b"{":
        found = "is safetensors already; plait loads it under the name model.safetensors"
    else:
        found = f"is no file that torch.save wrote, it begins with {start[:8]!r}; copy or download it again"
    raise EncoderError(f"{file}: {found}")


def unpickle(files: Sequence[Path], place: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of some files, and the names and kinds of what else they hold, read by another process."""
    # -P: no module of the current folder is imported in place of torch.
    command = [sys.executable, "-P", "-W", "ignore", "-m", "plait.encoder.unpickle", *map(str, (place, *files))]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode < 0:
        ended = f"the process that read it was ended by signal {-done.returncode}; perhaps memory ran out"
        raise OSError(None, ended, str(files[0]))
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["cannot be read"])[-1]
        short = re.search("MemoryError|(not enough|allocate) memory", reason)
        raise OSError(None, "reading it needs more memory than there is" if short else reason, str(files[0]))
    report = json.loads(done.stdout)
    if report["mistakes"]:
        raise EncoderError(*report["mistakes"])
    tensors = load_file(place)
    place.unlink()
    return tensors, report["others"]


def pick_encoder(
    tensors: Mapping[str, Tensor], others: Mapping[str, str], source: Path
) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors of the one encoder, without what wrappers put before their names; and the names of all the rest."""
    others = {name: kind for name, kind in others.items() if not name.endswith("position_ids")}  # 0, 1, 2, …
    before = {name.removesuffix(FIRST) for name in [*tensors, *others] if f".{name}".endswith(f".{FIRST}")}
    if not before:
        raise EncoderError(
            f"{source}: holds no encoder of the BERT family; expected a tensor {FIRST}, found {list_some(tensors)}"
        )
    if len(before) > 1:
        places = ", ".join(f"{prefix}{FIRST}" for prefix in sorted(before))
        raise EncoderError(f"{source}: holds more than one encoder ({places}); save the one that you want alone")
    (prefix,) = before
    parts = tuple(prefix + part for part in PARTS)
    mistakes = [
        f"{source}: {name} is a {kind}, expected a tensor of floating-point numbers"
        for name, kind in others.items()
        if name.startswith(parts)
    ]
    if mistakes:
        raise EncoderError(*mistakes)
    found = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(parts)}
    return found, sorted(name for name in [*tensors, *others] if not name.startswith(parts))


def list_some(names: Iterable[str], most: int = 5) -> str:
    """The first few of many names."""
    names = list(names)
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def plain_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    """config.json of the encoder alone: no head is left, and the numbers are float32."""
    config = {key: value for key, value in raw.items() if key != "torch_dtype"}  # the older name of dtype
    if isinstance(names := raw.get("architectures"), list):  # BertForMaskedLM → BertModel
        config["architectures"] = [re.sub(r"(For\w+|LMHeadModel)$", "Model", str(name)) for name in names]
    return {**config, "dtype": "float32"}


def copy_files(folder: Path, place: Path) -> None:
    """The tokenizer, and sentence-transformers' settings where they are."""
    found = [folder / name for name in (*TOKENIZER_FILES, *SENTENCE_FILES) if (folder / name).is_file()]
    found += sorted(folder.glob("[0-9]_*/*.json"))  # 1_Pooling/config.json
    for path in found:
        copy = place / path.relative_to(folder)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
