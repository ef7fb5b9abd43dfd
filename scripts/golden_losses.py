"""Record the results of training bit for bit, to show that a change of the code does not change them.

    python scripts/golden_losses.py before.json --encoders FOLDER     # before the change
    python scripts/golden_losses.py after.json --encoders FOLDER      # after it, on the same machine
    diff before.json after.json

Every recipe of tests/methods is trained twice with one thread: unchanged for its first 20 steps, and completely on a
few rows with a small encoder. The file holds every loss, the dev scores and the digest of the final weights.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import plait

REPO = Path(__file__).resolve().parent.parent
STEPS = 20


def load_script(path: Path) -> ModuleType:
    """Import a file that is not part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def first_steps(recipe: Path, run: Path, overrides: list[str]) -> list[dict[str, float]]:
    """The losses of the first steps of an unchanged recipe."""
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += 1
        return steps == STEPS

    try:
        plait.train(recipe, run, overrides=overrides, baselines=False, threads=1, stop=stop)
    except Exception as error:
        if type(error).__name__ != "Stopped":
            raise
    return [line["loss"] for line in metrics_of(run) if line["kind"] == "train"]


def whole_run(recipe: Path, run: Path, overrides: list[str]) -> dict[str, Any]:
    """Everything that a complete run measures."""
    plait.train(recipe, run, overrides=overrides, baselines=True, threads=1)
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {
        "losses": [line["loss"] for line in metrics_of(run) if line["kind"] == "train"],
        "scores": result["scores"],
        "baselines": result["baselines"],
        "last_weights_sha256": result["last_weights_sha256"],
    }


def small_encoders(folder: Path) -> tuple[Path, Path]:
    """A small minilm and a random RoBERTa."""
    from plait.encoder.find import find_checkpoint
    from small_minilm import make_small_minilm
    from tiny import make_checkpoint

    small, roberta = folder / "minilm", folder / "roberta"
    if not small.is_dir():
        make_small_minilm(small, find_checkpoint("minilm").folder)
    if not roberta.is_dir():
        make_checkpoint(roberta, "roberta")
    return small, roberta


def main() -> None:
    """Record every recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--encoders", type=Path, required=True, help="a folder for the small encoders, which are created if missing"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME")
    arguments = parser.parse_args()
    sys.path.insert(0, str(REPO / "tests"))
    methods = load_script(REPO / "tests/methods/test_methods.py")
    small, roberta = small_encoders(arguments.encoders)
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name in arguments.only or methods.RECIPES:
        recipe = REPO / f"tests/methods/{name}.yaml"
        is_roberta = name == methods.SCRIPT.RANDOM_ROBERTA
        with tempfile.TemporaryDirectory() as folder:
            whole = methods.reduced(name, small) + ([f"encoder={roberta}"] if is_roberta else [])
            found[name] = {
                "first": first_steps(recipe, Path(folder) / "first", [f"encoder={roberta}"] if is_roberta else []),
                "whole": whole_run(recipe, Path(folder) / "whole", whole),
            }
        print(name, found[name]["whole"]["last_weights_sha256"][:12], flush=True)
        arguments.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
