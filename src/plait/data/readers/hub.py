"""Datasets on the Hugging Face hub: `hub:OWNER/NAME` or `hub:OWNER/NAME:CONFIG`, optionally followed by `@SPLIT`."""

import functools
import json
import logging
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from plait.data.readers.records import Record, as_text
from plait.errors import DataError

__all__ = ["hub_columns", "read_hub"]

_SOURCE = re.compile(r"hub:(?P<name>(?!buckets/)[^\s:@/]+/[^\s:@/]+)(?::(?P<config>[^:@]+))?(?:@(?P<split>[^:@]+))?")
# Our split → its names on the hub; the first that exists is used.
_SPLIT_NAMES = {"train": ("train",), "dev": ("validation", "dev", "valid"), "test": ("test",)}
_BATCH_ROWS = 1000
_SHOWN_NAMES = 20  # in a message
_OR_DOWNLOAD = "or download the file and give its path"


def read_hub(source: str, split: str) -> Iterator[Record]:
    """The rows of a dataset, numbered from 1; classes are given by name.

    `split` is train, dev or test: it selects a split of the dataset if the source names none.
    """
    return _records(source, _open_split(source, split))


def hub_columns(source: str, split: str) -> list[str]:
    """The columns that contain text, numbers, classes, or lists of these."""
    return [name for name, feature in _open_split(source, split).features.items() if _is_readable(feature)]


def _records(source: str, data: Any) -> Iterator[Record]:
    """One record per row of a `datasets.Dataset`, without images and other binary columns."""
    features = {name: feature for name, feature in data.features.items() if _is_readable(feature)}
    number = 0
    try:
        for table in data.select_columns(list(features)).with_format("arrow").iter(batch_size=_BATCH_ROWS):
            for row in table.to_pylist():
                number += 1
                yield Record(number, {name: as_text(_plain(row[name], feature)) for name, feature in features.items()})
    except (OSError, ValueError) as error:  # base classes of pyarrow's own errors
        problem = f"cannot be read after row {number:,} ({_one_line(error)})"
        raise DataError(f"{source}: {problem}; delete it from the local cache and try again, {_OR_DOWNLOAD}") from None


def _is_readable(feature: Any) -> bool:
    """Whether the values of a column can be written as text."""
    if hasattr(feature, "feature"):  # the type of a list's items
        return _is_readable(feature.feature)
    if isinstance(feature, dict):
        return all(_is_readable(inner) for inner in feature.values())
    kind = type(feature).__name__
    return kind in ("ClassLabel", "Json") or (kind == "Value" and "binary" not in feature.dtype)


def _plain(cell: Any, feature: Any) -> Any:
    """A value as JSON would hold it; a class is its name, or None if the dataset hides it (-1)."""
    kind = type(feature).__name__
    if cell is None:
        return None
    if kind == "ClassLabel":
        return None if cell == -1 else feature.names[cell] if 0 <= cell < len(feature.names) else cell
    if kind == "Json":
        return json.loads(cell)
    if kind == "Value" and feature.dtype in ("float16", "float32"):
        return float(str(np.dtype(feature.dtype).type(cell)))  # 3.8, not 3.799999952316284
    if isinstance(cell, list):
        return [_plain(item, feature.feature) for item in cell]
    if isinstance(feature, dict):
        return {key: _plain(cell[key], inner) for key, inner in feature.items()}
    return cell


def _open_split(source: str, split: str) -> Any:
    """The `datasets.Dataset` that a source names; its files are memory-mapped, no row is read yet."""
    found = _SOURCE.fullmatch(source)
    if found is None:
        form = "hub:OWNER/NAME or hub:OWNER/NAME:CONFIG, optionally followed by @SPLIT"
        raise DataError(f"{source}: not a dataset name; write {form}")
    try:
        import datasets  # noqa: F401  # slow to import, and an extra
    except ImportError:
        message = f'hub: sources need the datasets package; pip install "plait[hub-data]", {_OR_DOWNLOAD}'
        raise DataError(f"{source}: {message}") from None
    try:
        data = _load(found["name"], found["config"])
    except Exception as error:  # from datasets, pyarrow, pandas, the hub's client or its HTTP library
        raise DataError(f"{source}: {_explain(error, found['name'], found['config'])}") from None
    wanted = (found["split"],) if found["split"] else _SPLIT_NAMES[split]
    for name in wanted:
        if name in data:
            return data[name]
    stem = source.partition("@")[0]
    raise DataError(f"{source}: no split {wanted[0]!r}; write {stem}@SPLIT with one of: {_shown(list(data))}")


