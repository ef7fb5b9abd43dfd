"""Token states → embeddings.

N packed tokens, S texts, D width.
"""

import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from plait.encoder.bert import Encoder
from plait.encoder.config import EncoderConfig
from plait.encoder.packing import Packed, pack
from plait.encoder.pooling import POOLINGS, pool, token_shares


def pack_lengths(lengths: list[int]) -> Packed:
    """Texts of these lengths with consecutive ids."""
    ends = np.cumsum(lengths)
    ids = [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    return pack(ids, lengths, first_position=0, device=torch.device("cpu"))


def pool_as(how: str, states_ND: Tensor, packed: Packed) -> Tensor:
    """The embeddings; a pooling that needs scores gets the first number of each state."""
    return pool(states_ND, packed, how, states_ND[:, 0] if POOLINGS[how].scored else None)


# Text 0 has the states (1, 9) and (3, 8), text 1 has (5, -1) alone; packed, the shorter text 1 comes first.
HAND = pack_lengths([2, 1])
HAND_STATES_ND = torch.tensor([[5.0, -1.0], [1.0, 9.0], [3.0, 8.0]])


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("cls", [[1.0, 9.0], [5.0, -1.0]]),  # the first token's
        ("mean", [[2.0, 8.5], [5.0, -1.0]]),  # (1 + 3) / 2, (9 + 8) / 2
        ("max", [[3.0, 9.0], [5.0, -1.0]]),  # the larger of each column
    ],
)
def test_pooling_by_hand(how, expected):
    assert pool(HAND_STATES_ND, HAND, how).tolist() == expected


def test_weighted_pooling_by_hand():
    scores_N = torch.tensor([7.0, math.log(3.0), 0.0])  # ¾ and ¼ in text 0
    expected = torch.tensor([[0.75 * 1 + 0.25 * 3, 0.75 * 9 + 0.25 * 8], [5.0, -1.0]])
    torch.testing.assert_close(pool(HAND_STATES_ND, HAND, "weighted", scores_N), expected, rtol=0, atol=1e-6)
    shares_N = token_shares(scores_N, HAND)
    torch.testing.assert_close(shares_N, torch.tensor([1.0, 1.5, 0.5]), rtol=0, atol=1e-6)


def test_equal_scores_give_the_mean():  # identity
    mean_SD = pool(HAND_STATES_ND, HAND, "mean")
    for score in (0.0, 3.0):
        weighted_SD = pool(HAND_STATES_ND, HAND, "weighted", torch.full((3,), score))
        torch.testing.assert_close(weighted_SD, mean_SD, rtol=0, atol=1e-6)


def test_weights_of_a_text_sum_to_its_number_of_tokens():  # property
    for seed in range(20):
        lengths = random.Random(seed).choices(range(1, 6), k=9)
        packed = pack_lengths(lengths)
        shares_N = token_shares(torch.randn(sum(lengths), generator=torch.Generator().manual_seed(seed)), packed)
        sums_S = torch.zeros(9).index_add_(0, packed.text_of_tokens(), shares_N)
        torch.testing.assert_close(sums_S, torch.tensor(lengths, dtype=torch.float32), rtol=0, atol=1e-5)


def test_pooler_by_hand():
    config = EncoderConfig(
        model_type="bert",
        vocab_size=9,
        width=2,
        layers=0,
        heads=1,
        hidden=4,
        positions=8,
        first_position=0,
        segments=2,
        norm_eps=1e-12,
        dropout=0.0,
        attention_dropout=0.0,
        limit=8,
        pooling=None,
        normalise=False,
        raw={},
    )
    encoder = Encoder(config, pooler=True)
    with torch.no_grad():
        encoder.pooler.weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
        encoder.pooler.bias.copy_(torch.tensor([0.5, -10.0]))
    # text 0: [CLS] is (1, 9): (1 + 0.5, 1 + 9 - 10) = (1.5, 0); text 1: (5, -1): (5 + 0.5, 5 - 1 - 10) = (5.5, -6)
    expected = [[math.tanh(1.5), 0.0], [math.tanh(5.5), math.tanh(-6.0)]]
    torch.testing.assert_close(encoder.pool(HAND_STATES_ND, HAND, "pooler"), torch.tensor(expected), rtol=0, atol=1e-6)


def test_state_of_a_single_token_is_the_embedding():  # identity
    packed = pack_lengths([1, 1, 1])
    states_ND = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    for how in POOLINGS:
        assert torch.equal(pool_as(how, states_ND, packed), states_ND), how


@given(st.lists(st.integers(1, 7), min_size=1, max_size=10), st.integers(0, 2**32 - 1))
def test_embeddings_are_those_of_each_text_in_the_order_given(lengths, seed):  # property
    packed = pack_lengths(lengths)
    table_ND = torch.randn(sum(lengths), 3, generator=torch.Generator().manual_seed(seed))  # the state of each id
    texts = table_ND.split(lengths)
    expected = {
        "cls": [text_TD[0] for text_TD in texts],
        "pooler": [text_TD[0] for text_TD in texts],
        "mean": [text_TD.mean(dim=0) for text_TD in texts],
        "max": [text_TD.max(dim=0).values for text_TD in texts],
        "weighted": [text_TD[:, 0].softmax(dim=0) @ text_TD for text_TD in texts],
    }
    assert expected.keys() == POOLINGS.keys()
    for how, rows in expected.items():  # a mean of 7 numbers of size 1 in float32 may be summed in another order
        found = pool_as(how, table_ND[packed.ids_N], packed)
        torch.testing.assert_close(found, torch.stack(rows), rtol=0, atol=1e-6)


def test_shuffled_texts_give_shuffled_embeddings():
    for seed in range(20):
        lengths = random.Random(seed).choices(range(1, 6), k=9)
        order = random.Random(seed + 100).sample(range(9), 9)
        ids = [np.arange(start, start + length) for start, length in zip(range(0, 90, 10), lengths, strict=True)]
        states_ND = torch.randn(90, 4, generator=torch.Generator().manual_seed(seed))
        packings = [
            pack(chosen, [len(text) for text in chosen], first_position=0, device=torch.device("cpu"))
            for chosen in (ids, [ids[text] for text in order])
        ]
        for how in POOLINGS:
            straight_SD, shuffled_SD = (pool_as(how, states_ND[packed.ids_N], packed) for packed in packings)
            assert torch.equal(shuffled_SD, straight_SD[order]), f"{how}, seed {seed}"
