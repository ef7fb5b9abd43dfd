"""Data sets of the hub, named `hub:OWNER/NAME` or `hub:OWNER/NAME:CONFIG`, with or without `@SPLIT`."""

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

from plait.data.records import Record, as_text
from plait.errors import DataError

__all__ = ["hub_columns", "read_hub"]

NAMED = re.compile(r"hub:(?P<name>(?!buckets/)[^\s:@/]+/[^\s:@/]+)(?::(?P<config>[^:@]+))?(?:@(?P<split>[^:@]+))?")
SPLITS = {"train": ("train",), "dev": ("validation", "dev", "valid"), "test": ("test",)}  # the first that is there
BATCH = 1000  # rows that are held at a time
LISTED = 20  # names that a message lists before it only counts
ON_DISK = "or download the file and give its path"


def read_hub(source: str, split: str) -> Iterator[Record]:
    """The rows of a data set, counted from 1; its classes by their names.

    `split` is train, dev or test: it chooses a split of the data set where the source names none.
    """
    return records(source, open_split(source, split))


def hub_columns(source: str, split: str) -> list[str]:
    """The columns that hold text, numbers, classes, or lists of these."""
    return [name for name, feature in open_split(source, split).features.items() if is_readable(feature)]


def records(source: str, data: Any) -> Iterator[Record]:
    """A record a row of a `datasets.Dataset`; images and other columns of bytes are left out."""
    features = {name: feature for name, feature in data.features.items() if is_readable(feature)}
    number = 0
    try:
        for table in data.select_columns(list(features)).with_format("arrow").iter(batch_size=BATCH):
            for row in table.to_pylist():
                number += 1
                yield Record(number, {name: as_text(plain(row[name], feature)) for name, feature in features.items()})
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these
        raise DataError(f"{source}: cannot be read after row {number:,} ({one_line(error)})") from None


def is_readable(feature: Any) -> bool:
    """Whether the values of a column can be written as text."""
    if hasattr(feature, "feature"):  # of a list's items
        return is_readable(feature.feature)
    if isinstance(feature, dict):
        return all(is_readable(inner) for inner in feature.values())
    kind = type(feature).__name__
    return kind in ("ClassLabel", "Json") or (kind == "Value" and "binary" not in feature.dtype)


def plain(cell: Any, feature: Any) -> Any:
    """A value as JSON would hold it: a class by its name, and as nothing where it is hidden (-1)."""
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
        return [plain(item, feature.feature) for item in cell]
    if isinstance(feature, dict):
        return {key: plain(cell[key], inner) for key, inner in feature.items()}
    return cell


def open_split(source: str, split: str) -> Any:
    """The `datasets.Dataset` that a source means; its files are memory-mapped, no row is read yet."""
    found = NAMED.fullmatch(source)
    if found is None:
        raise DataError(f"{source}: expected hub:OWNER/NAME or hub:OWNER/NAME:CONFIG, and @SPLIT after either")
    try:
        import datasets  # noqa: F401  # slow to import, and an extra
    except ImportError:
        message = f'hub: data needs the datasets package; pip install "plait[hub-data]", {ON_DISK}'
        raise DataError(f"{source}: {message}") from None
    try:
        data = load(found["name"], found["config"])
    except Exception as error:  # of datasets, pyarrow, pandas, the hub's client and its HTTP library
        raise DataError(f"{source}: {explain(error, found['name'], found['config'])}") from None
    wanted = (found["split"],) if found["split"] else SPLITS[split]
    for name in wanted:
        if name in data:
            return data[name]
    stem = source.partition("@")[0]
    raise DataError(f"{source}: no split {wanted[0]!r}; write {stem}@SPLIT with one of: {listed(list(data))}")


