"""Plait models on the hub: OWNER/NAME loads them with their heads, from the local cache or downloaded."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from hub_server import HubServer, files_of, hub_environment, run_here
from plait.model.ensemble_build import build_ensemble
from tiny import write_csv

NAME = "somebody/braid"
COMMAND = """
import json, sys
from plait.cli.main import main
for line in json.loads(sys.argv[1]):
    sys.argv = ["plait", *line]
    try:
        main()
    except SystemExit as exit_:
        print("exit code", exit_.code)
"""
LOAD = """
import sys
import plait
model = plait.load(sys.argv[1])
print(*model.tasks, model.embed(["a good film"]).shape)
"""


def put_in_cache(home: Path, folder: Path, name: str = NAME) -> None:
    """Lay a directory out as the hub's client does: snapshots of links to blobs, and a branch."""
    place = home / "hub" / f"models--{name.replace('/', '--')}"
    commit = "1" * 40
    for path in files_of(folder):
        blob = place / "blobs" / hashlib.sha256(path.encode()).hexdigest()
        link = place / "snapshots" / commit / path
        for file in (blob, link):
            file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, blob)
        link.symlink_to(blob)
    (place / "refs").mkdir()
    (place / "refs/main").write_text(commit)


def test_commands_use_a_model_in_the_cache(saved, tmp_path):
    put_in_cache(tmp_path / "home", saved)
    data = tmp_path / "in.csv"
    write_csv(data, ["sentence", "mood"], [["a good film", "high"], ["a bad film", "low"]])
    recipe = {"encoder": NAME, "tasks": {"again": {"train": str(data), "text": "sentence", "label": "mood"}}}
    (tmp_path / "more.yaml").write_text(json.dumps({**recipe, "epochs": 1, "train_encoder": False}))
    lines = [
        ["predict", NAME, "mood", "a good film"],
        ["evaluate", NAME, "--on", f"mood={data}"],
        ["embed", NAME, "--input", str(data), "--output", str(tmp_path / "out.npy")],
        ["train", str(tmp_path / "more.yaml"), "--out", str(tmp_path / "run"), "--no-baselines"],
        ["predict", "somebody/brade", "mood", "a good film"],
    ]
    environment = hub_environment(tmp_path / "home", "http://127.0.0.1:1", offline=True)
    answer = run_here(COMMAND, environment, json.dumps(lines), here=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(("high   (", "low   (")), answer.stdout
    assert "mood" in answer.stdout.partition("accuracy")[0]
    assert (tmp_path / "out.npy").is_file()
    assert set(json.loads((tmp_path / "run/best/plait.json").read_text())["kept"]) == {"mood", "same", "near"}
    assert answer.stdout.endswith("exit code 2\n")
    assert "plait: somebody/brade: not a directory here and not in the local hub cache" in answer.stderr


def test_a_model_is_downloaded_with_all_that_its_manifest_names(saved, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "model")
    (folder / "merges.txt").write_text("")  # a file that plain encoders are downloaded without
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"]["merges.txt"] = hashlib.sha256(b"").hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with HubServer(models={NAME: folder}) as hub:
        environment = hub_environment(tmp_path / "home", hub.url)
        answer = run_here(LOAD, environment, NAME)
        assert answer.stdout == "mood same near (1, 16)\n", answer.stderr
        assert hub.asked_for("merges.txt") and not hub.asked_for("README.md")
    answer = run_here(LOAD, hub_environment(tmp_path / "home", hub.url, offline=True), NAME)
    assert answer.stdout == "mood same near (1, 16)\n", answer.stderr


def test_an_ensemble_is_downloaded_with_its_members(saved, other, tmp_path):
    build_ensemble([str(saved), str(other)], tmp_path / "both")
    with HubServer(models={NAME: tmp_path / "both"}) as hub:
        answer = run_here(LOAD, hub_environment(tmp_path / "home", hub.url), NAME)
    assert answer.stdout == "mood same near (1, 32)\n", answer.stderr


def test_a_plain_encoder_has_no_tasks(tiny_bert, tmp_path):
    with HubServer(models={NAME: tiny_bert}) as hub:
        answer = run_here(LOAD, hub_environment(tmp_path / "home", hub.url), NAME)
    assert answer.stdout == "(1, 16)\n", answer.stderr


def test_onnx_graphs_in_the_cache_are_used(exported, tmp_path):
    pytest.importorskip("onnxruntime")
    put_in_cache(tmp_path / "home", exported)
    code = LOAD.replace("(sys.argv[1])", "(sys.argv[1], engine='onnx')")
    answer = run_here(code, hub_environment(tmp_path / "home", "http://127.0.0.1:1", offline=True), NAME)
    assert answer.stdout.endswith("(1, 16)\n"), answer.stderr
