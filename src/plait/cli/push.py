"""`plait push MODEL OWNER/NAME`"""

import click

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@click.argument("name", metavar="OWNER/NAME")
@click.option("--private", is_flag=True, help="Only you and those you allow can see it.")
@click.option("--message", metavar="TEXT", help="The message of the commit.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(model: str, name: str, private: bool, message: str | None, as_json: bool) -> None:
    """Upload a model to the hub.

    MODEL is a model directory or a run. Its files are verified first; then they and the model card are uploaded, and
    every command and plait.load take OWNER/NAME as the model. Set HF_TOKEN to a token that may write there, or run
    hf auth login once.
    """
    from dataclasses import asdict

    from plait.cli.display import print_json
    from plait.model.directory.push import push

    done = push(model, name, private=private, message=message)
    if as_json:
        print_json({"kind": "result", **asdict(done)})
        return
    click.echo(f'{len(done.files)} files in {done.url}; plait.load("{name}") loads the model')
