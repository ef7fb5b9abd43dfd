"""Count the functions and files of plait that one training row and one prediction pass through.

    python scripts/count_hops.py --encoder DIR

A function counts if one of its arguments, or what it returns, holds the row: its text, an object with the text in it,
or an array or tensor made from it (all arrays and tensors count, except parameters). Each function counts once;
comprehensions and lambdas do not. A training row goes from `plait.train` with a csv file to the end of the first
step, with baselines off. A prediction goes from `predict` of a loaded model to the answer.
"""

import argparse
import contextlib
import csv
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import torch

import plait

SOURCE = str(Path(plait.__file__).parent)
MARKER = "zebra"  # in every text of this script
DEPTH = 5  # of objects within objects


class FirstStepDone(BaseException):
    """Ends a training run after its first step."""


def holds_row(value: object, depth: int = DEPTH) -> bool:
    """Whether a value holds the text of a row, or an array or tensor made from one."""
    match value:
        case str():
            return MARKER in value
        case bytes():
            return MARKER.encode() in value
        case torch.nn.Parameter() | torch.nn.Module() | type():
            return False
        case torch.Tensor() | np.ndarray():
            return True
        case dict():
            return depth > 0 and any(holds_row(item, depth - 1) for item in value.values())
        case list() | tuple():
            return depth > 0 and any(holds_row(item, depth - 1) for item in value)
    if depth == 0 or not type(value).__module__.startswith("plait"):
        return False
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    return any(holds_row(getattr(value, name, None), depth - 1) for name in names)


def functions_passed(work: Callable[[], object]) -> list[tuple[str, str]]:
    """The file and name of every function of plait that a row passes through, in the order of the first call."""
    passed: dict[tuple[str, str], None] = {}

    def trace(frame: FrameType, event: str, returned: object) -> None:
        code = frame.f_code
        function = (code.co_filename.removeprefix(SOURCE + "/"), code.co_qualname)
        if not code.co_filename.startswith(SOURCE) or code.co_name.startswith("<") or function in passed:
            return
        sys.setprofile(None)  # holds_row may call properties
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if event == "call" else ()
        if any(holds_row(frame.f_locals.get(name)) for name in names) or (event == "return" and holds_row(returned)):
            passed[function] = None
        sys.setprofile(trace)

    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(passed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--list", action="store_true", help="print every function")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for split in ("train", "dev"):
            with (place / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["sentence", "mood"])
                writer.writerows(
                    [(f"the {MARKER} {word} film was {mood}", mood) for word in "abcdefgh" for mood in ("good", "bad")]
                )
        recipe = {
            "encoder": str(arguments.encoder),
            "tasks": {
                "mood": {
                    "train": str(place / "train.csv"),
                    "dev": str(place / "dev.csv"),
                    "text": "sentence",
                    "label": "mood",
                }
            },
            "epochs": 1,
            "head_start": "random",  # as in version 0.1, so that the counts compare
        }
        plait.train(recipe, place / "whole", baselines=False, threads=1)

        def train_one_step() -> None:
            def stop() -> bool:
                raise FirstStepDone

            with contextlib.suppress(FirstStepDone):
                plait.train({**recipe, "batch_size": 4}, place / "first", baselines=False, threads=1, stop=stop)

        model = plait.load(place / "whole/best")
        for name, work in (
            ("a training row", train_one_step),
            ("a prediction", lambda: model.predict("mood", [f"the {MARKER} film was good"])),
        ):
            functions = functions_passed(work)
            print(f"{name}: {len(functions)} functions in {len({file for file, _ in functions})} files")
            if arguments.list:
                print("\n".join(f"    {file}: {function}" for file, function in functions))


if __name__ == "__main__":
    main()
