"""ONNX graphs become safetensors with the weights that they were exported from."""

from pathlib import Path

import numpy as np
import pytest
import torch

import plait
from pickled import assert_equal_weights, mistake_of, settings_of, weights_of
from plait.model.convert import convert
from tiny import sentences


def export(original: Path, file: Path, prefix: str = "", gemm: bool = False) -> None:
    """A graph with the weights of an encoder, stored as torch's exporter stores them."""
    from onnx import TensorProto, helper, numpy_helper, save

    nodes, stored = [], [numpy_helper.from_array(np.arange(5), "positions")]
    for number, (name, tensor) in enumerate(without_pooler(original).items()):
        if tensor.ndim == 2 and "embeddings" not in name:
            renamed, product, bias = f"onnx::MatMul_{number}", f"product{number}", name.replace("weight", "bias")
            stored.append(numpy_helper.from_array(tensor.T.contiguous().numpy(), renamed))
            if gemm:
                nodes.append(helper.make_node("Gemm", ["states", renamed, prefix + bias], [product]))
            else:
                nodes.append(helper.make_node("MatMul", ["states", renamed], [product]))
                nodes.append(helper.make_node("Add", [prefix + bias, product], [f"sum{number}"]))
        else:
            stored.append(numpy_helper.from_array(tensor.numpy(), prefix + name))
    states = helper.make_tensor_value_info("states", TensorProto.FLOAT, None)
    file.parent.mkdir(parents=True, exist_ok=True)
    save(helper.make_model(helper.make_graph(nodes, "encoder", [states], [], stored)), str(file))


def without_pooler(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in weights_of(folder).items() if not name.startswith("pooler.")}


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model.onnx"])
def test_a_graph_has_the_weights_of_its_encoder(tiny_bert, tmp_path, place):
    source = settings_of(tiny_bert, tmp_path / "exported")
    export(tiny_bert, source / place)
    done = convert(source, tmp_path / "out")
    assert_equal_weights(tmp_path / "out", without_pooler(tiny_bert))
    assert done.left_out == ("positions",)
    texts = sentences(20, seed=5)
    assert np.array_equal(plait.load(tmp_path / "out").embed(texts), plait.load(tiny_bert).embed(texts))


@pytest.mark.parametrize("gemm", [False, True])
def test_a_graph_of_a_wrapper_is_read_with_a_config_from_elsewhere(tiny_bert, tmp_path, gemm):
    export(tiny_bert, tmp_path / "graphs/encoder.onnx", prefix="bert.", gemm=gemm)
    convert(tmp_path / "graphs/encoder.onnx", tmp_path / "out", encoder=str(tiny_bert))
    assert_equal_weights(tmp_path / "out", without_pooler(tiny_bert))


def test_a_damaged_graph_is_refused(tiny_bert, tmp_path):
    source = settings_of(tiny_bert, tmp_path / "exported")
    (source / "model.onnx").write_bytes(b"\x08\x07not a graph")
    assert mistake_of(source, tmp_path / "out").startswith(f"{source}/model.onnx: not a complete ONNX graph (")
    assert not (tmp_path / "out").exists()
