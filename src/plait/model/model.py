"""One encoder, its heads, one forward.

S inputs, B batch, D width, C outputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from plait.data.batch import Batch
from plait.encoder.bert import Encoder
from plait.encoder.packing import pack
from plait.model.tasks import TaskSpec

__all__ = ["Model", "Text"]


@dataclass(frozen=True)
class Text:
    """How a model turns text into tokens, and the files that say so to other tools."""

    tokenizer: Tokenizer
    limit: int
    files: dict[str, bytes]  # tokenizer.json and its companions, by name


class Model(nn.Module):
    """Encoder and heads. Heads see the pooled embedding; `normalise` concerns only what `embed` gives to users."""

    def __init__(
        self,
        encoder: Encoder,
        text: Text,
        tasks: Mapping[str, TaskSpec],
        heads: Mapping[str, nn.Module],
        *,
        pooling: str,
        normalise: bool,
        shared_layer: nn.Module | None = None,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.text = text
        self.tasks = dict(tasks)
        self.heads = nn.ModuleDict({name: heads[name] for name in tasks})
        self.shared_layer = shared_layer
        self.pooling = pooling
        self.normalise = normalise
        self.precision = precision

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.encoder.tokens.weight.device

    def pooled(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Tensor:
        """Embeddings (S, D) of tokenized inputs, encoded in one packed pass."""
        packed = pack(ids, firsts, first_position=self.encoder.config.first_position, device=self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            pooled_SD = self.encoder.pool(self.encoder(packed), packed, self.pooling)
        return pooled_SD.float()

    def outputs(self, task: str, views_BD: Sequence[Tensor]) -> Tensor:
        """Outputs (B, C) of a task's head from the embeddings of its views."""
        if self.shared_layer is not None:
            views_BD = [self.shared_layer(view_BD) for view_BD in views_BD]
        outputs_BC: Tensor = self.heads[task](*views_BD)
        return outputs_BC

    def views(self, batch: Batch) -> dict[str, Tensor]:
        """The embeddings (B, D) of each view of a batch, encoded in one packed pass."""
        pooled_SD = self.pooled(batch.ids, batch.firsts)
        return {view: pooled_SD[place] for view, place in batch.views.items()}

    def forward(self, batch: Batch) -> Tensor:
        """Outputs (B, C) for a batch of one task."""
        views = self.views(batch)
        return self.outputs(batch.task, [views[view] for view in self.tasks[batch.task].views])
