"""Checkpoints that cannot be converted get one clear message; code in a pickle is never executed."""

import argparse
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from pickled import WORD_EMBEDDINGS, assert_equal_weights, mistake_of, settings_of, shard, weights_of
from plait.encoder.architectures import ARCHITECTURES
from plait.encoder.config import read_config
from plait.errors import EncoderError, RequestError
from plait.model import convert as convert_module
from plait.model.convert import convert
from plait.model.directory.load import load_model


class Evil:
    """Unpickling it creates a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("form", ["zip", "legacy", "raw", "raw, protocol 0", "nested"])
def test_code_in_a_pickle_is_not_executed(tiny_bert, pickled, tmp_path, monkeypatch, form):
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
        "raw": "is damaged or was not written by torch.save; reading it would run",
        "raw, protocol 0": "not written by torch.save, since it begins with",
    }
    assert mistake.startswith(f"{file}: {why.get(form, 'holds more than tensors (posix.mkdir); reading it would run')}")
    if form == "raw":  # the marker would have been created
        pickle.loads(file.read_bytes())
        assert marker.exists()


def test_a_file_with_more_than_tensors_is_refused_with_a_remedy(tiny_bert, pickled, tmp_path):
    source = pickled({"model": weights_of(tiny_bert), "args": argparse.Namespace(lr=1e-5)})
    assert mistake_of(source, tmp_path / "out") == (
        f"{source / 'pytorch_model.bin'}: holds more than tensors (argparse.Namespace); reading it would run code from "
        "the file, which plait never does; where it was made, save only its weights, "
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


def test_loading_never_unpickles_and_explains_how_to_convert(tiny_bert, pickled):
    for name in ("pytorch_model.bin", "model.pt", "model.pth"):
        folder = pickled(weights_of(tiny_bert), name)
        with pytest.raises(EncoderError) as caught:
            load_model(folder)
        hint = f"only {name}; plait convert {folder} --out NEW turns it into safetensors"
        assert caught.value.mistakes == (f"{folder}: no model.safetensors, {hint}",)
        shutil.rmtree(folder)


@pytest.mark.usefixtures("warm_reader")
@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_truncated_file_is_reported(tiny_bert, pickled, tmp_path, legacy, share):
    source = pickled(weights_of(tiny_bert), _use_new_zipfile_serialization=not legacy)
    path = source / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    mistake = mistake_of(source, tmp_path / "out")
    assert mistake.startswith(f"{path}: is damaged or truncated (")
    assert mistake.endswith("); copy or download it again")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; copy or download it again"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n",
            "a Git LFS pointer instead of the weights; run `git lfs pull` in its repository",
        ),
        (b"\n<!DOCTYPE html><html>Not found</html>", "a web page instead of the weights; download the file itself"),
        (
            b"\x02\x00\x00\x00\x00\x00\x00\x00{}",
            "already in safetensors; rename it to model.safetensors and plait will load it",
        ),
        (b"Not found", "not written by torch.save, since it begins with b'Not foun'; copy or download it again"),
    ],
    ids=["empty", "lfs", "html", "safetensors", "text"],
)
def test_files_of_other_kinds_are_recognised(tiny_bert, pickled, tmp_path, content, message):
    source = pickled({})
    path = source / "pytorch_model.bin"
    path.write_bytes(content)
    assert mistake_of(source, tmp_path / "out") == f"{path}: {message}"


def test_a_zip_that_torch_did_not_write_is_refused(pickled, tmp_path):
    source = pickled({})
    with zipfile.ZipFile(source / "pytorch_model.bin", "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert mistake_of(source, tmp_path / "out").endswith("is a zip file that torch.save did not write")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.zeros(1)], "holds a list, expected what torch.save(model.state_dict()) writes"),
        ({"lr": 0.1, "epoch": 2}, "has no named tensors; expected a state dict, found lr, epoch"),
        ({"model": {}, "epoch": 2}, "has no named tensors; expected a state dict, found nothing"),
        (
            {"model": {"a": torch.zeros(1)}, "state_dict": {"b": torch.zeros(1)}},
            "has weights under model and state_dict; save only those that you want",
        ),
    ],
    ids=["list", "no tensors", "nothing", "two"],
)
def test_content_other_than_a_state_dict_is_described(warm_reader, pickled, tmp_path, content, message):
    source = pickled(content)
    assert mistake_of(source, tmp_path / "out") == f"{source / 'pytorch_model.bin'}: {message}"


def test_weights_without_an_encoder_are_refused(pickled, tmp_path):
    source = pickled({f"layer{number}.weight": torch.zeros(1) for number in range(7)})
    assert mistake_of(source, tmp_path / "out") == (
        f"{source}: no encoder of the BERT family; expected a tensor {WORD_EMBEDDINGS}, found "
        "layer0.weight, layer1.weight, layer2.weight, layer3.weight, layer4.weight and 2 more"
    )


def test_a_small_file_of_huge_tensors_does_not_fill_the_memory(tiny_bert, pickled, tmp_path):
    source = pickled({**weights_of(tiny_bert), "head.weight": torch.zeros(1).expand(10**14)})
    with pytest.raises(OSError, match="not enough memory to read it"):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_encoders_are_refused(tiny_bert, pickled, tmp_path):
    state = weights_of(tiny_bert)
    source = pickled({f"{side}.{name}": tensor for side in ("question", "answer") for name, tensor in state.items()})
    assert mistake_of(source, tmp_path / "out") == (
        f"{source}: more than one encoder (answer.{WORD_EMBEDDINGS}, question.{WORD_EMBEDDINGS}); "
        "save only the one that you want"
    )


def test_an_encoder_that_does_not_match_its_config_is_refused_with_every_tensor(tiny_bert, pickled, tmp_path):
    state = {f"bert.{name}": tensor for name, tensor in weights_of(tiny_bert).items()}
    del state["bert.encoder.layer.1.output.dense.bias"]
    state["bert.encoder.layer.2.output.dense.bias"] = torch.zeros(16)  # an extra layer is not a head
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
        f"{source}: {name}: expected a floating-point tensor, found int8 tensor"
    )


def test_a_tokenizer_of_another_encoder_is_refused_with_its_original_path(tiny_bert, tiny_roberta, pickled, tmp_path):
    source = pickled(weights_of(tiny_bert))
    shutil.copy(tiny_roberta / "tokenizer.json", source)
    mistake = mistake_of(source, tmp_path / "out")
    assert mistake.startswith(f"{source}: the tokenizer has the id ") and "do not belong together" in mistake


def test_an_existing_directory_is_not_overwritten(tiny_bert, pickled, tmp_path):
    source = pickled(weights_of(tiny_bert))
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("mine")
    for taken in (out, out / "precious", source):
        with pytest.raises(RequestError) as caught:
            convert(source, taken)
        assert caught.value.mistakes == (
            f"{taken}: already exists and will not be overwritten; give --out a new directory",
        )
    assert [path.name for path in out.iterdir()] == ["precious"] and (out / "precious").read_text() == "mine"


def test_a_directory_that_appears_meanwhile_is_not_overwritten(tiny_bert, pickled, tmp_path, monkeypatch):
    source, out = pickled(weights_of(tiny_bert)), tmp_path / "out"

    def copy_late(folder: Path, place: Path) -> None:
        copy_settings(folder, place)
        out.mkdir()
        (out / "precious").write_text("mine")

    copy_settings = convert_module._copy_settings
    monkeypatch.setattr(convert_module, "_copy_settings", copy_late)
    with pytest.raises(RequestError, match="will not be overwritten"):
        convert(source, out)
    assert sorted(path.name for path in tmp_path.rglob("*") if source not in (path, *path.parents)) == [
        "out",
        "precious",
    ]


def test_an_empty_directory_is_filled_and_missing_ones_are_created(tiny_bert, pickled, tmp_path):
    source = pickled(weights_of(tiny_bert))
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "a/b/c"):
        convert(source, out)
        assert_equal_weights(out, weights_of(tiny_bert))
        assert [path for path in out.parent.iterdir() if path.name.startswith(".")] == []


def test_a_source_with_no_weights_or_several_is_refused(tiny_bert, pickled, tmp_path):
    out = tmp_path / "out"
    nowhere = tmp_path / "nowhere"
    assert mistake_of(nowhere, out).startswith(f"{nowhere}: no such file or directory; ")
    assert mistake_of(tiny_bert, out).startswith(f"{tiny_bert}: its weights are already in safetensors, ")
    source = pickled({}, "one.pt")
    shutil.copy(source / "one.pt", source / "two.bin")
    assert mistake_of(source, out) == f"{source}: several files with weights; give one of them: one.pt, two.bin"
    for name in ("one.pt", "two.bin"):
        (source / name).unlink()
    assert (
        mistake_of(source, out) == f"{source}: no pytorch_model.bin, no model.onnx, and no other .bin, .pt or .pth file"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "was killed by signal 9, perhaps because memory ran out"),
        ("raise MemoryError('no room')", "not enough memory to read it"),
        ("raise OSError(28, 'No space left on device')", "No space left on device"),
    ],
    ids=["killed", "no memory", "no disk"],
)
def test_a_reading_process_that_dies_is_reported_and_leaves_nothing(
    tiny_bert, pickled, tmp_path, monkeypatch, code, message
):
    source = pickled(weights_of(tiny_bert))
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda _, **options: run([sys.executable, "-c", code], **options))
    with pytest.raises(OSError, match=message) as caught:
        convert(source, tmp_path / "out")
    assert caught.value.filename == str(source / "pytorch_model.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["pickled"]


def test_a_missing_shard_and_a_damaged_index_are_reported(tiny_bert, tmp_path):
    source = shard(settings_of(tiny_bert, tmp_path / "shards"), weights_of(tiny_bert))
    index = source / "pytorch_model.bin.index.json"
    (source / "two.bin").unlink()
    missing = "lists two.bin, but there is no such file; copy the whole directory again"
    assert mistake_of(source, tmp_path / "out") == f"{index}: {missing}"
    for text, message in (
        ('{"weight_map": {}}', "lists no files; copy the whole directory again"),
        ("{}", "no weight_map from tensors to files"),
        ("", "not valid JSON; copy it again"),
    ):
        index.write_text(text)
        assert mistake_of(source, tmp_path / "out") == f"{index}: {message}"


@pytest.mark.parametrize("kind", ["electra", "deberta-v2", "t5", "albert", "gpt2"])
def test_other_architectures_are_refused_and_the_supported_ones_listed(tiny_bert, pickled, tmp_path, kind):
    from transformers import AutoConfig

    source = pickled({"a": torch.zeros(1)})
    AutoConfig.for_model(kind).save_pretrained(source)
    expected = (
        f"{source}: model_type {kind!r} is not supported; supported: {', '.join(ARCHITECTURES)}; "
        "choose an encoder of one of these kinds, such as minilm, bert-base-uncased or roberta-base"
    )
    assert mistake_of(source, tmp_path / "out") == expected
    for load in (read_config, load_model):
        with pytest.raises(EncoderError) as caught:
            load(source)
        assert caught.value.mistakes == (expected,)
