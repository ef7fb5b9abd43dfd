"""Messages name the arguments of Python functions, as in `out`; on the command line these are options."""

import re

__all__ = ["as_options"]

_OPTIONS = {
    "abstain_below": "--abstain-below",
    "abstain_for": "--abstain-for",
    "at_least": "--at-least",
    "by": "--by",
    "clusters": "--clusters",
    "corpus": "--corpus",
    "data": "--data DIR",
    "encoding": "--encoding",
    "engine": "--engine",
    "folds": "--folds",
    "force": "--force",
    "kind": "--kind",
    "label": "--label",
    "label_column": "--label",
    "label_columns": "--label",
    "mistakes": "--mistakes",
    "on": "--on TASK=FILE",
    "out": "--out",
    "overrides": "--set",
    "port": "--port",
    "predictions": "--predictions",
    "profile": "--profile",
    "recursive": "--recursive",
    "rows": "--rows",
    "single_task": "--single-task",
    "smallest": "--smallest",
    "split": "--split",
    "suite": "--suite",
    "text_columns": "--text",
    "texts": "TEXT",
    "threads": "--threads N",
    "threshold": "--threshold",
    "top_k": "--top-k",
    "transfer": "--transfer",
    "word_weights": "--word-weights",
}


def as_options(message: str) -> str:
    """A message with options instead of arguments."""
    return re.sub(r"(?:the argument )?`(\w+)`", lambda found: _OPTIONS.get(found[1], found[0]), message)
