"""plait trains one encoder of the BERT family on several sentence tasks at once.

The public names load on first use, so that `import plait` stays light.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.errors import PlaitError
    from plait.inference.predictor import Prediction, Predictor, load
    from plait.recipe.schema import Recipe
    from plait.training.loop import train
    from plait.training.result import Result

# Threads that wait for each other shall sleep, not spin: on a core that is shared with another program, spinning makes
# two threads several times slower than one. The library that torch brings reads this once, when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
__all__ = ["PlaitError", "Prediction", "Predictor", "Recipe", "Result", "__version__", "load", "train"]

HOMES = {
    "PlaitError": "plait.errors",
    "Prediction": "plait.inference.predictor",
    "Predictor": "plait.inference.predictor",
    "Recipe": "plait.recipe.schema",
    "Result": "plait.training.result",
    "load": "plait.inference.predictor",
    "train": "plait.training.loop",
}


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module 'plait' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
