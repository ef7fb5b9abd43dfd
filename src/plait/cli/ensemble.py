"""`plait ensemble MODEL…`"""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL…")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new directory for the result.")
@click.option("--soup", is_flag=True, help="Average the weights into one ordinary model.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(models: tuple[str, ...], out: Path, soup: bool, as_json: bool) -> None:
    """Combine several models into one.

    MODEL is a model directory, a run, or a model that a run kept (plait train --keep): RUN@epoch3, RUN@step40. All must
    have the same tasks. The result holds a copy of each and averages what they predict; it predicts, embeds and is
    evaluated like a model. With --soup it is one model with the mean of their weights.
    """
    from plait.cli.display import print_json
    from plait.model.ensemble_build import build_ensemble, build_soup

    (build_soup if soup else build_ensemble)(models, out)
    if as_json:
        print_json({"kind": "result", "output": out, "members": models, "soup": soup})
        return
    what = "the mean of the weights of" if soup else "an ensemble of"
    click.echo(f"{what} {len(models)} models in {out}; plait evaluate {out} --data FOLDER scores it")