@functools.cache
def load(name: str, config: str | None) -> Any:
    """Every split of a data set, from the local cache or downloaded into it; once a process."""
    import datasets

    with quiet():
        # Named like this, a data set cannot be mistaken for a folder here.
        return datasets.load_dataset(f"hf://datasets/{name}", config)


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and no warnings of the libraries that load data; what goes wrong is raised."""
    import datasets
    import huggingface_hub.utils as hub

    libraries: tuple[Any, ...] = (datasets, hub)
    levels = [library.logging.get_verbosity() for library in libraries]
    showing = [library for library in libraries if not library.are_progress_bars_disabled()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the environment insists on bars
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


def explain(error: Exception, name: str, config: str | None) -> str:
    """Why a data set could not be loaded, and what to do."""
    import datasets
    from datasets.data_files import EmptyDatasetError
    from datasets.exceptions import DataFilesNotFoundError, DatasetBuildError, DatasetNotFoundError
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    reason = one_line(error)
    offline = "HF_HUB_OFFLINE is set; unset HF_HUB_OFFLINE and connect"
    unreachable = offline if datasets.config.HF_HUB_OFFLINE else "the hub cannot be reached; connect to the network"
    if isinstance(error, ConnectionError):
        return f"is not in the cache of datasets, and {unreachable}, {ON_DISK}"
    if isinstance(error, DatasetNotFoundError) and "gated" in reason:
        return (
            f"is gated on the hub; ask for access on its page there and set HF_TOKEN to a token that has it, {ON_DISK}"
        )
    if isinstance(error, DatasetNotFoundError | HFValidationError):
        return f"is no data set of the hub; check the spelling, set HF_TOKEN if it is private, {ON_DISK}"
    if isinstance(error, DataFilesNotFoundError | EmptyDatasetError):
        return f"has no files that datasets can read; choose another, {ON_DISK}"
    if isinstance(error, RuntimeError) and "script" in reason:
        return "is made by a script, and code from the hub is never run; choose another, " + ON_DISK
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status in (401, 403):
            return f"the hub refuses the token ({status}); set HF_TOKEN to a valid one, or unset it, {ON_DISK}"
        return f"the hub failed ({status}); try again later, {ON_DISK}"
    if isinstance(error, ValueError) and "cache" in reason:  # which holds other configurations
        if config is None:
            return f"has several configurations; write hub:{name}:CONFIG ({reason})"
        return f"is not in the cache of datasets ({reason}), and {unreachable}, {ON_DISK}"
    if isinstance(error, ValueError) and (choice := explain_config(name, config)):
        return choice
    if isinstance(error, DatasetBuildError):
        return f"cannot be read as a table ({one_line(error.__cause__ or error)}); choose another, {ON_DISK}"
    if isinstance(error, OSError) and error.errno is not None:
        return (
            f"cannot be kept in the cache ({error.strerror}: {error.filename}); set HF_HOME to another place, {ON_DISK}"
        )
    if isinstance(error, FileNotFoundError):  # as datasets sees a hub that fails
        return f"the hub failed; try again later, {ON_DISK}"
    return f"cannot be loaded ({reason}); check the network and try again, {ON_DISK}"


def explain_config(name: str, config: str | None) -> str | None:
    """What is wrong with the configuration that a source names, or lacks."""
    configs = configs_of(name)
    if not configs or config in configs or (config is None and len(configs) == 1):
        return None
    lacking = "has several configurations" if config is None else f"no configuration {config!r}"
    return f"{lacking}; write hub:{name}:CONFIG with one of: {listed(configs)}"


def configs_of(name: str) -> list[str]:
    """The configurations of a data set, or nothing where they cannot be asked for."""
    import datasets

    try:
        with quiet():
            return list(datasets.get_dataset_config_names(f"hf://datasets/{name}"))
    except Exception:  # loading failed before, and that error is told
        return []


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    rest = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + rest


def one_line(error: BaseException) -> str:
    """What an error says before it gives advice, on one line."""
    said = str(error).partition("\nPlease")[0]
    return textwrap.shorten(said, 200, placeholder=" ...") or type(error).__name__
