"""The command `plait`. Commands load on use; `--help` imports neither torch nor rich."""

import atexit
import os
import sys
from importlib import import_module

import click

from plait import __version__
from plait.cli.option_names import as_options
from plait.errors import OUT_OF_MEMORY, PlaitError, is_out_of_memory

__all__ = ["cli", "main", "start"]

_COMMANDS = (
    "demo",
    "init",
    "train",
    "check",
    "clean",
    "evaluate",
    "compare",
    "calibrate",
    "report",
    "watch",
    "predict",
    "explain",
    "embed",
    "index",
    "search",
    "duplicates",
    "cluster",
    "serve",
    "ensemble",
    "experiment",
    "export",
    "push",
    "convert",
    "completion",
)


class _Commands(click.Group):
    """One file per command, with the same name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"plait.cli.{cmd_name}").command
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="plait")
def cli() -> None:
    """Train one encoder on several sentence tasks; classify, compare, score and embed with it.

    Start with `plait demo`, then `plait train RECIPE`.
    """


def main() -> None:
    """Run the command line; every expected error ends in one clear message and an exit code."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except PlaitError as error:
        for mistake in () if error.is_reported else error.mistakes:
            click.echo(f"plait: {as_options(mistake)}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe is gone
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        click.echo(f"plait: {OUT_OF_MEMORY}", err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"plait: {error.filename or 'the system'}: {error.strerror or error}", err=True)
        sys.exit(1)


def start() -> None:
    """The command line as a process that exits at once: Python's shutdown with torch takes half a second."""
    code = 1  # of an unexpected error

    def leave() -> None:
        try:
            sys.stdout.flush()
        except OSError:  # the reader of the pipe is gone
            os._exit(code or 1)
        os._exit(code)

    atexit.register(leave)  # registered first, so called last, after all other cleanup
    try:
        main()
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
