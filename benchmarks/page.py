"""Results of benchmarks as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]  # what `python benchmarks/NAME.py --json` prints


def section(result: Result) -> str:
    """One benchmark: its tables, what explains them, its targets, and how each way was called."""
    machine = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    about = (
        f"`python benchmarks/{result['benchmark']}.py{' --full' if result['size'] == 'full' else ''}`, "
        f"{result['size']} size, {result['rounds']} rounds. {machine['processor']}, {machine['cores']} cores, "
        f"{machine['gigabytes']} GiB; {versions}."
    )
    parts = [f"## {result['title']}", about]
    for table in result["tables"]:
        parts += [f"**{count(table['threads'], 'thread')}.** {sentence(table['facts'])}", ways(table["ways"])]
        parts += [targets(table["targets"])] if table["targets"] else []
        parts += [f"- {name} could not take part: {error}" for name, error in table["failed"].items()]
    parts.append(calls(result["tables"]))
    return "\n\n".join(part for part in parts if part)


def ways(measured: Sequence[Result]) -> str:
    """The table of the ways; whatever only some of them tell is empty for the others."""
    told = list(dict.fromkeys(key for way in measured for key in way["told"]))
    rows = [
        [way["name"], seconds(way["seconds"]), f"{way['ratio']:.2f}", f"{way['low']:.2f}–{way['high']:.2f}"]
        + ["" if way["megabytes"] is None else f"{way['megabytes']:,.0f}"]
        + [shown(way["told"].get(key, "")) for key in told]
        for way in measured
    ]
    return table(["way", "seconds", "ratio of time", "quartiles", "MB", *told], rows)


def targets(found: Sequence[Result]) -> str:
    """What was asked for, and whether it is so."""
    words = {True: "met", False: "**missed**", None: "could not be measured"}
    rows = [
        [target["asked"], "–" if target["measured"] is None else f"{target['measured']:.3g}", words[target["met"]]]
        for target in found
    ]
    return table(["target", "measured", ""], rows)


def calls(tables: Sequence[Result]) -> str:
    """How each way was called, where that is told; once where it was the same with every number of threads."""
    said: dict[str, dict[str, list[int]]] = {}
    for one in tables:
        for way in one["ways"]:
            if way["how"] or way["versions"]:
                versions = ", ".join(f"{name} {version}" for name, version in way["versions"].items())
                how = "; ".join(part for part in (way["how"], versions) if part)
                said.setdefault(way["name"], {}).setdefault(how, []).append(one["threads"])
    lines = []
    for name, hows in said.items():
        for how, threads in hows.items():
            when = "" if len(hows) == 1 else f" ({count(threads[0], 'thread')})"
            lines.append(f"- {name}{when}: {how}")
    return "\n".join(lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(header), *body])


def sentence(facts: Mapping[str, object]) -> str:
    """Facts in one sentence."""
    return "; ".join(f"{key}: {shown(value)}" for key, value in facts.items()) + ("." if facts else "")


def shown(value: object) -> str:
    """A fact for people."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def seconds(value: float) -> str:
    """A time with three digits."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def count(number: int, what: str) -> str:
    """A number of things."""
    return f"{number} {what}{'' if number == 1 else 's'}"
