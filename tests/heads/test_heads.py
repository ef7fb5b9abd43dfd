"""Every head: a value by hand, an identity, a property; and what all of them promise."""

import inspect
import math

import pytest
import torch
from torch import Tensor, nn

from plait.data.batch import READS, VIEWS
from plait.heads import HEADS, SHARED_LAYERS, Size

KINDS = {"classes", "several", "yes_no", "score", "triplets"}
WEIGHTLESS = ("cosine", "nearer")
SEEDS = range(20)


def make(
    name: str, *, width: int = 2, outputs: int = 1, dropout: float = 0.0, top: float = 5.0, **options
) -> nn.Module:
    torch.manual_seed(0)
    return HEADS[name](Size(width, outputs, top, dropout), **options)


def fill(layer: nn.Module, weight: list[list[float]], bias: list[float]) -> None:
    layer.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})


def row(*values: float) -> Tensor:
    return torch.tensor([values])


def draw(seed: int, count: int, rows: int = 4, width: int = 6) -> tuple[Tensor, ...]:
    return torch.randn(count, rows, width, generator=torch.Generator().manual_seed(seed)).unbind()


def views_of(name: str) -> int:
    return len(VIEWS[HEADS[name].reads])


# All heads


@pytest.mark.parametrize("name", HEADS)
def test_a_head_gives_one_row_of_outputs_for_each_example(name):
    for outputs in (1, 3) if "classes" in HEADS[name].kinds else (1,):
        head = make(name, width=6, outputs=outputs)
        assert head(*draw(0, views_of(name), rows=4)).shape == (4, outputs)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_says_how_it_reads_and_what_it_predicts(name):
    head = HEADS[name]
    assert head.reads in READS
    assert head.kinds and set(head.kinds) <= KINDS and len(set(head.kinds)) == len(head.kinds)
    assert isinstance(head.after_shared_layer, bool)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_takes_one_embedding_for_each_of_its_views(name):
    assert len(inspect.signature(HEADS[name].forward).parameters) == 1 + views_of(name)  # self first


@pytest.mark.parametrize("name", [name for name in HEADS if views_of(name) == 2])
def test_a_head_is_symmetric_exactly_if_it_says_so(name):
    head = make(name, width=6)
    equal = [torch.equal(head(u, v), head(v, u)) for u, v in (draw(seed, 2) for seed in SEEDS)]
    assert equal == [HEADS[name].symmetric] * len(SEEDS)


@pytest.mark.parametrize("variant", [*HEADS.values(), *SHARED_LAYERS.values()])
def test_options_are_keyword_only_and_have_defaults(variant):
    _, *options = inspect.signature(variant).parameters.values()
    for option in options:
        assert option.kind is option.KEYWORD_ONLY, option.name
        assert option.default is not option.empty, option.name


@pytest.mark.parametrize("name", HEADS)
def test_rows_do_not_see_each_other(name):
    head, views = make(name, width=6), draw(1, views_of(name))
    alone = torch.cat([head(*(view[place : place + 1] for view in views)) for place in range(4)])
    torch.testing.assert_close(head(*views), alone, atol=1e-5, rtol=1e-5)  # float32 sums in another order


@pytest.mark.parametrize("name", [name for name in HEADS if name not in WEIGHTLESS])
def test_dropout_acts_in_training_only(name):
    head, plain, views = make(name, width=6, dropout=0.5), make(name, width=6), draw(2, views_of(name))
    plain.load_state_dict(head.state_dict())
    assert torch.equal(head.eval()(*views), plain.eval()(*views))
    assert torch.equal(plain.train()(*views), plain.eval()(*views))
    assert not torch.equal(head.train()(*views), plain(*views))


@pytest.mark.parametrize("name", [name for name in HEADS if name not in WEIGHTLESS])
def test_dropout_acts_on_what_the_head_reads(name):
    head, zeros = make(name, width=6, dropout=1 - 1e-12), torch.zeros(4, 6)  # next to nothing passes
    dropped = head.train()(*draw(3, views_of(name)))
    assert torch.equal(dropped, head.eval()(*[zeros] * views_of(name)))  # what is dropped is read as 0


@pytest.mark.parametrize("name", WEIGHTLESS)
def test_cosine_and_nearer_have_neither_weights_nor_dropout(name):
    head = make(name, width=6, dropout=0.5).train()
    assert not list(head.parameters())
    views = draw(4, views_of(name))
    assert torch.equal(head(*views), head(*views))


# linear and joined: W x + b


