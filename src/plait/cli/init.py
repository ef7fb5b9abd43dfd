"""`plait init FILE…`"""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("recipe.yaml"), show_default=True, help="The recipe's file."
)
@click.option("--encoder", default="minilm", show_default=True, help="The encoder to train.")
@click.option("--text", "text", multiple=True, metavar="COLUMN", help="The text column; twice for pairs.")
@click.option("--label", metavar="COLUMN", help="The label column.")
@click.option("--encoding", default="utf-8", show_default=True, help="The encoding of the files: latin-1, cp1252, ...")
@click.option("--recursive", is_flag=True, help="Also read the sub-folders of a folder.")
@click.option("--force", is_flag=True, help="Overwrite an existing recipe.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def command(
    files: tuple[Path, ...],
    out: Path,
    encoder: str,
    text: tuple[str, ...],
    label: str | None,
    encoding: str,
    recursive: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Inspect data files and write a recipe for them.

    FILE is a data file, or a folder of them. Detects the text and label columns unless they are given, the kind of each
    task and its splits, and writes a commented recipe that is ready to train. Says why it does not use the other files.
    """
    import shlex

    from plait.cli.display import console, print_json, print_table
    from plait.drafting.draft import inferred
    from plait.drafting.files import unused_sentences
    from plait.drafting.init import init

    drafted = init(
        files,
        out,
        encoder=encoder,
        text_columns=text,
        label_column=label,
        encoding=encoding,
        recursive=recursive,
        force=force,
    )
    if as_json:
        found = {"tasks": inferred(drafted.tasks), "unused": drafted.unused, "bad_rows": drafted.bad_rows}
        print_json({"recipe": out, **found})
        return
    screen = console()
    rows = [
        (
            task.name,
            ", ".join(task.guess.text),
            ", ".join(task.guess.label) or "–",
            task.guess.kind + (f" ({len(task.guess.classes)})" if task.guess.classes else ""),
            ", ".join([task.head, *task.losses]),
            ", ".join(f"{count:,} {split}" for split, count in task.rows.items()),
        )
        for task in drafted.tasks
    ]
    print_table(screen, ("task", "text", "label", "kind", "trained by", "rows"), rows)
    for task in drafted.tasks:
        for note in task.notes:
            screen.print(f"{task.name}: {note}", soft_wrap=True)
    for sentence in unused_sentences(drafted.unused):
        screen.print(sentence, soft_wrap=True)
    if drafted.bad_rows:
        unusable = f"{drafted.bad_rows:,} rows are unusable and will be skipped (bad_rows: skip)"
        screen.print(f"{unusable}; plait check lists them")
    screen.print(f"\nWrote {out}. Next:", soft_wrap=True)
    file = shlex.quote(str(out))
    quick = f"plait train {file} --profile quick --out {shlex.quote(f'runs/{out.stem}-quick')}"
    for step in (f"plait check {file}", quick, f"plait train {file}"):
        screen.print(f"  {step}", soft_wrap=True)
