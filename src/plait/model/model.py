"""One encoder, its heads, one forward pass.

S inputs, B batch, N tokens, D width, C outputs.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from plait.data.batch import Batch
from plait.data.tokenize import TextTokenizer
from plait.encoder.bert import Encoder
from plait.encoder.cpu.prepared import Prepared, weight_versions
from plait.encoder.packing import Packed, pack
from plait.heads import Head
from plait.model.tasks import TaskSpec

__all__ = ["Encoded", "EncodedPart", "Engine", "Model", "Tokens"]


class Engine(Protocol):
    """Embeds for users in place of the model's own encoder."""

    @property
    def name(self) -> str:
        """torch or onnx."""

    @property
    def lanes(self) -> int:
        """How many batches it can process at the same time."""

    def pooled(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Tensor:
        """Embeddings (S, D) of tokenized inputs."""


@dataclass(frozen=True)
class Tokens:
    """The token states of one view."""

    states_ND: Tensor
    row_N: Tensor  # the row of the batch that each token belongs to
    special_N: Tensor  # whether the tokenizer added it, such as [CLS] and [SEP]

    def without_special(self) -> "Tokens":
        """Only the tokens of the text itself."""
        own_N = ~self.special_N
        return Tokens(self.states_ND[own_N], self.row_N[own_N], self.special_N[own_N])


@dataclass(frozen=True)
class EncodedPart:
    """The token states of some inputs of a batch, as packed."""

    inputs: Sequence[int]  # their numbers in the batch
    states_ND: Tensor
    packed: Packed


@dataclass(frozen=True)
class Encoded:
    """A batch after the encoder."""

    views: dict[str, Tensor]  # view → embeddings (B, D)
    parts: Sequence[EncodedPart] = ()  # all inputs of all views; none with stored embeddings


class Model(nn.Module):
    """Encoder and heads. Heads see the pooled embedding; `normalise` applies only to the embeddings that users get."""

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: TextTokenizer,
        tasks: Mapping[str, TaskSpec],
        heads: Mapping[str, nn.Module],
        *,
        pooling: str,
        normalise: bool,
        shared_layer: nn.Module | None = None,
        tokenizer_files: Mapping[str, bytes] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.tokenizer_files = dict(tokenizer_files or {})  # tokenizer.json and its companions, by name
        self.tasks = dict(tasks)
        self.heads = nn.ModuleDict({name: heads[name] for name in tasks if name in heads})  # a shared head only once
        self.shared_layer = shared_layer
        self.pooling = pooling
        self.normalise = normalise
        self.precision = "float32"  # or bf16, of the products in training
        self.engine: Engine | None = None
        self._prepared: Prepared | None = None
        self._precise: dict[nn.Module, tuple[list[tuple[int, int]], nn.Module]] = {}  # head → its copy in float64

    @property
    def members(self) -> "tuple[Model, ...]":
        """An ensemble has several; a model is its only member."""
        return (self,)

    @property
    def device(self) -> torch.device:
        return self.encoder.tokens.weight.device

    def limit(self, task: str | None = None) -> int:
        """The tokens to which inputs are truncated, for a task or for embeddings."""
        return self.tasks[task].max_length if task else self.tokenizer.limit

    def train(self, mode: bool = True) -> Self:
        """Switch to training; the weights that were prepared for inference are dropped, since they will change."""
        if mode:
            self._prepared = None
            self._precise = {}
        return super().train(mode)

    def prepared(self) -> Prepared | None:
        """The encoder in the layout that is fastest for inference; made on first use, and after weights were loaded."""
        self._prepared = Prepared.of(self.encoder, self._prepared)
        return self._prepared

    def states(
        self, ids: Sequence[np.ndarray], firsts: Sequence[int], encoder: Encoder | Prepared | None = None
    ) -> tuple[Tensor, Tensor, Packed]:
        """Embeddings (S, D) of tokenized inputs, and the states (N, D) of their tokens as packed."""
        encoder = encoder or self.encoder
        packed = self.pack(ids, firsts)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16" and self.training):
            states_ND = encoder(packed)
            pooled_SD = encoder.pool(states_ND, packed, self.pooling)
        return pooled_SD.to(self.encoder.tokens.weight.dtype), states_ND, packed

    def pack(self, ids: Sequence[np.ndarray], firsts: Sequence[int]) -> Packed:
        """Tokenized inputs as the encoder takes them."""
        return pack(ids, firsts, first_position=self.encoder.config.first_position, device=self.device)

    def outputs(self, task: str, views_BD: Sequence[Tensor]) -> Tensor:
        """Outputs (B, C) of a task's head from the embeddings of its views."""
        if self.shared_layer is not None:
            views_BD = [self.shared_layer(view_BD) for view_BD in views_BD]
        outputs_BC: Tensor = self.head(task)(*views_BD)
        return outputs_BC

    def precise_outputs(self, task: str, views_BD: Sequence[Tensor]) -> Tensor:
        """The same in float64 on the CPU, rounded to float32: a row's outputs do not depend on the rows beside it.

        In float32 they do, in the last bits: products of one row and of many are summed in different orders.
        """
        views_BD = [view_BD.double().cpu() for view_BD in views_BD]
        if self.shared_layer is not None:
            layer = self._in_float64(self.shared_layer)
            views_BD = [layer(view_BD) for view_BD in views_BD]
        outputs_BC: Tensor = self._in_float64(self.head(task))(*views_BD)
        return outputs_BC.float()

    def _in_float64(self, module: nn.Module) -> nn.Module:
        """A copy of a part of the model on the CPU; made on first use, and after weights were loaded."""
        versions = weight_versions(module)
        before = self._precise.get(module)
        if before is None or before[0] != versions:
            self._precise[module] = before = versions, deepcopy(module).to("cpu", torch.float64)
        return before[1]

    def head(self, task: str) -> nn.Module:
        """The head of a task, its own or that of another."""
        return self.heads[self.tasks[task].head_task]

    def project(self, task: str, views_BD: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The embeddings of some views as the task's head projects them before it compares them."""
        head = self.head(task)
        assert isinstance(head, Head) and head.projection is not None, "refused when the recipe is resolved"
        layer = head.get_submodule(head.projection)
        return {view: layer(view_BD) for view, view_BD in views_BD.items()}

    def encode(self, batch: Batch) -> Encoded:
        """Every view of a batch, encoded in one packed pass."""
        pooled_SD, states_ND, packed = self.states(batch.ids, batch.firsts)
        views = {view: pooled_SD[place] for view, place in batch.views.items()}
        return Encoded(views, [EncodedPart(range(len(batch.ids)), states_ND, packed)])

    def tokens(self, encoded: Encoded, place: slice) -> Tokens:
        """The tokens of some inputs of the batch, which are those of one view."""
        assert encoded.parts, "stored embeddings have no tokens"
        states_ND = torch.cat([part.states_ND for part in encoded.parts])
        ids_N = torch.cat([part.packed.ids_N for part in encoded.parts])
        input_N = torch.cat(
            [torch.tensor(part.inputs, device=self.device)[part.packed.text_of_tokens()] for part in encoded.parts]
        )
        chosen_N = (input_N >= place.start) & (input_N < place.stop)
        special_N = torch.isin(ids_N[chosen_N], torch.tensor(self.tokenizer.special_ids, device=self.device))
        return Tokens(states_ND[chosen_N], input_N[chosen_N] - place.start, special_N)

    def forward(self, batch: Batch) -> Tensor:
        """Outputs (B, C) for a batch of one task."""
        views = self.encode(batch).views
        return self.outputs(batch.task, [views[view] for view in self.tasks[batch.task].views])
