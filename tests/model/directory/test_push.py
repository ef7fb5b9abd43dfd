"""`plait push`: models go to the hub and come back from there."""

import json
import shutil
from pathlib import Path

import pytest

from hub_server import files_of, hub_environment, run_here
from hub_uploads import UploadHub
from plait.errors import ModelError, RequestError
from plait.model.directory.push import push
from plait.model.ensemble_build import build_ensemble

NAME = "somebody/braid"
# The hub's client uploads in a way that its own HTTP library calls deprecated.
PUSH = """
import sys, warnings
warnings.filterwarnings("ignore", "Use 'content=", DeprecationWarning)
from plait.cli.main import main
sys.argv = ["plait", "push", *sys.argv[1:]]
main()
"""
LOAD = """
import json, sys
import plait
model = plait.load(sys.argv[1])
print(json.dumps([model.predict("mood", ["a good film"])[0].probabilities, list(model.tasks)]))
"""


def environment(home: Path, hub: UploadHub, token: str = "a-token") -> dict[str, str]:
    """Without Xet, whose protocol the hub of the tests does not know."""
    return {**hub_environment(home, hub.url, token=token), "HF_HUB_DISABLE_XET": "1"}


def test_a_model_comes_back_from_the_hub(saved, tmp_path):
    with UploadHub(tmp_path / "hub") as hub:
        settings = environment(tmp_path / "home", hub)
        done = run_here(PUSH, settings, str(saved), NAME, "--message", "the first", "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["url"] == f"{hub.url}/{NAME}" and result["commit"] == hub.commit_of("models", NAME)
        assert hub.commits == ["the first"] and not hub.private
        loaded = run_here(LOAD, settings, NAME)
        assert loaded.stdout == run_here(LOAD, settings, str(saved)).stdout != "", loaded.stderr
    pushed = tmp_path / "hub" / NAME
    assert files_of(pushed) == files_of(saved) == sorted(result["files"])
    for file in files_of(saved):
        if file != "README.md":
            assert (pushed / file).read_bytes() == (saved / file).read_bytes()
    card = (pushed / "README.md").read_text(encoding="utf-8")
    assert f'plait.load("{NAME}")' in card and '- name: "braid"' in card


def test_only_the_model_is_uploaded_and_parts_of_an_earlier_one_go(saved, copy, tmp_path):
    (copy / "notes.txt").write_text("mine")
    with UploadHub(tmp_path / "hub") as hub:
        there = hub.create(NAME)
        (there / "LICENSE").write_text("theirs")
        (there / "onnx").mkdir()
        (there / "onnx/manifest.json").write_text("{}")
        done = run_here(PUSH, environment(tmp_path / "home", hub), str(copy), NAME)
        assert done.returncode == 0, done.stderr
        assert (
            done.stdout == f'{len(files_of(saved))} files in {hub.url}/{NAME}; plait.load("{NAME}") loads the model\n'
        )
        assert hub.commits == ["plait model: mood, same, near"]
    assert files_of(there) == sorted([*files_of(saved), "LICENSE"])


def test_private_models_are_never_pushed_to_a_public_repository(saved, tmp_path):
    with UploadHub(tmp_path / "hub") as hub:
        settings = environment(tmp_path / "home", hub)
        assert run_here(PUSH, settings, str(saved), NAME, "--private").returncode == 0
        assert hub.private == {NAME: "a-token"}
        hub.create("somebody/open")
        done = run_here(PUSH, settings, str(saved), "somebody/open", "--private")
        assert done.returncode == 2 and done.stderr == (
            "plait: somebody/open: exists on the hub and is public; make it private in its settings, or choose another "
            "name\n"
        )
        assert files_of(tmp_path / "hub/somebody/open") == []


def test_an_ensemble_is_pushed_with_its_members(saved, other, tmp_path):
    build_ensemble([str(saved), str(other)], tmp_path / "both")
    with UploadHub(tmp_path / "hub") as hub:
        settings = environment(tmp_path / "home", hub)
        done = run_here(PUSH, settings, str(tmp_path / "both"), NAME)
        assert done.returncode == 0, done.stderr
        assert json.loads(run_here(LOAD, settings, NAME).stdout)[1] == ["mood", "same", "near"]
    assert files_of(tmp_path / "hub" / NAME) == files_of(tmp_path / "both")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("another", "the hub refuses the upload (401); set HF_TOKEN to a token that may write there"),
        ("", "the hub refuses the upload (401); set HF_TOKEN to a token that may write there"),
    ],
)
def test_a_refused_upload_says_what_to_do(saved, tmp_path, token, message):
    with UploadHub(tmp_path / "hub") as hub:
        done = run_here(PUSH, environment(tmp_path / "home", hub, token), str(saved), NAME)
    assert (done.returncode, done.stderr) == (1, f"plait: {NAME}: {message}\n")


def test_a_hub_that_is_away_or_forbidden(saved, tmp_path):
    away = hub_environment(tmp_path / "home", "http://127.0.0.1:1", token="a-token")
    done = run_here(PUSH, away, str(saved), NAME)
    assert done.returncode == 1 and done.stderr.startswith(f"plait: {NAME}: the upload failed (")
    assert done.stderr.endswith("check the network and try again\n") and done.stderr.count("\n") == 1
    done = run_here(PUSH, {**away, "HF_HUB_OFFLINE": "1"}, str(saved), NAME)
    assert done.stderr == f"plait: {NAME}: HF_HUB_OFFLINE is set; unset it and connect\n"


def test_a_card_that_the_hub_refuses(copy, tmp_path):
    (copy / "README.md").write_text("---\ntags: [plait\n---\n# Mine\n")
    with UploadHub(tmp_path / "hub") as hub:
        done = run_here(PUSH, environment(tmp_path / "home", hub), str(copy), NAME)
    assert done.returncode == 1 and "the hub refuses the model card" in done.stderr
    assert done.stderr.endswith("correct its front matter\n")


@pytest.mark.parametrize("name", ["braid", "somebody/", "a/b/c", "some body/braid"])
def test_names_without_an_owner_are_refused(saved, name):
    with pytest.raises(RequestError, match="not a name on the hub; write it as OWNER/NAME"):
        push(saved, name)


def test_a_damaged_model_is_not_pushed(copy, exported, tmp_path):
    (copy / "heads.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"heads\.safetensors: modified after the model was saved"):
        push(copy, NAME)
    graphs = shutil.copytree(exported, tmp_path / "exported")
    next(graphs.glob("onnx/*.onnx")).write_bytes(b"")
    with pytest.raises(ModelError, match="modified after the model was saved"):
        push(graphs, NAME)


def test_only_models_are_pushed(tiny_bert):
    with pytest.raises(ModelError, match="not a plait model"):
        push(tiny_bert, NAME)
