"""The model card: what the model does, how well, on which data, and what it cannot do."""

from collections.abc import Mapping, Sequence
from typing import Any

import plait
from plait.model.about import About
from plait.model.model import Model
from plait.model.tasks import TaskSpec

__all__ = ["ensemble_card", "model_card", "number"]

KINDS = {
    "classes": "one of several classes",
    "several": "several labels at once",
    "yes_no": "yes or no",
    "score": "a score",
    "triplets": "which of two texts is nearer",
    "unlabelled": "nothing, it only trains the encoder",
}
EXAMPLES = ('["a sentence"]', '[("a sentence", "another")]', '[("a sentence", "another", "a third")]')


def model_card(model: Model, about: About) -> str:
    """Markdown with the front matter that model hubs read."""
    from plait.recipe.read import recipe_text  # slow to import, and predicting has no need of it

    config = model.encoder.config
    title = f"One encoder, {len(model.tasks)} tasks" if model.tasks else "An encoder without tasks"
    measured = "Scores were measured on the dev files named above, which also chose this checkpoint"
    limits = [
        f"Texts are cut at {model.text.limit} tokens.",
        *([f"{measured}; on other text expect less."] if model.tasks else []),
        "The model repeats what stands in its training data, mistakes and prejudices included.",
    ]
    limits += [f"`{name}` was only scored, no step trained it (`learn: false`)." for name in only_scored(about.recipe)]
    if about.recipe.get("encoder") == "minilm":
        limits.append(
            "Its encoder, all-MiniLM-L6-v2, was trained on Quora duplicates, SNLI and MultiNLI among others: "
            "scores on those sets are not on wholly unseen text."
        )
    blocks = [
        "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\ntags: [plait, multi-task]\n---",
        f"# {title}\n\nMade by plait {plait.__version__} from the encoder "
        f"`{about.recipe.get('encoder', '?')}` ({config.model_type}, {config.layers} layers, {config.width} wide, "
        f"{model.pooling} pooling)." + mean_of_weights(about),
        usage(model.tasks) + "\n\nThe encoder alone also loads with `transformers.AutoModel.from_pretrained` and "
        "`sentence_transformers.SentenceTransformer`.",
        *([tasks_table(model.tasks), scores_table(model, about)] if model.tasks else []),
        "## Data\n\n| task | split | file | rows | sha256 |\n|---|---|---|---|---|\n" + "\n".join(data_rows(about)),
        f"## Recipe\n\n```yaml\n{recipe_text(about.recipe)}```",
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits),
    ]
    return "\n\n".join(blocks) + "\n"


def only_scored(recipe: Mapping[str, Any]) -> list[str]:
    """The tasks that no stage of a recipe trains."""
    blocks = [item for stage in recipe.get("stages") or [recipe] for item in stage.get("tasks", {}).items()]
    learned = {name for name, task in blocks if task.get("learn", True)}
    return [name for name in dict(blocks) if name not in learned]


def mean_of_weights(about: About) -> str:
    """A sentence for a model that is the mean of others."""
    names = ", ".join(f"`{member['name']}`" for member in about.members)
    return f" Its weights are the mean of those of {len(about.members)} models: {names}." if names else ""


def ensemble_card(tasks: Mapping[str, TaskSpec], members: Sequence[Mapping[str, Any]]) -> str:
    """What the directory of an ensemble holds, and who can open it."""
    head = "| folder | made from | step | " + "".join(f"{name}, {spec.metric} | " for name, spec in tasks.items())
    rows = [head.strip(), "|---" * (3 + len(tasks)) + "|"]
    for place, member in enumerate(members, start=1):
        scores = [number(member["scores"].get(name, {}).get(spec.metric)) for name, spec in tasks.items()]
        rows.append(f"| members/{place} | {member['name']} | {member['step']:,} | " + " | ".join(scores) + " |")
    blocks = [
        f"# {len(members)} models that answer as one\n\nMade by plait {plait.__version__}. The probability of a class, "
        "or a score, is the mean of what the members say. An embedding is the members' unit vectors side by side, "
        "divided by the root of their number: a unit vector again, and the cosine of two texts is the mean of the "
        "members' cosines.",
        usage(tasks),
        "Other tools cannot open this directory: transformers and sentence-transformers load one encoder, and there "
        "are several. Each folder in `members` is an ordinary model that they can open.",
        tasks_table(tasks),
        "## Members, with their scores on their own dev data\n\n" + "\n".join(rows),
    ]
    return "\n\n".join(blocks) + "\n"


def tasks_table(tasks: Mapping[str, TaskSpec]) -> str:
    """What each task reads and predicts."""
    rows = "\n".join(task_row(spec) for spec in tasks.values())
    return f"## Tasks\n\n| task | predicts | head | reads |\n|---|---|---|---|\n{rows}"


def usage(tasks: Mapping[str, TaskSpec]) -> str:
    """Code that runs as it stands."""
    lines = ["import plait", "", 'model = plait.load("path/to/this/directory")', 'model.embed(["a sentence"])']
    for spec in tasks.values():
        lines.append(f'model.predict("{spec.name}", {EXAMPLES[len(spec.text) - 1]})')
    return "## Use\n\n```python\n" + "\n".join(lines) + "\n```"


def task_row(spec: TaskSpec) -> str:
    """One task in the table of tasks."""
    return (
        f"| {spec.name} | {KINDS[spec.labels.kind]}: {spec.labels.describe()} | {spec.head} | {', '.join(spec.text)} |"
    )


def scores_table(model: Model, about: About) -> str:
    """The dev score of each task beside its baselines."""
    baselines = about.baselines.get("dev", {})
    names = list(baselines)
    head = (
        "| task | metric | "
        + "".join(f"{name} | " for name in names)
        + "this model |\n|---|---|"
        + "---|" * (len(names) + 1)
    )
    rows = []
    for name, spec in model.tasks.items():
        value = about.scores.get(name, {}).get(spec.metric)
        cells = [number(baselines[baseline].get(name)) for baseline in names] + [number(value)]
        rows.append(f"| {name} | {spec.metric} | " + " | ".join(cells) + " |")
    after = ", not yet measured; `plait evaluate` does" if about.members else f", after step {about.step}"
    return f"## Scores on dev{after}\n\n{head}\n" + "\n".join(rows)


def number(value: float | None) -> str:
    """Three decimals, or a dash."""
    return "–" if value is None or value != value else f"{value:.3f}"  # not a number differs from itself


def data_rows(about: About) -> list[str]:
    """One row a file."""
    return [
        f"| {task} | {split} | {file['name']} | {file['rows']:,} | `{file['sha256'][:16]}…` |"
        for task, splits in about.data.items()
        for split, files in splits.items()
        for file in files
    ]
