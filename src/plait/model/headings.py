"""The columns of predictions in every file and table: their names follow from the task, never from the input."""

from plait.model.tasks import TaskSpec

__all__ = ["PREDICTION", "PROBABILITY", "class_heading", "prediction_headings"]

PREDICTION = "prediction"  # the label, or the score of a task that predicts scores
PROBABILITY = "probability"  # of the predicted label


def class_heading(name: str) -> str:
    """The column of the probability of a class."""
    return f"p({name})"


def prediction_headings(spec: TaskSpec, top_k: int | None = None) -> dict[str, str]:
    """The columns of a task's predictions, with their types.

    A score has one column. Labels have their probability, and that of each class; or the `top_k` most probable classes.
    """
    about = spec.labels.about
    if about.is_score:
        return {PREDICTION: "number"}
    columns = {PREDICTION: "texts" if about.multilabel else "text", PROBABILITY: "number"}
    if top_k is None:
        return columns | {class_heading(name): "number" for name in spec.labels.names}
    for place in range(1, min(top_k, len(spec.labels.names)) + 1):
        columns |= {f"top {place}": "text", class_heading(f"top {place}"): "number"}
    return columns
