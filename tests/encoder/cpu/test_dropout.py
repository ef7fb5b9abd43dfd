import torch

from plait.encoder.cpu.dropout import Dropout, draw_mask


def test_mask_follows_from_the_seed_of_torch():
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(draw_mask((50, 7), 0.1)[0])
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_successive_masks_differ():
    torch.manual_seed(1)
    assert not torch.equal(draw_mask((50, 7), 0.5)[0], draw_mask((50, 7), 0.5)[0])


def test_share_of_kept_numbers_is_as_given():
    torch.manual_seed(0)
    mask, scale = draw_mask((1000, 1001), 0.1)
    assert set(mask.unique().tolist()) == {0, 1}
    assert scale == 2**16 / 58982
    # five standard deviations of a million draws
    assert abs(mask.float().mean().item() - 0.9) < 5 * (0.09 / 1_001_000) ** 0.5
    assert abs(mask[:, 500:].float().mean().item() - 0.9) < 5 * (0.09 / 501_000) ** 0.5


def test_kept_numbers_and_their_gradients_are_scaled_up():
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


def test_nothing_is_dropped_in_eval_mode_or_with_probability_zero():
    states = torch.randn(4, 3)
    assert torch.equal(Dropout(0.5).eval()(states), states)
    assert torch.equal(Dropout(0.0)(states), states)
