"""scikit-learn's own checks of estimators; they make numbers, which are turned into sentences here."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from plait.sklearn import PlaitClassifier, PlaitEmbedder
from tiny import WORDS

# What cannot be asked of an estimator that reads texts; everything else must pass.
NOT_APPLICABLE = {
    "check_array_api_input": "texts are not an array of numbers",
    "check_complex_data": "about complex numbers",
    "check_dtype_object": "about arrays of objects that are numbers",
    "check_estimator_sparse_array": "texts are not sparse",
    "check_estimator_sparse_matrix": "texts are not sparse",
    "check_estimator_sparse_tag": "texts are not sparse",
    "check_estimators_dtypes": "about types of numbers",
    "check_estimators_nan_inf": "about missing and infinite numbers",
    "check_f_contiguous_array_estimator": "about the layout of numbers in memory",
    "check_fit1d": "texts are one column, which it wants refused",
    "check_fit2d_predict1d": "texts are one column, which it wants refused",
    "check_n_features_in": "texts have no features",
    "check_n_features_in_after_fitting": "texts have no features",
    "check_positive_only_tag_during_fit": "about negative numbers",
    "check_readonly_memmap_input": "about arrays in files",
}


class OfNumbers:
    """Reads each row of numbers as a sentence with a word for each, so that scikit-learn runs its checks."""

    def as_texts(self, X: object, *, reset: bool = False) -> list[str]:
        rows = validate_data(self, X, reset=reset)  # the shape of numbers, which many checks test beside other things
        return [
            " ".join(WORDS[(7 * place + round(2 * float(value))) % len(WORDS)] for place, value in enumerate(row))
            for row in rows
        ]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = False, True, False
        return tags


class NumberClassifier(OfNumbers, PlaitClassifier):
    def fit(self, X, y):
        return super().fit(self.as_texts(X, reset=True), y)

    def predict_proba(self, X):
        check_is_fitted(self)
        return super().predict_proba(self.as_texts(X))


class NumberEmbedder(OfNumbers, PlaitEmbedder):
    def fit(self, X, y=None):
        return super().fit(self.as_texts(X, reset=True), y)

    def transform(self, X):
        check_is_fitted(self)
        return super().transform(self.as_texts(X))


def checks() -> list:
    """The checks that apply."""
    found = []
    for estimator in (NumberClassifier(), NumberEmbedder()):
        for each, check in estimator_checks_generator(estimator):
            name = check.func.__name__ if hasattr(check, "func") else check.__name__
            if name not in NOT_APPLICABLE:
                found.append(pytest.param(each, check, name, id=f"{type(estimator).__name__}-{name}"))
    return found


@pytest.mark.parametrize(("estimator", "check", "name"), checks())
def test_scikit_learns_checks(estimator: object, check: Callable[[object], None], name: str, tiny_bert: Path) -> None:
    if isinstance(estimator, NumberClassifier):
        start = "frozen" if name == "check_classifiers_train" else "random"  # frozen is slower and learns more
        changes = ("refit=false", f"head_start={start}")
        estimator.set_params(encoder=str(tiny_bert), epochs=1, overrides=changes)
    else:
        estimator.set_params(model=str(tiny_bert))
    check(estimator)


@pytest.mark.parametrize("estimator", [PlaitClassifier(), PlaitEmbedder()])
def test_scikit_learn_knows_that_x_holds_texts(estimator: object) -> None:
    with pytest.warns(SkipTestWarning, match="requires input"):
        assert list(estimator_checks_generator(estimator)) != []
    assert estimator.__sklearn_tags__().input_tags.string
