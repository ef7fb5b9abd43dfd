"""Checkpoints in and out, and what is said of those that do not fit."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from plait.encoder.config import read_config
from plait.encoder.weights import encoder_from, read_tensors, to_checkpoint
from plait.errors import EncoderError

Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def changed_copy(folder: Path, place: Path, change: Change = dict, config: Mapping[str, Any] | None = None) -> Path:
    """A copy of a checkpoint with other tensors and other keys in its config.json."""
    shutil.copytree(folder, place)
    save_file(change(load_file(folder / "model.safetensors")), place / "model.safetensors")
    raw = json.loads((folder / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**raw, **(config or {})}))
    return place


def read_encoder(folder: Path, *, pooler: bool = True) -> dict[str, Tensor]:
    """What plait reads of a checkpoint, under the checkpoint's names."""
    return to_checkpoint(encoder_from(folder, read_config(folder), pooler=pooler))


def assert_same(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_what_is_read_is_written_bit_for_bit(kind, request):
    folder = request.getfixturevalue(f"tiny_{kind}")
    assert_same(read_encoder(folder), load_file(folder / "model.safetensors"))


def test_minilm_is_written_bit_for_bit(minilm):
    expected = load_file(minilm / "model.safetensors")
    expected.pop("embeddings.position_ids", None)
    assert_same(read_encoder(minilm), expected)


def old_name(name: str) -> str:
    """The name that TensorFlow's BERT gave to the weights of a layer norm."""
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def test_old_names_and_the_prefix_of_the_model_load(tiny_bert, tmp_path):
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


def test_heads_of_other_tasks_and_position_ids_are_passed_over(tiny_bert, tmp_path):
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


def test_a_missing_pooler_matters_only_to_the_pooling_that_uses_it(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "no-pooler", without_pooler)
    assert_same(read_encoder(folder, pooler=False), without_pooler(load_file(tiny_bert / "model.safetensors")))
    with pytest.raises(EncoderError) as caught:
        read_encoder(folder, pooler=True)
    assert caught.value.mistakes == (
        f"{folder}: no tensor pooler.dense.bias, expected shape [16]",
        f"{folder}: no tensor pooler.dense.weight, expected shape [16, 16]",
    )


def test_missing_extra_and_wrongly_shaped_tensors_are_named_all_at_once(tiny_bert, tmp_path):
    def spoil(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        del tensors["encoder.layer.1.attention.self.key.weight"]
        tensors["encoder.layer.2.output.dense.bias"] = torch.zeros(16)  # the encoder has layers 0 and 1
        tensors["embeddings.position_embeddings.weight"] = torch.zeros(50, 16)
        tensors["encoder.layer.0.attention.self.value.bias"] = torch.zeros(15)
        return tensors

    folder = changed_copy(tiny_bert, tmp_path / "spoilt", spoil)
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


def test_a_checkpoint_in_several_files_loads(tiny_bert, tmp_path):
    folder = split_in_two(tiny_bert, tmp_path / "sharded")
    assert_same(read_encoder(folder), load_file(tiny_bert / "model.safetensors"))


def test_a_missing_file_of_several_is_named(tiny_bert, tmp_path):
    folder = split_in_two(tiny_bert, tmp_path / "sharded")
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"model-00002-of-00002\.safetensors"):
        read_encoder(folder)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_broken_index_is_named(tiny_bert, tmp_path, content):
    folder = split_in_two(tiny_bert, tmp_path / "sharded")
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(EncoderError, match=r"model\.safetensors\.index\.json"):
        read_encoder(folder)


def split_in_two(folder: Path, place: Path) -> Path:
    """A copy of a checkpoint with its tensors in two files and an index."""
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("model.safetensors"))
    tensors = load_file(folder / "model.safetensors")
    files = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: tensor for name, tensor in tensors.items() if files[name] == file}, place / file)
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return place


def test_pickled_weights_are_not_read_and_the_message_says_why(tiny_bert, tmp_path):
    folder = tmp_path / "pickled"
    shutil.copytree(tiny_bert, folder, ignore=shutil.ignore_patterns("model.safetensors"))
    torch.save(load_file(tiny_bert / "model.safetensors"), folder / "pytorch_model.bin")
    with pytest.raises(EncoderError) as caught:
        read_encoder(folder)
    assert caught.value.mistakes == (
        f"{folder}: no model.safetensors, only pytorch_model.bin; "
        f"plait convert {folder} --out NEW turns it into safetensors",
    )


def test_a_cut_off_file_is_named(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "cut")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(EncoderError, match=r"model\.safetensors: cannot be read as safetensors"):
        read_encoder(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "distilbert"}, "model_type 'distilbert' is not supported; supported: bert, roberta"),
        ({"hidden_act": "gelu_new"}, "hidden_act 'gelu_new' is not supported; supported: gelu"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key' is not supported"),
    ],
)
def test_architectures_that_plait_does_not_have_are_refused(tiny_bert, tmp_path, config, message):
    folder = changed_copy(tiny_bert, tmp_path / "other", config=config)
    with pytest.raises(EncoderError) as caught:
        read_config(folder)
    assert caught.value.mistakes[0].startswith(f"{folder}: {message}")


def test_a_config_without_its_sizes_or_that_is_not_json_is_named(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "broken")
    raw = json.loads((folder / "config.json").read_text())
    del raw["hidden_size"]
    for content, message in ((json.dumps(raw), "no 'hidden_size'"), ("{", "is not JSON")):
        (folder / "config.json").write_text(content)
        with pytest.raises(EncoderError, match=rf"config\.json: {message}"):
            read_config(folder)


def test_reading_leaves_nothing_tied_to_the_file_or_to_other_weights(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "copy")
    encoder = encoder_from(folder, read_config(folder), pooler=True)
    assert all(parameter.requires_grad and parameter.dtype == torch.float32 for parameter in encoder.parameters())
    before = {name: tensor.clone() for name, tensor in to_checkpoint(encoder).items()}
    with torch.no_grad():
        for tensor in to_checkpoint(encoder).values():
            tensor.zero_()  # what is written is a copy
    assert_same(to_checkpoint(encoder), before)


def test_a_tensor_with_and_without_its_prefix_is_named(tiny_bert, tmp_path):
    def both(tensors):
        name = "embeddings.LayerNorm.bias"
        return {**tensors, f"bert.{name}": tensors[name] + 1}

    folder = changed_copy(tiny_bert, tmp_path / "both", both)
    with pytest.raises(EncoderError, match=r"embeddings\.LayerNorm\.bias stands there twice"):
        read_encoder(folder)


@pytest.mark.parametrize(
    ("key", "value"), [("num_attention_heads", 3), ("hidden_size", "16"), ("max_position_embeddings", None)]
)
def test_sizes_that_do_not_fit_are_named(tiny_bert, tmp_path, key, value):
    folder = changed_copy(tiny_bert, tmp_path / "sizes", lambda tensors: tensors)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(EncoderError, match=rf"sizes that do not fit together: .*{key} {value!r}"):
        read_config(folder)
