"""Several model directories → the directory of an ensemble, or one model whose weights are their mean."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plait.encoder.config import EncoderConfig
from plait.errors import ModelError, RequestError, did_you_mean
from plait.files import atomic_folder
from plait.model.card import ensemble_card
from plait.model.directory.find import MANIFEST, RECORD, find_model
from plait.model.directory.load import load_plait_model
from plait.model.directory.record import (
    ModelDirectory,
    ModelRecord,
    Provenance,
    member_folder,
    open_directory,
    recipe_tasks,
    verify_files,
)
from plait.model.directory.save import save_model, write_manifest, write_record
from plait.model.ensemble import common_tasks, task_differences
from plait.model.model import Model
from plait.model.tasks import TaskSpec
from plait.names import path_inside
from plait.recipe.task import SPLITS

__all__ = ["build_ensemble", "build_soup", "copy_model", "find_member"]

# Settings that both encoders must share before their weights can be averaged → how a message names them.
_SIZES = {field.name: field.name.replace("_", " ") for field in fields(EncoderConfig)} | {"hidden": "hidden width"}
_NOT_WEIGHTS = ("dropout", "attention_dropout", "mix_dropout", "limit", "pooling", "normalise", "raw")


@dataclass(frozen=True)
class _Member:
    """A model that becomes part of an ensemble or soup."""

    name: str  # as given
    directory: ModelDirectory

    @property
    def tasks(self) -> dict[str, TaskSpec]:
        return self.directory.record.tasks

    @property
    def provenance(self) -> Provenance:
        return self.directory.record.provenance

    def to_json(self) -> dict[str, Any]:
        """What plait.json says about it, without the folders of this machine."""
        return {"name": Path(self.name).name, "step": self.provenance.step, "scores": self.provenance.scores}


def find_member(source: str) -> Path:
    """A model, the best of a run, or one that a run kept: RUN@epoch3, RUN@step40."""
    run, at, name = source.rpartition("@")
    if not at or Path(source).exists() or not Path(run).is_dir():
        folder = find_model(source)
        if folder is None:
            raise ModelError(f"{source}: not a plait model; give model directories, runs, or RUN@epoch3")
        return folder
    found = {path.name: path for path in sorted(Path(run, "kept").glob("[!.]*")) if (path / RECORD).is_file()}
    if (Path(run) / "best" / RECORD).is_file():
        found["best"] = Path(run) / "best"
    by_step = {f"step{open_directory(folder).record.provenance.step}": folder for folder in found.values()}
    folder = found.get(name) or by_step.get(name)
    if folder is None:
        hint = did_you_mean(name, {*found, *by_step})
        raise RequestError(f"{source}: the run kept no model {name!r}; {hint} (plait train --keep N keeps more)")
    return folder


def build_ensemble(sources: Sequence[str], out: Path) -> None:
    """Copy the models into one new directory, whose predictions are their mean."""
    members = _find_members(sources, out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as place:
        for number, member in enumerate(members, start=1):
            copy_model(member.directory, member_folder(place, number))
        tasks = common_tasks([member.tasks for member in members])
        provenance = _combined_provenance(members)
        write_record(place, ModelRecord(tasks, provenance, is_ensemble=True))
        (place / "README.md").write_text(ensemble_card(tasks, provenance), encoding="utf-8")
        # Each member's own manifest covers its files.
        write_manifest(place, [place / RECORD, *sorted(place.glob(f"members/*/{MANIFEST}"))])


def build_soup(sources: Sequence[str], out: Path) -> None:
    """One ordinary model with the mean of the models' weights; refused unless the weights correspond."""
    members = _find_members(sources, out)
    first, _ = load_plait_model(members[0].directory.folder, members[0].directory)
    total = {name: tensor.to(torch.float64) for name, tensor in first.state_dict().items()}
    mistakes: list[str] = []
    for member in members[1:]:
        model, _ = load_plait_model(member.directory.folder, member.directory)
        if differing := _weight_differences(members[0], first, member, model):
            mistakes += differing
            continue
        _add(total, model.state_dict())
    if mistakes:
        raise RequestError(*mistakes, "--soup needs models of the same shape; drop --soup to build an ensemble")
    first.load_state_dict({name: (tensor / len(members)).to(torch.float32) for name, tensor in total.items()})
    for name in members[0].provenance.calibration:  # fitted for other weights
        first.tasks[name] = first.tasks[name].uncalibrated()
    save_model(first, out, _combined_provenance(members))


def copy_model(directory: ModelDirectory, place: Path) -> None:
    """Copy the files that loading reads, the manifest and the model card, and verify the copy."""
    for name in (*directory.manifest, MANIFEST, "README.md"):
        source, target = path_inside(directory.folder, name), path_inside(place, name)
        if source and target and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    try:
        verify_files(place, directory.manifest)
    except ModelError as error:
        raise ModelError(*(mistake.replace(str(place), str(directory.folder)) for mistake in error.mistakes)) from None


def _find_members(sources: Sequence[str], out: Path) -> list[_Member]:
    """The models to combine in a new directory; reports every reason why that is impossible at once."""
    if out.exists():
        raise RequestError(f"--out {out}: already exists; choose another name")
    if len(sources) < 2:
        raise RequestError("give at least two models")
    members: list[_Member] = []
    mistakes: list[str] = []
    seen: dict[str, str] = {}
    for source in sources:
        try:
            directory = open_directory(find_member(source))
            if directory.record.is_ensemble:
                inside = directory.folder / "members"
                raise RequestError(f"{source}: already an ensemble; give its members, which are in {inside}")
            if directory.identity in seen:
                raise RequestError(f"{source}: the same model as {seen[directory.identity]}; give each model once")
        except (ModelError, RequestError) as error:
            mistakes += error.mistakes
            continue
        members.append(_Member(source, directory))
        seen[directory.identity] = source
    if not mistakes:
        mistakes = task_differences([member.name for member in members], [member.tasks for member in members])
    if mistakes:
        raise RequestError(*mistakes)
    return members


