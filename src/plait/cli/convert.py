"""`plait convert CHECKPOINT`"""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new directory for the result.")
@click.option(
    "--config",
    "encoder",
    metavar="DIR",
    help="A directory or encoder name with config.json and the tokenizer.  [default: beside the weights]",
)
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(checkpoint: Path, out: Path, encoder: str | None, as_json: bool) -> None:
    """Convert pickled weights (.bin, .pt, .pth) or an ONNX graph to safetensors.

    CHECKPOINT is a directory in Hugging Face's layout, or a file of weights. No code in the file is executed.
    """
    from plait.cli.display import print_json
    from plait.model.convert import convert, list_some

    done = convert(checkpoint, out, encoder=encoder)
    if as_json:
        print_json(
            {
                "kind": "result",
                "output": str(out),
                "model_type": done.config.model_type,
                "layers": done.config.layers,
                "width": done.config.width,
                "weights": done.weights,
                "was": done.was,
                "left_out": done.left_out,
            }
        )
        return
    was = "" if done.was == ("float32",) else f" (was {', '.join(done.was)})"
    sizes = f"{done.config.layers} layers of width {done.config.width}, {done.weights:,} weights"
    click.echo(f"{done.config.model_type} encoder with {sizes} in float32{was} in {out}")
    if done.left_out:
        click.echo(f"left out: {list_some(done.left_out, most=20)}")
