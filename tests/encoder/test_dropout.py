import torch

from plait.encoder.dropout import Dropout, draw_mask


def test_the_mask_follows_from_torchs_seed():
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(draw_mask((50, 7), 0.1)[0])
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_two_masks_of_one_seed_differ():
    torch.manual_seed(1)
    assert not torch.equal(draw_mask((50, 7), 0.5)[0], draw_mask((50, 7), 0.5)[0])


def test_numbers_are_kept_as_often_as_they_should_be():
    torch.manual_seed(0)
    mask, scale = draw_mask((1000, 1001), 0.1)
    assert set(mask.unique().tolist()) == {0, 1}
    assert scale == 2**16 / 58982
    # five standard deviations of a million draws
    assert abs(mask.float().mean().item() - 0.9) < 5 * (0.09 / 1_001_000) ** 0.5
    assert abs(mask[:, 500:].float().mean().item() - 0.9) < 5 * (0.09 / 501_000) ** 0.5


def test_what_is_kept_is_scaled_up_and_passes_its_gradient():
    dropout = Dropout(0.25)
    torch.manual_seed(3)
    mask, scale = draw_mask((6, 5), 0.25)
    assert scale == 1 / 0.75
    states = torch.ones(6, 5, requires_grad=True)
    torch.manual_seed(3)
    output = dropout(states)
    torch.testing.assert_close(output, mask * scale, rtol=0, atol=0)
    output.sum().backward()
    torch.testing.assert_close(states.grad, mask * scale, rtol=0, atol=0)


def test_nothing_is_dropped_outside_training_or_at_0():
    states = torch.randn(4, 3)
    assert torch.equal(Dropout(0.5).eval()(states), states)
    assert torch.equal(Dropout(0.0)(states), states)
