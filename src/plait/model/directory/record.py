"""The records of a model directory: plait.json and manifest.json."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import plait
from plait.errors import ModelError
from plait.files import read_json, sha256_of
from plait.heads import HEADS
from plait.model.directory.find import COPY_AGAIN, MANIFEST, RECORD, find_model
from plait.model.directory.schema import record_mistakes
from plait.model.tasks import TaskSpec
from plait.names import excerpt, path_inside
from plait.recipe.schema import FOLDERS
from plait.recipe.upgrade import upgrade_origins, upgrade_recipe
from plait.registry import Package

__all__ = [
    "POOLING_TENSOR",
    "ModelDirectory",
    "ModelRecord",
    "Provenance",
    "digest_of",
    "member_folder",
    "open_directory",
    "portable",
    "portable_task",
    "recipe_tasks",
    "verify_files",
]

_FORMAT = 1  # a model once written loads for ever
_CALIBRATED_FORMAT = 2  # has temperatures, which an older plait would ignore
POOLING_TENSOR = "pooling.token_scores"  # in heads.safetensors
_ALWAYS = (
    "config.json",
    "model.safetensors",
    "heads.safetensors",
    "tokenizer.json",
)  # in every model, beside plait.json
_SOMETIMES = ("sentence_bert_config.json", "tokenizer_config.json")  # read if they are there


@dataclass(frozen=True)
class Provenance:
    """The recipe, the data and the scores behind a model."""

    recipe: dict[str, Any] = field(default_factory=dict)  # files by their names, without folders
    data: dict[str, Any] = field(default_factory=dict)  # task → split → files with rows and sha256
    scores: dict[str, Any] = field(default_factory=dict)  # task → metric → value, on dev
    baselines: dict[str, Any] = field(default_factory=dict)  # split → baseline → task → value
    step: int = 0
    kept: dict[str, Any] = field(default_factory=dict)  # task of an earlier model → where its data came from
    refit: bool = False  # whether it was trained again with the dev rows; the scores are from before
    members: list[dict[str, Any]] = field(default_factory=list)  # the models that were averaged
    calibration: dict[str, Any] = field(default_factory=dict)  # task → what it was fitted on, and the effect


@dataclass(frozen=True)
class ModelRecord:
    """plait.json: what a model directory holds and how it was made."""

    tasks: dict[str, TaskSpec]
    provenance: Provenance
    pooling: str = ""  # "" for an ensemble, as for the two below
    normalise: bool = False
    shared_layer: Any = None
    is_ensemble: bool = False

    @property
    def metrics(self) -> dict[str, str]:
        """The metric of each task."""
        return {name: spec.metric for name, spec in self.tasks.items()}

    def to_json(self) -> dict[str, Any]:
        kind = {"kind": "ensemble"} if self.is_ensemble else {}
        encoder = {"pooling": self.pooling, "normalise": self.normalise, "shared_layer": self.shared_layer}
        provenance = asdict(self.provenance)
        for key in ("members", "refit", "calibration"):
            if not provenance[key]:
                del provenance[key]
        return {
            "format": _CALIBRATED_FORMAT if any(spec.is_calibrated for spec in self.tasks.values()) else _FORMAT,
            **kind,
            "plait": plait.__version__,
            **({} if self.is_ensemble else encoder),
            "tasks": [spec.to_json() for spec in self.tasks.values()],
            "packages": _packages(self.tasks),
            **provenance,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "ModelRecord":
        packages = {head: Package(**given) for head, given in value.get("packages", {}).items()}
        specs = [TaskSpec.from_json(task, packages) for task in value["tasks"]]
        known = {name: value[name] for name in Provenance.__dataclass_fields__ if name in value}
        known["recipe"] = upgrade_recipe(known.get("recipe", {}))
        known["kept"] = upgrade_origins(known.get("kept", {}))
        return ModelRecord(
            {spec.name: spec for spec in specs},
            Provenance(**known),
            value.get("pooling", ""),
            value.get("normalise", False),
            value.get("shared_layer"),
            value.get("kind") == "ensemble",
        )


@dataclass(frozen=True)
class ModelDirectory:
    """A model on disk, its manifest and its record read once."""

    folder: Path
    manifest: dict[str, str]  # each file that loading reads → its sha256 when the model was saved
    record: ModelRecord

    @cached_property
    def identity(self) -> str:
        """Distinguishes one model from another: the digest of the manifest."""
        return digest_of(self.manifest)

    def verify(self) -> None:
        """Refuse a directory with missing or modified files; plait.json was verified when it was read."""
        verify_files(self.folder, {name: sha256 for name, sha256 in self.manifest.items() if name != RECORD})


def digest_of(digests: Mapping[str, str]) -> str:
    """One digest for the digests of several files."""
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def verify_files(folder: Path, manifest: Mapping[str, str]) -> None:
    """Refuse files that are missing or differ from those that the manifest names."""
    mistakes = []
    for name, sha256 in manifest.items():
        if (file := path_inside(folder, name)) is None:
            mistakes.append(f"{folder}/{MANIFEST}: {excerpt(str(name))!r} is not a file inside the model directory")
        elif not file.is_file():
            mistakes.append(f"{folder}: {name} is missing; {COPY_AGAIN}")
        elif sha256_of(file) != sha256:
            mistakes.append(f"{folder}/{name}: modified after the model was saved; {COPY_AGAIN}")
    if mistakes:
        raise ModelError(*mistakes)


def member_folder(ensemble: Path, number: int) -> Path:
    """The model directory of a member inside that of its ensemble; the first member has number 1."""
    return ensemble / "members" / str(number)


def open_directory(source: str | Path) -> ModelDirectory:
    """Read the records of a model, or of a run's best one; of its files, only plait.json is verified yet."""
    folder = find_model(source)
    if folder is None:
        if not Path(source).exists():
            raise ModelError(f"{source}: no such directory; give a model directory or a run")
        raise ModelError(f"{source}: not a plait model; expected a directory with {RECORD}")
    while True:
        before = folder.stat().st_ino
        try:
            return _read_directory(folder)
        except (ModelError, OSError):
            if folder.is_dir() and folder.stat().st_ino == before:  # a run did not replace it meanwhile
                raise