def _add(total: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
    for name, tensor in weights.items():
        total[name] += tensor.to(torch.float64)


def _weight_differences(first: _Member, one: Model, member: _Member, other: Model) -> list[str]:
    """Why the weights of two models do not correspond: architecture, tokenizer, pooling, layers or heads."""
    pairs: list[tuple[str, object, object]] = [
        (f"the encoder's {words}", getattr(one.encoder.config, name), getattr(other.encoder.config, name))
        for name, words in _SIZES.items()
        if name not in _NOT_WEIGHTS
    ]
    pairs.append(("the pooling", one.pooling, other.pooling))
    pairs.append(("`normalise`", one.normalise, other.normalise))
    records = first.directory.record, member.directory.record
    pairs.append(("the shared layer", records[0].shared_layer, records[1].shared_layer))
    for task, spec in one.tasks.items():
        also = other.tasks[task]
        pairs.append((f"the head of {task!r}", _describe_head(spec), _describe_head(also)))
        pairs.append((f"the link of {task!r}", spec.link, also.link))
    mistakes = [
        f"{member.name}: {what} is {also}; in {first.name} it is {here}" for what, here, also in pairs if here != also
    ]
    if one.tokenizer.json != other.tokenizer.json:
        mistakes.append(f"{member.name}: its tokenizer differs from that of {first.name}")
    return mistakes


def _describe_head(spec: TaskSpec) -> str:
    """A head with its options, as a recipe writes it."""
    if spec.same_as:
        return f"{{same_as: {spec.same_as}}}"
    options = "".join(f", {name}: {value}" for name, value in spec.head_options.items() if value is not None)
    return f"{{name: {spec.head_name}{options}}}" if options else spec.head_name


def _combined_provenance(members: Sequence[_Member]) -> Provenance:
    """The origin of an ensemble or a soup, from that of its members."""
    made_from = [member.provenance for member in members]
    return Provenance(
        recipe=made_from[0].recipe,
        data=_shared_data(made_from),
        baselines=_member_scores(members),
        kept=_shared_kept(made_from),
        members=[member.to_json() for member in members],
    )


def _shared_data(made_from: Sequence[Provenance]) -> dict[str, Any]:
    """Task → split → files, for the splits that had the same rows for every model."""
    first, *others = made_from
    return {
        task: {
            split: found for split, found in splits.items() if all(_same_rows(first, a, task, split) for a in others)
        }
        for task, splits in first.data.items()
    }


def _same_rows(one: Provenance, other: Provenance, task: str, split: str) -> bool:
    """Whether a split had the same rows for two models; rows drawn from training data depend on the seed."""
    if other.data.get(task, {}).get(split) != one.data[task][split]:
        return False
    here, there = (recipe_tasks(made.recipe)[task] for made in (one, other))
    folded = one.recipe.get("fold") is not None
    shared = [name for name in SPLITS if isinstance(here[name], float) or (folded and name == "test")]
    from_train = split in ("train", *shared)
    limits = ("rows", "train_rows") if split == "train" else ("dev_rows", "choose_rows")
    reading = {"text", "label", "quoting", "derive", "train" if split in shared else split, *limits, *shared}
    if folded and from_train:
        reading.add("rows")
    if any(here.get(key) != there.get(key) for key in reading):
        return False
    if here.get("encoding", "utf-8") != there.get("encoding", "utf-8"):  # models of 0.1 have no such key
        return False
    by_seed = here.get("rows") or (here.get("train_rows") and one.recipe.get("draw") is None)
    drawn = (split == "train" and by_seed) or (shared and from_train)
    keys = ["bad_rows", *(["seed"] if drawn else []), *(["fold"] if from_train or split == "test" else [])]
    keys += ["draw"] if split == "train" else []
    return all(one.recipe.get(key) == other.recipe.get(key) for key in keys)


def _shared_kept(made_from: Sequence[Provenance]) -> dict[str, Any]:
    """Where the data of tasks of an earlier model came from, where all models agree."""
    first, *others = made_from
    return {task: origin for task, origin in first.kept.items() if all(a.kept.get(task) == origin for a in others)}


def _member_scores(members: Sequence[_Member]) -> dict[str, dict[str, dict[str, float]]]:
    """Split → baseline → task → value: the members' mean and best scores on the dev rows that they share."""
    data = _shared_data([member.provenance for member in members])
    scores = [
        {
            task: member.provenance.scores[task][spec.metric]
            for task, spec in member.tasks.items()
            if "dev" in data.get(task, {}) and spec.metric in member.provenance.scores.get(task, {})
        }
        for member in members
    ]
    tasks = [task for task in members[0].tasks if all(task in found for found in scores)]
    if not tasks:
        return {}
    best = max(scores, key=lambda found: sum(found[task] for task in tasks))
    return {
        "dev": {
            "mean of members": {task: sum(found[task] for found in scores) / len(scores) for task in tasks},
            "best member": {task: best[task] for task in tasks},
        }
    }
