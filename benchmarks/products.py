"""The matrix products of an encoder alone: the least time that a pass over some texts can take on this machine.

N tokens, D width, F hidden width, S texts, H attention heads, T tokens of a text, d width of a head.
"""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

WIDTH, HIDDEN, LAYERS, HEADS = 384, 1536, 6, 12  # minilm's


class Products:
    """Those of one pass over texts of these lengths, without padding; the memory for their results is there before."""

    def __init__(self, lengths: Sequence[int]) -> None:
        tokens = sum(lengths)
        shapes = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH)]
        self.linears = [Linear(tokens, *shape) for shape in shapes]
        self.attentions = [Attention(count, length) for length, count in sorted(Counter(lengths).items())]

    def forward(self) -> None:
        """Those of a forward pass."""
        for _ in range(LAYERS):
            for part in (*self.linears, *self.attentions):
                part.forward()

    def forward_and_backward(self) -> None:
        """Those of a forward and a backward pass."""
        self.forward()
        for _ in range(LAYERS):
            for part in (*self.linears, *self.attentions):
                part.backward()


class Linear:
    """A linear layer."""

    def __init__(self, tokens: int, inputs: int, outputs: int) -> None:
        self.weight_OI = torch.randn(outputs, inputs)
        self.input_NI, self.output_NO = torch.randn(tokens, inputs), torch.randn(tokens, outputs)
        self.weight_gradient_OI, self.input_gradient_NI = torch.empty(outputs, inputs), torch.empty(tokens, inputs)

    def forward(self) -> None:
        torch.mm(self.input_NI, self.weight_OI.T, out=self.output_NO)

    def backward(self) -> None:
        torch.mm(self.output_NO, self.weight_OI, out=self.input_gradient_NI)
        torch.mm(self.output_NO.T, self.input_NI, out=self.weight_gradient_OI)


class Attention:
    """Attention over texts of one length."""

    def __init__(self, texts: int, length: int) -> None:
        self.states_STd = torch.randn(texts * HEADS, length, WIDTH // HEADS)
        self.weights_STT, self.mixed_STd = torch.empty(texts * HEADS, length, length), torch.empty_like(self.states_STd)

    def forward(self) -> None:
        self.against(self.states_STd)
        self.times(self.weights_STT)

    def backward(self) -> None:
        self.against(self.states_STd)  # gradient of the weights
        self.times(self.weights_STT.transpose(1, 2))  # of the values
        self.times(self.weights_STT)  # of the queries
        self.times(self.weights_STT.transpose(1, 2))  # of the keys

    def against(self, states_STd: Tensor) -> None:
        torch.bmm(states_STd, states_STd.transpose(1, 2), out=self.weights_STT)

    def times(self, weights_STT: Tensor) -> None:
        torch.bmm(weights_STT, self.states_STd, out=self.mixed_STd)
