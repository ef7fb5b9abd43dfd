"""A pickled checkpoint or an ONNX graph → a directory that plait and transformers can load.

`plait.encoder.unpickle` reads a pickle in another process; only tensors come back.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from plait.data.tokenize import load_tokenizer
from plait.encoder.architectures import Architecture
from plait.encoder.config import EncoderConfig, read_config
from plait.encoder.find import find_checkpoint
from plait.encoder.onnx_weights import read_onnx_weights
from plait.encoder.weights import load_encoder, to_checkpoint
from plait.errors import EncoderError, RequestError
from plait.files import atomic_folder, dump_json, read_json, save_tensors
from plait.model.directory.load import TOKENIZER_FILES, build_model
from plait.processes import module_command, safe_environment

__all__ = ["Converted", "convert", "list_some"]

_SENTENCE_FILES = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
_SUFFIXES = (".bin", ".pt", ".pth")
_GRAPHS = ("model.onnx", "onnx/model.onnx")


@dataclass(frozen=True)
class Converted:
    """What a conversion wrote, and what it left out."""

    folder: Path
    config: EncoderConfig
    weights: int  # their number
    was: tuple[str, ...]  # the types that the weights had; all are float32 now
    left_out: tuple[str, ...]  # names of everything in the file that is not part of the encoder


def convert(source: Path, out: Path, *, encoder: str | None = None) -> Converted:
    """Write the encoder of a checkpoint as a new directory, which appears once it has been loaded successfully.

    The checkpoint is a pickle of torch or an ONNX graph. `encoder` is a directory or a name with the config and the
    tokenizer, if they are not beside the weights.
    """
    out = out.resolve()
    _check_is_new(out)
    files = _find_weights(source)
    is_graph = files[0].suffix == ".onnx"
    if not is_graph:
        for file in files:
            _check_first_bytes(file)
    folder = find_checkpoint(encoder, weights=False).folder if encoder else _settings_folder(files[0])
    for names in (("config.json",), ("tokenizer.json", "vocab.txt")):
        if not encoder and not any((folder / name).is_file() for name in names):
            raise EncoderError(
                f"{source}: no {' or '.join(names)} beside the weights; "
                "use --config to give the directory that has the encoder's config and tokenizer"
            )
    config = read_config(folder)
    load_tokenizer(folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as place:
        if is_graph:
            tensors, others = read_onnx_weights(files[0])
        else:
            tensors, others = _unpickle(files, place / "unpickled.safetensors")
        found, left_out = _pick_encoder(tensors, others, config.architecture, source)
        written = to_checkpoint(load_encoder(found, config, pooler=False, where=source))
        save_tensors(written, place / "model.safetensors", metadata={"format": "pt"})
        (place / "config.json").write_text(dump_json(_encoder_config(config.raw)), encoding="utf-8")
        _copy_settings(folder, place)
        try:
            build_model(place, {}, pooling=None, normalise=None)
        except EncoderError as error:
            raise EncoderError(*(mistake.replace(str(place), str(folder)) for mistake in error.mistakes)) from None
        _check_is_new(out)
    return Converted(
        out,
        config,
        sum(tensor.numel() for tensor in written.values()),
        tuple(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in found.values()})),
        tuple(left_out),
    )


def _check_is_new(out: Path) -> None:
    """Refuse to overwrite anything; an empty directory is fine."""
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists():
        raise RequestError(f"{out}: already exists and will not be overwritten; give --out a new directory")


def _settings_folder(file: Path) -> Path:
    """Where the config and the tokenizer are expected: beside the weights, or one folder up from `onnx/`."""
    beside = file.parent
    return beside.parent if beside.name == "onnx" and not (beside / "config.json").is_file() else beside


def _find_weights(source: Path) -> list[Path]:
    """The files with a checkpoint's weights: one, or those that an index lists."""
    if source.is_file():
        return _read_index(source) if source.name.endswith(".index.json") else [source]
    if not source.is_dir():
        raise EncoderError(f"{source}: no such file or directory; a checkpoint on the hub must be downloaded first")
    if (source / "model.safetensors").is_file() or (source / "model.safetensors.index.json").is_file():
        raise EncoderError(
            f"{source}: its weights are already in safetensors, which plait loads directly; "
            "to convert another file in it, give that file"
        )
    if (single := source / "pytorch_model.bin").is_file():
        return [single]
    if (index := source / "pytorch_model.bin.index.json").is_file():
        return _read_index(index)
    for graph in _GRAPHS:
        if (source / graph).is_file():
            return [source / graph]
    found = sorted(path for path in source.iterdir() if path.suffix in _SUFFIXES and path.is_file())
    if not found:
        raise EncoderError(f"{source}: no pytorch_model.bin, no model.onnx, and no other .bin, .pt or .pth file")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise EncoderError(f"{source}: several files with weights; give one of them: {names}")
    return found


