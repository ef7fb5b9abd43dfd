"""A calibrated model on a server: its own abstention is the default of requests."""

from plait.serving.predictions import Wishes

ABOUT = {"kind": "classes", "labels": ["no", "yes"], "threshold": None, "abstain_below": 0.7}
ANSWER = {"label": "yes", "score": 0.6, "probabilities": {"no": 0.4, "yes": 0.6}}


def test_an_uncertain_label_is_withheld_by_default():
    assert Wishes().apply(ANSWER, ABOUT)["label"] is None
    assert Wishes(top_k=1).apply(ANSWER, ABOUT) == {"label": None, "score": 0.6, "probabilities": {"yes": 0.6}}
    sure = {**ANSWER, "score": 0.8}
    assert Wishes().apply(sure, ABOUT)["label"] == "yes"


def test_a_request_may_ask_for_every_label():
    assert Wishes(abstain_below=0).apply(ANSWER, ABOUT)["label"] == "yes"
    assert Wishes(abstain_below=0.5).apply(ANSWER, ABOUT)["label"] == "yes"
    assert Wishes().apply(ANSWER, {**ABOUT, "abstain_below": None}) is ANSWER
