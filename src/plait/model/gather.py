"""Several model directories → the directory of an ensemble, or one model whose weights are their mean."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import plait
from plait.encoder.config import EncoderConfig
from plait.errors import ModelError, RequestError, did_you_mean
from plait.model.about import ENSEMBLE, About, find_model, is_ensemble, read_about, recipe_tasks
from plait.model.card import ensemble_card
from plait.model.ensemble import member_tasks, task_differences
from plait.model.files import sha256_of, whole_folder
from plait.model.load import check_format, check_manifest, load_plait_model, manifest_of, model_identity
from plait.model.model import Model
from plait.model.save import FORMAT, save_model, write_json
from plait.model.tasks import TaskSpec, spec_from_json, spec_to_json
from plait.recipe.schema import SPLITS

__all__ = ["find_member", "make_ensemble", "make_soup"]

# What the mean of two encoders' weights relies on, by the words of a message.
SIZES = {field.name: field.name.replace("_", " ") for field in fields(EncoderConfig)} | {"hidden": "hidden width"}
NOT_WEIGHTS = ("dropout", "attention_dropout", "limit", "pooling", "normalise", "raw")


@dataclass(frozen=True)
class Member:
    """A model that becomes part of something."""

    name: str  # as it was given
    folder: Path
    about: dict[str, Any]
    tasks: dict[str, TaskSpec]

    def to_json(self) -> dict[str, Any]:
        """What is told of it; the folders of this machine are left out."""
        return {"name": Path(self.name).name, "step": self.about["step"], "scores": self.about["scores"]}


def find_member(source: str) -> Path:
    """A model, the best of a run, or one that a run kept: RUN@epoch3, RUN@step40."""
    run, at, name = source.rpartition("@")
    if not at or Path(source).exists() or not Path(run).is_dir():
        folder = find_model(source)
        if folder is None:
            raise ModelError(f"{source}: is no plait model; give model directories, runs, or RUN@epoch3")
        return folder
    found = {path.name: path for path in sorted(Path(run, "kept").glob("[!.]*")) if (path / "plait.json").is_file()}
    if (Path(run) / "best/plait.json").is_file():
        found["best"] = Path(run) / "best"
    by_step = {f"step{read_about(folder)['step']}": folder for folder in found.values()}
    folder = found.get(name) or by_step.get(name)
    if folder is None:
        hint = did_you_mean(name, {*found, *by_step})
        raise RequestError(f"{source}: the run has kept no {name!r}; {hint} (plait train --keep N keeps more)")
    return folder


def find_members(sources: Sequence[str], out: Path) -> list[Member]:
    """The models that are to be put together in a new directory; everything that forbids it at once."""
    if out.exists():
        raise RequestError(f"--out {out}: is there already; choose another name")
    if len(sources) < 2:
        raise RequestError("give at least two models")
    members: list[Member] = []
    mistakes: list[str] = []
    seen: dict[str, str] = {}
    for source in sources:
        try:
            folder = find_member(source)
            about = read_about(folder)
            if is_ensemble(about):
                raise RequestError(f"{source}: is an ensemble; give its members, which lie in {folder}/members")
            check_format(folder, about)
            identity = model_identity(folder)
            if identity in seen:
                raise RequestError(f"{source}: is the same model as {seen[identity]}; give each one once")
        except (ModelError, RequestError) as error:
            mistakes += error.mistakes
            continue
        tasks = {spec["name"]: spec_from_json(spec) for spec in about["tasks"]}
        members.append(Member(source, folder, about, tasks))
        seen[identity] = source
    if not mistakes:
        mistakes = task_differences([member.name for member in members], [member.tasks for member in members])
    if mistakes:
        raise RequestError(*mistakes)
    return members


def make_ensemble(sources: Sequence[str], out: Path) -> None:
    """Copy the models into one directory that answers with their mean; it appears whole."""
    members = find_members(sources, out)
    abouts = [member.about for member in members]
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(out) as place:
        for number, member in enumerate(members, start=1):
            copy = place / "members" / str(number)
            copy_model(member.folder, copy)
        tasks = member_tasks([member.tasks for member in members])
        facts = {
            "format": FORMAT,
            "kind": ENSEMBLE,
            "plait": plait.__version__,
            "members": [member.to_json() for member in members],
            "tasks": [spec_to_json(spec) for spec in tasks.values()],
            "step": 0,
            "scores": {},
            "baselines": member_scores(members),
            "recipe": abouts[0]["recipe"],
            "data": shared_data(abouts),
            "kept": shared_kept(abouts),
        }
        write_json(place / "plait.json", facts)
        (place / "README.md").write_text(ensemble_card(tasks, facts["members"]), encoding="utf-8")
        # The manifest of each member answers for its files.
        read = [place / "plait.json", *sorted(place.glob("members/*/manifest.json"))]
        prints = {path.relative_to(place).as_posix(): sha256_of(path) for path in read}
        write_json(place / "manifest.json", {"sha256": prints})


def copy_model(folder: Path, place: Path) -> None:
    """The files that loading reads, their manifest and the model card; the copy is checked."""
    manifest = manifest_of(folder)
    for name in (*manifest, "manifest.json", "README.md"):
        if (folder / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, place / name)
    try:
        check_manifest(place, manifest)
    except ModelError as error:
        raise ModelError(*(mistake.replace(str(place), str(folder)) for mistake in error.mistakes)) from None


def make_soup(sources: Sequence[str], out: Path) -> None:
    """One ordinary model with the mean of the models' weights; refused where they are not weights of the same thing."""
    members = find_members(sources, out)
    first = load_plait_model(members[0].folder)
    total = {name: tensor.to(torch.float64) for name, tensor in first.state_dict().items()}
    mistakes: list[str] = []
    for member in members[1:]:
        model = load_plait_model(member.folder)
        if differing := weight_differences(members[0], first, member, model):
            mistakes += differing
            continue
        add(total, model.state_dict())
    if mistakes:
        raise RequestError(*mistakes, "--soup needs weights of the same kind; without it each model is asked")
    first.load_state_dict({name: (tensor / len(members)).to(torch.float32) for name, tensor in total.items()})
    abouts = [member.about for member in members]
    about = About(
        recipe=abouts[0]["recipe"],
        data=shared_data(abouts),
        baselines=member_scores(members),
        kept=shared_kept(abouts),
        members=[member.to_json() for member in members],
    )
    save_model(first, out, about)


