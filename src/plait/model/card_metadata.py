"""The front matter of a model card, which model hubs read and show: what the model is for, its scores, its encoder."""

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plait.encoder.find import hub_name
from plait.model.tasks import TaskSpec

if TYPE_CHECKING:
    from plait.model.directory.record import Provenance

__all__ = ["HERE", "card_metadata", "published_card"]

HERE = "path/to/this/directory"  # what a card calls its model until it is published
_UNNAMED = '- name: "plait"'
_HUB_METRICS = {"pearson": "pearsonr", "spearman": "spearmanr"}  # where the hub's name differs


def card_metadata(tasks: Mapping[str, TaskSpec], provenance: "Provenance", *, is_encoder: bool = True) -> str:
    """YAML between two lines of dashes; the dev scores are its model-index.

    Only a directory that `is_encoder` opens in sentence-transformers.
    """
    lines = ["---"]
    if is_encoder:
        lines += ["library_name: sentence-transformers", "pipeline_tag: sentence-similarity"]
    lines.append(f"tags: [plait, multi-task{'' if is_encoder else ', ensemble'}]")
    if base := hub_name(provenance.recipe.get("encoder", "")):
        lines.append(f"base_model: {base}")
    if datasets := _hub_datasets(provenance):
        lines += ["datasets:", *(f"- {json.dumps(name)}" for name in datasets)]
    if results := [line for spec in tasks.values() for line in _result(spec, provenance)]:
        lines += ["model-index:", _UNNAMED, "  results:", *results]
    return "\n".join([*lines, "---"])


def published_card(card: str, name: str) -> str:
    """A card with the name OWNER/NAME that its model gets on the hub."""
    return card.replace(HERE, name).replace(_UNNAMED, f"- name: {json.dumps(name.partition('/')[2])}", 1)


def _result(spec: TaskSpec, provenance: "Provenance") -> list[str]:
    """The finite dev scores of a task as an entry of the model-index, in JSON, which YAML contains."""
    scores = {name: value for name, value in provenance.scores.get(spec.name, {}).items() if math.isfinite(value)}
    if not scores:
        return []
    compares = len(spec.text) > 1 and (spec.labels.about.is_score or len(spec.text) == 3)
    kind = "sentence-similarity" if compares else "text-classification"
    sources = _names(provenance, spec.name, "dev") or _names(provenance, spec.name, "train") or [spec.name]
    shown = ", ".join(sources)
    metrics = [{"type": _HUB_METRICS.get(name, name), "value": value, "name": name} for name, value in scores.items()]
    return [
        f"  - task: {_json({'type': kind, 'name': spec.name})}",
        f"    dataset: {_json({'type': _dataset(shown), 'name': shown, 'split': 'dev'})}",
        "    metrics:",
        *(f"    - {_json(metric)}" for metric in metrics),
    ]


def _names(provenance: "Provenance", task: str, split: str) -> list[str]:
    """The files of a split, by name."""
    return [file["name"] for file in provenance.data.get(task, {}).get(split, ())]


def _hub_datasets(provenance: "Provenance") -> list[str]:
    """The data sets of the hub that the model was trained on."""
    names = [name for task in provenance.data for name in _names(provenance, task, "train")]
    return [*dict.fromkeys(_dataset(name) for name in names if name.startswith("hub:"))]


def _dataset(name: str) -> str:
    """OWNER/NAME of hub:OWNER/NAME:CONFIG@SPLIT; files stay as they are."""
    return re.split("[:@]", name.removeprefix("hub:"))[0] if name.startswith("hub:") else name


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
