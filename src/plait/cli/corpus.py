"""Options and work of `plait embed` and `plait predict` on corpora: folders, shards, Ray, and merging."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from plait.inference.batch_mapper import BatchMapper
    from plait.inference.stream import Done
    from plait.model.directory.load import EngineName

__all__ = ["CorpusEngine", "corpus_options", "inner_engine", "is_sharded", "process_merge", "process_shards"]

CorpusEngine = Literal["auto", "torch", "onnx", "ray"]


def corpus_options(function: click.decorators.FC) -> click.decorators.FC:
    """--shards, --shard, --merge and --engine with ray."""
    options = (
        click.option(
            "--shards", type=click.IntRange(min=1), metavar="N", help="Divide the input; --output is a folder."
        ),
        click.option("--shard", type=click.IntRange(min=0), metavar="I", help="Process this shard, from 0 to N-1."),
        click.option(
            "--merge",
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            help="Check that all shards are in FOLDER; with --output FILE, write them as one file.",
        ),
        click.option(
            "--engine",
            type=click.Choice(["auto", "torch", "onnx", "ray"]),
            default="auto",
            show_default=True,
            help="What embeds; onnx needs a model that plait export wrote. ray runs all shards on Ray.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def inner_engine(engine: CorpusEngine) -> "EngineName":
    """What embeds in each worker."""
    return "auto" if engine == "ray" else engine


def is_sharded(
    source: str | None, output: str | None, shards: int | None, shard: int | None, engine: CorpusEngine
) -> bool:
    """Whether the output is a folder of parts."""
    if shards is not None or shard is not None or engine == "ray":
        return True
    is_folder = source is not None and Path(source).is_dir()
    return is_folder and output not in (None, "-") and (not Path(str(output)).suffix or Path(str(output)).is_dir())


def process_shards(
    make: Callable[[], "BatchMapper"],
    source: str | None,
    output: str | None,
    *,
    shards: int | None,
    shard: int | None,
    engine: CorpusEngine,
    workers: int | None,
    stdin_kind: str | None,
    errors: Path | None,
    encoding: str,
    safe_csv: bool,
    as_json: bool,
) -> None:
    """One shard, or all of them on Ray; the model is loaded once the request is validated. A restart continues."""
    from plait.cli.display import progress_for
    from plait.errors import RequestError
    from plait.inference.corpus import Shard
    from plait.inference.shards import check_shard, run_shard

    if source is None or output is None:
        raise click.UsageError("--input and --output go together")
    if "-" in (source, output) or stdin_kind or errors:
        raise click.UsageError("shards are read from and written to folders: no pipes, --format or --errors")
    if safe_csv:
        raise click.UsageError("--safe-csv is for csv; shards are parquet: use it with --merge")
    if engine == "ray" and shard is not None:
        raise click.UsageError("--engine ray processes all shards; drop --shard")
    if engine != "ray" and (shards is None) != (shard is None):
        raise click.UsageError("--shards N and --shard I go together; I is from 0 to N-1")
    if not Path(source).exists():
        raise RequestError(f"--input {source}: no such file or folder")
    chosen = Shard(shard or 0, shards or 1)
    check_shard(source, Path(output), None if engine == "ray" and shards is None else chosen)
    if engine == "ray":
        from plait.inference.ray_engine import ray_or_error, run_on_ray

        ray_or_error()
    progress = progress_for(as_json)
    try:
        mapper = make()
        if engine == "ray":
            done = run_on_ray(mapper, source, Path(output), progress, shards=shards, workers=workers, encoding=encoding)
        else:
            done = run_shard(replace(mapper.job, encoding=encoding), source, Path(output), chosen, progress)
    except KeyboardInterrupt:
        progress.end()
        progress.note(f"stopped; the same command continues {output}")
        raise
    finally:
        progress.end()
    _print_done(done, output, as_json)


def process_merge(folder: Path, output: str | None, kinds: tuple[str, ...], as_json: bool, *, safe_csv: bool) -> None:
    """Check the parts in a folder, and write them as one file if there is an output."""
    context = click.get_current_context()
    others = {
        name for name in context.params if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    } - {"merge", "output", "safe_csv", "as_json"}
    if others:
        raise click.UsageError("--merge FOLDER goes with --output FILE, --safe-csv and --json only")
    from plait.cli.display import progress_for
    from plait.inference.merge import check_parts, merge_parts
    from plait.inference.stream import Done, output_kind

    progress = progress_for(as_json)
    try:
        if output is not None:
            done = merge_parts(folder, Path(output), output_kind(output, kinds), progress, safe_csv=safe_csv)
        else:
            records = [record for _, record in check_parts(folder, progress)]
            done = Done(sum(record.rows for record in records), sum(record.bad for record in records), None)
    finally:
        progress.end()
    _print_done(done, output or str(folder), as_json)


def _print_done(done: "Done", output: str, as_json: bool) -> None:
    from plait.cli.files import print_done

    print_done(done, output, as_json)
