"""`plait serve` refuses what cannot work, with one line."""

import subprocess
import sys

import pytest


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "plait", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m", "--host", "0.0.0.0"], "plait: host 0.0.0.0: other machines could use the server without a token;"),
        (["m", "--token-file", "no-such-file"], "plait: --token-file no-such-file: cannot be read: No such file"),
        (["a=m", "a=n"], "plait: a=n: another model is already called 'a'; give NAME=DIR"),
        (["no-such-model", "--port", "0"], "no-such-model"),
        (["m", "--host", "203.0.113.1", "--token-file", "TOKEN"], "cannot listen there"),
        ([], "Missing argument"),
    ],
)
def test_wrong_requests_are_refused(arguments, message, tmp_path):
    (tmp_path / "token").write_text("a-token-of-some-length")
    done = serve(*(str(tmp_path / "token") if word == "TOKEN" else word for word in arguments))
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_help_imports_neither_torch_nor_fastapi():
    code = (
        "import sys; from plait.cli.main import cli; cli(['serve', '--help'], standalone_mode=False); "
        "print([name for name in ('torch', 'rich', 'fastapi') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]" and "--token-file" in done.stdout


def test_server_does_not_import_torch():
    code = "import sys, plait.serving.server, plait.serving.client; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_missing_extra_is_named(monkeypatch):
    from click.testing import CliRunner

    from plait.cli.serve import command

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "plait.serving.server", raising=False)
    monkeypatch.delitem(sys.modules, "plait.serving.connections", raising=False)
    result = CliRunner().invoke(command, ["m"])
    assert 'plait serve needs the package uvicorn; pip install "plait[serve]"' in str(result.exception)
