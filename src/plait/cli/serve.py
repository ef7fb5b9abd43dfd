"""`plait serve MODEL`"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from plait.cli.files import engine_option
from plait.serving.settings import TOKEN_VARIABLE, Limits, Settings, name_models, read_token

__all__ = ["command"]

_DEFAULTS = Limits()
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _limit(name: str, default: int, about: str) -> Callable[[_Command], _Command]:
    """The option of a limit that cannot be turned off."""
    return click.option(name, type=click.IntRange(min=1), default=default, show_default=True, help=about)


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(), metavar="[NAME=]MODEL…")
@click.option("--host", default=Settings.host, show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=Settings.port, show_default=True, help="0 chooses a free one."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"A file with the token that clients must send.  [default: the variable {TOKEN_VARIABLE}]",
)
@click.option(
    "--index",
    "indexes",
    multiple=True,
    type=click.Path(),
    metavar="[NAME=]INDEX",
    help="An index of one of the models, for /search; repeatable.",
)
@engine_option
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Processes that compute, each on one core with its own copy of the models.  [default: one per core, up to 4]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.001),
    default=_DEFAULTS.seconds,
    show_default=True,
    metavar="SECONDS",
    help="The time within which a request must be answered.",
)
@_limit("--max-bytes", _DEFAULTS.bytes, "In a request.")
@_limit("--max-texts", _DEFAULTS.texts, "In a request.")
@_limit("--max-characters", _DEFAULTS.characters, "In a text.")
@_limit("--max-tokens", _DEFAULTS.tokens, "In a request, after truncation.")
@_limit("--max-queue", _DEFAULTS.queue_tokens, "Tokens that may wait; with more, requests are refused with 429.")
@_limit("--max-connections", _DEFAULTS.connections, "At a time.")
def command(
    models: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    indexes: tuple[str, ...],
    engine: str,
    workers: int | None,
    timeout: float,
    max_bytes: int,
    max_texts: int,
    max_characters: int,
    max_tokens: int,
    max_queue: int,
    max_connections: int,
) -> None:
    """Serve models over HTTP.

    MODEL is a model directory, a run, or a plain encoder; several can be served at once. NAME is what clients call it,
    by default the name of its directory or run. SIGTERM and Ctrl+C stop the server once every accepted request is
    answered; SIGHUP loads the models again.
    """
    from plait.errors import RequestError

    limits = Limits(
        seconds=timeout,
        bytes=max_bytes,
        texts=max_texts,
        characters=max_characters,
        tokens=max_tokens,
        queue_tokens=max_queue,
        connections=max_connections,
    )
    given = {} if workers is None else {"workers": workers}
    settings = Settings(
        name_models(models),
        host,
        port,
        read_token(token_file),
        engine,
        limits=limits,
        indexes=name_models(indexes, "index"),
        **given,
    )
    try:
        from plait.serving.server import run_server
    except ImportError as error:
        raise RequestError(f'plait serve needs the package {error.name}; pip install "plait[serve]"') from None
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="plait: %(message)s")
    logging.getLogger("plait.serving").setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of every invalid request
    names = ", ".join(settings.models)
    run_server(settings, lambda address: click.echo(f"Serving {names} on {address} (documentation: {address}/docs)"))
