"""The model whose answers a run learns from, beside the labels."""

from collections.abc import Iterator, Mapping

from plait.data.labels import Labels
from plait.errors import EncoderError, ModelError, RecipeError, did_you_mean
from plait.losses import LOSSES
from plait.model.directory.record import open_directory
from plait.model.tasks import TaskSpec
from plait.recipe.choices import LossChoice
from plait.recipe.schema import Recipe
from plait.recipe.task import Task

__all__ = ["TEACHER_LOSS", "find_teacher", "learns_from_teacher", "validate_teacher"]

TEACHER_LOSS = LossChoice(name="distil")  # of tasks that name no loss


def find_teacher(recipe: Recipe) -> dict[str, TaskSpec]:
    """The tasks of the teacher, if the recipe has one."""
    if recipe.teacher is None:
        return {}
    try:
        directory = open_directory(recipe.teacher)
        directory.verify()
    except (EncoderError, ModelError) as error:
        raise RecipeError(*(recipe.where("teacher") + mistake for mistake in error.mistakes)) from None
    return directory.record.tasks


def learns_from_teacher(task: Task) -> bool:
    return any(LOSSES[loss.name].takes == "teacher" for loss in task.loss or ())


def validate_teacher(
    recipe: Recipe, name: str, task: Task, labels: Labels, teacher: Mapping[str, TaskSpec] | None
) -> Iterator[str]:
    """Why a task cannot learn from the teacher, if one of its losses does."""
    if not learns_from_teacher(task):
        return
    where = recipe.where("tasks", name, "loss")
    losses = [LOSSES[loss.name] for loss in task.loss or ()]
    deciding = next((loss for loss in losses if loss.takes == "predictions"), None)
    if deciding is None:
        yield f"{where}distil needs a loss on the labels beside it, such as {labels.about.loss}"
    elif any(loss.links.get(labels.kind) != deciding.links.get(labels.kind) for loss in losses if loss.of_predictions):
        yield f"{where}distil goes with {labels.about.loss}, whose outputs mean the same"
    if recipe.teacher is None:
        yield f"{where}distil needs a teacher; set teacher to a plait model, a run or an ensemble"
    elif teacher is None:  # it cannot be opened, which is reported once
        return
    elif name not in teacher:
        yield f"{where}the teacher has no task {name!r}; {did_you_mean(name, teacher)}"
    else:
        known = teacher[name]
        pairs = {
            "number of text columns": (len(known.text), len(task.text)),
            "kind of label": (known.labels.kind, labels.kind),
            "classes": (known.labels.classes, labels.classes),
        }
        for what, (there, here) in pairs.items():
            if there != here:
                yield f"{where}the teacher's task {name!r} differs in its {what}: {there}, here {here}"
                return
