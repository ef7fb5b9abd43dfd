"""`plait completion SHELL`"""

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    Use it with: eval "$(plait completion bash)"
    """
    from plait.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, "click completes these three shells"
    click.echo(found(cli, {}, "plait", "_PLAIT_COMPLETE").source())
