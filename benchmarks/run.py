"""Run every benchmark, one after the other, and write docs/benchmarks.md.

    python benchmarks/run.py                        all of them at reduced size: at most half an hour
    python benchmarks/run.py --full                 at full size: hours; finished ones are not run again
    python benchmarks/run.py [--full] --again NAME  run this one again
    python benchmarks/run.py [--full] --page        only write the page, from stored results

Results at full size are stored in benchmarks/results/full, others in .benchmarks/, so a run that was stopped resumes
with the next benchmark.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import small_data
from page import page, section
from store import REPO, store_folder

HERE = Path(__file__).resolve().parent
DOCS = REPO / "docs"
ORDER = (
    "embed",
    "embed_int8",
    "train",
    "batches",
    "training_memory",
    "precision",
    "surgery",
    "adapters",
    "soft_triple",
    "cached_contrastive",
    "start",
    "growth",
    "serve",
)
NAMES = tuple(name for name in ORDER if (HERE / f"{name}.py").is_file())


def measure(name: str, size: str) -> str | None:
    """Run one benchmark and store its result; the error, if there was one."""
    command = [sys.executable, HERE / f"{name}.py", "--json", *(["--full"] if size == "full" else [])]
    result_path(name, size).unlink(missing_ok=True)
    last = "no output"
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                print(line, end="", file=sys.stderr, flush=True)
                last = line.strip() or last
        if process.returncode:
            return last
        output.seek(0)
        result = json.load(output)
    partial = result_path(name, size).with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(result_path(name, size))
    print(f"{section(result)}\n", flush=True)
    return None


def result_path(name: str, size: str) -> Path:
    folder = HERE / "results/full" if size == "full" else store_folder(size)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.json"


def write_page(size: str, failed: dict[str, str]) -> None:
    """docs/benchmarks.md: the results between a head and a tail that are written by hand."""
    found = [result_path(name, size) for name in NAMES]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.is_file()]
    head, tail = ((DOCS / f"benchmarks.{part}.md").read_text("utf-8") for part in ("head", "tail"))
    text = page(results, failed, head, f"{small_data.section(small_data.stored())}\n\n{tail}")
    (DOCS / "benchmarks.md").write_text(text, encoding="utf-8")


def choose(size: str, again: Sequence[str]) -> list[str]:
    """The benchmarks to run: at reduced size those named, or all; at full size those named and the unfinished."""
    if size == "reduced":
        return list(again or NAMES)
    return [name for name in NAMES if name in again or not result_path(name, size).is_file()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run at full size")
    parser.add_argument("--again", nargs="+", default=[], choices=NAMES, metavar="NAME", help="run these again")
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
