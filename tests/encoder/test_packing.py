"""Texts in one row of tokens without padding.

N packed tokens, S texts, T tokens of one text, D width.
"""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from plait.data.tokenize import TextTokenizer, load_tokenizer
from plait.encoder.bert import Encoder
from plait.encoder.config import read_config
from plait.encoder.packing import Group, Packed, pack
from plait.encoder.weights import encoder_from
from tiny import sentences

CPU = torch.device("cpu")


def pack_lists(ids: Sequence[Sequence[int]], firsts: Sequence[int], first_position: int = 0) -> Packed:
    return pack([np.array(text, np.int32) for text in ids], firsts, first_position=first_position, device=CPU)


def unpacked(tokens_N: Tensor, packed: Packed) -> list[Tensor]:
    """The tokens, or their states, of each text in the order the texts were given."""
    groups = zip(tokens_N.split(packed.tokens_per_group), packed.groups, strict=True)
    texts = [text for tokens, group in groups for text in tokens.view(group.count, group.length, *tokens.shape[1:])]
    return [texts[place] for place in packed.places_S.tolist()]


def test_texts_of_one_length_keep_their_order():  # identity
    packed = pack_lists([[7, 8], [5, 6], [9, 4]], [2, 2, 2])
    assert packed.ids_N.tolist() == [7, 8, 5, 6, 9, 4]
    assert packed.groups == (Group(3, 2),)
    assert packed.places_S.tolist() == [0, 1, 2]


def test_pack_by_hand():
    # By length: text 1 (1 token), text 3 (2), then texts 0 and 2 (3 each) in the order they were given.
    packed = pack_lists([[5, 6, 7], [8], [9, 10, 11], [12, 13]], [2, 1, 3, 1], first_position=2)
    assert packed.ids_N.tolist() == [8, 12, 13, 5, 6, 7, 9, 10, 11]
    assert packed.positions_N.tolist() == [2, 2, 3, 2, 3, 4, 2, 3, 4]  # each text counts from first_position
    assert packed.segments_N.tolist() == [0, 0, 1, 0, 0, 1, 0, 0, 0]  # text 3 has 1 token in segment 0, text 0 has 2
    assert packed.groups == (Group(1, 1), Group(1, 2), Group(2, 3))
    assert packed.tokens_per_group == [1, 2, 6]
    assert packed.places_S.tolist() == [2, 0, 3, 1]


@given(st.lists(st.lists(st.integers(3, 999), min_size=1, max_size=9), min_size=1, max_size=12), st.data())
def test_every_text_can_be_recovered(texts, data):
    firsts = [data.draw(st.integers(0, len(text))) for text in texts]
    packed = pack_lists(texts, firsts, first_position=3)
    assert [ids.tolist() for ids in unpacked(packed.ids_N, packed)] == texts
    for text, first, positions, segments in zip(
        texts, firsts, unpacked(packed.positions_N, packed), unpacked(packed.segments_N, packed), strict=True
    ):
        assert positions.tolist() == list(range(3, 3 + len(text)))
        assert segments.tolist() == [0] * first + [1] * (len(text) - first)


@pytest.fixture(scope="module")
def tokenizer(tiny_bert) -> TextTokenizer:
    return TextTokenizer(load_tokenizer(tiny_bert), 40)


@pytest.fixture(scope="module")
def encoder(tiny_bert) -> Encoder:
    return encoder_from(tiny_bert, read_config(tiny_bert), pooler=False).eval()


def states_of(encoder: Encoder, ids: Sequence[np.ndarray]) -> list[Tensor]:
    packed = pack(ids, [len(text) for text in ids], first_position=0, device=CPU)
    with torch.inference_mode():
        return unpacked(encoder(packed), packed)


def test_texts_do_not_attend_to_each_other(encoder, tokenizer):
    for seed in range(10):
        table = tokenizer.tokenize(sentences(12, seed=seed), 40)
        ids = [table.row(row) for row in range(12)]
        before = states_of(encoder, ids)
        changed = seed % 12
        for other in (ids[changed][::-1].copy(), np.concatenate([ids[changed], [3, 3]])):  # of equal length, and longer
            after = states_of(encoder, [*ids[:changed], other, *ids[changed + 1 :]])
            for text in range(12):
                if text == changed:
                    assert after[text].shape != before[text].shape or (after[text] - before[text]).abs().max() > 0.1
                else:  # states of size 1 to 4; a group of another size may round differently
                    torch.testing.assert_close(after[text], before[text], rtol=0, atol=2e-6)


def test_every_token_attends_to_its_whole_text(encoder, tokenizer):
    ids = tokenizer.tokenize(["the good film was never so dull"], 40).row(0)
    (before_TD,) = states_of(encoder, [ids])
    for place in range(len(ids)):
        changed = ids.copy()
        changed[place] = 1  # [UNK]
        (after_TD,) = states_of(encoder, [changed])
        assert ((after_TD - before_TD).abs().amax(dim=1) > 1e-4).all(), f"token {place}"


def test_text_of_tokens_gives_the_text_of_each_token():
    ids = [np.arange(10, 13), np.arange(20, 22), np.arange(30, 33), np.arange(40, 41)]
    packed = pack(ids, [len(text) for text in ids], first_position=0, device=torch.device("cpu"))
    text_N = packed.text_of_tokens()
    for number, text in enumerate(ids):
        assert packed.ids_N[text_N == number].tolist() == text.tolist()
