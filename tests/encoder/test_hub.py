"""Encoders from a hub on this machine: fetched once, then from the cache; every failure is one line with a way out."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from hub_server import STAY_HERE, HubServer, hub_environment, run_here
from plait.encoder.weights import read_tensors

NAME = "somebody/tiny"
ON_DISK = "or give the directory of a checkpoint on disk"
FIND = """
import sys
from plait.encoder.find import find_checkpoint
from plait.errors import EncoderError
try:
    print(find_checkpoint(sys.argv[1]))
except EncoderError as error:
    print(error)
    sys.exit(error.exit_code)
"""
WAIT_NO_TIME = "import time; time.sleep = lambda seconds: None  # between attempts\n"

Find = Callable[..., str]


@pytest.fixture
def hub(tiny_bert: Path) -> Iterator[HubServer]:
    with HubServer(models={NAME: tiny_bert, "tiny": tiny_bert}) as server:
        yield server


@pytest.fixture
def find(hub: HubServer, tmp_path: Path) -> Find:
    """Look for a checkpoint in a child with a cache of its own, and give the one line that it prints.

    No bar and no warning may stand beside it, unless the hub's client warns of a broken connection.
    """

    def look(name: str = NAME, *, ends: int = 0, warns: bool = False, offline: bool = False, token: str = "") -> str:
        environment = hub_environment(tmp_path / "home", hub.url, offline=offline, token=token)
        answer = run_here(WAIT_NO_TIME + FIND, environment, name)
        assert answer.stdout.count("\n") == 1, answer.stdout + answer.stderr
        assert (answer.returncode, answer.stderr != "") == (ends, warns), answer.stdout + answer.stderr
        return answer.stdout.strip()

    return look


def assert_same_weights(folder: str, expected: Path) -> None:
    found, wanted = read_tensors(Path(folder)), read_tensors(expected)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("name", ["tiny", NAME])
def test_a_name_is_fetched_once_and_then_found_in_the_cache(hub, find, tiny_bert, name):
    first = find(name)
    assert_same_weights(first, tiny_bert)
    assert len(hub.asked_for("GET /" + name + "/resolve/")) == 4  # config, weights, tokenizer and its config

    hub.requests.clear()
    assert find(name) == first
    assert hub.asked_for(name) == [f"GET /api/models/{name}/revision/main"]  # is it still the newest?

    hub.requests.clear()
    assert find(name, offline=True) == first
    assert hub.requests == []


def test_a_cached_name_is_found_when_the_hub_is_down(hub, find, tiny_bert):
    first = find()
    hub.stop()
    assert find() == first


def test_a_new_version_on_the_hub_is_fetched(hub, find, tiny_bert, tiny_roberta):
    first = find()
    hub.folders["models"][NAME] = tiny_roberta
    second = find()
    assert second != first
    assert_same_weights(second, tiny_roberta)


def test_only_what_plait_reads_is_fetched(hub, find, tiny_bert, tmp_path):
    folder = shutil.copytree(tiny_bert, tmp_path / "many")
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "onnx/model.onnx"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"never asked for")
    hub.folders["models"][NAME] = folder
    found = Path(find())
    assert sorted(path.name for path in found.iterdir()) == sorted(path.name for path in tiny_bert.iterdir())
    assert not any(hub.asked_for(name) for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "model.onnx"))


def test_offline_and_not_cached_names_both_ways_out(hub, find):
    assert find(ends=2, offline=True) == (
        f"{NAME}: is no directory here and not in the cache of the hub, and HF_HUB_OFFLINE is set; "
        f"unset HF_HUB_OFFLINE and connect, {ON_DISK}"
    )
    assert hub.requests == []


def test_a_hub_that_is_down_names_both_ways_out(hub, find):
    hub.stop()
    assert find(ends=2) == (
        f"{NAME}: is no directory here and not in the cache of the hub, which cannot be reached; "
        f"connect to the network, {ON_DISK}"
    )


@pytest.mark.parametrize("token", ["", "a-token"])  # the hub answers 401 to strangers, 404 to those it knows
def test_a_name_that_the_hub_does_not_have(find, token):
    assert find("nobody/tiny", ends=2, token=token) == (
        "nobody/tiny: is no directory here and no model of the hub; check the spelling, set HF_TOKEN if it is private, "
        + ON_DISK
    )


def test_a_private_name_is_opened_by_its_token(hub, find, tiny_bert):
    hub.private[NAME] = "a-token"
    assert find(ends=2).startswith(f"{NAME}: is no directory here and no model of the hub; ")
    assert_same_weights(find(token="a-token"), tiny_bert)


@pytest.mark.parametrize("token", ["", "a-token"])  # 401 and 403
def test_a_gated_name_asks_for_a_token(hub, find, token):
    hub.gated.add(NAME)
    assert find(ends=2, token=token) == (
        f"{NAME}: is gated on the hub; ask for access on its page there and set HF_TOKEN to a token that has it, "
        + ON_DISK
    )


def test_a_token_that_the_hub_does_not_know(find):
    assert find(ends=2, token="mistyped") == (
        f"{NAME}: the hub refuses the token (401); set HF_TOKEN to a valid one, or unset it, {ON_DISK}"
    )


def test_a_name_that_no_hub_allows(hub, find):
    assert find("two words", ends=2) == (
        "two words: is no directory here and no name that the hub allows; write it as NAME or OWNER/NAME, " + ON_DISK
    )
    assert hub.requests == []


def test_a_repository_without_safetensors_points_to_convert(hub, find, tiny_bert, tmp_path):
    folder = shutil.copytree(tiny_bert, tmp_path / "pickled")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    hub.folders["models"][NAME] = folder
    expected = (
        f"{NAME}: has no model.safetensors on the hub; if it has a pytorch_model.bin, download that and run "
        f"plait convert pytorch_model.bin --config {NAME} --out DIRECTORY, or choose another encoder"
    )
    assert find(ends=2) == expected
    assert find(ends=2) == expected  # and the cache does not hide it
    assert hub.asked_for("pytorch_model.bin") == []
    assert find(ends=2, offline=True) == (
        f"{NAME}: has no model.safetensors in the cache of the hub; unset HF_HUB_OFFLINE and connect, {ON_DISK}"
    )


def test_the_settings_of_an_encoder_are_found_without_its_weights(hub, tiny_bert, tmp_path):
    code = f"from plait.encoder.find import find_checkpoint; print(find_checkpoint({NAME!r}, weights=False))"
    answer = run_here(code, hub_environment(tmp_path / "home", hub.url))
    found = {path.name for path in Path(answer.stdout.strip()).iterdir()}
    assert found == {path.name for path in tiny_bert.iterdir()} - {"model.safetensors"}


def test_a_connection_that_breaks_once_is_taken_up_again(hub, find, tiny_bert):
    hub.breaking["model.safetensors"] = 1
    assert_same_weights(find(warns=True), tiny_bert)
    assert len(hub.asked_for("GET /" + NAME + "/resolve/")) == 5  # one more than without a break


def test_a_connection_that_keeps_breaking_is_one_line(hub, find, tiny_bert):
    hub.breaking["model.safetensors"] = 1000
    message = find(ends=2, warns=True)
    assert message.startswith(f"{NAME}: the download broke off (")
    assert message.endswith(f"); check the network and try again, {ON_DISK}")

    hub.breaking.clear()
    assert_same_weights(find(), tiny_bert)


def test_a_failure_of_the_hub_names_its_status(hub, find, tiny_bert):
    hub.failing["model.safetensors"] = 500
    assert (
        find(ends=2, warns=True) == f"{NAME}: is no directory here and the hub failed (500); try again later, {ON_DISK}"
    )

    hub.failing.clear()
    assert_same_weights(find(), tiny_bert)


def test_a_download_that_was_killed_is_not_taken_for_whole(hub, find, tiny_bert, tmp_path):
    hub.holding = "model.safetensors"
    command = [sys.executable, "-c", STAY_HERE + FIND, NAME]
    child = subprocess.Popen(command, env=hub_environment(tmp_path / "home", hub.url), stdout=subprocess.PIPE)
    assert hub.is_held.wait(60), "the weights were never asked for"
    child.kill()
    assert child.communicate()[0] == b""

    assert find(ends=2, offline=True) == (
        f"{NAME}: is no directory here and not whole in the cache of the hub, and HF_HUB_OFFLINE is set; "
        f"unset HF_HUB_OFFLINE and connect, {ON_DISK}"
    )
    hub.holding = None
    assert_same_weights(find(), tiny_bert)


def test_a_cache_that_cannot_be_written_is_one_line(hub, find, tmp_path):
    (tmp_path / "home").write_text("a file where the cache would lie")
    message = find(ends=2)
    assert message.startswith(f"{NAME}: cannot be kept in the cache of the hub (")
    assert message.endswith(f"); set HF_HOME to another place, {ON_DISK}")
