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
    """Put several models together into one.

    MODEL is a model directory, a run, or one that a run kept (plait train --keep): RUN@epoch3, RUN@step40. They must
    have the same tasks. The result holds a copy of each and answers with the mean of what they say; it predicts,
    embeds and is evaluated like a model. With --soup it is one model with the mean of their weights.
    """
    from plait.cli.display import print_json
    from plait.model.gather import make_ensemble, make_soup

    (make_soup if soup else make_ensemble)(models, out)
    if as_json:
        print_json({"kind": "result", "output": out, "members": models, "soup": soup})
        return
    what = "the mean of the weights of" if soup else "an ensemble of"
    click.echo(f"{what} {len(models)} models in {out}; plait evaluate {out} --data FOLDER tells how good it is")
