"""Duplicates among the questions of Quora's dev file: plait against semhash, at equal recall.

    python benchmarks/duplicates.py

Pairs that Quora labelled are the judge. recall: the share of labelled duplicates that end up in one group; precision:
of all labelled pairs in one group, the share that is labelled as duplicates. All three read the same vectors of MiniLM;
`plait, pair head` asks a head that was solved on Quora's training pairs. Needs
benchmarks/peers/search.txt.
"""

import time

import numpy as np
import torch
from quora import labelled_pairs, pair_model, question_index, questions
from semhash import SemHash

import plait
from plait.model.encode_texts import predict_embedded
from plait.model.model import Model
from plait.search.duplicates import find_leaders
from plait.search.neighbours import near_pairs

RECALLS = (0.5, 0.6, 0.7, 0.8)
COSINES = np.round(np.arange(0.96, 0.68, -0.01), 2)
PROBABILITIES = np.round(np.arange(0.95, 0.04, -0.025), 3)
FLOORS = (0.5, 0.7)  # the cosine from which a head is asked


class Vectors:
    """The vectors of all texts, as an encoder that semhash accepts."""

    def __init__(self, texts: list[str], vectors_nD: np.ndarray) -> None:
        self.rows = {text: place for place, text in enumerate(texts)}
        self.vectors_nD = vectors_nD

    def encode(self, inputs: list[str], **options: object) -> np.ndarray:
        return self.vectors_nD[[self.rows[text] for text in inputs]]


def ask(model: Model, vectors_nD: np.ndarray, pairs_p2: np.ndarray) -> np.ndarray:
    """The probabilities of the pair head, which reads unit vectors: those of the index."""
    first, second = (torch.from_numpy(vectors_nD[side]) for side in pairs_p2.T)
    predicted = predict_embedded(model, "quora", {"first": first, "second": second})
    assert predicted.probabilities is not None
    return predicted.probabilities[:, 1]


def judge(group: np.ndarray, pairs: list[tuple[int, int, bool]]) -> tuple[float, float]:
    """recall and precision of some groups."""
    together = [same for first, second, same in pairs if group[first] == group[second]]
    wanted = sum(same for *_, same in pairs)
    return sum(together) / wanted, sum(together) / max(len(together), 1)


def main() -> None:
    texts = questions()
    number = {text: place for place, text in enumerate(texts)}
    pairs = [(number[first], number[second], same) for first, second, same in labelled_pairs()]
    index = question_index("minilm", "minilm")
    vectors_nD = np.concatenate([block.vectors_nD for block in index.blocks()])
    print(f"{len(texts):,} questions; {len(pairs):,} labelled pairs, {sum(same for *_, same in pairs):,} duplicates")
    curves: dict[str, list[tuple[float, float, float]]] = {}

    began = time.process_time()
    found_p2, cosines_p = near_pairs(vectors_nD, 20, FLOORS[0], plait.show_progress())
    itself = np.arange(len(texts))
    seconds = {"plait, cosine": time.process_time() - began}
    curves["plait, cosine"] = [
        (*judge(find_leaders(itself, found_p2[cosines_p >= limit], cosines_p[cosines_p >= limit])[0], pairs), limit)
        for limit in COSINES
    ]
    model = plait.load(pair_model())
    began = time.process_time()
    member = model.loaded.model.members[0]
    shares_p = np.concatenate(
        [ask(member, vectors_nD, found_p2[at : at + 4096]) for at in range(0, len(found_p2), 4096)]
    )
    seconds["plait, pair head"] = time.process_time() - began
    for floor in FLOORS:
        curves[f"plait, pair head from cosine {floor}"] = [
            (*judge(find_leaders(itself, found_p2[chosen], shares_p[chosen])[0], pairs), limit)
            for limit in PROBABILITIES
            for chosen in [(shares_p >= limit) & (cosines_p >= floor)]
        ]
    began = time.process_time()
    theirs = SemHash.from_records(texts, model=Vectors(texts, vectors_nD))
    result = theirs.self_deduplicate(threshold=float(COSINES[-1]))
    seconds["semhash"] = time.process_time() - began
    curves["semhash"] = []
    for limit in COSINES[::-1]:
        result.rethreshold(float(limit))
        group = itself.copy()
        for one in result.filtered:
            group[number[one.record]] = number[one.duplicate_of]
        curves["semhash"].insert(0, (*judge(group, pairs), limit))
    for name, curve in curves.items():
        cells = []
        for recall in RECALLS:
            reached = next((point for point in curve if point[0] >= recall), None)
            cells.append(f"{reached[1]:.3f} (at {reached[2]:g})" if reached else "–")
        print(f"{name:36} precision at recall {', '.join(map(str, RECALLS))}: {'  '.join(cells)}")
    print("CPU seconds after the embeddings:", {name: round(value, 1) for name, value in seconds.items()})


if __name__ == "__main__":
    main()