@pytest.mark.parametrize("name", ["linear", "joined"])
def test_one_view_by_hand(name):
    head = make(name, outputs=2)
    fill(head.linear, [[3.0, -1.0], [0.5, 0.25]], [0.5, -1.0])
    # 3·1 − 1·2 + 0.5 = 1.5 and 0.5·1 + 0.25·2 − 1 = 0
    assert head(row(1.0, 2.0)).tolist() == [[1.5, 0.0]]


@pytest.mark.parametrize("name", ["linear", "joined"])
def test_one_view_with_unit_weights_is_the_embedding(name):
    head = make(name, width=3, outputs=3)
    fill(head.linear, torch.eye(3).tolist(), [0.0] * 3)
    assert head(row(1.0, -2.0, 3.0)).tolist() == [[1.0, -2.0, 3.0]]


@pytest.mark.parametrize("name", ["linear", "joined"])
def test_one_view_is_affine(name):
    head = make(name, width=6, outputs=3)
    for seed in SEEDS:
        x_BD, y_BD = draw(seed, 2)
        between = 0.25 * head(x_BD) + 0.75 * head(y_BD)
        torch.testing.assert_close(head(0.25 * x_BD + 0.75 * y_BD), between, atol=1e-5, rtol=1e-5)  # float32 rounding


def test_linear_reads_one_sentence_and_joined_a_pair():
    assert (HEADS["linear"].reads, HEADS["joined"].reads) == ("single", "joined")


# concat: W [u; v] + b


def test_concat_by_hand():
    head = make("concat")
    fill(head.linear, [[1.0, 10.0, 100.0, 1000.0]], [0.5])
    # 1·1 + 10·2 + 100·3 + 1000·4 + 0.5
    assert head(row(1.0, 2.0), row(3.0, 4.0)).tolist() == [[4321.5]]


def test_concat_with_unit_weights_is_one_of_its_sides():
    head, (u_BD, v_BD) = make("concat", width=6, outputs=6), draw(5, 2)
    unit, none = torch.eye(6), torch.zeros(6, 6)
    fill(head.linear, torch.cat([unit, none], dim=1).tolist(), [0.0] * 6)
    assert torch.equal(head(u_BD, v_BD), u_BD)
    fill(head.linear, torch.cat([none, unit], dim=1).tolist(), [0.0] * 6)
    assert torch.equal(head(u_BD, v_BD), v_BD)


def test_concat_adds_what_each_side_says():
    head, zeros = make("concat", width=6, outputs=3), torch.zeros(4, 6)
    for seed in SEEDS:
        u_BD, v_BD = draw(seed, 2)
        apart = head(u_BD, zeros) + head(zeros, v_BD) - head(zeros, zeros)
        torch.testing.assert_close(head(u_BD, v_BD), apart, atol=1e-5, rtol=1e-5)  # float32 rounding


# joined_both: W [W₁ J(a,b) + b₁; W₂ J(b,a) + b₂] + b


def test_joined_both_by_hand():
    head = make("joined_both")
    fill(head.forwards, [[1.0, 2.0]], [0.5])  # 1·1 + 2·2 + 0.5 = 5.5
    fill(head.backwards, [[3.0, -1.0]], [-0.25])  # 3·2 − 1·1 − 0.25 = 4.75
    fill(head.final, [[2.0, -4.0]], [1.0])  # 2·5.5 − 4·4.75 + 1 = −7
    assert head(row(1.0, 2.0), row(2.0, 1.0)).tolist() == [[-7.0]]


def test_joined_both_that_passes_on_its_first_logit_is_joined():
    both, joined = make("joined_both", width=6), make("joined", width=6)
    both.forwards.load_state_dict(joined.linear.state_dict())
    fill(both.final, [[1.0, 0.0]], [0.0])
    joined_BD, swapped_BD = draw(6, 2)
    assert torch.equal(both(joined_BD, swapped_BD), joined(joined_BD))


def test_joined_both_sees_both_orders():
    head = make("joined_both", width=6, outputs=3)
    for seed in SEEDS:
        joined_BD, swapped_BD, other_BD = draw(seed, 3)
        outputs_BC = head(joined_BD, swapped_BD)
        for changed_BC in (head(other_BD, swapped_BD), head(joined_BD, other_BD), head(swapped_BD, joined_BD)):
            assert ((outputs_BC - changed_BC).abs().amax(dim=1) > 1e-4).all(), f"seed {seed}"  # far above rounding


