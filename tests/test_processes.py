"""No process that plait starts imports anything from the current folder."""

import ast
import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import plait
from command_line import plait as run_plait
from plait.processes import module_command, safe_environment
from plait.serving.worker_process import WorkerProcess

SOURCE = Path(plait.__file__).parent
STARTERS = {"Popen", "run", "call", "check_call", "check_output"}  # of subprocess
NAMES = ("numpy", "torch", "json", "tokenizers", "safetensors", "plait", "sitecustomize")
command = run_plait  # a fixture


@pytest.fixture
def hostile_folder(tmp_path, monkeypatch) -> Path:
    """The current folder: every module in it leaves a mark, and PYTHONPATH names it in two ways."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCE.parent), "", "."]))
    (folder / "texts.csv").write_text("sentence\na good film\na bad meal\n")
    return folder


def assert_nothing_ran(folder: Path) -> None:
    mark = folder.parent / "ran"
    assert not mark.exists(), f"imported from the current folder: {mark.read_text()}"


def test_a_plain_process_would_import_from_it(hostile_folder):
    subprocess.run([sys.executable, "-c", "import tokenizers"], check=False, capture_output=True)
    assert (hostile_folder.parent / "ran").exists(), "the trap does not work"


@pytest.mark.parametrize("name", ["predict", "embed"])
def test_workers(command, untrained, hostile_folder, name):
    task = ["mood"] if name == "predict" else []
    command(name, untrained, *task, "--input", "texts.csv", "--output", "out.jsonl", "--workers", 1)
    assert (hostile_folder / "out.jsonl").read_text().count("\n") == 2
    assert_nothing_ran(hostile_folder)


def test_convert(command, tiny_bert, hostile_folder):
    torch.save(load_file(tiny_bert / "model.safetensors"), "weights.pt")
    command("convert", "weights.pt", "--config", tiny_bert, "--out", "new")
    assert (hostile_folder / "new/model.safetensors").is_file()
    assert_nothing_ran(hostile_folder)


def test_workers_of_the_server(untrained, hostile_folder):
    async def start_and_stop() -> list[str]:
        worker = await WorkerProcess.start({"m": (str(untrained), "torch")})
        await worker.stop()
        return list(worker.models)

    assert asyncio.run(start_and_stop()) == ["m"]
    assert_nothing_ran(hostile_folder)


def test_every_process_is_started_in_this_way():
    """A call that starts a process belongs to a file that uses `module_command` and passes `safe_environment()`."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
                starts = (owner == "subprocess" and node.func.attr in STARTERS) or (
                    owner == "os" and node.func.attr.startswith(("exec", "spawn", "fork", "system", "popen", "posix_s"))
                )
                if starts:
                    environment = [ast.unparse(word.value) for word in node.keywords if word.arg == "env"]
                    found[path.name] = environment == ["safe_environment()"] and "module_command(" in text
        assert "multiprocessing" not in text, f"{path}: starts processes in another way"
    assert found == {"workers.py": True, "convert.py": True, "worker_process.py": True}


def test_entries_of_the_path_that_mean_another_folder_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"PYTHONPATH": os.pathsep.join(["", "src", ".", str(tmp_path), "/opt/lib"]), "HOME": "/root"}
    assert safe_environment(given) == {"PYTHONPATH": os.pathsep.join(["src", "/opt/lib"]), "HOME": "/root"}
    assert safe_environment({"PYTHONPATH": "."}) == {}
    assert module_command("plait.x", tmp_path, 3)[1:] == ["-P", "-m", "plait.x", str(tmp_path), "3"]