@functools.cache
def _load(name: str, config: str | None) -> Any:
    """Every split of a dataset, from the local cache or downloaded into it; once per process."""
    import datasets

    with _quiet():
        # With this prefix, a dataset cannot be mistaken for a local folder.
        return datasets.load_dataset(f"hf://datasets/{name}", config)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the progress bars and warnings of the libraries that load datasets; errors are still raised."""
    import datasets
    import huggingface_hub.utils as hub

    libraries: tuple[Any, ...] = (datasets, hub)
    levels = [library.logging.get_verbosity() for library in libraries]
    showing = [library for library in libraries if not library.are_progress_bars_disabled()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an environment variable that forces bars on
        for library in showing:
            library.disable_progress_bars()
    try:
        for library in libraries:
            library.logging.set_verbosity(logging.CRITICAL)
        yield
    finally:
        for library, level in zip(libraries, levels, strict=True):
            library.logging.set_verbosity(level)
        for library in showing:
            library.enable_progress_bars()


def _explain(error: Exception, name: str, config: str | None) -> str:
    """Why a dataset could not be loaded, and what to do."""
    import datasets
    from datasets.data_files import EmptyDatasetError
    from datasets.exceptions import DataFilesNotFoundError, DatasetBuildError, DatasetNotFoundError
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    reason = _one_line(error)
    offline = "HF_HUB_OFFLINE is set; unset it and connect to the network"
    unreachable = offline if datasets.config.HF_HUB_OFFLINE else "the hub cannot be reached; connect to the network"
    if isinstance(error, ConnectionError):
        return f"not in the local cache, and {unreachable}, {_OR_DOWNLOAD}"
    if isinstance(error, DatasetNotFoundError) and "gated" in reason:
        return f"gated on the hub; request access on its page and set HF_TOKEN to your token, {_OR_DOWNLOAD}"
    if isinstance(error, DatasetNotFoundError | HFValidationError):
        return f"not found on the hub; check the spelling, set HF_TOKEN if it is private, {_OR_DOWNLOAD}"
    if isinstance(error, DataFilesNotFoundError | EmptyDatasetError):
        return f"has no files that the datasets package can read; choose another dataset, {_OR_DOWNLOAD}"
    if isinstance(error, RuntimeError) and "script" in reason:
        return f"needs a loading script, and plait never runs code from the hub; choose another dataset, {_OR_DOWNLOAD}"
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status in (401, 403):
            return f"the hub rejects the token ({status}); set HF_TOKEN to a valid one, or unset it, {_OR_DOWNLOAD}"
        return f"the hub failed ({status}); try again later, {_OR_DOWNLOAD}"
    if isinstance(error, ValueError) and "cache" in reason:  # the cache holds other configurations
        if config is None:
            return f"has several configurations; write hub:{name}:CONFIG ({reason})"
        return f"not in the local cache ({reason}), and {unreachable}, {_OR_DOWNLOAD}"
    if isinstance(error, ValueError) and (choice := _explain_config(name, config)):
        return choice
    if isinstance(error, DatasetBuildError):
        cause = _one_line(error.__cause__ or error)
        return f"cannot be read as a table ({cause}); choose another dataset, {_OR_DOWNLOAD}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot be cached ({error.strerror}: {error.filename}); set HF_HOME to another folder, {_OR_DOWNLOAD}"
    if isinstance(error, FileNotFoundError):  # what datasets raises if the hub fails
        return f"the hub failed; try again later, {_OR_DOWNLOAD}"
    return f"cannot be loaded ({reason}); check the network and try again, {_OR_DOWNLOAD}"


def _explain_config(name: str, config: str | None) -> str | None:
    """What is wrong with the configuration that a source names or omits."""
    configs = _configs_of(name)
    if not configs or config in configs or (config is None and len(configs) == 1):
        return None
    problem = "has several configurations" if config is None else f"no configuration {config!r}"
    return f"{problem}; write hub:{name}:CONFIG with one of: {_shown(configs)}"


def _configs_of(name: str) -> list[str]:
    """The configurations of a dataset; empty if they cannot be listed."""
    import datasets

    try:
        with _quiet():
            return list(datasets.get_dataset_config_names(f"hf://datasets/{name}"))
    except Exception:  # the error that loading raised is reported instead
        return []


def _shown(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    rest = f" and {len(names) - _SHOWN_NAMES:,} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + rest


def _one_line(error: BaseException) -> str:
    """An error message on one line, without the advice that follows it."""
    said = str(error).partition("\nPlease")[0]
    return textwrap.shorten(said, 200, placeholder=" ...") or type(error).__name__
