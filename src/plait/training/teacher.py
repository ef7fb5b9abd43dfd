"""What a teacher says about the training rows of a task, for the loss `distil`.

n rows, C outputs.
"""

import torch
from torch import Tensor, nn

from plait.data.examples import Examples
from plait.model.decode import outputs_of
from plait.model.encode_texts import Advance, AnyModel, predict_columns
from plait.model.tasks import TaskSpec

__all__ = ["TeacherOutputs"]


class TeacherOutputs(nn.Module):
    """The outputs that a head would need to answer as the teacher does; a checkpoint holds them."""

    outputs_nC: Tensor

    def __init__(self, rows: int, spec: TaskSpec) -> None:
        """Zeros until the teacher is asked, or a checkpoint is loaded."""
        super().__init__()
        self._spec = spec
        self.register_buffer("outputs_nC", torch.zeros(rows, spec.labels.outputs))

    def ask(self, teacher: AnyModel, train: Examples, advance: Advance) -> None:
        """Let the teacher answer all training rows."""
        predicted = predict_columns(teacher, self._spec.name, train.texts, advance=advance).predictions
        outputs_nC = predicted.values[:, None] if predicted.probabilities is None else outputs_of(predicted, self._spec)
        self.outputs_nC.copy_(torch.from_numpy(outputs_nC))
