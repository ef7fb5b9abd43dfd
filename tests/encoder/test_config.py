"""What read_config takes from a checkpoint's files, and the checkpoints that it refuses."""

import json

import pytest

from checkpoints import changed_copy
from plait.encoder.config import read_config
from plait.errors import EncoderError


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2' is not supported; supported: bert, roberta"),
        ({"model_type": ["bert"]}, "model_type ['bert'] is not supported; supported: bert, roberta"),
        ({"is_decoder": True}, "is_decoder True is not supported; supported: false"),
        ({"model_type": None}, "config.json has no model_type; supported: bert, roberta"),
        ({"hidden_act": "gelu_new"}, "hidden_act 'gelu_new' is not supported; supported: gelu"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key' is not supported"),
    ],
)
def test_unsupported_architecture_is_refused(tiny_bert, tmp_path, config, message):
    folder = changed_copy(tiny_bert, tmp_path / "other", config=config)
    with pytest.raises(EncoderError) as caught:
        read_config(folder)
    assert caught.value.mistakes[0].startswith(f"{folder}: {message}")


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("distilbert", {"activation": "relu"}, "activation 'relu' is not supported; supported: gelu"),
        ("mpnet", {"hidden_act": "relu"}, "hidden_act 'relu' is not supported; supported: gelu"),
        ("mpnet", {"relative_attention_num_buckets": 64}, "relative_attention_num_buckets 64 is not supported"),
        ("modernbert", {"hidden_activation": "silu"}, "hidden_activation 'silu' is not supported; supported: gelu"),
        ("modernbert", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type 'linear' is not supported"),
        (
            "modernbert",
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e4}}},
            "rope_type 'yarn' is not supported; supported: default",
        ),
        (
            "modernbert",
            {"layer_types": ["full_attention", "chunked_attention", "full_attention"]},
            "layer_types: expected 3 of full_attention, sliding_attention, found full_attention, chunked_attention",
        ),
        ("modernbert", {"layer_types": ["full_attention"]}, "layer_types: expected 3 of full_attention"),
        ("modernbert", {"num_attention_heads": 16}, "rotations need attention heads of even width"),
    ],
)
def test_unsupported_settings_of_other_architectures_are_refused(kind, config, message, request, tmp_path):
    folder = changed_copy(request.getfixturevalue(f"tiny_{kind}"), tmp_path / "other", config=config)
    with pytest.raises(EncoderError) as caught:
        read_config(folder)
    assert caught.value.mistakes[0].removeprefix(str(folder)).removeprefix("/config.json").startswith(f": {message}")


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("modernbert", {"local_attention": "all"}, "local_attention: expected an integer from 1 to 10000000, found "),
        ("modernbert", {"global_attn_every_n_layers": 0}, "global_attn_every_n_layers: expected an integer from 1 to"),
        ("modernbert", {"norm_bias": "yes"}, "norm_bias: expected true or false, found "),
        ("modernbert", {"layer_types": 3}, "not that of a modernbert encoder: "),
        ("distilbert", {"dropout": 2}, "dropout: expected a number from 0.0 to 0.999, found 2"),
        ("mpnet", {"layer_norm_eps": None}, "layer_norm_eps: expected a number from 0.0 to 1.0, found None"),
    ],
)
def test_settings_of_another_type_are_reported(kind, config, message, request, tmp_path):
    folder = changed_copy(request.getfixturevalue(f"tiny_{kind}"), tmp_path / "other", config=config)
    with pytest.raises(EncoderError) as caught:
        read_config(folder)
    assert caught.value.mistakes[0].startswith(f"{folder}/config.json: {message}")


def test_older_keys_of_modernbert_mean_the_same(tiny_modernbert, tmp_path):
    folder = changed_copy(tiny_modernbert, tmp_path / "older")
    raw = json.loads((folder / "config.json").read_text())
    assert {"layer_types", "rope_parameters"} <= raw.keys()  # as transformers 5 writes them
    del raw["layer_types"], raw["rope_parameters"]
    older = {"global_attn_every_n_layers": 2, "global_rope_theta": 1234.0, "local_rope_theta": 56.0}
    (folder / "config.json").write_text(json.dumps({**raw, **older}))
    modern = read_config(folder).modern
    assert modern.windows == (None, 4, None) and modern.periods == (1234.0, 56.0, 1234.0)
    now = read_config(tiny_modernbert).modern
    assert now.windows == (None, 4, 4) and now.periods == (160_000.0, 10_000.0, 10_000.0)


def test_missing_size_or_invalid_json_is_reported(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "broken")
    raw = json.loads((folder / "config.json").read_text())
    del raw["hidden_size"]
    for content, message in ((json.dumps(raw), "no 'hidden_size'"), ("{", "is not valid JSON")):
        (folder / "config.json").write_text(content)
        with pytest.raises(EncoderError, match=rf"config\.json: {message}"):
            read_config(folder)


@pytest.mark.parametrize(
    ("key", "value"), [("num_attention_heads", 3), ("hidden_size", "16"), ("max_position_embeddings", None)]
)
def test_inconsistent_sizes_are_reported(tiny_bert, tmp_path, key, value):
    folder = changed_copy(tiny_bert, tmp_path / "sizes")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(EncoderError, match=rf"inconsistent sizes: .*{key} {value!r}"):
        read_config(folder)


def test_config_that_is_not_an_object_is_reported(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "list")
    (folder / "config.json").write_text("[]")
    with pytest.raises(EncoderError) as caught:
        read_config(folder)
    assert caught.value.mistakes == (f"{folder}/config.json: expected a JSON object, found a list",)


def test_directory_without_a_config_is_refused(tmp_path):
    with pytest.raises(EncoderError) as caught:
        read_config(tmp_path)
    assert caught.value.mistakes == (f"{tmp_path}: no config.json; expected a checkpoint in Hugging Face's layout",)


@pytest.mark.parametrize(
    ("tokenizer", "sentences", "limit"),
    [(40, None, 40), (10**30, None, 42), (None, None, 42), (40, 9, 9), (8, 9, 8), (100, 100, 42)],
)
def test_limit_is_the_smallest_of_weights_tokenizer_and_sentence_transformers(
    tiny_bert, tmp_path, tokenizer, sentences, limit
):
    folder = changed_copy(tiny_bert, tmp_path / "limits")
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": tokenizer}))
    if sentences is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": sentences}))
    assert read_config(folder).limit == limit


def test_modules_that_are_not_a_list_of_modules_are_reported(tiny_bert, tmp_path):
    folder = changed_copy(tiny_bert, tmp_path / "modules")
    (folder / "modules.json").write_text('[{"type": "Pooling"}]')
    with pytest.raises(EncoderError) as caught:
        read_config(folder)
    message = "expected a list of modules, each with type and path"
    assert caught.value.mistakes == (f"{folder}/modules.json: {message}",)
