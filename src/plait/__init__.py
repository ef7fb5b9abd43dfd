"""plait trains one encoder of the BERT family on several sentence tasks at once.

The public names load on first use, so that `import plait` stays light.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.cli.display import show_progress
    from plait.drafting.init import DraftedRecipe, init
    from plait.errors import PlaitError
    from plait.evaluation.calibrate_model import Calibration, calibrate
    from plait.evaluation.compare import ModelComparison, compare, compare_single_task
    from plait.evaluation.evaluate_model import Evaluation, evaluate
    from plait.inference.batch_mapper import BatchMapper
    from plait.inference.explanation import Explanation
    from plait.inference.prediction import Prediction
    from plait.inference.predictions import Predictions
    from plait.inference.predictor import Predictor, load
    from plait.model.directory.push import Pushed, push
    from plait.plugins import register_head, register_loss, register_metric, register_schedule
    from plait.progress import Progress, SilentProgress
    from plait.recipe.schema import Recipe
    from plait.reporting.report import report
    from plait.runs.result import Result
    from plait.search.build import index
    from plait.search.cluster import Clusters, cluster
    from plait.search.duplicates import Duplicates, duplicates
    from plait.search.index import Hit, Index
    from plait.serving.client import AsyncClient, Client
    from plait.training.check import Check, check
    from plait.training.clean import CleanedTask, LabelError, clean
    from plait.training.train import train
    from plait.training.transfer import Transfer, transfer

# Idle threads sleep instead of spinning: on a core that is shared with another program, spinning makes two threads
# several times slower than one. torch's OpenMP library reads this once, when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# oneDNN keeps code and memory for every size of a product that it meets, 1,024 sizes by default, and every batch has a
# new number of tokens: a long training run would grow by gigabytes. Both caches are read at the first product.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
os.environ.setdefault("LRU_CACHE_CAPACITY", "16")

__version__ = "0.2.0.dev0"
__all__ = [
    "AsyncClient",
    "BatchMapper",
    "Calibration",
    "Check",
    "CleanedTask",
    "Client",
    "Clusters",
    "DraftedRecipe",
    "Duplicates",
    "Evaluation",
    "Explanation",
    "Hit",
    "Index",
    "LabelError",
    "ModelComparison",
    "PlaitError",
    "Prediction",
    "Predictions",
    "Predictor",
    "Progress",
    "Pushed",
    "Recipe",
    "Result",
    "SilentProgress",
    "Transfer",
    "__version__",
    "calibrate",
    "check",
    "clean",
    "cluster",
    "compare",
    "compare_single_task",
    "duplicates",
    "evaluate",
    "index",
    "init",
    "load",
    "push",
    "register_head",
    "register_loss",
    "register_metric",
    "register_schedule",
    "report",
    "show_progress",
    "train",
    "transfer",
]

_MODULES = {
    "AsyncClient": "plait.serving.client",
    "BatchMapper": "plait.inference.batch_mapper",
    "Calibration": "plait.evaluation.calibrate_model",
    "Check": "plait.training.check",
    "CleanedTask": "plait.training.clean",
    "Client": "plait.serving.client",
    "ModelComparison": "plait.evaluation.compare",
    "Clusters": "plait.search.cluster",
    "DraftedRecipe": "plait.drafting.init",
    "Duplicates": "plait.search.duplicates",
    "Evaluation": "plait.evaluation.evaluate_model",
    "Explanation": "plait.inference.explanation",
    "Hit": "plait.search.index",
    "Index": "plait.search.index",
    "LabelError": "plait.training.clean",
    "PlaitError": "plait.errors",
    "Prediction": "plait.inference.prediction",
    "Predictions": "plait.inference.predictions",
    "Predictor": "plait.inference.predictor",
    "Progress": "plait.progress",
    "Pushed": "plait.model.directory.push",
    "Recipe": "plait.recipe.schema",
    "Result": "plait.runs.result",
    "SilentProgress": "plait.progress",
    "Transfer": "plait.training.transfer",
    "calibrate": "plait.evaluation.calibrate_model",
    "check": "plait.training.check",
    "clean": "plait.training.clean",
    "cluster": "plait.search.cluster",
    "compare": "plait.evaluation.compare",
    "compare_single_task": "plait.evaluation.compare",
    "duplicates": "plait.search.duplicates",
    "evaluate": "plait.evaluation.evaluate_model",
    "index": "plait.search.build",
    "init": "plait.drafting.init",
    "load": "plait.inference.predictor",
    "push": "plait.model.directory.push",
    "register_head": "plait.plugins",
    "register_loss": "plait.plugins",
    "register_metric": "plait.plugins",
    "register_schedule": "plait.plugins",
    "report": "plait.reporting.report",
    "show_progress": "plait.cli.display",
    "train": "plait.training.train",
    "transfer": "plait.training.transfer",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'plait' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
