"""One encoder, its heads, one forward.

S inputs, B batch, N tokens, D width, C outputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from plait.data.batch import Batch
from plait.encoder.bert import Encoder
from plait.encoder.packing import Packed, pack
from plait.encoder.prepared import Prepared
from plait.heads import Head
from plait.model.tasks import TaskSpec

__all__ = ["Encoded", "Engine", "Model", "Text", "Tokens"]


class Engine(Protocol):
    """What embeds for users in the place of the model's own encoder."""

    lanes: int  # batches that it can work on at once

    def pooled(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Tensor:
        """Embeddings (S, D) of tokenized inputs."""


@dataclass(frozen=True)
class Text:
    """How a model turns text into tokens, and the files that say so to other tools."""

    tokenizer: Tokenizer
    limit: int
    files: dict[str, bytes]  # tokenizer.json and its companions, by name

    @property
    def special(self) -> list[int]:
        """The ids of the tokens that are added to a text or a pair."""
        return sorted({*self.tokenizer.encode("").ids, *self.tokenizer.encode("", "").ids})


@dataclass(frozen=True)
class Tokens:
    """The states of the tokens of one view."""

    states_ND: Tensor
    row_N: Tensor  # the row of the batch that each belongs to
    special_N: Tensor  # whether it is one that the tokenizer adds, such as [CLS] and [SEP]

    def without_special(self) -> "Tokens":
        """Only those of the text itself."""
        own_N = ~self.special_N
        return Tokens(self.states_ND[own_N], self.row_N[own_N], self.special_N[own_N])


@dataclass(frozen=True)
class Encoded:
    """A batch behind the encoder."""

    views: dict[str, Tensor]  # view → embeddings (B, D)
    states_ND: Tensor | None = None  # of all tokens of all views, as they are packed
    packed: Packed | None = None


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
        self.prepared: Prepared | None = None
        self.engine: Engine | None = None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.encoder.tokens.weight.device

    def train(self, mode: bool = True) -> Self:
        """As of every module; what was prepared is of no use once the weights learn."""
        if mode:
            self.prepared = None
        return super().train(mode)

    def prepare(self) -> None:
        """Make `pooled` as fast as it can be, until a weight is loaded or the model trains again."""
        self.prepared = Prepared.of(self.encoder, self.prepared) if self.precision == "float32" else None

    def pooled(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Tensor:
        """Embeddings (S, D) of tokenized inputs, encoded in one packed pass without a graph."""
        return self.states(ids, firsts, self.prepared)[0]

    def states(
        self, ids: Sequence[np.ndarray], firsts: Sequence[int], prepared: Prepared | None = None
    ) -> tuple[Tensor, Tensor, Packed]:
        """Embeddings (S, D) of tokenized inputs, and the states (N, D) of their tokens as they were packed."""
        packed = pack(ids, firsts, first_position=self.encoder.config.first_position, device=self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            states_ND = (prepared or self.encoder)(packed)
            pooled_SD = self.encoder.pool(states_ND, packed, self.pooling)
        return pooled_SD.float(), states_ND, packed

    def outputs(self, task: str, views_BD: Sequence[Tensor]) -> Tensor:
        """Outputs (B, C) of a task's head from the embeddings of its views."""
        if self.shared_layer is not None:
            views_BD = [self.shared_layer(view_BD) for view_BD in views_BD]
        outputs_BC: Tensor = self.heads[task](*views_BD)
        return outputs_BC

    def project(self, task: str, views_BD: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The embeddings of some views as the task's head projects them before it compares them."""
        head = self.heads[task]
        assert isinstance(head, Head) and head.projection is not None, "refused when the recipe is settled"
        layer = head.get_submodule(head.projection)
        return {view: layer(view_BD) for view, view_BD in views_BD.items()}

    def encode(self, batch: Batch) -> Encoded:
        """Every view of a batch, encoded in one packed pass."""
        pooled_SD, states_ND, packed = self.states(batch.ids, batch.firsts)
        return Encoded({view: pooled_SD[place] for view, place in batch.views.items()}, states_ND, packed)

    def tokens(self, encoded: Encoded, place: slice) -> Tokens:
        """The tokens of the inputs at a place in the batch, that of one view."""
        assert encoded.states_ND is not None and encoded.packed is not None, "stored embeddings have no tokens"
        text_N = encoded.packed.text_of_tokens()
        chosen_N = (text_N >= place.start) & (text_N < place.stop)
        ids_N = encoded.packed.ids_N[chosen_N]
        special_N = torch.isin(ids_N, torch.tensor(self.text.special, device=ids_N.device))
        return Tokens(encoded.states_ND[chosen_N], text_N[chosen_N] - place.start, special_N)

    def forward(self, batch: Batch) -> Tensor:
        """Outputs (B, C) for a batch of one task."""
        views = self.encode(batch).views
        return self.outputs(batch.task, [views[view] for view in self.tasks[batch.task].views])
