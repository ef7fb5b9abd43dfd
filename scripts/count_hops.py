"""Count the functions and files of plait that one training row and one prediction pass through.

    python scripts/count_hops.py --encoder DIR

A training row: from `plait.train` with a csv file to the end of the first step, baselines off. A prediction: from
`plait.load` to the answer for one text. Functions are counted once each, without comprehensions and lambdas.
"""

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import plait

SOURCE = str(Path(plait.__file__).parent)


def calls_of(work: Callable[[], object]) -> list[tuple[str, str]]:
    """The file and name of every function of plait that some work calls, in the order of their first call."""
    seen: dict[tuple[str, str], None] = {}

    def trace(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            seen.setdefault((code.co_filename.removeprefix(SOURCE + "/"), code.co_qualname))

    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(seen)


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
                    [(f"the {word} film was {mood}", mood) for word in "abcdefgh" for mood in ("good", "bad")]
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
        }
        plait.train(recipe, place / "whole", baselines=False, threads=1)

        def train_one_step() -> None:

            def stop() -> bool:
                sys.setprofile(None)  # the first step is done
                return True

            try:
                plait.train({**recipe, "batch_size": 4}, place / "first", baselines=False, threads=1, stop=stop)
            except Exception as error:
                if type(error).__name__ != "Stopped":
                    raise

        model = place / "whole/best"
        for name, work in (
            ("a training row", train_one_step),
            ("a prediction", lambda: plait.load(model).predict("mood", ["the film was good"])),
        ):
            calls = calls_of(work)
            print(f"{name}: {len(calls)} functions in {len({file for file, _ in calls})} files")
            if arguments.list:
                print("\n".join(f"    {file}: {function}" for file, function in calls))


if __name__ == "__main__":
    main()