def test_joined_both_with_equal_halves_does_not_mind_the_order():
    head = make("joined_both", width=6)
    head.backwards.load_state_dict(head.forwards.state_dict())
    fill(head.final, [[0.7, 0.7]], [0.1])
    for seed in SEEDS:
        joined_BD, swapped_BD = draw(seed, 2)
        swapped = head(swapped_BD, joined_BD)
        torch.testing.assert_close(head(joined_BD, swapped_BD), swapped, atol=1e-5, rtol=1e-5)  # sums in another order


# difference: W (u − v) + b


def test_difference_by_hand():
    head = make("difference")
    fill(head.linear, [[2.0, -1.0]], [0.5])
    # u − v = (−2, −3): 2·−2 − 1·−3 + 0.5 = −0.5
    assert head(row(1.0, 2.0), row(3.0, 5.0)).tolist() == [[-0.5]]


def test_difference_of_equal_embeddings_is_the_bias():
    head, (u_BD,) = make("difference", width=6, outputs=3), draw(7, 1)
    assert torch.equal(head(u_BD, u_BD), head.linear.bias.expand(4, 3))


def test_difference_without_bias_changes_sign_with_the_order():
    head = make("difference", width=6, outputs=3)
    nn.init.zeros_(head.linear.bias)
    for seed in SEEDS:
        u_BD, v_BD = draw(seed, 2)
        assert torch.equal(head(u_BD, v_BD), -head(v_BD, u_BD)), f"seed {seed}"


def test_difference_does_not_see_what_both_sides_share():
    head = make("difference", width=6, outputs=3)
    for seed in SEEDS:
        u_BD, v_BD, shift_BD = draw(seed, 3)
        moved = head(u_BD + shift_BD, v_BD + shift_BD)
        torch.testing.assert_close(head(u_BD, v_BD), moved, atol=1e-5, rtol=1e-5)  # float32 rounding of the shift


# difference_product: W₂ relu(W₁ [|u − v|; u∗v] + b₁) + b₂


def test_difference_product_by_hand():
    head = make("difference_product", hidden=2)
    # |u − v| = (2, 3), u∗v = (3, −2)
    fill(
        head.inner, [[1.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, 1.0]], [0.5, 1.0]
    )  # 2 + 3 + 0.5 = 5.5; −3 − 2 + 1 = −4 → 0
    fill(head.outer, [[2.0, 7.0]], [-1.0])  # 2·5.5 + 7·0 − 1 = 10
    assert head(row(1.0, 2.0), row(3.0, -1.0)).tolist() == [[10.0]]


def test_difference_product_of_an_embedding_with_itself_sees_only_its_squares():
    head, (u_BD,) = make("difference_product", width=6, hidden=6, outputs=6), draw(8, 1)
    fill(head.inner, torch.cat([torch.eye(6), torch.eye(6)], dim=1).tolist(), [0.0] * 6)  # |u − u| + u∗u
    fill(head.outer, torch.eye(6).tolist(), [0.0] * 6)
    assert torch.equal(head(u_BD, u_BD), u_BD**2)


def test_difference_product_does_not_mind_the_order():
    head = make("difference_product", width=6, outputs=3)
    for seed in SEEDS:
        u_BD, v_BD = draw(seed, 2)
        assert torch.equal(head(u_BD, v_BD), head(v_BD, u_BD)), f"seed {seed}"


def test_difference_product_is_as_wide_inside_as_the_encoder_unless_told():
    assert make("difference_product", width=6).inner.out_features == 6
    assert make("difference_product", width=6, hidden=9).inner.out_features == 9


# cosine: scale × u·v / |u||v|


def test_cosine_by_hand():
    # (3·4 + 4·3) / (5·5) = 0.96, × 5 = 4.8
    value = make("cosine", scale=5.0)(row(3.0, 4.0), row(4.0, 3.0)).item()
    assert value == pytest.approx(4.8, abs=1e-5)  # float32


def test_cosine_of_equal_opposite_and_orthogonal_embeddings():
    head, u_BD, right_BD = make("cosine", scale=3.0), row(0.3, -0.8), row(0.8, 0.3)
    values = [head(u_BD, u_BD).item(), head(u_BD, -u_BD).item(), head(u_BD, right_BD).item()]
    assert values == pytest.approx([3.0, -3.0, 0.0], abs=1e-5)  # float32


def test_cosine_scales_to_the_top_of_the_range_unless_told():
    u_BD = row(1.0, 2.0)
    assert make("cosine", top=4.0)(u_BD, u_BD).item() == pytest.approx(4.0, abs=1e-5)  # float32
    assert make("cosine", top=4.0, scale=1.0)(u_BD, u_BD).item() == pytest.approx(1.0, abs=1e-5)


