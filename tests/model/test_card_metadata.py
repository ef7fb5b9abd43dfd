"""The front matter of model cards, read by the hub's own parser."""

from pathlib import Path

import pytest
from huggingface_hub import EvalResult, ModelCard

from plait.encoder.find import hub_name
from plait.model.card_metadata import card_metadata, published_card
from plait.model.directory.record import Provenance, open_directory


def card_of(folder: Path) -> ModelCard:
    return ModelCard.load(folder / "README.md")


def test_dev_scores_are_the_model_index(trained_run):
    record = open_directory(trained_run).record
    results = card_of(trained_run / "best").data.eval_results
    assert all(isinstance(result, EvalResult) for result in results)
    expected = {
        (name, metric): value
        for name, scores in record.provenance.scores.items()
        for metric, value in scores.items()
        if value == value
    }
    assert {(result.task_name, result.metric_name): result.metric_value for result in results} == expected
    assert {result.dataset_split for result in results} == {"dev"}
    kinds = {result.task_name: result.task_type for result in results}
    for name, spec in record.tasks.items():
        if name in kinds:
            similar = len(spec.text) == 3 or (len(spec.text) == 2 and spec.labels.kind == "score")
            assert kinds[name] == ("sentence-similarity" if similar else "text-classification")
    named = {result.metric_name: result.metric_type for result in results}
    assert named.get("pearson", "pearsonr") == "pearsonr" and named.get("accuracy", "accuracy") == "accuracy"


def test_cards_survive_the_hubs_parser(trained_run, tmp_path):
    card = card_of(trained_run / "best")
    card.save(tmp_path / "README.md")
    assert ModelCard.load(tmp_path / "README.md").data.eval_results == card.data.eval_results
    assert card.data.tags == ["plait", "multi-task"] and card.data.library_name == "sentence-transformers"
    assert card.data.model_name == "plait"


def test_published_cards_have_the_name(trained_run):
    text = (trained_run / "best/README.md").read_text(encoding="utf-8")
    published = ModelCard(published_card(text, "somebody/braid"))
    assert published.data.model_name == "braid"
    assert 'plait.load("somebody/braid")' in published.text


def test_encoders_and_data_of_the_hub_are_named(untrained):
    tasks = open_directory(untrained).record.tasks
    files = [{"name": name} for name in ("hub:somebody/set:en@train", "hub:somebody/set:de", "own.csv")]
    scores = {"mood": {"accuracy": 0.5, "macro_f1": float("nan")}}
    provenance = Provenance(
        recipe={"encoder": "minilm"}, data={"mood": {"train": files, "dev": files[:1]}}, scores=scores
    )
    data = ModelCard(card_metadata({"mood": tasks["mood"]}, provenance) + "\n").data
    assert data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert data.datasets == ["somebody/set"]
    (result,) = data.eval_results
    assert (result.metric_type, result.metric_value) == ("accuracy", 0.5)
    assert (result.dataset_type, result.dataset_name) == ("somebody/set", "hub:somebody/set:en@train")


def test_odd_names_stay_valid_yaml(untrained):
    spec = open_directory(untrained).record.tasks["mood"]
    name = 'a "b": {c} # é'
    files = {"mood": {"dev": [{"name": name}]}}
    text = card_metadata({"mood": spec}, Provenance(data=files, scores={"mood": {"accuracy": 1.0}}))
    (result,) = ModelCard(text + "\n").data.eval_results
    assert result.dataset_name == name


def test_ensembles_claim_no_encoder(untrained):
    tasks = open_directory(untrained).record.tasks
    data = ModelCard(card_metadata(tasks, Provenance(), is_encoder=False) + "\n").data
    assert data.tags == ["plait", "multi-task", "ensemble"]
    assert data.library_name is None and data.eval_results is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gte-small", "thenlper/gte-small"), ("somebody/other", "somebody/other"), ("bert", None), ("", None)],
)
def test_hub_names(name, expected):
    assert hub_name(name) == expected
