"""Checkpoints in and out, and the errors about those that do not match their config."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from checkpoints import changed_copy
from plait.encoder.config import read_config
from plait.encoder.weights import encoder_from, read_tensors, to_checkpoint
from plait.errors import EncoderError


def read_encoder(folder: Path, *, pooler: bool = True) -> dict[str, Tensor]:
    """The tensors that plait reads from a checkpoint, under the checkpoint's names."""
    return to_checkpoint(encoder_from(folder, read_config(folder), pooler=pooler))


def assert_same(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet", "distilbert", "modernbert"])
def test_checkpoint_is_written_bit_for_bit_as_it_was_read(kind, request):
    folder = request.getfixturevalue(f"tiny_{kind}")
    has_pooler = kind in ("bert", "roberta", "mpnet")
    assert_same(read_encoder(folder, pooler=has_pooler), load_file(folder / "model.safetensors"))


@pytest.mark.parametrize("name", ["MPNetForMaskedLM", "DistilBertForMaskedLM", "ModernBertForMaskedLM"])
def test_encoder_of_a_checkpoint_with_a_head_loads(name, request, tmp_path):
    kind = name.removesuffix("ForMaskedLM").lower()
    folder = shutil.copytree(request.getfixturevalue(f"tiny_{kind}"), tmp_path / "with_head")
    model = getattr(transformers, name).from_pretrained(folder)
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    assert any(tensor.startswith(model.base_model_prefix + ".") for tensor in tensors)
    assert any(tensor.startswith(("lm_head.", "vocab_", "head.")) for tensor in tensors)
    assert_same(read_encoder(folder, pooler=False), model.base_model.state_dict())


@pytest.mark.parametrize("kind", ["distilbert", "modernbert"])
def test_pooler_that_an_architecture_lacks_is_reported(kind, request):
    folder = request.getfixturevalue(f"tiny_{kind}")
    with pytest.raises(EncoderError) as caught:
        read_encoder(folder, pooler=True)
    message = f"a {kind} encoder has no pooler; choose another pooling, such as mean"
    assert caught.value.mistakes == (f"{folder}: {message}",)


def test_minilm_is_written_bit_for_bit(minilm):
    expected = load_file(minilm / "model.safetensors")
    expected.pop("embeddings.position_ids", None)
    assert_same(read_encoder(minilm), expected)


def old_name(name: str) -> str:
    """The name that TensorFlow's BERT gave the weights of a layer norm."""
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def test_old_names_and_names_with_a_prefix_load(tiny_bert, tmp_path):
    renamed = changed_copy(
        tiny_bert,
        tmp_path / "old",
        lambda tensors: {f"bert.{old_name(name)}": tensor for name, tensor in tensors.items()},
    )
    assert "bert.embeddings.LayerNorm.gamma" in read_tensors(renamed)
    assert_same(read_encoder(renamed), load_file(tiny_bert / "model.safetensors"))


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta", "camembert"])
def test_roberta_and_its_siblings_load_with_their_prefix(tiny_roberta, tmp_path, model_type):
    renamed = changed_copy(
        tiny_roberta,
        tmp_path / "prefixed",
        lambda tensors: {f"roberta.{name}": tensor for name, tensor in tensors.items()},
        {"model_type": model_type},
    )
    assert_same(read_encoder(renamed), load_file(tiny_roberta / "model.safetensors"))
    assert read_config(renamed).first_position == 2  # after its padding id, 1


def test_heads_of_other_tasks_and_position_ids_are_ignored(tiny_bert, tmp_path):
    extra = [
        "cls.predictions.bias",
        "cls.seq_relationship.weight",
        "lm_head.dense.weight",
        "classifier.weight",
        "classifier.out_proj.bias",
        "embeddings.position_ids",
        "bert.embeddings.position_ids",
    ]
    folder = changed_copy(
        tiny_bert, tmp_path / "more", lambda tensors: {**tensors, **{name: torch.zeros(3) for name in extra}}
    )
    assert_same(read_encoder(folder), load_file(tiny_bert / "model.safetensors"))


def without_pooler(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("pooler.")}


def test_missing_pooler_matters_only_if_the_pooling_uses_it(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "no-pooler", without_pooler)
    assert_same(read_encoder(folder, pooler=False), without_pooler(load_file(tiny_bert / "model.safetensors")))
    with pytest.raises(EncoderError) as caught:
        read_encoder(folder, pooler=True)
    assert caught.value.mistakes == (
        f"{folder}: no tensor pooler.dense.bias, expected shape [16]",
        f"{folder}: no tensor pooler.dense.weight, expected shape [16, 16]",
    )


def test_missing_unexpected_and_wrongly_shaped_tensors_are_reported_at_once(tiny_bert, tmp_path):
    def damage(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        del tensors["encoder.layer.1.attention.self.key.weight"]
        tensors["encoder.layer.2.output.dense.bias"] = torch.zeros(16)  # the encoder has layers 0 and 1
        tensors["embeddings.position_embeddings.weight"] = torch.zeros(50, 16)
        tensors["encoder.layer.0.attention.self.value.bias"] = torch.zeros(15)
        return tensors

    folder = changed_copy(tiny_bert, tmp_path / "damaged", damage)
    with pytest.raises(EncoderError) as caught:
        read_encoder(folder)
    assert set(caught.value.mistakes) == {
        f"{folder}: no tensor encoder.layer.1.attention.self.key.weight, expected shape [16, 16]",
        f"{folder}: tensor encoder.layer.2.output.dense.bias of shape [16] has no place in a bert encoder",
        f"{folder}: tensor embeddings.position_embeddings.weight has shape [50, 16], expected [42, 16]",
        f"{folder}: tensor encoder.layer.0.attention.self.value.bias has shape [15], expected [16]",
    }
    assert len(caught.value.mistakes) == 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_checkpoints_load_as_float32(tiny_bert, tmp_path, dtype):
    folder = changed_copy(
        tiny_bert, tmp_path / "half", lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()}
    )
    original = load_file(tiny_bert / "model.safetensors")
    assert_same(read_encoder(folder), {name: tensor.to(dtype).float() for name, tensor in original.items()})


def test_checkpoint_in_several_shards_loads(tiny_bert, tmp_path):
    folder = split_into_shards(tiny_bert, tmp_path / "sharded")
    assert_same(read_encoder(folder), load_file(tiny_bert / "model.safetensors"))


def test_missing_shard_is_reported(tiny_bert, tmp_path):
    folder = split_into_shards(tiny_bert, tmp_path / "sharded")
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"model-00002-of-00002\.safetensors"):
        read_encoder(folder)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_invalid_index_is_reported(tiny_bert, tmp_path, content):
    folder = split_into_shards(tiny_bert, tmp_path / "sharded")
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(EncoderError, match=r"model\.safetensors\.index\.json"):
        read_encoder(folder)


