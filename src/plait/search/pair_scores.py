"""What a task says about pairs of texts.

p pairs, n texts, D width.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from plait.data.prediction_arrays import PredictionArrays
from plait.inference.predictor import Predictor
from plait.model.encode_texts import average_predictions, embed_views, predict_embedded
from plait.model.tasks import TaskSpec
from plait.progress import Progress

__all__ = ["score_pairs"]

_PAIRS = 4096  # at a time
_Ask = Callable[[np.ndarray], PredictionArrays]


def score_pairs(
    predictor: Predictor, task: TaskSpec, texts: Sequence[str], pairs_p2: np.ndarray, shown: Progress
) -> np.ndarray:
    """The probability of yes, or the score, of each pair of numbers of texts.

    If the task reads each text separately, every text is encoded once, however many pairs it is in.
    """
    is_apart = all(member.tasks[task.name].views == ("first", "second") for member in predictor.loaded.model.members)
    ask = (_apart if is_apart else _joined)(predictor, task, texts, pairs_p2, shown)
    found = [np.empty(0, np.float64)]
    shown.begin(f"predicting {task.name}", len(pairs_p2))
    for start in range(0, len(pairs_p2), _PAIRS):
        some_p2 = pairs_p2[start : start + _PAIRS]
        predicted = ask(some_p2)
        shares_p2 = predicted.probabilities
        found.append((predicted.values if shares_p2 is None else shares_p2[:, 1]).astype(np.float64))
        shown.advance(len(some_p2))
    shown.end()
    return np.concatenate(found)


def _joined(predictor: Predictor, task: TaskSpec, texts: Sequence[str], pairs_p2: np.ndarray, shown: Progress) -> _Ask:
    def ask(some_p2: np.ndarray) -> PredictionArrays:
        columns = [[texts[number] for number in side] for side in some_p2.T.tolist()]
        return predictor.predict_columns(task.name, columns).predictions

    return ask


def _apart(predictor: Predictor, task: TaskSpec, texts: Sequence[str], pairs_p2: np.ndarray, shown: Progress) -> _Ask:
    model = predictor.loaded.model
    numbers = np.unique(pairs_p2)
    given = [texts[number] for number in numbers.tolist()]
    shown.begin(f"embedding for {task.name}", len(given) * len(model.members))
    embedded = [
        embed_views(member, [given], ["first"], member.tasks[task.name].max_length, advance=shown.advance)["first"]
        for member in model.members
    ]
    shown.end()

    def ask(some_p2: np.ndarray) -> PredictionArrays:
        first, second = (torch.from_numpy(np.searchsorted(numbers, side)) for side in some_p2.T)
        return average_predictions(
            model,
            task.name,
            [
                predict_embedded(member, task.name, {"first": found_nD[first], "second": found_nD[second]})
                for member, found_nD in zip(model.members, embedded, strict=True)
            ],
        )

    return ask
