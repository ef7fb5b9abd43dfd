"""What every registered loss promises, whatever it takes."""

import inspect

import pytest
import torch

from loss_cases import CASES, EMBEDDING_CASES, EMPTY_CASES, SEEDS
from plait.data.batch import VIEWS
from plait.data.kinds import KINDS
from plait.losses import LOSSES
from plait.model.decode import LINKS
from properties import (
    assert_direction_matters_only,
    assert_empty_batch_has_loss_zero,
    assert_finite_at_every_scale,
    assert_gradient_step_lowers_loss,
    assert_gradients_match_finite_differences,
    assert_rotation_does_not_matter,
    assert_row_order_does_not_matter,
    gradients_of,
)

every_case = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.mark.parametrize("name", LOSSES)
def test_loss_declares_its_links_and_has_keyword_only_options(name):
    loss = LOSSES[name]
    assert loss.links and set(loss.links) <= set(KINDS)
    assert set(loss.links.values()) <= {*LINKS, ""}
    assert loss.of_predictions == (not loss.reads)
    parameters = list(inspect.signature(loss.function).parameters.values())
    if loss.takes == "predictions":
        taken = ["outputs_BC", "label_B", "class_weights_C", "label_smoothing"]
        assert [p.name for p in parameters[:4]] == taken
    elif loss.takes == "teacher":
        taken = ["outputs_BC", "teacher_BC", "link"]
        assert [p.name for p in parameters[:3]] == taken
    elif loss.takes == "tokens":
        taken = ["classes", "width", "generator"]
        assert [p.name for p in parameters[:3]] == taken
    else:  # one embedding per view
        views = max((VIEWS[way] for way in loss.reads), key=len)
        names = [p.name for p in parameters if loss.takes != "anchors" or p.name != "anchor_B"]
        assert all(name.endswith("_BD") for name in names[: len(views)])
        taken = [*views, *(["label or same"] if loss.takes in ("label", "same", "anchors") else [])]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in parameters[len(taken) :])


@every_case
def test_loss_is_one_finite_number(case):
    inputs, labels = case.draw(0)
    value = case.build()(*inputs, *labels)
    assert value.shape == () and value.isfinite()


@every_case
def test_gradients_match_finite_differences(case):
    for seed in range(3):
        inputs, labels = case.draw(seed, rows=5, dtype=torch.float64)
        assert_gradients_match_finite_differences(case.build(torch.float64), inputs, labels)


@every_case
def test_loss_and_gradients_are_finite_at_every_scale(case):
    assert_finite_at_every_scale(case.build(), *case.draw(0))


@every_case
def test_row_order_does_not_matter(case):
    loss = case.build()
    for seed in SEEDS:
        assert_row_order_does_not_matter(loss, *case.draw(seed), seed=seed)


@every_case
def test_gradient_step_lowers_the_loss(case):
    loss = case.build(torch.float64)
    for seed in SEEDS:
        inputs, labels = case.draw(seed, dtype=torch.float64)
        if any(gradient.abs().max() > 0 for gradient in gradients_of(loss, inputs, labels)):
            assert_gradient_step_lowers_loss(loss, inputs, labels)


@pytest.mark.parametrize("case", [case for case in CASES if not case.depends_on_lengths], ids=str)
def test_only_directions_matter(case):
    loss = case.build()
    for seed in SEEDS:
        assert_direction_matters_only(loss, *case.draw(seed))


@pytest.mark.parametrize("case", EMBEDDING_CASES, ids=str)
def test_rotation_of_all_embeddings_does_not_matter(case):
    loss = case.build()
    for seed in SEEDS:
        assert_rotation_does_not_matter(loss, *case.draw(seed), seed=seed)


@pytest.mark.parametrize("case", EMBEDDING_CASES, ids=str)
def test_equal_embeddings_have_finite_gradients(case):
    inputs, labels = case.draw(0)
    for gradient in gradients_of(case.build(), [torch.ones_like(side) for side in inputs], labels):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("case", EMPTY_CASES, ids=str)
def test_empty_batch_has_loss_zero_and_can_be_trained_on(case):
    assert_empty_batch_has_loss_zero(case.build(), *case.draw(0))