def _read_directory(folder: Path) -> ModelDirectory:
    try:
        manifest = {**read_json(folder / MANIFEST)["sha256"]}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise ModelError(f"{folder}/{MANIFEST}: missing or damaged; {COPY_AGAIN}") from None
    except OSError as error:
        raise ModelError(f"{folder}/{MANIFEST}: cannot be read: {error.strerror}") from None
    _check_names(folder, manifest, [RECORD])
    verify_files(folder, {RECORD: manifest[RECORD]})
    try:
        value = dict(read_json(folder / RECORD))
    except (ValueError, TypeError):
        raise ModelError(f"{folder}/{RECORD}: not valid JSON; {COPY_AGAIN}") from None
    if value.get("format") not in (_FORMAT, _CALIBRATED_FORMAT):
        reads = f"{_FORMAT} and {_CALIBRATED_FORMAT}"
        raise ModelError(f"{folder}: format {value.get('format')}, but this plait reads {reads}; update plait")
    if mistakes := list(record_mistakes(value)):
        raise ModelError(*(f"{folder}/{RECORD}: damaged: {mistake}; {COPY_AGAIN}" for mistake in mistakes))
    try:
        record = ModelRecord.from_json(value)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ModelError(f"{folder}/{RECORD}: damaged; {COPY_AGAIN}") from None
    except ModelError as error:
        raise ModelError(*(f"{folder}: {mistake}" for mistake in error.mistakes)) from None
    _check_complete(folder, manifest, record)
    return ModelDirectory(folder, manifest, record)


def _check_complete(folder: Path, manifest: Mapping[str, str], record: ModelRecord) -> None:
    """Refuse a manifest that leaves out a file that loading reads: nothing would verify it."""
    if record.is_ensemble:
        read = [f"members/{number}/{MANIFEST}" for number in range(1, len(record.provenance.members) + 1)]
    else:
        read = [*_ALWAYS, *(name for name in _SOMETIMES if (folder / name).exists())]
    _check_names(folder, manifest, read)


def _check_names(folder: Path, manifest: Mapping[str, str], read: Iterable[str]) -> None:
    if left_out := [name for name in read if name not in manifest]:
        raise ModelError(f"{folder}/{MANIFEST}: incomplete, it does not name {', '.join(left_out)}; {COPY_AGAIN}")


def _packages(tasks: Mapping[str, TaskSpec]) -> dict[str, dict[str, str | None]]:
    """The package of each head that plait does not have itself."""
    found = {spec.head: HEADS.package(spec.head) for spec in tasks.values()}
    return {head: asdict(package) for head, package in found.items() if package}


def portable(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe without the folders of the machine that it ran on."""
    stages = [_portable_stage(stage) for stage in recipe.get("stages", ())]
    # A directory is saved with its absolute path, and may have been moved since.
    given = {key: recipe[key] for key in FOLDERS if recipe.get(key)}
    names = {key: Path(name).name if Path(name).is_absolute() else name for key, name in given.items()}
    return {**recipe, **names, "stages": stages} if stages else {**_portable_stage(recipe), **names}


def _portable_stage(stage: dict[str, Any]) -> dict[str, Any]:
    return {**stage, "tasks": {name: portable_task(task) for name, task in stage["tasks"].items()}}


def portable_task(task: dict[str, Any]) -> dict[str, Any]:
    """A task of a recipe with its files by name only."""

    def name(source: Any) -> Any:
        if isinstance(source, dict):
            return {**source, "file": name(source["file"])}
        return source if source.startswith("hub:") else Path(source).name

    splits = {split: task[split] for split in ("train", "dev", "test")}
    return {
        **task,
        **{split: given if isinstance(given, float) else [name(x) for x in given] for split, given in splits.items()},
    }


def recipe_tasks(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The block of each task in a complete recipe; of several stages, the last that trains the task counts."""
    stages = recipe.get("stages") or [recipe]
    return {name: task for stage in stages for name, task in stage.get("tasks", {}).items()}
