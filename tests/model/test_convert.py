"""Pickled checkpoints become safetensors with the same weights, or one clear message; their code is never run."""

import argparse
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import plait
from plait.encoder.config import read_config
from plait.encoder.weights import read_tensors
from plait.errors import EncoderError, RequestError
from plait.model.convert import convert
from plait.model.load import load_model
from tiny import sentences

State = dict[str, Tensor]
FIRST = "embeddings.word_embeddings.weight"


def weights_of(folder: Path) -> State:
    return load_file(folder / "model.safetensors")


def settings_of(folder: Path, place: Path) -> Path:
    """A copy of a checkpoint without its weights."""
    return Path(shutil.copytree(folder, place, ignore=shutil.ignore_patterns("*.safetensors")))


@pytest.fixture
def pickled(tiny_bert, tmp_path) -> Callable[..., Path]:
    """The tiny BERT as a directory with one pickled file of whatever is given."""

    def make(content: Any, name: str = "pytorch_model.bin", **options: Any) -> Path:
        folder = settings_of(tiny_bert, tmp_path / "pickled")
        torch.save(content, folder / name, **options)
        return folder

    return make


def assert_equal_weights(folder: Path, expected: State) -> None:
    found = weights_of(folder)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == torch.float32 and torch.equal(found[name], tensor), name


def mistake_of(source: Path, out: Path, **options: Any) -> str:
    """The one message of a conversion that must fail and must leave nothing behind."""
    before = set(out.parent.iterdir())
    with pytest.raises(EncoderError) as caught:
        convert(source, out, **options)
    assert set(out.parent.iterdir()) == before
    (mistake,) = caught.value.mistakes
    assert "\n" not in mistake
    return mistake


