"""The settings of a server: models, address, token and limits."""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plait.errors import RequestError

__all__ = ["TOKEN_VARIABLE", "Limits", "Settings", "is_local", "name_models", "read_token"]

TOKEN_VARIABLE = "PLAIT_TOKEN"
_SHORTEST_TOKEN = 16  # characters
_MOST_WORKERS = 4  # by default: each holds a copy of the models
_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True)
class Limits:
    """Limits on requests, connections and time; all of them are on by default."""

    bytes: int = 8 * 2**20  # in the body of a request
    texts: int = 10_000  # in a request
    characters: int = 200_000  # in a text, before it is tokenized
    tokens: int = 400_000  # in a request, after truncation
    queue_tokens: int = 400_000  # that wait for a worker
    cells: int = 1_000_000  # in a matrix of similarities
    hits: int = 10_000  # of all queries of a search together
    connections: int = 1000
    seconds: float = 60.0  # until a request must be answered
    header_seconds: float = 10.0  # to send the headers of a request
    body_seconds: float = 20.0  # to send its body
    read_seconds: float = 30.0  # without reading any of the answer
    keep_alive_seconds: float = 75.0  # between two requests
    drain_seconds: float = 90.0  # to answer what was accepted before the server stops
    worker_seconds: float = 30.0  # for one batch; a worker that takes longer is stuck, and replaced
    ready_seconds: float = 10.0  # since the last forward pass of each worker, for the server to be ready
    check_seconds: float = 2.0  # after which an idle worker makes a forward pass


@dataclass(frozen=True)
class Settings:
    """The settings of a server."""

    models: dict[str, str]  # name → directory
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    engine: str = "auto"
    workers: int = field(default_factory=lambda: min(_MOST_WORKERS, len(os.sched_getaffinity(0))))
    limits: Limits = field(default_factory=Limits)
    indexes: dict[str, str] = field(default_factory=dict)  # name → directory

    def __post_init__(self) -> None:
        if self.token is None and not is_local(self.host):
            raise RequestError(
                f"host {self.host}: other machines could use the server without a token; "
                f"give --token-file or set {TOKEN_VARIABLE}, or listen on 127.0.0.1"
            )


def is_local(host: str) -> bool:
    """Whether an address belongs to this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(file: Path | None) -> str | None:
    """The token that clients must send: from a file, or from the environment; None if there is neither."""
    where, token = (f"--token-file {file}", None) if file else (TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE))
    if file:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise RequestError(f"{where}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if token is None:
        return None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise RequestError(
            f"{where}: a token has at least {_SHORTEST_TOKEN} ASCII characters without spaces; "
            "python -c 'import secrets; print(secrets.token_urlsafe())' prints one"
        )
    return token


def name_models(sources: Sequence[str], what: str = "model") -> dict[str, str]:
    """The directory of each model or index by its name: NAME=DIR, or the name of the directory or of its run."""
    found: dict[str, str] = {}
    mistakes = []
    for source in sources:
        name, equals, directory = source.partition("=")
        if not equals:
            parts = [part for part in Path(source).parts if part not in ("best", "/", "..")]
            name, directory = re.sub(r"[^\w.-]", "-", parts[-1] if parts else what)[:64], source
        if not _NAME.fullmatch(name):
            mistakes.append(f"{source}: a name has letters, digits, '.', '_' and '-'; give NAME=DIR")
        elif name in found:
            mistakes.append(f"{source}: another {what} is already called {name!r}; give NAME=DIR")
        found[name] = directory
    if mistakes:
        raise RequestError(*mistakes)
    return found
