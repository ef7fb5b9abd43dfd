"""Heads on one embedding, W x + b: `linear` reads a sentence, `joined` a pair in one input."""

import pytest
import torch

from head_cases import SEEDS, WIDTH, build_head, draw_views, row, set_weights
from plait.heads import HEADS
from properties import ROUNDING

both_heads = pytest.mark.parametrize("name", ["linear", "joined"])


@both_heads
def test_one_view_by_hand(name):
    head = build_head(name, outputs=2)
    set_weights(head.linear, [[3.0, -1.0], [0.5, 0.25]], [0.5, -1.0])
    # 3·1 − 1·2 + 0.5 = 1.5 and 0.5·1 + 0.25·2 − 1 = 0
    assert head(row(1.0, 2.0)).tolist() == [[1.5, 0.0]]


@both_heads
def test_identity_weights_return_the_embedding(name):
    head = build_head(name, width=3, outputs=3)
    set_weights(head.linear, torch.eye(3).tolist(), [0.0] * 3)
    assert head(row(1.0, -2.0, 3.0)).tolist() == [[1.0, -2.0, 3.0]]


@both_heads
def test_one_view_is_affine(name):
    head = build_head(name, width=WIDTH, outputs=3)
    for seed in SEEDS:
        x_BD, y_BD = draw_views(seed, 2)
        between = 0.25 * head(x_BD) + 0.75 * head(y_BD)
        torch.testing.assert_close(head(0.25 * x_BD + 0.75 * y_BD), between, **ROUNDING)


def test_linear_reads_one_sentence_and_joined_reads_a_pair():
    assert (HEADS["linear"].reads, HEADS["joined"].reads) == ("single", "joined")


def test_unit_linear_reads_the_embedding_at_unit_length():
    head = build_head("unit_linear")
    set_weights(head.linear, [[1.0, 10.0]], [0.5])
    assert head(row(3.0, 4.0)).item() == head(row(6.0, 8.0)).item() == pytest.approx(9.1, abs=1e-5)  # 0.6 + 8 + 0.5
