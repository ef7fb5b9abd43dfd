"""A model directory that plait 0.1 wrote loads, predicts the same, and can be saved again."""

import json
from pathlib import Path

import numpy as np
import pytest

import plait
from plait.inference.predictor import Predictor
from plait.model.directory.load import load_model
from plait.model.directory.save import save_model
from plait.model.tasks import TaskSpec

FOLDER = Path(__file__).parents[2] / "fixtures" / "plait-0.1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())  # what plait 0.1 gave
TEXTS = ["the film was good", "a dog ran and slept"]
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[1], "a cat slept")]
EXAMPLES = {
    "mood": TEXTS,
    "topics": TEXTS,
    "same": PAIRS,
    "near": PAIRS,
    "closer": [(TEXTS[0], TEXTS[1], "who")],
}


def check(model: Predictor) -> None:
    """Embeddings and scores equal those of plait 0.1; 1e-5 is the rounding error of float32 sums in another order."""
    assert set(model.tasks) == set(EXAMPLES) == EXPECTED.keys() - {"embed"}
    np.testing.assert_allclose(model.embed(TEXTS), EXPECTED["embed"], rtol=0, atol=1e-5)
    for task, examples in EXAMPLES.items():
        scores = [prediction.score for prediction in model.predict(task, examples)]
        assert scores == pytest.approx(EXPECTED[task], rel=0, abs=1e-5), task


@pytest.mark.parametrize("folder", ["model", "run/best"])
def test_a_model_of_plait_0_1_loads(folder):
    assert set(plait.load(FOLDER / folder, device="cpu").tasks) >= {"mood", "same", "near"}


def test_a_model_of_plait_0_1_embeds_and_predicts_the_same():
    check(plait.load(FOLDER / "model", device="cpu"))


def test_a_model_of_plait_0_1_can_be_saved_and_loaded_again(tmp_path):
    loaded = load_model(FOLDER / "model", device="cpu")
    save_model(loaded.model, tmp_path / "model", loaded.record.provenance)
    again = load_model(tmp_path / "model", device="cpu")
    check(Predictor(again))
    assert again.record == loaded.record
    saved = json.loads((tmp_path / "model/plait.json").read_text())
    heads = {task["name"]: task["head"] for task in saved["tasks"]}
    assert heads == {
        "mood": "linear.v1",
        "same": "difference_product.v1",
        "near": "cosine.v1",
        "topics": "linear.v1",
        "closer": "nearer.v1",
    }
    assert {task["name"]: task["labels"]["kind"] for task in saved["tasks"]}["topics"] == "multilabel"


def test_an_option_that_was_added_since_has_its_default():
    loaded = load_model(FOLDER / "model", device="cpu")
    saved = {**loaded.model.tasks["same"].to_json(), "head": "difference.v1", "head_options": {}}
    assert TaskSpec.from_json(saved).head_options == {"absolute": False}
    assert TaskSpec.from_json({**saved, "head_options": {"absolute": True}}).head_options == {"absolute": True}
