"""`plait export MODEL`"""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@click.option("--to", "kind", type=click.Choice(["onnx"]), required=True, help="The output format.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new directory for the result.")
@click.option("--int8", is_flag=True, help="8-bit weights: smaller and faster, slightly different predictions.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(model: str, kind: str, out: Path, int8: bool, as_json: bool) -> None:
    """Export a model as ONNX graphs.

    MODEL is a model directory, a run, or a plain encoder such as minilm. The result is the same model with a folder
    onnx. It has one graph per way in which the tasks read texts, which computes their predictions in programs of any
    language, and one of the encoder alone, for --engine onnx. The graphs are checked against PyTorch before the result
    appears.
    """
    from plait.cli.display import console, print_json, print_table
    from plait.export.export import export_onnx

    done = export_onnx(model, out, int8=int8)
    if as_json:
        print_json(
            {
                "kind": "result",
                "output": out,
                "precision": done.precision,
                "bytes": done.size,
                "graphs": [graph.name for graph in done.graphs],
                "agreement": [agreement.to_json() for agreement in done.agreements],
            }
        )
        return
    screen = console()
    rows = [
        (
            one.graph,
            one.output,
            f"{one.largest:.1e}",
            "–" if one.least_cosine is None else f"{one.least_cosine:.4f}, mean {one.mean_cosine:.4f}",
        )
        for one in done.agreements
    ]
    print_table(screen, ("graph", "output", "largest difference from PyTorch", "lowest cosine"), rows)
    what = (
        f"{done.precision} graphs of {done.size / 1e6:.1f} MB in {out}/onnx, where README.md explains how to run them"
    )
    screen.print(f"{what}; plait uses them with --engine onnx", soft_wrap=True)
