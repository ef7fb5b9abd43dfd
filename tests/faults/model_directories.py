"""Model directories that were changed with intent: their manifests are right again, and what they say is not."""

import json
import random
import struct
from pathlib import Path
from typing import Any

from faults.bench import Bench
from faults.mutations import mutate_bytes, mutate_json
from plait.errors import PlaitError

__all__ = ["check", "sign"]

ROW, MOST = "model_directories", 3  # changes of a file


def check(bench: Bench, number: int) -> str:
    """Change one file of a model, sign it again, load the model and ask it."""
    from plait.inference.predictor import load

    chance = bench.chance(ROW, number)
    folder = bench.copy(bench.model, ROW, 0)
    path = chance.choice(sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"))
    for _ in range(chance.randint(1, MOST)):
        _change(path, chance)
    if path.name != "manifest.json" and chance.random() < 0.9:
        sign(folder)
    try:
        model = load(folder, engine="torch")
        for task, spec in model.tasks.items():
            model.predict(task, ["a dog"] if len(spec.text) == 1 else [("a dog",) * len(spec.text)])
        model.embed(["a dog"])
    except PlaitError as error:
        return "" if str(folder) in str(error) or path.name in str(error) else f"{path.name}: names no file: {error}"
    except Exception as error:
        return f"{path.relative_to(folder)}: {type(error).__name__}: {str(error)[:200]}"
    return ""


def _change(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    try:
        if path.suffix == ".json" and chance.random() < 0.8:
            path.write_text(json.dumps(mutate_json(json.loads(data), chance)))
        elif path.suffix == ".safetensors" and chance.random() < 0.7:
            path.write_bytes(_other_header(data, chance))
        else:
            path.write_bytes(mutate_bytes(data, chance))
    except ValueError:  # changed before, and no JSON any more
        path.write_bytes(mutate_bytes(data, chance))


def _other_header(data: bytes, chance: random.Random) -> bytes:
    """The same numbers under other names, shapes, types or places."""
    size = int.from_bytes(data[:8], "little")
    header: Any = mutate_json(json.loads(data[8 : 8 + size]), chance)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def sign(folder: Path) -> None:
    from plait.model.directory.save import write_manifest

    write_manifest(folder, sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"))
