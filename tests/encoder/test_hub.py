"""Encoders from a hub on this machine: downloaded once, then cached; every failure is one line with a solution."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from hub_server import BLOCK_NETWORK, HubServer, hub_environment, run_here
from plait.encoder.weights import read_tensors

NAME = "somebody/tiny"
ON_DISK = "or give the directory of a checkpoint on disk"
FIND = """
import sys
from plait.encoder.find import find_checkpoint
from plait.errors import EncoderError
try:
    print(find_checkpoint(sys.argv[1]).folder)
except EncoderError as error:
    print(error)
    sys.exit(error.exit_code)
"""
DO_NOT_WAIT = "import time; time.sleep = lambda seconds: None  # between attempts\n"

Find = Callable[..., str]


@pytest.fixture
def hub(tiny_bert: Path) -> Iterator[HubServer]:
    with HubServer(models={NAME: tiny_bert, "tiny": tiny_bert}) as server:
        yield server


@pytest.fixture
def find(hub: HubServer, tmp_path: Path) -> Find:
    """Find a checkpoint in a child process with its own cache; returns the one line that it prints.

    It must print no progress bar and no warning, unless the hub's client warns about a broken connection.
    """

    def find_in_child(
        name: str = NAME, *, exit_code: int = 0, warns: bool = False, offline: bool = False, token: str = ""
    ) -> str:
        environment = hub_environment(tmp_path / "home", hub.url, offline=offline, token=token)
        answer = run_here(DO_NOT_WAIT + FIND, environment, name)
        assert answer.stdout.count("\n") == 1, answer.stdout + answer.stderr
        assert (answer.returncode, answer.stderr != "") == (exit_code, warns), answer.stdout + answer.stderr
        return answer.stdout.strip()

    return find_in_child


def assert_same_weights(folder: str, expected: Path) -> None:
    found, wanted = read_tensors(Path(folder)), read_tensors(expected)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("name", ["tiny", NAME])
def test_name_is_downloaded_once_and_then_found_in_the_cache(hub, find, tiny_bert, name):
    first = find(name)
    assert_same_weights(first, tiny_bert)
    assert len(hub.asked_for("GET /" + name + "/resolve/")) == 4  # config, weights, tokenizer and its config

    hub.requests.clear()
    assert find(name) == first
    assert hub.asked_for(name) == [f"GET /api/models/{name}/revision/main"]  # is it still the newest?

    hub.requests.clear()
    assert find(name, offline=True) == first
    assert hub.requests == []


def test_cached_name_is_found_when_the_hub_is_down(hub, find, tiny_bert):
    first = find()
    hub.stop()
    assert find() == first


def test_new_version_on_the_hub_is_downloaded(hub, find, tiny_bert, tiny_roberta):
    first = find()
    hub.folders["models"][NAME] = tiny_roberta
    second = find()
    assert second != first
    assert_same_weights(second, tiny_roberta)


def test_only_files_that_plait_reads_are_downloaded(hub, find, tiny_bert, tmp_path):
    folder = shutil.copytree(tiny_bert, tmp_path / "many")
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "onnx/model.onnx"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"never requested")
    hub.folders["models"][NAME] = folder
    found = Path(find())
    assert sorted(path.name for path in found.iterdir()) == sorted(path.name for path in tiny_bert.iterdir())
    assert not any(hub.asked_for(name) for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "model.onnx"))


def test_offline_without_a_cache_names_both_solutions(hub, find):
    assert find(exit_code=2, offline=True) == (
        f"{NAME}: not a directory here and not in the local hub cache, and HF_HUB_OFFLINE is set; "
        f"unset HF_HUB_OFFLINE and connect, {ON_DISK}"
    )
    assert hub.requests == []


def test_hub_that_is_down_names_both_solutions(hub, find):
    hub.stop()
    assert find(exit_code=2) == (
        f"{NAME}: not a directory here and not in the local hub cache, and the hub cannot be reached; "
        f"connect to the network, {ON_DISK}"
    )


@pytest.mark.parametrize("token", ["", "a-token"])  # the hub answers 401 without a token, 404 with one
def test_name_that_is_not_on_the_hub(find, token):
    assert find("nobody/tiny", exit_code=2, token=token) == (
        "nobody/tiny: neither a directory here nor a model on the hub; check the spelling, "
        f"set HF_TOKEN if it is private, {ON_DISK}"
    )


def test_private_name_needs_its_token(hub, find, tiny_bert):
    hub.private[NAME] = "a-token"
    assert find(exit_code=2).startswith(f"{NAME}: neither a directory here nor a model on the hub; ")
    assert_same_weights(find(token="a-token"), tiny_bert)


@pytest.mark.parametrize("token", ["", "a-token"])  # 401 and 403
def test_gated_name_needs_a_token_with_access(hub, find, token):
    hub.gated.add(NAME)
    assert find(exit_code=2, token=token) == (
        f"{NAME}: gated on the hub; request access on its page and set HF_TOKEN to a token that has it, " + ON_DISK
    )


def test_token_that_the_hub_does_not_know(find):
    assert find(exit_code=2, token="mistyped") == (
        f"{NAME}: the hub rejects the token (401); set HF_TOKEN to a valid one, or unset it, {ON_DISK}"
    )


def test_name_that_the_hub_does_not_allow(hub, find):
    assert find("two words", exit_code=2) == (
        "two words: neither a directory here nor a valid hub name; write it as NAME or OWNER/NAME, " + ON_DISK
    )
    assert hub.requests == []


def test_repository_without_safetensors_points_to_convert(hub, find, tiny_bert, tmp_path):
    folder = shutil.copytree(tiny_bert, tmp_path / "pickled")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    hub.folders["models"][NAME] = folder
    expected = (
        f"{NAME}: no model.safetensors on the hub; if it has a pytorch_model.bin, download that and run "
        f"plait convert pytorch_model.bin --config {NAME} --out DIRECTORY, or choose another encoder"
    )
    assert find(exit_code=2) == expected
    assert find(exit_code=2) == expected  # the cache does not hide it
    assert hub.asked_for("pytorch_model.bin") == []
    assert find(exit_code=2, offline=True) == (
        f"{NAME}: model.safetensors is not in the local hub cache; unset HF_HUB_OFFLINE and connect, {ON_DISK}"
    )


def test_settings_of_an_encoder_are_found_without_its_weights(hub, tiny_bert, tmp_path):
    code = f"from plait.encoder.find import find_checkpoint; print(find_checkpoint({NAME!r}, weights=False).folder)"
    answer = run_here(code, hub_environment(tmp_path / "home", hub.url))
    found = {path.name for path in Path(answer.stdout.strip()).iterdir()}
    assert found == {path.name for path in tiny_bert.iterdir()} - {"model.safetensors"}


def test_connection_that_breaks_once_is_retried(hub, find, tiny_bert):
    hub.breaking["model.safetensors"] = 1
    assert_same_weights(find(warns=True), tiny_bert)
    assert len(hub.asked_for("GET /" + NAME + "/resolve/")) == 5  # one more than without a break


def test_connection_that_keeps_breaking_is_one_line(hub, find, tiny_bert):
    hub.breaking["model.safetensors"] = 1000
    message = find(exit_code=2, warns=True)
    assert message.startswith(f"{NAME}: the download failed (")
    assert message.endswith(f"); check the network and try again, {ON_DISK}")

    hub.breaking.clear()
    assert_same_weights(find(), tiny_bert)


def test_failure_of_the_hub_names_its_status(hub, find, tiny_bert):
    hub.failing["model.safetensors"] = 500
    assert find(exit_code=2, warns=True) == (
        f"{NAME}: not a directory here, and the hub failed (500); try again later, {ON_DISK}"
    )

    hub.failing.clear()
    assert_same_weights(find(), tiny_bert)


def test_download_that_was_killed_does_not_count_as_complete(hub, find, tiny_bert, tmp_path):
    hub.holding = "model.safetensors"
    command = [sys.executable, "-c", BLOCK_NETWORK + FIND, NAME]
    child = subprocess.Popen(command, env=hub_environment(tmp_path / "home", hub.url), stdout=subprocess.PIPE)
    assert hub.is_held.wait(60), "the weights were never requested"
    child.kill()
    assert child.communicate()[0] == b""

    assert find(exit_code=2, offline=True) == (
        f"{NAME}: not a directory here and not completely in the local hub cache, and HF_HUB_OFFLINE is set; "
        f"unset HF_HUB_OFFLINE and connect, {ON_DISK}"
    )
    hub.holding = None
    assert_same_weights(find(), tiny_bert)


def test_cache_that_cannot_be_written_is_one_line(hub, find, tmp_path):
    (tmp_path / "home").write_text("a file in place of the cache")
    message = find(exit_code=2)
    assert message.startswith(f"{NAME}: cannot be stored in the local hub cache (")
    assert message.endswith(f"); set HF_HOME to another folder, {ON_DISK}")
