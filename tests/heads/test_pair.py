"""Heads on two sentences: a value by hand, an identity and a property of each."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from head_cases import SEEDS, WIDTH, build_head, draw_views, row, set_weights
from plait.heads import HEADS, Size
from properties import ROUNDING, assert_direction_matters_only

# concat: W [u; v] + b


def test_concat_by_hand():
    head = build_head("concat")
    set_weights(head.linear, [[1.0, 10.0, 100.0, 1000.0]], [0.5])
    # 1·1 + 10·2 + 100·3 + 1000·4 + 0.5
    assert head(row(1.0, 2.0), row(3.0, 4.0)).tolist() == [[4321.5]]


def test_concat_with_identity_weights_returns_one_side():
    head, (u_BD, v_BD) = build_head("concat", width=WIDTH, outputs=WIDTH), draw_views(5, 2)
    identity, zeros = torch.eye(WIDTH), torch.zeros(WIDTH, WIDTH)
    set_weights(head.linear, torch.cat([identity, zeros], dim=1).tolist(), [0.0] * WIDTH)
    assert torch.equal(head(u_BD, v_BD), u_BD)
    set_weights(head.linear, torch.cat([zeros, identity], dim=1).tolist(), [0.0] * WIDTH)
    assert torch.equal(head(u_BD, v_BD), v_BD)


def test_concat_is_the_sum_over_its_sides():
    head, zeros = build_head("concat", width=WIDTH, outputs=3), torch.zeros(4, WIDTH)
    for seed in SEEDS:
        u_BD, v_BD = draw_views(seed, 2)
        summed = head(u_BD, zeros) + head(zeros, v_BD) - head(zeros, zeros)
        torch.testing.assert_close(head(u_BD, v_BD), summed, **ROUNDING)


# joined_mean: W (J(a,b) + J(b,a)) / 2 + b


def test_joined_mean_by_hand():
    head = build_head("joined_mean")
    set_weights(head.linear, [[1.0, 2.0]], [0.5])  # 1·(1 + 3)/2 + 2·(2 + 0)/2 + 0.5 = 4.5
    assert head(row(1.0, 2.0), row(3.0, 0.0)).tolist() == [[4.5]]


def test_joined_mean_of_equal_embeddings_is_joined():
    mean, joined = build_head("joined_mean", width=WIDTH), build_head("joined", width=WIDTH)
    mean.load_state_dict(joined.state_dict())
    (joined_BD,) = draw_views(5, 1)
    assert torch.equal(mean(joined_BD, joined_BD), joined(joined_BD))


def test_joined_mean_is_the_mean_of_both_predictions():
    mean, joined = build_head("joined_mean", width=WIDTH, outputs=3), build_head("joined", width=WIDTH, outputs=3)
    mean.load_state_dict(joined.state_dict())
    for seed in SEEDS:
        one_BD, other_BD = draw_views(seed, 2)
        expected_BC = (joined(one_BD) + joined(other_BD)) / 2
        torch.testing.assert_close(mean(one_BD, other_BD), expected_BC, **ROUNDING)


# joined_both: W [W₁ J(a,b) + b₁; W₂ J(b,a) + b₂] + b


def test_joined_both_by_hand():
    head = build_head("joined_both")
    set_weights(head.forwards, [[1.0, 2.0]], [0.5])  # 1·1 + 2·2 + 0.5 = 5.5
    set_weights(head.backwards, [[3.0, -1.0]], [-0.25])  # 3·2 − 1·1 − 0.25 = 4.75
    set_weights(head.final, [[2.0, -4.0]], [1.0])  # 2·5.5 − 4·4.75 + 1 = −7
    assert head(row(1.0, 2.0), row(2.0, 1.0)).tolist() == [[-7.0]]


def test_joined_both_that_returns_its_first_logit_is_joined():
    both, joined = build_head("joined_both", width=WIDTH), build_head("joined", width=WIDTH)
    both.forwards.load_state_dict(joined.linear.state_dict())
    set_weights(both.final, [[1.0, 0.0]], [0.0])
    joined_BD, swapped_BD = draw_views(6, 2)
    assert torch.equal(both(joined_BD, swapped_BD), joined(joined_BD))


def test_joined_both_depends_on_both_orders():
    head = build_head("joined_both", width=WIDTH, outputs=3)
    for seed in SEEDS:
        joined_BD, swapped_BD, other_BD = draw_views(seed, 3)
        outputs_BC = head(joined_BD, swapped_BD)
        for changed_BC in (head(other_BD, swapped_BD), head(joined_BD, other_BD), head(swapped_BD, joined_BD)):
            assert ((outputs_BC - changed_BC).abs().amax(dim=1) > 1e-4).all(), f"seed {seed}"  # far above rounding


def test_joined_both_with_equal_halves_is_symmetric():
    head = build_head("joined_both", width=WIDTH)
    head.backwards.load_state_dict(head.forwards.state_dict())
    set_weights(head.final, [[0.7, 0.7]], [0.1])
    for seed in SEEDS:
        joined_BD, swapped_BD = draw_views(seed, 2)
        torch.testing.assert_close(head(joined_BD, swapped_BD), head(swapped_BD, joined_BD), **ROUNDING)


# joined_difference


def joined_difference(**options: str) -> nn.Module:
    head = build_head("joined_difference", **options)
    set_weights(head.forwards, [[1.0, 2.0]], [0.5])  # 1·1 + 2·2 + 0.5 = 5.5
    set_weights(head.backwards, [[3.0, 0.0]], [0.0])  # 3·2 = 6
    set_weights(head.between, [[1.0, 1.0]], [-1.0])  # (1 − 2) + (2 − 0) − 1 = 0
    set_weights(head.final, [[1.0, -1.0, 10.0]], [2.0])
    return head


def test_joined_difference_by_hand():
    assert joined_difference()(row(1.0, 2.0), row(2.0, 0.0)).tolist() == [[1.5]]


def test_joined_difference_applies_tanh_before_the_final_layer_and_not_after_it():
    expected = math.tanh(5.5) - math.tanh(6.0) + 10 * math.tanh(0.0) + 2.0
    value = joined_difference(activation="tanh")(row(1.0, 2.0), row(2.0, 0.0)).item()
    assert value == pytest.approx(expected, abs=1e-6)
    assert joined_difference()(row(1.0, 2.0), row(2.0, 0.0)).item() == 1.5


def test_joined_difference_without_its_third_part_is_joined_both():
    whole = build_head("joined_difference", width=WIDTH, outputs=3)
    part = build_head("joined_both", width=WIDTH, outputs=3)
    for layer in ("forwards", "backwards"):
        getattr(whole, layer).load_state_dict(getattr(part, layer).state_dict())
    set_weights(whole.between, torch.zeros(3, WIDTH).tolist(), [0.0] * 3)
    weight_C9 = torch.cat([part.final.weight.detach(), torch.ones(3, 3)], dim=1)
    set_weights(whole.final, weight_C9.tolist(), part.final.bias.tolist())
    views = draw_views(5, 2)
    torch.testing.assert_close(whole(*views), part(*views), atol=1e-6, rtol=1e-6)  # the same sums


# difference: W (u − v) + b


def test_difference_by_hand():
    head = build_head("difference")
    set_weights(head.linear, [[2.0, -1.0]], [0.5])
    # u − v = (−2, −3): 2·−2 − 1·−3 + 0.5 = −0.5
    assert head(row(1.0, 2.0), row(3.0, 5.0)).tolist() == [[-0.5]]


def test_difference_of_equal_embeddings_is_the_bias():
    head, (u_BD,) = build_head("difference", width=WIDTH, outputs=3), draw_views(7, 1)
    assert torch.equal(head(u_BD, u_BD), head.linear.bias.expand(4, 3))


def test_difference_without_bias_changes_sign_when_swapped():
    head = build_head("difference", width=WIDTH, outputs=3)
    nn.init.zeros_(head.linear.bias)
    for seed in SEEDS:
        u_BD, v_BD = draw_views(seed, 2)
        assert torch.equal(head(u_BD, v_BD), -head(v_BD, u_BD)), f"seed {seed}"


def test_difference_ignores_what_both_sides_share():
    head = build_head("difference", width=WIDTH, outputs=3)
    for seed in SEEDS:
        u_BD, v_BD, shift_BD = draw_views(seed, 3)
        torch.testing.assert_close(head(u_BD, v_BD), head(u_BD + shift_BD, v_BD + shift_BD), **ROUNDING)


def test_absolute_difference_by_hand():
    head = build_head("difference", absolute=True)
    set_weights(head.linear, [[2.0, -1.0]], [0.5])
    # |u − v| = (2, 3): 2·2 − 1·3 + 0.5 = 1.5
    assert head(row(1.0, 2.0), row(3.0, 5.0)).tolist() == [[1.5]]


def test_absolute_difference_of_larger_and_smaller_embeddings_is_the_signed_one():
    absolute, signed = (build_head("difference", width=WIDTH, outputs=3, absolute=flag) for flag in (True, False))
    u_BD, v_BD = draw_views(8, 2)
    larger_BD, smaller_BD = torch.maximum(u_BD, v_BD), torch.minimum(u_BD, v_BD)
    assert torch.equal(absolute(u_BD, v_BD), signed(larger_BD, smaller_BD))


def test_only_the_absolute_difference_is_symmetric():
    absolute = build_head("difference", width=WIDTH, outputs=3, absolute=True)
    assert absolute.symmetric and not build_head("difference").symmetric
    for seed in SEEDS:
        u_BD, v_BD = draw_views(seed, 2)
        assert torch.equal(absolute(u_BD, v_BD), absolute(v_BD, u_BD)), f"seed {seed}"


def test_only_the_absolute_difference_separates_like_from_unlike():
    """Of pairs in both orders, a layer on u − v misjudges one of every unlike pair; one on |u − v| need not."""
    (u_BD,), (shift_BD,) = draw_views(1, 1, rows=40), draw_views(2, 1, rows=40)
    like = [(u_BD, u_BD), (u_BD, u_BD)]
    unlike = [(u_BD, u_BD + 3 * shift_BD), (u_BD + 3 * shift_BD, u_BD)]
    best = {}
    for flag in (False, True):
        head = build_head("difference", width=WIDTH, absolute=flag)
        optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
        firsts, seconds = (torch.cat([pair[side] for pair in like + unlike]) for side in (0, 1))
        is_like = torch.cat([torch.ones(80), torch.zeros(80)])
        for _ in range(200):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(head(firsts, seconds)[:, 0], is_like).backward()
            optimizer.step()
        best[flag] = ((head(firsts, seconds)[:, 0] > 0).float() == is_like).float().mean().item()
    assert best[False] <= 0.75 and best[True] == 1.0


# difference_product: W₂ relu(W₁ [|u − v|; u∗v] + b₁) + b₂


def test_difference_product_by_hand():
    head = build_head("difference_product", hidden=2)
    # |u − v| = (2, 3), u∗v = (3, −2): 2 + 3 + 0.5 = 5.5; −3 − 2 + 1 = −4 → 0
    set_weights(head.inner, [[1.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, 1.0]], [0.5, 1.0])
    set_weights(head.outer, [[2.0, 7.0]], [-1.0])  # 2·5.5 + 7·0 − 1 = 10
    assert head(row(1.0, 2.0), row(3.0, -1.0)).tolist() == [[10.0]]


def test_difference_product_of_an_embedding_with_itself_sees_only_its_squares():
    head, (u_BD,) = build_head("difference_product", width=WIDTH, hidden=WIDTH, outputs=WIDTH), draw_views(8, 1)
    identity = torch.eye(WIDTH)
    set_weights(head.inner, torch.cat([identity, identity], dim=1).tolist(), [0.0] * WIDTH)  # |u − u| + u∗u
    set_weights(head.outer, identity.tolist(), [0.0] * WIDTH)
    assert torch.equal(head(u_BD, u_BD), u_BD**2)


def test_hidden_layer_of_difference_product_is_as_wide_as_the_encoder_by_default():
    assert build_head("difference_product", width=6).inner.out_features == 6
    assert build_head("difference_product", width=6, hidden=9).inner.out_features == 9


# comparison: W [cos; |û − v̂|; û∗v̂] + b


def test_comparison_by_hand():
    head = build_head("comparison")
    set_weights(head.linear, [[10.0, 1.0, 2.0, 3.0, 4.0]], [0.5])
    # û = (0.6, 0.8), v̂ = (0.8, 0.6), cos 0.96: 9.6 + 0.2 + 2·0.2 + 3·0.48 + 4·0.48 + 0.5
    assert head(row(3.0, 4.0), row(8.0, 6.0)).item() == pytest.approx(14.06, abs=1e-5)


def test_comparison_depends_on_directions_only():
    head, (u_BD, v_BD) = build_head("comparison", width=WIDTH, outputs=3), draw_views(5, 2)
    torch.testing.assert_close(head(7 * u_BD, v_BD / 3), head(u_BD, v_BD), **ROUNDING)


def test_comparison_never_drops_the_cosine():
    head, (u_BD, v_BD) = build_head("comparison", width=WIDTH, dropout=1 - 1e-12), draw_views(5, 2)
    only_cosine = head.linear.weight[0, 0] * torch.cosine_similarity(u_BD, v_BD) + head.linear.bias
    torch.testing.assert_close(head.train()(u_BD, v_BD).squeeze(1), only_cosine, **ROUNDING)


# joined_comparison: W [cos; |û − v̂|; û∗v̂; J at unit length] + b


def test_joined_comparison_by_hand():
    head = build_head("joined_comparison")
    set_weights(head.linear, [[10.0, 1.0, 2.0, 3.0, 4.0, 100.0, 1000.0]], [0.5])
    # as comparison, 14.06, and J = (0.6, 0.8) at unit length: 60 + 800
    assert head(row(3.0, 4.0), row(8.0, 6.0), row(30.0, 40.0)).item() == pytest.approx(874.06, abs=1e-3)


def test_joined_comparison_without_weights_on_joined_texts_is_comparison():
    both, apart = build_head("joined_comparison", width=WIDTH), build_head("comparison", width=WIDTH)
    u_BD, v_BD, joined_BD = draw_views(5, 3)
    set_weights(both.linear, [[*apart.linear.weight[0].tolist(), *[0.0] * WIDTH]], apart.linear.bias.tolist())
    torch.testing.assert_close(both(u_BD, v_BD, joined_BD), apart(u_BD, v_BD), **ROUNDING)


def test_joined_comparison_depends_on_directions_only():
    head, (u_BD, v_BD, joined_BD) = build_head("joined_comparison", width=WIDTH, outputs=3), draw_views(5, 3)
    torch.testing.assert_close(head(7 * u_BD, v_BD / 3, 2 * joined_BD), head(u_BD, v_BD, joined_BD), **ROUNDING)


# cosine: scale × u·v / |u||v|


def test_cosine_by_hand():
    # (3·4 + 4·3) / (5·5) = 0.96, × 5 = 4.8
    value = build_head("cosine", scale=5.0)(row(3.0, 4.0), row(4.0, 3.0)).item()
    assert value == pytest.approx(4.8, abs=1e-5)  # float32


def test_cosine_of_equal_opposite_and_orthogonal_embeddings():
    head, u_BD, orthogonal_BD = build_head("cosine", scale=3.0), row(0.3, -0.8), row(0.8, 0.3)
    values = [head(u_BD, u_BD).item(), head(u_BD, -u_BD).item(), head(u_BD, orthogonal_BD).item()]
    assert values == pytest.approx([3.0, -3.0, 0.0], abs=1e-5)  # float32


def test_scale_of_cosine_defaults_to_the_top_of_the_range():
    u_BD = row(1.0, 2.0)
    assert build_head("cosine", top=4.0)(u_BD, u_BD).item() == pytest.approx(4.0, abs=1e-5)  # float32
    assert build_head("cosine", top=4.0, scale=1.0)(u_BD, u_BD).item() == pytest.approx(1.0, abs=1e-5)


def test_cosine_depends_on_directions_only_and_stays_within_its_scale():
    head = build_head("cosine", scale=5.0)
    for seed in SEEDS:
        u_BD, v_BD = draw_views(seed, 2)
        scores_B1 = head(u_BD, v_BD)
        assert_direction_matters_only(head, (u_BD, v_BD))
        torch.testing.assert_close(head(1000 * u_BD, 0.001 * v_BD), scores_B1, **ROUNDING)
        assert (scores_B1.abs() <= 5 + 1e-5).all(), f"seed {seed}"


def test_cosine_with_a_zero_vector_is_zero_with_a_finite_gradient():
    zero_BD = torch.zeros(1, 2, requires_grad=True)
    score_B1 = build_head("cosine")(zero_BD, row(1.0, 2.0))
    score_B1.sum().backward()
    assert score_B1.item() == 0.0
    assert torch.isfinite(zero_BD.grad).all()


@pytest.mark.parametrize("top", [0.0, -2.5])
def test_cosine_refuses_a_range_that_does_not_reach_above_zero(top):
    size, cosine = Size(WIDTH, 1, top, 0.0), HEADS["cosine"]
    problem = "cosine needs a range that reaches above 0; give its scale, or choose another head"
    assert cosine.problem(size, {}) == problem
    assert cosine.problem(size, {"scale": None}) == problem
    assert cosine.problem(size, {"scale": 5.0}) is None
    assert cosine.problem(Size(WIDTH, 1, 0.5, 0.0), {}) is None


def test_only_cosine_cares_about_the_range():
    size = Size(WIDTH, 1, -1.0, 0.0)
    assert [name for name, head in HEADS.items() if head.problem(size, {})] == ["cosine"]


# dot: scale × f(Pu · Pv)


def test_dot_by_hand():
    head = build_head("dot", rank=2)
    set_weights(head.project, [[1.0, 0.0], [0.0, 2.0]], [0.0, 1.0])
    # P(1, 2) = (1, 5), P(3, −1) = (3, −1): 3 − 5 = −2
    assert head(row(1.0, 2.0), row(3.0, -1.0)).tolist() == [[-2.0]]
    assert build_head("dot", rank=2, activation="relu", scale=3.0).scale == 3.0


def test_dot_of_unit_vectors_with_relu_is_between_zero_and_the_top():
    head = build_head("dot", width=WIDTH, rank=4, normalise=True, activation="relu", top=5.0)
    for seed in SEEDS:
        outputs_B1 = head(*draw_views(seed, 2))
        assert (outputs_B1 >= 0).all() and (outputs_B1 <= 5 + 1e-5).all()
    (same_BD,) = draw_views(0, 1)
    torch.testing.assert_close(head(same_BD, same_BD), torch.full((4, 1), 5.0), **ROUNDING)  # cos = 1


def test_scale_of_dot_defaults_to_the_top_for_unit_vectors_and_to_one_otherwise():
    assert build_head("dot", top=5.0).scale == 1.0
    assert build_head("dot", top=5.0, normalise=True).scale == 5.0
    assert build_head("dot", top=-5.0, normalise=True).scale == 1.0
