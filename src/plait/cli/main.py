"""The command `plait`. Commands load on use; `--help` imports neither torch nor rich."""

import atexit
import os
import sys
from importlib import import_module

import click

from plait import __version__
from plait.errors import PlaitError

__all__ = ["cli", "main", "start"]

COMMANDS = (
    "demo",
    "init",
    "train",
    "check",
    "evaluate",
    "predict",
    "embed",
    "ensemble",
    "experiment",
    "export",
    "convert",
    "completion",
)


class Commands(click.Group):
    """One file a command; its name is the file's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a file, or none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"plait.cli.{cmd_name}").command
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="plait")
def cli() -> None:
    """Train ONE encoder on several sentence tasks; classify, compare, score and embed with it.

    Start with `plait demo`, then `plait train RECIPE`.
    """


def main() -> None:
    """Run the command line; every foreseeable mistake ends in one clear message and an exit code."""
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
        for mistake in error.mistakes:
            click.echo(f"plait: {mistake}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has gone; nobody is left to tell
        sys.exit(1)
    except OSError as error:
        click.echo(f"plait: {error.filename or 'the system'}: {error.strerror or error}", err=True)
        sys.exit(1)


def start() -> None:
    """The command line as a process of its own, which ends at once: to take torch apart would take half a second."""
    code = 1  # of an error that nobody foresaw

    def leave() -> None:
        try:
            sys.stdout.flush()
        except OSError:  # the reader of a pipe has gone
            os._exit(code or 1)
        os._exit(code)

    atexit.register(leave)  # the first to register is the last to be called, so that all others have tidied up
    try:
        main()
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