def test_cosine_does_not_see_lengths_or_the_order_and_stays_within_its_scale():
    head = make("cosine", scale=5.0)
    for seed in SEEDS:
        u_BD, v_BD = draw(seed, 2)
        scores_B1 = head(u_BD, v_BD)
        torch.testing.assert_close(head(1000 * u_BD, 0.001 * v_BD), scores_B1, atol=1e-5, rtol=1e-5)  # float32
        torch.testing.assert_close(head(v_BD, u_BD), scores_B1, atol=1e-5, rtol=1e-5)
        assert (scores_B1.abs() <= 5 + 1e-5).all(), f"seed {seed}"


def test_cosine_of_nothing_is_zero_with_a_finite_gradient():
    zero_BD = torch.zeros(1, 2, requires_grad=True)
    score_B1 = make("cosine")(zero_BD, row(1.0, 2.0))
    score_B1.sum().backward()
    assert score_B1.item() == 0.0
    assert torch.isfinite(zero_BD.grad).all()


# nearer: scale × (cos(a, b) − cos(a, c))


def test_nearer_by_hand():
    # cos(a, b) = 0.6 and cos(a, c) = 0.8: 5 × (0.6 − 0.8) = −1, c is nearer
    value = make("nearer", scale=5.0)(row(2.0, 0.0), row(3.0, 4.0), row(0.4, 0.3)).item()
    assert value == pytest.approx(-1.0, abs=1e-5)  # float32


def test_nearer_of_the_same_text_twice_is_undecided():
    head = make("nearer", width=6)
    a_BD, b_BD = draw(12, 2)
    assert head(a_BD, b_BD, b_BD).tolist() == [[0.0]] * 4


def test_nearer_of_the_anchor_itself_and_its_opposite_is_twice_the_scale():
    (a_BD,) = draw(13, 1)
    values = make("nearer", width=6)(a_BD, a_BD, -a_BD).squeeze(-1).tolist()
    assert values == pytest.approx([40.0] * 4, abs=1e-4)  # the scale is 20 unless told; float32


def test_nearer_changes_sign_with_the_choices_and_does_not_see_lengths():
    head = make("nearer", width=6)
    for seed in SEEDS:
        a_BD, b_BD, c_BD = draw(seed, 3)
        outputs_B1 = head(a_BD, b_BD, c_BD)
        torch.testing.assert_close(head(a_BD, c_BD, b_BD), -outputs_B1, atol=1e-5, rtol=1e-5)  # float32
        torch.testing.assert_close(head(9 * a_BD, 0.1 * b_BD, 100 * c_BD), outputs_B1, atol=1e-4, rtol=1e-5)
        assert (outputs_B1.abs() <= 40 + 1e-4).all(), f"seed {seed}"


def test_nearer_is_for_triplets_and_stands_behind_no_shared_layer():
    head = HEADS["nearer"]
    assert (head.reads, head.kinds, head.after_shared_layer) == ("triple", ("triplets",), False)
    assert [name for name, other in HEADS.items() if "triplets" in other.kinds] == ["nearer"]


# the shared layer


def test_shared_tanh_by_hand():
    layer = SHARED_LAYERS["tanh"](2)
    fill(layer.linear, [[1.0, 0.0], [2.0, 0.0]], [0.0, math.log(3) - 2 * math.log(2)])
    # tanh(ln 2) = (2 − 1/2) / (2 + 1/2) = 0.6 and tanh(ln 3) = (3 − 1/3) / (3 + 1/3) = 0.8
    torch.testing.assert_close(layer(row(math.log(2), 9.0)), row(0.6, 0.8), atol=1e-5, rtol=0)  # float32


def test_shared_tanh_without_weights_is_zero():
    layer = SHARED_LAYERS["tanh"](6)
    fill(layer.linear, torch.zeros(6, 6).tolist(), [0.0] * 6)
    assert torch.equal(layer(draw(9, 1)[0]), torch.zeros(4, 6))


def test_shared_tanh_without_bias_is_odd_and_within_one():
    layer = SHARED_LAYERS["tanh"](6)
    nn.init.zeros_(layer.linear.bias)
    for seed in SEEDS:
        (x_SD,) = draw(seed, 1)
        shared_SD = layer(100 * x_SD)
        assert torch.equal(shared_SD, -layer(-100 * x_SD)), f"seed {seed}"
        assert shared_SD.abs().max() <= 1


