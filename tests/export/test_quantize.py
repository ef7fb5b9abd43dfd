"""8-bit graphs: how much rounding changes, no saturation in 16 bits, and no influence of other texts in a batch."""

import numpy as np
import pytest

import plait
from every_task import make_model
from plait.export.quantize import _GELU_MINIMUM, _largest_pair, _quantize, largest_inputs
from plait.model.directory.load import load_model
from tiny import sentences

RANDOM = np.random.default_rng(0)


def test_largest_pair_by_hand():
    weight = np.array([[1.0, -3.0], [2.0, -4.0], [5.0, 6.0], [-4.0, 1.0], [5.5, 0.0]])
    assert _largest_pair(weight).tolist() == [5.5, 7.0]


def test_a_quantized_layer_by_hand():
    """Output 0 has a pair of the same sign (1 + 1 = 2), so its scale is 2/127; output 1 has none, so it is 4/127."""
    found = _quantize(np.array([[1.0, 1.0], [4.0, -2.0]]), np.array([0.5, 0.0]), None, 0.0)
    assert found.weight_IO.tolist() == [[64, 127], [64, -64]]
    assert found.scale_O == pytest.approx([2 / 127, 4 / 127])
    assert found.bias_O.tolist() == [0.5, 0.0] and found.divide_I is None


@pytest.mark.parametrize("inputs", [32, 33])
def test_two_products_fit_into_sixteen_bits(inputs):
    for seed in range(20):
        weight = np.random.default_rng(seed).standard_t(3, size=(50, inputs))
        whole = _quantize(weight, np.zeros(50), None, 0.0).weight_IO.astype(int)
        for side in (whole.clip(0), (-whole).clip(0)):
            assert 255 * (side[: inputs // 2 * 2 : 2] + side[1::2]).max() <= 2**15 - 1, f"seed {seed}"


def test_rounding_is_at_most_half_a_step():
    weight = RANDOM.normal(size=(20, 31))
    found = _quantize(weight, np.zeros(20), None, 0.0)
    back = found.weight_IO * found.scale_O.astype(np.float64)
    assert (np.abs(back.T - weight) <= found.scale_O[:, None] / 2 + 1e-6).all()


def test_the_bias_makes_up_for_what_is_subtracted_from_the_inputs():
    weight, bias, inputs = RANDOM.normal(size=(6, 8)), RANDOM.normal(size=6), RANDOM.normal(size=8)
    found = _quantize(weight, bias, None, _GELU_MINIMUM)
    whole = found.weight_IO * found.scale_O.astype(np.float64)
    assert (inputs - _GELU_MINIMUM) @ whole + found.bias_O == pytest.approx(inputs @ whole + bias, abs=1e-5)


def test_part_of_the_scale_of_large_inputs_moves_into_the_weights():
    weight, largest = RANDOM.normal(size=(6, 8)), np.array([100.0, 1, 1, 1, 1, 1, 0.0, 1])
    found = _quantize(weight, np.zeros(6), largest, 0.0)
    inputs = RANDOM.normal(size=8) * largest
    exact = inputs @ weight.T
    assert (inputs / found.divide_I) @ (found.weight_IO * found.scale_O.astype(np.float64)) == pytest.approx(
        exact, abs=0.02 * np.abs(exact).max()
    )
    assert np.ptp(largest[:6] / found.divide_I[:6]) < np.ptp(largest[:6]) / 5


def test_largest_inputs_are_measured_for_layers_that_follow_a_norm(tiny_bert):
    model = make_model(tiny_bert)
    found = largest_inputs(model, sentences(20))
    assert sorted(found) == ["layers.0.qkv", "layers.0.widen", "layers.1.qkv", "layers.1.widen"]
    assert all(values.shape == (16,) and (values > 0).all() for values in found.values())
    more = largest_inputs(model, sentences(40))
    assert all((more[name] >= found[name]).all() for name in found)


def test_int8_embeddings_are_close_and_the_weights_smaller(exported, exported_int8):
    texts = sentences(50, seed=8, longest=30)
    full, small = (plait.load(folder, engine="onnx").embed(texts) for folder in (exported, exported_int8))
    cosines = (full * small).sum(axis=1)
    assert 0.99 < cosines.min() < 0.99999 and cosines.mean() > 0.995
    sizes = [(folder / "onnx/weights.bin").stat().st_size for folder in (exported, exported_int8)]
    assert sizes[1] < 0.6 * sizes[0]


def test_an_int8_embedding_does_not_depend_on_other_texts(exported_int8):
    predictor = plait.load(exported_int8, engine="onnx")
    texts = sentences(30, seed=9, longest=30)
    alone = np.concatenate([predictor.embed([text]) for text in texts])
    np.testing.assert_allclose(predictor.embed(texts), alone, atol=1e-6)


def test_int8_predictions_are_close(exported_int8):
    full, small = (plait.load(exported_int8, engine=engine) for engine in ("torch", "onnx"))
    pairs = list(zip(sentences(30, 1), sentences(30, 2), strict=True))
    for task in ("kind", "order"):
        ours, theirs = (
            np.array([list(one.probabilities.values()) for one in model.predict(task, pairs)])
            for model in (full, small)
        )
        assert 0 < np.abs(ours - theirs).max() < 0.05
    assert load_model(exported_int8, device="cpu").model.engine is None
