"""nearer: scale × (cos(a, b) − cos(a, c))."""

import pytest
import torch

from head_cases import SEEDS, WIDTH, build_head, draw_views, row
from plait.heads import HEADS
from properties import ROUNDING, assert_direction_matters_only


def test_nearer_by_hand():
    # cos(a, b) = 0.6 and cos(a, c) = 0.8: 5 × (0.6 − 0.8) = −1, c is closer
    value = build_head("nearer", scale=5.0)(row(2.0, 0.0), row(3.0, 4.0), row(0.4, 0.3)).item()
    assert value == pytest.approx(-1.0, abs=1e-5)  # float32


def test_the_same_text_twice_is_undecided():
    head = build_head("nearer", width=WIDTH)
    a_BD, b_BD = draw_views(12, 2)
    assert head(a_BD, b_BD, b_BD).tolist() == [[0.0]] * 4


def test_the_anchor_itself_against_its_opposite_is_twice_the_scale():
    (a_BD,) = draw_views(13, 1)
    values = build_head("nearer", width=WIDTH)(a_BD, a_BD, -a_BD).squeeze(-1).tolist()
    assert values == pytest.approx([40.0] * 4, abs=1e-4)  # the scale is 20 by default; float32


def test_swapping_the_choices_changes_the_sign_and_lengths_do_not_matter():
    head = build_head("nearer", width=WIDTH)
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw_views(seed, 3)
        outputs_B1 = head(a_BD, b_BD, c_BD)
        torch.testing.assert_close(head(a_BD, c_BD, b_BD), -outputs_B1, **ROUNDING)
        assert_direction_matters_only(head, (a_BD, b_BD, c_BD), atol=1e-4, rtol=1e-5)
        assert (outputs_B1.abs() <= 40 + 1e-4).all(), f"seed {seed}"


def test_nearer_is_for_triplets_and_takes_no_shared_layer():
    head = HEADS["nearer"]
    assert (head.reads, head.kinds, head.after_shared_layer) == ("triple", ("triplets",), False)
    assert [name for name, other in HEADS.items() if "triplets" in other.kinds] == ["nearer"]