def _read_index(index: Path) -> list[Path]:
    """The shards of a checkpoint, which are beside their index."""
    try:
        names = sorted({Path(name).name for name in read_json(index)["weight_map"].values()})
    except ValueError:
        raise EncoderError(f"{index}: not valid JSON; copy it again") from None
    except (TypeError, KeyError, AttributeError):
        raise EncoderError(f"{index}: no weight_map from tensors to files") from None
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing or not names:
        what = f"lists {', '.join(missing)}, but there is no such file" if missing else "lists no files"
        raise EncoderError(f"{index}: {what}; copy the whole directory again")
    return [index.parent / name for name in names]


def _check_first_bytes(file: Path) -> None:
    """Refuse a file that is neither a pickle nor torch's zip, and say what it seems to be."""
    with file.open("rb") as opened:
        start = opened.read(64)
    if start.startswith((b"PK\x03\x04", b"\x80")):
        return
    if not start:
        found = "the file is empty; copy or download it again"
    elif start.startswith(b"version https://git-lfs"):
        found = "a Git LFS pointer instead of the weights; run `git lfs pull` in its repository"
    elif start.lstrip().startswith(b"<"):
        found = "a web page instead of the weights; download the file itself"
    elif start[8:9] == b"{":
        found = "already in safetensors; rename it to model.safetensors and plait will load it"
    else:
        found = f"not written by torch.save, since it begins with {start[:8]!r}; copy or download it again"
    raise EncoderError(f"{file}: {found}")


def _unpickle(files: Sequence[Path], place: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of some files, and the name and type of everything else in them, read by another process."""
    command = module_command("plait.encoder.unpickle", place, *files, options=("-W", "ignore"))
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=safe_environment(),
    )
    if done.returncode < 0:
        killed = f"the process that read it was killed by signal {-done.returncode}, perhaps because memory ran out"
        raise OSError(None, killed, str(files[0]))
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["cannot be read"])[-1]
        short = re.search("MemoryError|(not enough|allocate) memory", reason)
        raise OSError(None, "not enough memory to read it" if short else reason, str(files[0]))
    report = json.loads(done.stdout)
    if report["mistakes"]:
        raise EncoderError(*report["mistakes"])
    tensors = load_file(place)
    place.unlink()
    return tensors, report["others"]


def _pick_encoder(
    tensors: Mapping[str, Tensor], others: Mapping[str, str], architecture: Architecture, source: Path
) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors of the only encoder without the prefix that wrappers added, and the names of everything else."""
    others = {name: kind for name, kind in others.items() if not name.endswith("position_ids")}  # 0, 1, 2, …
    first = f"{architecture.modules['tokens']}.weight"  # its prefix is the prefix of every tensor of the encoder
    prefixes = {name.removesuffix(first) for name in [*tensors, *others] if f".{name}".endswith(f".{first}")}
    if not prefixes:
        raise EncoderError(
            f"{source}: no encoder of the BERT family; expected a tensor {first}, found {list_some(tensors)}"
        )
    if len(prefixes) > 1:
        names = ", ".join(f"{prefix}{first}" for prefix in sorted(prefixes))
        raise EncoderError(f"{source}: more than one encoder ({names}); save only the one that you want")
    (prefix,) = prefixes
    parts = tuple(f"{prefix}{part}." for part in ("embeddings", architecture.layers, *architecture.modules.values()))
    mistakes = [
        f"{source}: {name}: expected a floating-point tensor, found {kind}"
        for name, kind in others.items()
        if name.startswith(parts)
    ]
    if mistakes:
        raise EncoderError(*mistakes)
    found = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(parts)}
    return found, sorted(name for name in [*tensors, *others] if not name.startswith(parts))


def list_some(names: Iterable[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _encoder_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    """config.json of the encoder alone: without a head, in float32."""
    config = {key: value for key, value in raw.items() if key != "torch_dtype"}  # the older name of dtype
    if isinstance(names := raw.get("architectures"), list):  # BertForMaskedLM → BertModel
        config["architectures"] = [re.sub(r"(For\w+|LMHeadModel)$", "Model", str(name)) for name in names]
    return {**config, "dtype": "float32"}


def _copy_settings(folder: Path, place: Path) -> None:
    """Copy the tokenizer, and sentence-transformers' settings if there are any."""
    found = [folder / name for name in (*TOKENIZER_FILES, *_SENTENCE_FILES) if (folder / name).is_file()]
    found += sorted(folder.glob("[0-9]_*/*.json"))  # 1_Pooling/config.json
    for path in found:
        copy = place / path.relative_to(folder)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
