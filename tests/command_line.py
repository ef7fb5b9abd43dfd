"""The command line in the process of the tests."""

import io
import sys

import pytest

from plait.cli.main import main


@pytest.fixture
def plait(monkeypatch, capfd):
    """Runs a command in this process and returns its standard output and standard error."""

    def run(*arguments: object, code: int = 0, stdin: bytes = b"") -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["plait", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        capfd.readouterr()
        found = 0
        try:
            main()
        except SystemExit as exit_:
            found = exit_.code
        out, errors = capfd.readouterr()
        assert found == code, out + errors
        return out, errors

    return run
