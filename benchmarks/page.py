"""Results of benchmarks as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]  # what `python benchmarks/NAME.py --json` prints
MET = {True: "met", False: "**missed**", None: "not measured"}


def page(results: Sequence[Result], failed: Mapping[str, str], head: str, tail: str) -> str:
    """The whole page: all targets at a glance, the machine, then each benchmark."""
    rows = [
        [result["title"], str(found["threads"]), *target_cells(target)]
        for result in results
        for found in result["tables"]
        for target in found["targets"]
    ]
    broken = [f"- `{name}` failed: {error}" for name, error in failed.items()]
    parts = [head.strip(), "## All targets", table(["benchmark", "threads", "target", "measured", ""], rows), *broken]
    parts += ["## Machines", origins(results), *map(section, results), tail.strip()]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(result: Result) -> str:
    """One benchmark: its tables, what explains them, its targets, and how each contender was called."""
    full = " --full" if result["size"] == "full" else ""
    about = f"`python benchmarks/{result['benchmark']}.py{full}`: {result['size']} size, {result['rounds']} rounds."
    parts = [f"## {result['title']}", about]
    for found in result["tables"]:
        threads = "1 thread" if found["threads"] == 1 else f"{found['threads']} threads"
        facts = "; ".join(f"{key}: {format_fact(value)}" for key, value in found["facts"].items())
        parts += [f"**{threads}.** {facts}.", contenders(found["ways"])]
        parts.append(table(["target", "measured", ""], [target_cells(target) for target in found["targets"]]))
        parts += [f"- {name} did not take part: {error}" for name, error in found["failed"].items()]
    return "\n\n".join(part for part in [*parts, calls(result["tables"])] if part)


def origins(results: Sequence[Result]) -> str:
    """The machine and the versions, once for all benchmarks that share them."""
    found: dict[str, list[str]] = {}
    for result in results:
        machine = result["machine"]
        versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        where = f"{machine['processor']}, {machine['cores']} cores, {machine['gigabytes']} GiB; {versions}"
        found.setdefault(where, []).append(f"`{result['benchmark']}`")
    return "\n".join(f"- {', '.join(names)}: {where}." for where, names in found.items())


def contenders(measured: Sequence[Result]) -> str:
    """The table of contenders; a detail that only some of them report is left empty for the others."""
    details = list(dict.fromkeys(key for one in measured for key in one["told"]))
    rows = [
        [one["name"], format_seconds(one["seconds"]), f"{one['ratio']:.2f}", f"{one['low']:.2f}–{one['high']:.2f}"]
        + ["" if one[key] is None else f"{one[key]:,.0f}" for key in ("megabytes", "megabytes_later")]
        + [format_fact(one["told"].get(key, "")) for key in details]
        for one in measured
    ]
    return table(["contender", "seconds", "time ratio", "quartiles", "MB", "MB later", *details], rows)


def target_cells(target: Result) -> list[str]:
    """The target, what was measured, and whether that is enough."""
    measured = "–" if target["measured"] is None else f"{target['measured']:.4g}"
    return [target["asked"], measured, MET[target["met"]]]


def calls(tables: Sequence[Result]) -> str:
    """How each contender was called, and the versions of its packages, where known."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in tables:
        for contender in one["ways"]:
            versions = ", ".join(f"{name} {version}" for name, version in contender["versions"].items())
            if how := "; ".join(part for part in (contender["how"], versions) if part):
                found.setdefault(contender["name"], {}).setdefault(how, []).append(str(one["threads"]))
    return "\n".join(
        f"- {name}{'' if len(hows) == 1 else ' (threads: ' + ', '.join(threads) + ')'}: {how}"
        for name, hows in found.items()
        for how, threads in hows.items()
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(header), *body])


def format_fact(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(format_fact, value))
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def format_seconds(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
