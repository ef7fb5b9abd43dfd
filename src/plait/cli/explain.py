"""`plait explain MODEL TASK TEXT`"""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from plait.cli.complete import complete_task

if TYPE_CHECKING:
    from rich.text import Text

    from plait.inference.explanation import Explanation

__all__ = ["command"]

_SHOWN = 15  # words in the table
_BAR = 12  # characters of the longest bar


@click.command()
@click.argument("model", type=click.Path())
@click.argument("task", shell_complete=complete_task)
@click.argument("texts", nargs=-1, required=True, metavar="TEXT [TEXT]")
@click.option("--label", metavar="NAME", help="The class to explain.  [default: the predicted one]")
@click.option("--json", "as_json", is_flag=True, help="All words and weights as JSON.")
def command(model: str, task: str, texts: tuple[str, ...], label: str | None, as_json: bool) -> None:
    """Show which words an answer depends on.

    Every word is left out in turn; its weight is what the probability of the answer, or the score, loses without it.
    Green words speak for the answer, red ones against it. Give two texts for a task that compares pairs.
    """
    from plait.cli.display import console, print_json, print_table
    from plait.cli.predict import check_texts
    from plait.inference.predictor import load
    from plait.model.directory.record import open_directory

    open_directory(model)
    predictor = load(model, engine="torch")  # measuring is not worth it for one text
    spec = predictor.task(task)
    check_texts(spec, texts)
    found = predictor.explain(task, texts if len(texts) > 1 else texts[0], label=label)
    if as_json:
        print_json(asdict(found))
        return
    out = console()
    if found.truncated:
        click.echo(f"truncated to {predictor.limit(task)} tokens; words beyond have no weight", err=True)
    score = f"{found.score:.3f}"
    out.print(f"{task}: {found.label}, probability {score}" if found.label is not None else f"{task}: score {score}")
    for text in _coloured(found):
        out.print(text)
    largest = max((abs(word.weight) for _, word in found.strongest), default=0.0)
    rows = [
        (
            word.word,
            *([str(side + 1)] if len(texts) > 1 else []),
            f"{word.weight:+.3f}",
            ("+" if word.weight > 0 else "-") * round(_BAR * abs(word.weight) / largest) if largest else "",
        )
        for side, word in found.strongest[:_SHOWN]
    ]
    print_table(out, ("word", *(["text"] if len(texts) > 1 else []), "weight", ""), rows)
    if (more := len(found.strongest) - len(rows)) > 0:
        out.print(f"… and {more:,} more words with smaller weights")


def _coloured(found: "Explanation") -> "list[Text]":
    """The texts with their words in green or red, the strongest on a filled background."""
    from rich.text import Text

    largest = max((abs(word.weight) for _, word in found.strongest), default=0.0)
    shown = []
    for text, words in zip(found.texts, found.words, strict=True):
        line = Text(text)
        for word in words:
            strength = abs(word.weight) / largest if largest else 0.0
            colour = "green" if word.weight > 0 else "red"
            if strength >= 2 / 3:
                line.stylize(f"bold white on {colour}", word.start, word.end)
            elif strength >= 1 / 5:
                line.stylize(f"bold {colour}" if strength >= 1 / 3 else colour, word.start, word.end)
        shown.append(line)
    return shown