def add(total: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
    """Add weights of the same names to a sum."""
    for name, tensor in weights.items():
        total[name] += tensor.to(torch.float64)


def weight_differences(first: Member, one: Model, member: Member, other: Model) -> list[str]:
    """What makes the weights of two models different things: architecture, tokenizer, pooling, layers or heads."""
    pairs: list[tuple[str, object, object]] = [
        (f"the encoder's {words}", getattr(one.encoder.config, name), getattr(other.encoder.config, name))
        for name, words in SIZES.items()
        if name not in NOT_WEIGHTS
    ]
    pairs.append(("the pooling", one.pooling, other.pooling))
    pairs.append(("`normalise`", one.normalise, other.normalise))
    pairs.append(("the shared layer", first.about["shared_layer"], member.about["shared_layer"]))
    for task, spec in one.tasks.items():
        also = other.tasks[task]
        pairs.append((f"the head of {task!r}", head_of(spec), head_of(also)))
        pairs.append((f"the link of {task!r}", spec.link, also.link))
    mistakes = [
        f"{member.name}: {what} is {also}; in {first.name} it is {here}" for what, here, also in pairs if here != also
    ]
    if one.text.files["tokenizer.json"] != other.text.files["tokenizer.json"]:
        mistakes.append(f"{member.name}: has another tokenizer than {first.name}")
    return mistakes


def head_of(spec: TaskSpec) -> str:
    """A head with its options, as a recipe says it."""
    options = "".join(f", {name}: {value}" for name, value in spec.head_options.items() if value is not None)
    return f"{{name: {spec.head}{options}}}" if options else spec.head


def shared_data(abouts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Task → split → files, for the splits whose rows were the same in the making of every model."""
    first, *others = abouts
    return {
        task: {split: found for split, found in splits.items() if all(same_rows(first, a, task, split) for a in others)}
        for task, splits in first["data"].items()
    }


def same_rows(one: dict[str, Any], other: dict[str, Any], task: str, split: str) -> bool:
    """Whether two models were made beside the same rows; what was drawn from training data depends on the seed."""
    if other["data"].get(task, {}).get(split) != one["data"][task][split]:
        return False
    here, there = (recipe_tasks(about["recipe"])[task] for about in (one, other))
    folded = one["recipe"].get("fold") is not None
    shared = [name for name in SPLITS if isinstance(here[name], float) or (folded and name == "test")]
    from_train = split in ("train", *shared)
    limit = "rows" if split == "train" else "dev_rows"
    reading = {"text", "label", "quoting", "make", "train" if split in shared else split, limit, *shared}
    if folded and from_train:
        reading.add("rows")
    if any(here.get(key) != there.get(key) for key in reading):
        return False
    drawn = (split == "train" and here.get("rows") is not None) or (shared and from_train)
    keys = ["bad_rows", *(["seed"] if drawn else []), *(["fold"] if from_train or split == "test" else [])]
    return all(one["recipe"].get(key) == other["recipe"].get(key) for key in keys)


def shared_kept(abouts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Where the data of tasks of an earlier model came from, where all models say the same."""
    first, *others = abouts
    kept: dict[str, Any] = first.get("kept", {})
    return {task: origin for task, origin in kept.items() if all(a.get("kept", {}).get(task) == origin for a in others)}


def member_scores(members: Sequence[Member]) -> dict[str, dict[str, dict[str, float]]]:
    """Split → baseline → task → value: what the models reach on the same dev rows, on average and the best of them."""
    data = shared_data([member.about for member in members])
    scores = [
        {
            task: member.about["scores"][task][spec.metric]
            for task, spec in member.tasks.items()
            if "dev" in data.get(task, {}) and spec.metric in member.about["scores"].get(task, {})
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
