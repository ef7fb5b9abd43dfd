"""Pickled checkpoints become safetensors with the same weights."""

import json
import shutil
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

import plait
from pickled import WORD_EMBEDDINGS, assert_equal_weights, mistake_of, settings_of, shard, weights_of
from plait.encoder.config import read_config
from plait.encoder.weights import read_tensors
from plait.model.convert import convert
from tiny import sentences

pytestmark = pytest.mark.usefixtures("warm_reader")


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet", "modernbert"])
def test_weights_and_embeddings_stay_the_same(kind, request, tmp_path):
    original = request.getfixturevalue(f"tiny_{kind}")
    source = settings_of(original, tmp_path / "pickled")
    torch.save(weights_of(original), source / "pytorch_model.bin")
    done = convert(source, tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(original))
    assert done.folder == tmp_path / "out" and done.left_out == () and done.was == ("float32",)
    assert done.weights == sum(tensor.numel() for tensor in weights_of(original).values())
    texts = sentences(20, seed=5)
    assert np.array_equal(plait.load(tmp_path / "out").embed(texts), plait.load(original).embed(texts))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_transformers_loads_the_result_as_float32(tiny_bert, pickled, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    source = pickled({f"bert.{name}": tensor.half() for name, tensor in weights_of(tiny_bert).items()})
    raw = json.loads((source / "config.json").read_text())
    raw |= {"architectures": ["BertForMaskedLM"], "torch_dtype": "float16", "dtype": "float16"}
    (source / "config.json").write_text(json.dumps(raw))
    convert(source, tmp_path / "out")
    written = json.loads((tmp_path / "out/config.json").read_text())
    assert written["architectures"] == ["BertModel"] and written["dtype"] == "float32" and "torch_dtype" not in written
    model, loading = AutoModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    expected = {name: tensor.half().float() for name, tensor in weights_of(tiny_bert).items()}
    for name, tensor in expected.items():
        assert model.state_dict()[name].dtype == torch.float32 and torch.equal(model.state_dict()[name], tensor), name
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("the film").input_ids


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_precisions_become_float32(tiny_bert, pickled, tmp_path, dtype):
    state = {name: tensor.to(dtype) for name, tensor in weights_of(tiny_bert).items()}
    done = convert(pickled(state), tmp_path / "out")
    assert_equal_weights(tmp_path / "out", {name: tensor.float() for name, tensor in state.items()})
    assert done.was == (str(dtype).removeprefix("torch."),)


@pytest.mark.parametrize("wrapper", ["model", "state_dict", "model_state_dict"])
def test_weights_are_found_beside_other_values(tiny_bert, pickled, tmp_path, wrapper):
    content = {
        "epoch": 3,
        wrapper: OrderedDict(weights_of(tiny_bert)),
        "optimizer": {"state": {0: {"step": torch.ones(1)}}, "param_groups": [{"lr": 1e-5}]},
        "torch_rng_state": torch.get_rng_state(),
    }
    convert(pickled(content), tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


@pytest.mark.parametrize(
    "prefix",
    ["bert.", "roberta.", "module.", "module.bert.", "module.roberta.", "encoder.", "model.bert.", "0.auto_model."],
)
def test_prefixes_that_wrappers_add_are_removed(tiny_bert, pickled, tmp_path, prefix):
    source = pickled({f"{prefix}{name}": tensor for name, tensor in weights_of(tiny_bert).items()})
    assert convert(source, tmp_path / "out").left_out == ()
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_old_names_of_layer_norms_are_updated(tiny_bert, pickled, tmp_path):
    def old(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    convert(pickled({f"bert.{old(name)}": tensor for name, tensor in weights_of(tiny_bert).items()}), tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_heads_and_other_values_are_left_out_and_listed(tiny_bert, pickled, tmp_path):
    state: dict[str, Any] = {f"module.bert.{name}": tensor for name, tensor in weights_of(tiny_bert).items()}
    state |= {
        "module.sentiment_classifier.weight": torch.zeros(5, 16),
        "module.pooler.dense.weight": torch.zeros(16, 16),  # belongs to the script, not to the encoder
        "module.bert.embeddings.position_ids": torch.arange(42)[None],
        "module.counts": torch.arange(3),
        "module.mask": torch.eye(3).to_sparse(),
        "steps": 7,
        "\x1b[31mred": torch.zeros(1),
    }
    assert convert(pickled(state), tmp_path / "out").left_out == (
        "'\\x1b[31mred'",
        "module.counts",
        "module.mask",
        "module.pooler.dense.weight",
        "module.sentiment_classifier.weight",
        "steps",
    )
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_a_checkpoint_without_a_pooler_gets_none(tiny_bert, pickled, tmp_path):
    state = {name: tensor for name, tensor in weights_of(tiny_bert).items() if not name.startswith("pooler.")}
    convert(pickled(state), tmp_path / "out")
    assert_equal_weights(tmp_path / "out", state)


def test_tied_and_transposed_tensors_are_stored_separately(tiny_bert, pickled, tmp_path):
    state = weights_of(tiny_bert)
    expected = {name: tensor.clone() for name, tensor in state.items()}
    name = "encoder.layer.0.attention.self.query.weight"
    state[name] = state[name].T.contiguous().T
    state["cls.predictions.decoder.weight"] = state[WORD_EMBEDDINGS]
    tied = "encoder.layer.1.attention.self.query.weight"
    state[tied] = state[name]
    source = pickled(state)
    assert not torch.load(source / "pytorch_model.bin")[name].is_contiguous()
    assert convert(source, tmp_path / "out").left_out == ("cls.predictions.decoder.weight",)
    assert_equal_weights(tmp_path / "out", {**expected, tied: expected[name]})


def test_shards_are_combined(tiny_bert, tmp_path):
    source = shard(settings_of(tiny_bert, tmp_path / "shards"), weights_of(tiny_bert))
    convert(source, tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "best.bin"])
def test_the_only_file_with_weights_in_a_directory_is_found(tiny_bert, pickled, tmp_path, name):
    convert(pickled(weights_of(tiny_bert), name), tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_the_config_is_read_beside_the_file_or_from_the_given_directory(tiny_bert, pickled, tmp_path):
    folder = pickled(weights_of(tiny_bert), "model.pt")
    convert(folder / "model.pt", tmp_path / "beside")
    (tmp_path / "alone").mkdir()
    alone = shutil.move(folder / "model.pt", tmp_path / "alone/model.pt")
    assert mistake_of(alone, tmp_path / "given") == (
        f"{alone}: no config.json beside the weights; "
        "use --config to give the directory that has the encoder's config and tokenizer"
    )
    shutil.copy(tiny_bert / "config.json", tmp_path / "alone")
    assert "no tokenizer.json or vocab.txt beside the weights" in mistake_of(alone, tmp_path / "given")
    convert(alone, tmp_path / "given", encoder=str(tiny_bert))
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "given" / name).read_bytes() == (tmp_path / "beside" / name).read_bytes()


def test_settings_of_sentence_transformers_are_copied(tiny_bert, pickled, tmp_path):
    source = pickled(weights_of(tiny_bert))
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for kind, path in kinds]
    (source / "modules.json").write_text(json.dumps(modules))
    (source / "sentence_bert_config.json").write_text('{"max_seq_length": 17, "do_lower_case": false}')
    (source / "README.md").write_text("of another model")
    config = convert(source, tmp_path / "out").config
    written = read_config(tmp_path / "out")
    assert (written.pooling, written.normalise, written.limit) == ("cls", True, 17)
    assert (config.pooling, config.normalise, config.limit) == ("cls", True, 17)
    assert not (tmp_path / "out/README.md").exists() and not (tmp_path / "out/pytorch_model.bin").exists()


@pytest.mark.parametrize("form", ["legacy", "compressed"])
def test_formats_that_cannot_be_memory_mapped_are_read_too(tiny_bert, pickled, tmp_path, form):
    source = pickled(weights_of(tiny_bert), _use_new_zipfile_serialization=form != "legacy")
    if form == "compressed":
        path = source / "pytorch_model.bin"
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "new", "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
        shutil.move(tmp_path / "new", path)
    convert(source, tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_minilm_survives_a_round_trip(minilm, tmp_path):
    state = read_tensors(minilm)
    torch.save({f"module.{name}": tensor for name, tensor in state.items()}, tmp_path / "weights.pt")
    done = convert(tmp_path / "weights.pt", tmp_path / "out", encoder="minilm")
    state.pop("embeddings.position_ids", None)
    assert_equal_weights(tmp_path / "out", state)
    assert (done.config.layers, done.config.width, done.left_out) == (6, 384, ())
    texts = ["One sentence.", "Another, rather longer sentence."]
    assert np.array_equal(plait.load(tmp_path / "out").embed(texts), plait.load("minilm").embed(texts))
