"""Results of benchmarks as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]  # what `python benchmarks/NAME.py --json` prints
MET = {True: "met", False: "**missed**", None: "could not be measured"}


def page(results: Sequence[Result], failed: Mapping[str, str], head: str, tail: str) -> str:
    """Everything that was measured: all targets at once, the machine, then each benchmark."""
    rows = [
        [result["title"], str(found["threads"]), *target_cells(target)]
        for result in results
        for found in result["tables"]
        for target in found["targets"]
    ]
    broken = [f"- `{name}` failed: {error}" for name, error in failed.items()]
    parts = [head.strip(), "## All targets", table(["benchmark", "threads", "target", "measured", ""], rows), *broken]
    parts += ["## Where it was measured", origins(results), *map(section, results), tail.strip()]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(result: Result) -> str:
    """One benchmark: its tables, what explains them, its targets, and how each way was called."""
    full = " --full" if result["size"] == "full" else ""
    about = f"`python benchmarks/{result['benchmark']}.py{full}`: {result['size']} size, {result['rounds']} rounds."
    parts = [f"## {result['title']}", about]
    for found in result["tables"]:
        threads = "1 thread" if found["threads"] == 1 else f"{found['threads']} threads"
        facts = "; ".join(f"{key}: {shown(value)}" for key, value in found["facts"].items())
        parts += [f"**{threads}.** {facts}.", ways(found["ways"])]
        parts.append(table(["target", "measured", ""], [target_cells(target) for target in found["targets"]]))
        parts += [f"- {name} could not take part: {error}" for name, error in found["failed"].items()]
    return "\n\n".join([*parts, calls(result["tables"])])


def origins(results: Sequence[Result]) -> str:
    """The machine and the versions; once where they were the same for every benchmark."""
    found: dict[str, list[str]] = {}
    for result in results:
        machine = result["machine"]
        versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        where = f"{machine['processor']}, {machine['cores']} cores, {machine['gigabytes']} GiB; {versions}"
        found.setdefault(where, []).append(f"`{result['benchmark']}`")
    return "\n".join(f"- {', '.join(names)}: {where}." for where, names in found.items())


def ways(measured: Sequence[Result]) -> str:
    """The table of the ways; what only some of them tell is left empty for the others."""
    told = list(dict.fromkeys(key for way in measured for key in way["told"]))
    rows = [
        [way["name"], seconds(way["seconds"]), f"{way['ratio']:.2f}", f"{way['low']:.2f}–{way['high']:.2f}"]
        + ["" if way[key] is None else f"{way[key]:,.0f}" for key in ("megabytes", "megabytes_later")]
        + [shown(way["told"].get(key, "")) for key in told]
        for way in measured
    ]
    return table(["way", "seconds", "ratio of time", "quartiles", "MB", "MB later", *told], rows)


def target_cells(target: Result) -> list[str]:
    """What was asked for, what was found, and whether that is enough."""
    measured = "–" if target["measured"] is None else f"{target['measured']:.4g}"
    return [target["asked"], measured, MET[target["met"]]]


def calls(tables: Sequence[Result]) -> str:
    """How each way was called, with the versions of what it needs, where these are told."""
    said: dict[str, dict[str, list[str]]] = {}
    for found in tables:
        for way in found["ways"]:
            versions = ", ".join(f"{name} {version}" for name, version in way["versions"].items())
            if how := "; ".join(part for part in (way["how"], versions) if part):
                said.setdefault(way["name"], {}).setdefault(how, []).append(str(found["threads"]))
    return "\n".join(
        f"- {name}{'' if len(hows) == 1 else ' (threads: ' + ', '.join(threads) + ')'}: {how}"
        for name, hows in said.items()
        for how, threads in hows.items()
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(header), *body])


def shown(value: object) -> str:
    """A fact for people."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def seconds(value: float) -> str:
    """A time with three digits."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
