"""Kinds of label: the strata that every fold gets its share of."""

from collections import Counter

import numpy as np

from plait.data.kinds import KINDS
from plait.data.partition import k_folds


def test_scores_are_stratified_by_fifths():
    scores = np.arange(50) / 10
    assert KINDS["score"].strata(scores) == [str(row // 10) for row in range(50)]
    folds = k_folds([[f"text {number}" for number in range(50)]], KINDS["score"].strata(scores), 5, "seed")
    assert [Counter(row // 10 for row in part) for part in folds.parts] == [dict.fromkeys(range(5), 2)] * 5


def test_equal_scores_are_in_one_stratum():
    assert KINDS["score"].strata(np.array([0.0] * 8 + [1.0, 2.0])) == ["3"] * 8 + ["4", "4"]
    assert len(set(KINDS["score"].strata(np.full(9, 3.0)))) == 1


def test_multilabel_rows_are_stratified_by_their_rarest_class():
    labels = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]])
    assert KINDS["multilabel"].strata(labels) == ["0", "1", "2", ""]


def test_classes_are_stratified_and_triplets_are_not():
    assert KINDS["classes"].strata(np.array([2, 0, 2])) == ["2", "0", "2"]
    assert KINDS["triplets"].strata(np.zeros(2)) == ["", ""]