def split_into_shards(folder: Path, place: Path) -> Path:
    """A copy of a checkpoint with its tensors in two shards and an index."""
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("model.safetensors"))
    tensors = load_file(folder / "model.safetensors")
    files = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: tensor for name, tensor in tensors.items() if files[name] == file}, place / file)
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return place


def test_pickled_weights_are_not_read_and_the_error_says_how_to_convert_them(tiny_bert, tmp_path):
    folder = tmp_path / "pickled"
    shutil.copytree(tiny_bert, folder, ignore=shutil.ignore_patterns("model.safetensors"))
    torch.save(load_file(tiny_bert / "model.safetensors"), folder / "pytorch_model.bin")
    with pytest.raises(EncoderError) as caught:
        read_encoder(folder)
    assert caught.value.mistakes == (
        f"{folder}: no model.safetensors, only pytorch_model.bin; "
        f"plait convert {folder} --out NEW turns it into safetensors",
    )


def test_truncated_file_is_reported(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "truncated")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(EncoderError, match=r"model\.safetensors: cannot be read as safetensors"):
        read_encoder(folder)


def test_written_tensors_are_copies(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "copy")
    encoder = encoder_from(folder, read_config(folder), pooler=True)
    assert all(parameter.requires_grad and parameter.dtype == torch.float32 for parameter in encoder.parameters())
    before = {name: tensor.clone() for name, tensor in to_checkpoint(encoder).items()}
    with torch.no_grad():
        for tensor in to_checkpoint(encoder).values():
            tensor.zero_()
    assert_same(to_checkpoint(encoder), before)


def test_tensor_with_and_without_its_prefix_is_reported(tiny_bert, tmp_path):
    def both(tensors):
        name = "embeddings.LayerNorm.bias"
        return {**tensors, f"bert.{name}": tensors[name] + 1}

    folder = changed_copy(tiny_bert, tmp_path / "both", both)
    with pytest.raises(EncoderError, match=r"embeddings\.LayerNorm\.bias occurs twice"):
        read_encoder(folder)