# What is converted


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_weights_and_embeddings_are_the_same_after_as_before(kind, request, tmp_path):
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
def test_weights_beside_other_things_are_found(tiny_bert, pickled, tmp_path, wrapper):
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
def test_what_wrappers_put_before_the_names_is_taken_off(tiny_bert, pickled, tmp_path, prefix):
    source = pickled({f"{prefix}{name}": tensor for name, tensor in weights_of(tiny_bert).items()})
    assert convert(source, tmp_path / "out").left_out == ()
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_old_names_of_layer_norms_are_brought_up_to_date(tiny_bert, pickled, tmp_path):
    def old(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    convert(pickled({f"bert.{old(name)}": tensor for name, tensor in weights_of(tiny_bert).items()}), tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_heads_and_things_that_are_no_tensors_are_left_out_and_named(tiny_bert, pickled, tmp_path):
    state: dict[str, Any] = {f"module.bert.{name}": tensor for name, tensor in weights_of(tiny_bert).items()}
    state |= {
        "module.sentiment_classifier.weight": torch.zeros(5, 16),
        "module.pooler.dense.weight": torch.zeros(16, 16),  # of the script, not of the encoder
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


def test_a_checkpoint_without_a_pooler_stays_without(tiny_bert, pickled, tmp_path):
    state = {name: tensor for name, tensor in weights_of(tiny_bert).items() if not name.startswith("pooler.")}
    convert(pickled(state), tmp_path / "out")
    assert_equal_weights(tmp_path / "out", state)


def test_tied_and_transposed_tensors_become_their_own(tiny_bert, pickled, tmp_path):
    state = weights_of(tiny_bert)
    expected = {name: tensor.clone() for name, tensor in state.items()}
    name = "encoder.layer.0.attention.self.query.weight"
    state[name] = state[name].T.contiguous().T
    state["cls.predictions.decoder.weight"] = state[FIRST]
    tied = "encoder.layer.1.attention.self.query.weight"
    state[tied] = state[name]
    source = pickled(state)
    assert not torch.load(source / "pytorch_model.bin")[name].is_contiguous()
    assert convert(source, tmp_path / "out").left_out == ("cls.predictions.decoder.weight",)
    assert_equal_weights(tmp_path / "out", {**expected, tied: expected[name]})


def shard(folder: Path, state: State, names: tuple[str, str] = ("one.bin", "two.bin")) -> Path:
    """A state dict in two files and an index, in Hugging Face's layout."""
    files = {name: names[number % 2] for number, name in enumerate(state)}
    for file in names:
        torch.save({name: tensor for name, tensor in state.items() if files[name] == file}, folder / file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return folder


def test_shards_are_put_together(tiny_bert, tmp_path):
    source = shard(settings_of(tiny_bert, tmp_path / "shards"), weights_of(tiny_bert))
    convert(source, tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_a_missing_shard_and_a_broken_index_are_named(tiny_bert, tmp_path):
    source = shard(settings_of(tiny_bert, tmp_path / "shards"), weights_of(tiny_bert))
    index = source / "pytorch_model.bin.index.json"
    (source / "two.bin").unlink()
    assert mistake_of(source, tmp_path / "out") == f"{index}: names two.bin, not here; copy the directory whole"
    index.write_text("{}")
    assert mistake_of(source, tmp_path / "out") == f"{index}: has no weight_map of tensors to files"


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "best.bin"])
def test_the_only_file_of_a_directory_is_found(tiny_bert, pickled, tmp_path, name):
    convert(pickled(weights_of(tiny_bert), name), tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_a_file_takes_its_config_from_beside_it_or_from_where_it_is_told(tiny_bert, pickled, tmp_path):
    folder = pickled(weights_of(tiny_bert), "model.pt")
    convert(folder / "model.pt", tmp_path / "beside")
    (tmp_path / "alone").mkdir()
    alone = shutil.move(folder / "model.pt", tmp_path / "alone/model.pt")
    assert mistake_of(alone, tmp_path / "told") == (
        f"{alone}: no config.json beside the weights; "
        "name with --config the directory that has the config and the tokenizer of its encoder"
    )
    shutil.copy(tiny_bert / "config.json", tmp_path / "alone")
    assert "no tokenizer.json or vocab.txt beside the weights" in mistake_of(alone, tmp_path / "told")
    convert(alone, tmp_path / "told", encoder=str(tiny_bert))
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "told" / name).read_bytes() == (tmp_path / "beside" / name).read_bytes()


def test_settings_of_sentence_transformers_come_along(tiny_bert, pickled, tmp_path):
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
def test_forms_that_cannot_be_mapped_are_read_all_the_same(tiny_bert, pickled, tmp_path, form):
    source = pickled(weights_of(tiny_bert), _use_new_zipfile_serialization=form != "legacy")
    if form == "compressed":
        path = source / "pytorch_model.bin"
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "new", "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
        shutil.move(tmp_path / "new", path)
    convert(source, tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


# What is refused


class Evil:
    """Unpickling it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("form", ["zip", "legacy", "raw", "raw, protocol 0", "nested"])
def test_code_in_a_pickle_is_not_run(tiny_bert, pickled, tmp_path, monkeypatch, form):
    marker = tmp_path / "marker"
    content = {**weights_of(tiny_bert), "more": Evil(marker)}
    if form.startswith("raw"):
        source = pickled({})
        protocol = 0 if form.endswith("0") else pickle.DEFAULT_PROTOCOL
        (source / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(marker), protocol))
    else:
        content = {"model": weights_of(tiny_bert), "rng": [Evil(marker)]} if form == "nested" else content
        source = pickled(content, _use_new_zipfile_serialization=form != "legacy")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    mistake = mistake_of(source, tmp_path / "out")
    assert not marker.exists()
    file = source / "pytorch_model.bin"
    why = {
        "raw": "is damaged, or not pickled as torch.save pickles tensors, so code would have to be run to read it",
        "raw, protocol 0": "is no file that torch.save wrote, it begins with",
    }
    assert mistake.startswith(f"{file}: {why.get(form, 'holds more than tensors (posix.mkdir), so code would have')}")
    if form == "raw":  # the marker is one that would have been made
        pickle.loads(file.read_bytes())
        assert marker.exists()


def test_a_file_with_more_than_tensors_says_what_and_what_to_do(tiny_bert, pickled, tmp_path):
    source = pickled({"model": weights_of(tiny_bert), "args": argparse.Namespace(lr=1e-5)})
    assert mistake_of(source, tmp_path / "out") == (
        f"{source / 'pytorch_model.bin'}: holds more than tensors (argparse.Namespace), so code would have to be run "
        "to read it, which plait never does; where it was made, save its weights alone, "
        "torch.save(model.state_dict(), 'weights.pt'), and convert those"
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_torchscript_program_is_refused(tiny_bert, pickled, tmp_path):
    source = pickled({})
    torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)).save(source / "pytorch_model.bin")
    assert "holds more than tensors (a TorchScript program)" in mistake_of(source, tmp_path / "out")


def test_modules_of_the_current_folder_are_not_imported(tiny_bert, pickled, tmp_path, monkeypatch):
    source = pickled(weights_of(tiny_bert))
    (tmp_path / "here").mkdir()
    for name in ("torch.py", "pickle.py", "plait.py"):
        (tmp_path / "here" / name).write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path / "here")
    convert(source, tmp_path / "out")
    assert_equal_weights(tmp_path / "out", weights_of(tiny_bert))


def test_loading_never_unpickles_but_says_how_to_convert(tiny_bert, pickled):
    for name in ("pytorch_model.bin", "model.pt", "model.pth"):
        folder = pickled(weights_of(tiny_bert), name)
        with pytest.raises(EncoderError) as caught:
            load_model(folder)
        hint = f"only {name}; plait convert {folder} --out NEW turns it into safetensors"
        assert caught.value.mistakes == (f"{folder}: no model.safetensors, {hint}",)
        shutil.rmtree(folder)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_cut_off_file_is_named(tiny_bert, pickled, tmp_path, legacy, share):
    source = pickled(weights_of(tiny_bert), _use_new_zipfile_serialization=not legacy)
    path = source / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    mistake = mistake_of(source, tmp_path / "out")
    assert mistake.startswith(f"{path}: is damaged or cut off (")
    assert mistake.endswith("); copy or download it again")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; copy or download it again"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n",
            "is a Git LFS pointer, not the weights; `git lfs pull` in its repository fetches them",
        ),
        (b"\n<!DOCTYPE html><html>Not found</html>", "is a web page, not the weights; download the file itself"),
        (
            b"\x02\x00\x00\x00\x00\x00\x00\x00{}",
            "is safetensors already; plait loads it under the name model.safetensors",
        ),
        (b"Not found", "is no file that torch.save wrote, it begins with b'Not foun'; copy or download it again"),
    ],
    ids=["empty", "lfs", "html", "safetensors", "text"],
)
def test_what_is_no_pickle_is_called_what_it_is(tiny_bert, pickled, tmp_path, content, message):
    source = pickled({})
    path = source / "pytorch_model.bin"
    path.write_bytes(content)
    assert mistake_of(source, tmp_path / "out") == f"{path}: {message}"


def test_a_zip_that_torch_did_not_write_is_refused(pickled, tmp_path):
    source = pickled({})
    with zipfile.ZipFile(source / "pytorch_model.bin", "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert mistake_of(source, tmp_path / "out").endswith("is a zip file, but none that torch.save wrote")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.zeros(1)], "holds a list, expected what torch.save(model.state_dict()) writes"),
        ({"lr": 0.1, "epoch": 2}, "has no tensors by name; expected a state dict, found lr, epoch"),
        ({"model": {}, "epoch": 2}, "has no tensors by name; expected a state dict, found nothing"),
        (
            {"model": {"a": torch.zeros(1)}, "state_dict": {"b": torch.zeros(1)}},
            "has weights under model and state_dict; save those that you want alone",
        ),
    ],
    ids=["list", "no tensors", "nothing", "two"],
)
def test_what_is_no_state_dict_is_called_what_it_is(pickled, tmp_path, content, message):
    source = pickled(content)
    assert mistake_of(source, tmp_path / "out") == f"{source / 'pytorch_model.bin'}: {message}"


def test_weights_without_an_encoder_are_refused(pickled, tmp_path):
    source = pickled({f"layer{number}.weight": torch.zeros(1) for number in range(7)})
    assert mistake_of(source, tmp_path / "out") == (
        f"{source}: holds no encoder of the BERT family; expected a tensor embeddings.word_embeddings.weight, found "
        "layer0.weight, layer1.weight, layer2.weight, layer3.weight, layer4.weight and 2 more"
    )


def test_a_small_file_of_huge_tensors_does_not_fill_the_memory(tiny_bert, pickled, tmp_path):
    source = pickled({**weights_of(tiny_bert), "head.weight": torch.zeros(1).expand(10**14)})
    with pytest.raises(OSError, match="reading it needs more memory than there is"):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_encoders_are_refused(tiny_bert, pickled, tmp_path):
    state = weights_of(tiny_bert)
    source = pickled({f"{side}.{name}": tensor for side in ("question", "answer") for name, tensor in state.items()})
    assert mistake_of(source, tmp_path / "out") == (
        f"{source}: holds more than one encoder (answer.{FIRST}, question.{FIRST}); save the one that you want alone"
    )


def test_an_encoder_that_does_not_fit_its_config_is_refused_with_every_tensor_named(tiny_bert, pickled, tmp_path):
    state = {f"bert.{name}": tensor for name, tensor in weights_of(tiny_bert).items()}
    del state["bert.encoder.layer.1.output.dense.bias"]
    state["bert.encoder.layer.2.output.dense.bias"] = torch.zeros(16)  # a layer too many is no head
    state["bert.embeddings.position_embeddings.weight"] = torch.zeros(50, 16)
    source = pickled(state)
    with pytest.raises(EncoderError) as caught:
        convert(source, tmp_path / "out")
    assert caught.value.mistakes == (
        f"{source}: no tensor encoder.layer.1.output.dense.bias, expected shape [16]",
        f"{source}: tensor embeddings.position_embeddings.weight has shape [50, 16], expected [42, 16]",
        f"{source}: tensor encoder.layer.2.output.dense.bias of shape [16] has no place in a bert encoder",
    )
    assert not (tmp_path / "out").exists()


def test_weights_that_are_not_floating_point_are_refused(tiny_bert, pickled, tmp_path):
    name = "encoder.layer.0.output.dense.weight"
    state = weights_of(tiny_bert)
    source = pickled({**state, name: state[name].to(torch.int8)})
    assert mistake_of(source, tmp_path / "out") == (
        f"{source}: {name} is a int8 tensor, expected a tensor of floating-point numbers"
    )


def test_a_tokenizer_of_another_encoder_is_refused_under_its_own_name(tiny_bert, tiny_roberta, pickled, tmp_path):
    source = pickled(weights_of(tiny_bert))
    shutil.copy(tiny_roberta / "tokenizer.json", source)
    mistake = mistake_of(source, tmp_path / "out")
    assert mistake.startswith(f"{source}: its tokenizer has the id ") and "do not belong together" in mistake


def test_an_existing_directory_is_not_overwritten(tiny_bert, pickled, tmp_path):
    source = pickled(weights_of(tiny_bert))
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("mine")
    for taken in (out, out / "precious", source):
        with pytest.raises(RequestError) as caught:
            convert(source, taken)
        assert caught.value.mistakes == (
            f"{taken}: is there already, and nothing is overwritten; give --out a new directory",
        )
    assert [path.name for path in out.iterdir()] == ["precious"] and (out / "precious").read_text() == "mine"


def test_what_appears_meanwhile_is_not_overwritten_either(tiny_bert, pickled, tmp_path, monkeypatch):
    source, out = pickled(weights_of(tiny_bert)), tmp_path / "out"

    def copy_late(folder: Path, place: Path) -> None:
        copy_files(folder, place)
        out.mkdir()
        (out / "precious").write_text("mine")

    copy_files = plait.model.convert.copy_files
    monkeypatch.setattr(plait.model.convert, "copy_files", copy_late)
    with pytest.raises(RequestError, match="nothing is overwritten"):
        convert(source, out)
    assert sorted(path.name for path in tmp_path.rglob("*") if source not in (path, *path.parents)) == [
        "out",
        "precious",
    ]


def test_an_empty_directory_is_filled_and_missing_ones_are_made(tiny_bert, pickled, tmp_path):
    source = pickled(weights_of(tiny_bert))
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "a/b/c"):
        convert(source, out)
        assert_equal_weights(out, weights_of(tiny_bert))
        assert [path for path in out.parent.iterdir() if path.name.startswith(".")] == []


def test_where_nothing_or_too_much_could_be_converted_the_message_says_so(tiny_bert, pickled, tmp_path):
    out = tmp_path / "out"
    nowhere = tmp_path / "nowhere"
    assert mistake_of(nowhere, out).startswith(f"{nowhere}: no such file or directory; ")
    assert mistake_of(tiny_bert, out).startswith(f"{tiny_bert}: has its weights as safetensors already, ")
    source = pickled({}, "one.pt")
    shutil.copy(source / "one.pt", source / "two.bin")
    assert (
        mistake_of(source, out) == f"{source}: several files could be meant; name one of them instead: one.pt, two.bin"
    )
    for name in ("one.pt", "two.bin"):
        (source / name).unlink()
    assert mistake_of(source, out) == f"{source}: no pytorch_model.bin, and no other .bin, .pt or .pth file"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9; perhaps memory ran out"),
        ("raise MemoryError('no room')", "reading it needs more memory than there is"),
        ("raise OSError(28, 'No space left on device')", "No space left on device"),
    ],
    ids=["killed", "no memory", "no disk"],
)
def test_a_reader_that_dies_is_reported_and_leaves_nothing(tiny_bert, pickled, tmp_path, monkeypatch, code, message):
    source = pickled(weights_of(tiny_bert))
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda _, **options: run([sys.executable, "-c", code], **options))
    with pytest.raises(OSError, match=message) as caught:
        convert(source, tmp_path / "out")
    assert caught.value.filename == str(source / "pytorch_model.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["pickled"]


# Other architectures


@pytest.mark.parametrize("kind", ["distilbert", "electra", "deberta-v2", "modernbert", "mpnet", "t5", "albert", "gpt2"])
def test_other_architectures_get_one_message_that_names_the_supported_ones(tiny_bert, pickled, tmp_path, kind):
    from transformers import AutoConfig

    source = pickled({"a": torch.zeros(1)})
    AutoConfig.for_model(kind).save_pretrained(source)
    expected = (
        f"{source}: model_type {kind!r} is not supported; supported: bert, roberta, xlm-roberta, camembert; "
        "choose an encoder of one of these kinds, such as minilm, bert-base-uncased or roberta-base"
    )
    assert mistake_of(source, tmp_path / "out") == expected
    for load in (read_config, load_model):
        with pytest.raises(EncoderError) as caught:
            load(source)
        assert caught.value.mistakes == (expected,)


def test_minilm_goes_there_and_back(minilm, tmp_path):
    state = read_tensors(minilm)
    torch.save({f"module.{name}": tensor for name, tensor in state.items()}, tmp_path / "weights.pt")
    done = convert(tmp_path / "weights.pt", tmp_path / "out", encoder="minilm")
    state.pop("embeddings.position_ids", None)
    assert_equal_weights(tmp_path / "out", state)
    assert (done.config.layers, done.config.width, done.left_out) == (6, 384, ())
    texts = ["One sentence.", "Another, rather longer sentence."]
    assert np.array_equal(plait.load(tmp_path / "out").embed(texts), plait.load("minilm").embed(texts))
