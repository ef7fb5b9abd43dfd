"""What every registered head promises."""

import inspect

import pytest
import torch
from torch import nn

from head_cases import SEEDS, WIDTH, build_head, draw_views, view_count
from plait.data.batch import READS
from plait.data.kinds import KINDS
from plait.heads import HEADS, SHARED_LAYERS, Size
from properties import (
    assert_finite_at_every_scale,
    assert_gradients_match_finite_differences,
    assert_rows_are_independent,
    assert_symmetric,
)

every_head = pytest.mark.parametrize("name", HEADS)
WEIGHTLESS = [name for name in HEADS if not list(build_head(name).parameters())]
WITH_WEIGHTS = [name for name in HEADS if name not in WEIGHTLESS]


def output_counts(name: str) -> tuple[int, ...]:
    return (1, 3) if "classes" in HEADS[name].kinds else (1,)


# What it declares


@every_head
def test_head_declares_how_it_reads_and_what_it_predicts(name):
    head = HEADS[name]
    assert head.reads in READS
    assert head.kinds and set(head.kinds) <= set(KINDS) - {"unlabelled"}
    assert len(set(head.kinds)) == len(head.kinds)
    assert isinstance(head.after_shared_layer, bool)


@every_head
def test_head_takes_one_embedding_per_view(name):
    assert len(inspect.signature(HEADS[name].forward).parameters) == 1 + view_count(name)  # self first


@pytest.mark.parametrize("variant", [*HEADS.values(), *SHARED_LAYERS.values()])
def test_options_are_keyword_only_and_have_defaults(variant):
    _, *options = inspect.signature(variant).parameters.values()
    for option in options:
        assert option.kind is option.KEYWORD_ONLY, option.name
        assert option.default is not option.empty, option.name


@every_head
def test_head_has_no_problem_with_an_ordinary_size(name):
    assert HEADS[name].problem(Size(WIDTH, 1, 5.0, 0.1), {}) is None


@every_head
def test_output_layer_produces_the_outputs(name):
    head = build_head(name, width=WIDTH)
    if head.output_layer is None:
        return
    layer = head.get_submodule(head.output_layer)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, 2.5)
    assert head(*draw_views(6, view_count(name))).tolist() == [[2.5]] * 4


@every_head
def test_projection_maps_one_embedding(name):
    head = build_head(name, width=WIDTH)
    if head.projection is not None:
        assert head.get_submodule(head.projection)(torch.zeros(4, WIDTH)).shape[0] == 4


# What it computes


@every_head
def test_head_gives_one_row_of_outputs_per_example(name):
    for outputs in output_counts(name):
        head = build_head(name, width=WIDTH, outputs=outputs)
        assert head(*draw_views(0, view_count(name))).shape == (4, outputs)


@every_head
def test_rows_do_not_affect_each_other(name):
    assert_rows_are_independent(build_head(name, width=WIDTH), draw_views(1, view_count(name)))


@every_head
def test_gradients_match_finite_differences(name):
    for outputs in output_counts(name):
        head = build_head(name, width=WIDTH, outputs=outputs).double()
        views = [view.double() for view in draw_views(2, view_count(name))]
        assert_gradients_match_finite_differences(head, views)


@every_head
def test_outputs_and_gradients_are_finite_at_every_scale(name):
    assert_finite_at_every_scale(build_head(name, width=WIDTH), draw_views(3, view_count(name)))


@pytest.mark.parametrize("name", [name for name in HEADS if view_count(name) == 2])
def test_head_is_symmetric_if_and_only_if_it_declares_so(name):
    for outputs in output_counts(name):
        head = build_head(name, width=WIDTH, outputs=outputs)
        for seed in SEEDS:
            first, second = draw_views(seed, 2)
            if HEADS[name].symmetric:
                assert_symmetric(head, (first, second))
            else:
                assert not torch.equal(head(first, second), head(second, first)), f"seed {seed}"


# Dropout


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_dropout_acts_only_in_training(name):
    head, plain = build_head(name, width=WIDTH, dropout=0.5), build_head(name, width=WIDTH)
    views = draw_views(2, view_count(name))
    plain.load_state_dict(head.state_dict())
    assert torch.equal(head.eval()(*views), plain.eval()(*views))
    assert torch.equal(plain.train()(*views), plain.eval()(*views))
    assert not torch.equal(head.train()(*views), plain(*views))


@pytest.mark.parametrize("name", [name for name in WITH_WEIGHTS if not name.endswith("comparison")])  # cosines stay
def test_dropout_acts_on_the_inputs_of_the_head(name):
    head, zeros = build_head(name, width=WIDTH, dropout=1 - 1e-12), torch.zeros(4, WIDTH)  # drops nearly everything
    dropped = head.train()(*draw_views(3, view_count(name)))
    assert torch.equal(dropped, head.eval()(*[zeros] * view_count(name)))  # what is dropped is read as 0


@pytest.mark.parametrize("name", WEIGHTLESS)
def test_heads_without_weights_have_no_dropout(name):
    head = build_head(name, width=WIDTH, dropout=0.5).train()
    views = draw_views(4, view_count(name))
    assert torch.equal(head(*views), head(*views))


def test_cosine_and_nearer_have_no_weights():
    assert {"cosine", "nearer"} <= set(WEIGHTLESS)
