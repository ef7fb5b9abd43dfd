"""What read_config takes from a checkpoint's files, and the checkpoints that it refuses."""

import json

import pytest

from checkpoints import changed_copy
from plait.encoder.config import read_config
from plait.errors import EncoderError


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "distilbert"}, "model_type 'distilbert' is not supported; supported: bert, roberta"),
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
