"""Run every benchmark, one after the other, and write docs/benchmarks.md.

    python benchmarks/run.py                       all of them at reduced size: at most half an hour
    python benchmarks/run.py --full                at full size: hours; those that are done are not run again
    python benchmarks/run.py [--full] --again NAME this one anew
    python benchmarks/run.py [--full] --page       only the page, of what was measured

What was measured is kept in .benchmarks/, so a run that was stopped goes on with the next benchmark.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from page import page, section
from store import REPO, kept

HERE = Path(__file__).resolve().parent
DOCS = REPO / "docs"
ORDER = ("embed", "embed_int8", "train", "surgery", "soft_triple", "cached_contrastive", "start", "growth")
NAMES = tuple(name for name in ORDER if (HERE / f"{name}.py").is_file())


def measure(name: str, size: str) -> str | None:
    """Run one benchmark and keep its result; what went wrong, if anything did."""
    command = [sys.executable, HERE / f"{name}.py", "--json", *(["--full"] if size == "full" else [])]
    stored(name, size).unlink(missing_ok=True)
    last = "it said nothing"
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, stdout=said, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                print(line, end="", file=sys.stderr, flush=True)
                last = line.strip() or last
        if process.returncode:
            return last
        said.seek(0)
        result = json.load(said)
    aside = kept(size) / f"{name}.json.aside"
    aside.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")
    aside.replace(stored(name, size))
    print(f"{section(result)}\n", flush=True)
    return None


def stored(name: str, size: str) -> Path:
    """Where the result of a benchmark is kept."""
    return kept(size) / f"{name}.json"


def write_page(size: str, failed: dict[str, str]) -> None:
    """docs/benchmarks.md: a head and a tail written by hand, and between them what was measured."""
    found = [stored(name, size) for name in NAMES]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.is_file()]
    head, tail = (DOCS / f"benchmarks.{part}.md" for part in ("head", "tail"))
    said = page(results, failed, head.read_text("utf-8"), tail.read_text("utf-8") if tail.is_file() else "")
    (DOCS / "benchmarks.md").write_text(said, encoding="utf-8")


def choose(size: str, again: Sequence[str]) -> list[str]:
    """What to run: what is named; else everything, but at full size not what is done."""
    if size == "reduced":
        return list(again or NAMES)
    return [name for name in NAMES if name in again or not stored(name, size).is_file()]


def main() -> None:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="at full size")
    parser.add_argument("--again", nargs="+", default=[], choices=NAMES, metavar="NAME", help="run these anew")
    parser.add_argument("--page", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    size = "full" if arguments.full else "reduced"
    failed: dict[str, str] = {}
    for name in [] if arguments.page else choose(size, arguments.again):
        if error := measure(name, size):
            failed[name] = error
            print(f"{name} failed: {error}", file=sys.stderr, flush=True)
    write_page(size, failed)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
