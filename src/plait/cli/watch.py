"""`plait watch RUNS`"""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="[RUNS…]")
@click.option("--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0: any free port.")
def command(folders: tuple[Path, ...], port: int) -> None:
    """Serve a page on this machine that draws the curves of runs while they train.

    RUNS are folders that hold runs, or runs themselves; runs/ by default. New runs appear by themselves. The page
    answers on 127.0.0.1 only and reads nothing but metrics; Ctrl-C ends it, and the trainings go on.
    """
    from plait.reporting.watch.server import WatchServer

    with WatchServer(folders or (Path("runs"),), port) as server:
        click.echo(f"watching on {server.address} (Ctrl-C ends)")
        server.serve_forever()
