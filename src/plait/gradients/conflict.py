"""Whether the tasks' gradients conflict: their cosines at one step, and a summary of a run.

K tasks.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from torch import Tensor

__all__ = ["Cosines", "cosines", "summarize"]

Cosines = Mapping[str, float | None]  # "first/second" for each pair of tasks; None where a gradient is 0 or not finite


def cosines(gram_KK: Tensor, tasks: Sequence[str]) -> dict[str, float | None]:
    """The cosine of each pair of tasks, from the Gram matrix of their gradients."""
    lengths = gram_KK.diagonal().sqrt().tolist()
    found: dict[str, float | None] = {}
    for i, j in combinations(range(len(tasks)), 2):
        product = lengths[i] * lengths[j]
        cosine = gram_KK[i, j].item() / product if product else math.nan
        found[f"{tasks[i]}/{tasks[j]}"] = round(cosine, 6) if math.isfinite(cosine) else None
    return found


def summarize(measured: Iterable[Cosines]) -> dict[str, dict[str, float]]:
    """For each pair the mean cosine, the share below 0, and the number of measurements."""
    values: dict[str, list[float]] = {}
    for found in measured:
        for pair, cosine in found.items():
            if cosine is not None:
                values.setdefault(pair, []).append(cosine)
    return {
        pair: {
            "mean": math.fsum(known) / len(known),
            "negative": sum(cosine < 0 for cosine in known) / len(known),
            "count": len(known),
        }
        for pair, known in values.items()
    }
