"""The model card: what the model does, how well, on which data, and what its limits are."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import plait
from plait.model.card_metadata import HERE, card_metadata
from plait.model.tasks import TaskSpec

if TYPE_CHECKING:
    from plait.model.directory.record import Provenance
    from plait.model.model import Model

__all__ = ["ensemble_card", "model_card", "three_decimals", "with_calibration"]

_CALIBRATION = "\n\n## Calibration\n\n"

_EXAMPLES = ('["a sentence"]', '[("a sentence", "another")]', '[("a sentence", "another", "a third")]')


def model_card(model: "Model", provenance: "Provenance") -> str:
    """Markdown with the front matter that model hubs read."""
    from plait.recipe.read import recipe_text  # slow to import, and not needed to predict

    config = model.encoder.config
    title = f"One encoder, {len(model.tasks)} tasks" if model.tasks else "An encoder without tasks"
    limits = [f"Texts are truncated to {model.limit()} tokens."]
    if model.tasks and provenance.refit:
        limits.append(
            "Scores are those of the same training without the dev rows. This model was then trained on all rows, so "
            "dev cannot score it."
        )
    elif model.tasks and _chosen_apart(provenance):
        limits.append("Scores were measured on dev rows that did not select this checkpoint (`choose_rows`).")
    elif model.tasks:
        limits.append(
            "Scores were measured on the dev files listed above, which also selected this checkpoint; "
            "expect less on other text."
        )
    limits.append("The model repeats what its training data says, including mistakes and prejudice.")
    limits += [f"`{name}` was scored but not trained (`learn: false`)." for name in _only_scored(provenance.recipe)]
    if provenance.recipe.get("encoder") == "minilm":
        limits.append(
            "Its encoder, all-MiniLM-L6-v2, was trained on Quora duplicates, SNLI and MultiNLI among others: "
            "scores on those sets are not on entirely unseen text."
        )
    blocks = [
        card_metadata(model.tasks, provenance),
        f"# {title}\n\nTrained by plait {plait.__version__} from the encoder "
        f"`{provenance.recipe.get('encoder', '?')}` ({config.model_type}, {config.layers} layers, width "
        f"{config.width}, {model.pooling} pooling)." + _averaged_models(provenance),
        _usage(model.tasks) + "\n\nThe encoder alone also loads with `transformers.AutoModel.from_pretrained` and "
        "`sentence_transformers.SentenceTransformer`.",
        *([_tasks_table(model.tasks), _scores_table(model, provenance)] if model.tasks else []),
        "## Data\n\n| task | split | file | rows | sha256 |\n|---|---|---|---|---|\n"
        + "\n".join(_data_rows(provenance)),
        f"## Recipe\n\n```yaml\n{recipe_text(provenance.recipe)}```",
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits),
    ]
    return with_calibration("\n\n".join(blocks) + "\n", provenance.calibration)


def with_calibration(card: str, calibration: Mapping[str, Any]) -> str:
    """A card with a last section about what was fitted after training, in place of an earlier one."""
    before, found, _ = card.partition(_CALIBRATION)
    if not calibration:
        return before if found else card
    rows = [
        f"| {task} | {one['rows']:,} | {one['data']} | {three_decimals(one['temperature'])} | {one['threshold']:.3g} | "
        f"{'–' if one['abstain_below'] is None else format(one['abstain_below'], '.3g')} | "
        f"{three_decimals(one['ece'][0])} | {three_decimals(one['ece'][1])} |"
        for task, one in calibration.items()
    ]
    head = "| task | rows | of | temperature | threshold | abstain below | ECE before | after |\n" + "|---" * 8 + "|\n"
    about = "Fitted on these rows; the calibration error (ECE) was measured on rows that were not fitted on.\n\n"
    return before.rstrip("\n") + _CALIBRATION + about + head + "\n".join(rows) + "\n"


def _chosen_apart(provenance: "Provenance") -> bool:
    """Whether other rows than those that are scored selected the model, for every task with dev data."""
    stages = provenance.recipe.get("stages") or [provenance.recipe]
    blocks = [block for stage in stages for block in stage.get("tasks", {}).values() if block.get("dev")]
    return bool(blocks) and all(block.get("choose_rows") for block in blocks)


def _only_scored(recipe: Mapping[str, Any]) -> list[str]:
    """The tasks that no stage of a recipe trains."""
    blocks = [item for stage in recipe.get("stages") or [recipe] for item in stage.get("tasks", {}).items()]
    trained = {name for name, task in blocks if task.get("learn", True)}
    return [name for name in dict(blocks) if name not in trained]


def _averaged_models(provenance: "Provenance") -> str:
    names = ", ".join(f"`{member['name']}`" for member in provenance.members)
    return f" Its weights are the mean of {len(provenance.members)} models: {names}." if names else ""


def ensemble_card(tasks: Mapping[str, TaskSpec], provenance: "Provenance") -> str:
    """What the directory of an ensemble holds, and what can open it."""
    members = provenance.members
    head = "| folder | made from | step | " + "".join(f"{name}, {spec.metric} | " for name, spec in tasks.items())
    rows = [head.strip(), "|---" * (3 + len(tasks)) + "|"]
    for place, member in enumerate(members, start=1):
        scores = [three_decimals(member["scores"].get(name, {}).get(spec.metric)) for name, spec in tasks.items()]
        rows.append(f"| members/{place} | {member['name']} | {member['step']:,} | " + " | ".join(scores) + " |")
    blocks = [
        card_metadata(tasks, provenance, is_encoder=False),
        f"# An ensemble of {len(members)} models\n\nBuilt by plait {plait.__version__}. The probability of a class, or "
        "a score, is the mean over the members. An embedding is the members' unit vectors concatenated and divided by "
        "the square root of their number: a unit vector again, and the cosine of two texts is the mean of the members' "
        "cosines.",
        _usage(tasks),
        "Other tools cannot open this directory: transformers and sentence-transformers load a single encoder. "
        "Each folder in `members` is an ordinary model that they can open.",
        _tasks_table(tasks),
        "## Members, with their scores on their own dev data\n\n" + "\n".join(rows),
    ]
    return "\n\n".join(blocks) + "\n"


def _tasks_table(tasks: Mapping[str, TaskSpec]) -> str:
    rows = "\n".join(
        f"| {spec.name} | {spec.labels.about.predicts}: {spec.labels.describe()} | {spec.head_words} | "
        f"{', '.join(spec.text)} |"
        for spec in tasks.values()
    )
    return f"## Tasks\n\n| task | predicts | head | reads |\n|---|---|---|---|\n{rows}"


def _usage(tasks: Mapping[str, TaskSpec]) -> str:
    lines = ["import plait", "", f'model = plait.load("{HERE}")', 'model.embed(["a sentence"])']
    for spec in tasks.values():
        lines.append(f'model.predict("{spec.name}", {_EXAMPLES[len(spec.text) - 1]})')
    return "## Use\n\n```python\n" + "\n".join(lines) + "\n```"


def _scores_table(model: "Model", provenance: "Provenance") -> str:
    """The dev score of each task beside its baselines."""
    baselines = provenance.baselines.get("dev", {})
    names = list(baselines)
    head = (
        "| task | metric | "
        + "".join(f"{name} | " for name in names)
        + "this model |\n|---|---|"
        + "---|" * (len(names) + 1)
    )
    rows = []
    for name, spec in model.tasks.items():
        value = provenance.scores.get(name, {}).get(spec.metric)
        cells = [three_decimals(baselines[baseline].get(name)) for baseline in names] + [three_decimals(value)]
        rows.append(f"| {name} | {spec.metric} | " + " | ".join(cells) + " |")
    after = ", not measured yet; run `plait evaluate`" if provenance.members else f", after step {provenance.step}"
    return f"## Scores on dev{after}\n\n{head}\n" + "\n".join(rows)


def three_decimals(value: float | None) -> str:
    """Three decimals, or a dash for a missing value or NaN."""
    return "–" if value is None or value != value else f"{value:.3f}"


def _data_rows(provenance: "Provenance") -> list[str]:
    return [
        f"| {task} | {split} | {file['name']} | {file['rows']:,} | `{file['sha256'][:16]}…` |"
        for task, splits in provenance.data.items()
        for split, files in splits.items()
        for file in files
    ]