def test_shared_tanh_drops_its_outputs_in_training_only():
    torch.manual_seed(0)
    layer, (x_SD,) = SHARED_LAYERS["tanh"](6, dropout=0.5), draw(10, 1)
    whole_SD = layer.eval()(x_SD)
    assert torch.equal(whole_SD, torch.tanh(layer.linear(x_SD)))
    dropped_SD = layer.train()(x_SD)
    gone_SD = dropped_SD == 0
    assert 0 < gone_SD.sum() < gone_SD.numel()
    assert torch.equal(dropped_SD[~gone_SD], 2 * whole_SD[~gone_SD])  # kept ones grow by 1 / (1 − 0.5)


def test_shared_tanh_has_no_dropout_unless_told():
    layer, (x_SD,) = SHARED_LAYERS["tanh"](6), draw(11, 1)
    assert torch.equal(layer.train()(x_SD), layer.eval()(x_SD))


# joined_difference


def test_joined_difference_by_hand():
    head = make("joined_difference")
    fill(head.forwards, [[1.0, 2.0]], [0.5])  # 1·1 + 2·2 + 0.5 = 5.5
    fill(head.backwards, [[3.0, 0.0]], [0.0])  # 3·2 = 6
    fill(head.between, [[1.0, 1.0]], [-1.0])  # (1 − 2) + (2 − 0) − 1 = 0
    fill(head.final, [[1.0, -1.0, 10.0]], [2.0])
    assert head(row(1.0, 2.0), row(2.0, 0.0)).tolist() == [[1.5]]


def test_joined_difference_puts_tanh_before_the_final_layer_and_not_after_it():
    plain, bent = make("joined_difference"), make("joined_difference", activation="tanh")
    for head in (plain, bent):
        fill(head.forwards, [[1.0, 2.0]], [0.5])
        fill(head.backwards, [[3.0, 0.0]], [0.0])
        fill(head.between, [[1.0, 1.0]], [-1.0])
        fill(head.final, [[1.0, -1.0, 10.0]], [2.0])
    expected = math.tanh(5.5) - math.tanh(6.0) + 10 * math.tanh(0.0) + 2.0
    assert bent(row(1.0, 2.0), row(2.0, 0.0)).item() == pytest.approx(expected, abs=1e-6)
    assert plain(row(1.0, 2.0), row(2.0, 0.0)).item() == 1.5


def test_joined_difference_without_its_third_part_is_joined_both():
    whole, part = make("joined_difference", width=6, outputs=3), make("joined_both", width=6, outputs=3)
    for layer in ("forwards", "backwards"):
        getattr(whole, layer).load_state_dict(getattr(part, layer).state_dict())
    fill(whole.between, torch.zeros(3, 6).tolist(), [0.0] * 3)
    weight_C9 = torch.cat([part.final.weight.detach(), torch.ones(3, 3)], dim=1)
    fill(whole.final, weight_C9.tolist(), part.final.bias.tolist())
    views = draw(5, 2)
    torch.testing.assert_close(whole(*views), part(*views), atol=1e-6, rtol=1e-6)  # the same sums


# dot


def test_dot_by_hand():
    head = make("dot", rank=2)
    fill(head.project, [[1.0, 0.0], [0.0, 2.0]], [0.0, 1.0])
    # P(1, 2) = (1, 5), P(3, −1) = (3, −1): 3 − 5 = −2
    assert head(row(1.0, 2.0), row(3.0, -1.0)).tolist() == [[-2.0]]
    assert make("dot", rank=2, activation="relu", scale=3.0).scale == 3.0


def test_dot_of_unit_vectors_with_relu_lies_between_0_and_the_top():
    head = make("dot", width=6, rank=4, normalise=True, activation="relu", top=5.0)
    for seed in SEEDS:
        outputs_B1 = head(*draw(seed, 2))
        assert (outputs_B1 >= 0).all() and (outputs_B1 <= 5 + 1e-5).all()
    same = draw(0, 1)[0]
    torch.testing.assert_close(head(same, same), torch.full((4, 1), 5.0), atol=1e-5, rtol=1e-5)  # cos = 1


def test_dot_without_unit_vectors_keeps_its_scale_at_1():
    assert make("dot", top=5.0).scale == 1.0 and make("dot", top=5.0, normalise=True).scale == 5.0


def test_dot_does_not_care_for_the_order():
    head = make("dot", width=6, rank=4)
    for seed in SEEDS:
        u_BD, v_BD = draw(seed, 2)
        assert torch.equal(head(u_BD, v_BD), head(v_BD, u_BD))


@pytest.mark.parametrize("name", HEADS)
def test_the_output_layer_of_a_head_gives_its_outputs(name):
    head = make(name, width=6, outputs=1)
    if head.output_layer is None:
        return
    layer = head.get_submodule(head.output_layer)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, 2.5)
    assert head(*draw(6, views_of(name))).tolist() == [[2.5]] * 4
