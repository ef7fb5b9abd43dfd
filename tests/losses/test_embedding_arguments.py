"""What the losses on embeddings take and refuse, and batches with nothing to compare."""

import pytest
import torch

from loss_cases import draw_sides
from plait.losses import LOSSES
from plait.losses.embedding import (
    class_contrastive,
    class_triplet,
    contrastive,
    info_nce,
    multiple_negatives,
    simcse_supervised,
    simcse_unsupervised,
    supervised_contrastive,
    triplet,
)
from plait.recipe.options import complete_options


@pytest.mark.parametrize(
    ("loss", "sides", "options"),
    [
        (info_nce, 2, {}),
        (info_nce, 2, {"denominator": "others"}),
        (simcse_unsupervised, 2, {}),
        (multiple_negatives, 2, {}),
        (multiple_negatives, 2, {"similarity": "dot", "scale": 1.0}),
        (lambda side_BD: supervised_contrastive(side_BD, torch.tensor([0])), 1, {}),
    ],
)
def test_single_row_has_nothing_to_be_distinguished_from(loss, sides, options):
    inputs = [side.requires_grad_() for side in draw_sides(0, rows=1)[:sides]]
    value = loss(*inputs, **options)
    assert value.item() == 0 and value.requires_grad
    value.backward()
    assert all(torch.equal(side.grad, torch.zeros(1, 8)) for side in inputs)


@pytest.mark.parametrize("loss", [info_nce, simcse_unsupervised, multiple_negatives])
def test_unequal_sides_are_refused_with_both_shapes(loss):
    with pytest.raises(ValueError) as caught:
        loss(torch.zeros(2, 3), torch.zeros(3, 3))
    assert str(caught.value) == f"{loss.__name__} needs equal shapes, got (2, 3), (3, 3)"


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3), (2, 4)), ((2, 3), (3, 3), (2, 3)), ((2, 3), (2, 3), (1, 3))])
def test_unequal_sides_of_triplets_are_refused_with_all_shapes(shapes):
    for loss in (simcse_supervised, triplet):
        with pytest.raises(ValueError) as caught:
            loss(*(torch.zeros(shape) for shape in shapes))
        assert str(caught.value) == f"{loss.__name__} needs equal shapes, got {', '.join(map(str, shapes))}"


def test_unequal_sides_of_labelled_pairs_are_refused():
    with pytest.raises(ValueError, match=r"^contrastive needs equal shapes, got \(2, 3\), \(2, 4\)$"):
        contrastive(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2))


@pytest.mark.parametrize("shape", [(3,), (2, 1), ()])
def test_anything_but_one_label_per_row_is_refused(shape):
    message = f"needs one label per row, got labels {shape} for embeddings (2, 3)"
    with pytest.raises(ValueError) as caught:
        contrastive(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(shape))
    assert str(caught.value) == f"contrastive {message}"
    for loss in (supervised_contrastive, class_contrastive, class_triplet):
        with pytest.raises(ValueError) as caught:
            loss(torch.zeros(2, 3), torch.zeros(shape))
        assert str(caught.value) == f"{loss.__name__} {message}"


@pytest.mark.parametrize(
    ("loss", "given", "mistake"),
    [
        (info_nce, {"temperature": 0}, ".temperature: expected a number greater than 0, found 0"),
        (info_nce, {"denominator": "some"}, ".denominator: expected 'all' or 'others', found 'some'"),
        (simcse_unsupervised, {"temperature": -1}, ".temperature: expected a number greater than 0, found -1"),
        (multiple_negatives, {"scale": 0}, ".scale: expected a number greater than 0, found 0"),
        (multiple_negatives, {"similarity": "l2"}, ".similarity: expected 'cosine' or 'dot', found 'l2'"),
        (contrastive, {"margin": 0}, ".margin: expected a number greater than 0, found 0"),
        (triplet, {"margin": -0.1}, ".margin: expected a number greater than or equal to 0, found -0.1"),
        (class_contrastive, {"margin": 0}, ".margin: expected a number greater than 0, found 0"),
        (class_triplet, {"margin": -0.1}, ".margin: expected a number greater than or equal to 0, found -0.1"),
        (
            class_triplet,
            {"negatives": "easy"},
            ".negatives: expected 'all', 'hardest' or 'semi_hard', found 'easy'",
        ),
        (supervised_contrastive, {"temperature": 0}, ".temperature: expected a number greater than 0, found 0"),
    ],
)
def test_options_out_of_bounds_are_refused_as_in_a_recipe(loss, given, mistake):
    assert complete_options(loss, given)[1] == [mistake]


def test_simcse_supervised_reads_triplets_and_learns_from_nothing_else():
    loss = LOSSES["simcse_supervised"]
    assert (loss.function, loss.reads, dict(loss.links)) == (simcse_supervised, ("triple",), {"triplets": "sigmoid"})
