"""The callable that datasets, Ray Data and Spark give their batches to."""

import pickle
import shutil

import datasets
import numpy as np
import pandas
import pytest

from plait import BatchMapper
from plait.errors import DataError, ModelError, RequestError
from streaming import rows_of

COLUMNS = {name: [row[name] for row in rows_of(9)] for name in rows_of(1)[0]}
PREDICTED = ["prediction", "probability", "p(high)", "p(low)"]


def with_bad_row(columns) -> dict:
    return {**columns, "sentence": ["", *columns["sentence"][1:]]}


@pytest.fixture(scope="module")
def embed(predictor) -> BatchMapper:
    return BatchMapper(predictor)


def test_embeddings_of_lists_arrays_and_frames(embed, predictor):
    expected_nD = predictor.embed(COLUMNS["sentence"])
    found = embed(COLUMNS)
    assert list(found) == [*COLUMNS, "embedding"] and np.array_equal(found["embedding"], expected_nD)
    arrays = embed({name: np.array(column, dtype=object) for name, column in COLUMNS.items()})
    assert arrays["embedding"].dtype == np.float32 and np.array_equal(arrays["embedding"], expected_nD)
    frame = pandas.DataFrame(COLUMNS, index=range(5, 14))
    answered = embed(frame)
    assert np.array_equal(np.stack(answered["embedding"]), expected_nD)
    assert answered.drop(columns="embedding").equals(frame) and "embedding" not in frame


def test_predictions_are_those_of_the_model(predictor):
    map_mood = BatchMapper(predictor, "mood", prefix="new ")
    expected = predictor.predict("mood", COLUMNS["sentence"]).to_frame()
    found = map_mood(pandas.DataFrame(COLUMNS))
    assert list(found) == [*COLUMNS, *(f"new {name}" for name in PREDICTED)]
    for name in PREDICTED:
        assert found[f"new {name}"].tolist() == expected[name].tolist()
    tags = BatchMapper(predictor, "tags")({name: np.array(column) for name, column in COLUMNS.items()})
    assert tags["prediction"].tolist() == predictor.predict("tags", COLUMNS["sentence"]).labels
    near = BatchMapper(predictor, "near", text=["two", "one"])(COLUMNS)
    pairs = list(zip(COLUMNS["two"], COLUMNS["one"], strict=True))
    assert near["prediction"] == predictor.predict("near", pairs).scores.tolist()
    chosen = BatchMapper(predictor, "mood", top_k=1, abstain_below=0.99)(COLUMNS)
    assert chosen["prediction"] == [None] * 9 and set(chosen["top 1"]) <= {"high", "low"}


def test_a_bad_row_gets_nothing_and_leaves_the_others_unchanged(embed, predictor):
    expected_nD = predictor.embed(COLUMNS["sentence"])
    found = embed(with_bad_row(COLUMNS))["embedding"]
    assert found[0] is None and np.array_equal(found[1:], expected_nD[1:])
    array = embed({name: np.array(column) for name, column in with_bad_row(COLUMNS).items()})["embedding"]
    assert np.isnan(array[0]).all() and np.array_equal(array[1:], expected_nD[1:])
    predicted = BatchMapper(predictor, "mood")(with_bad_row(COLUMNS))
    assert [predicted[name][0] for name in PREDICTED] == [None] * 4 and None not in predicted["prediction"][1:]
    assert embed({"sentence": [None, float("nan")]})["embedding"] == [None, None]


@pytest.mark.parametrize("processes", [None, 2])
def test_datasets_map(predictor, processes, tmp_path):
    given = datasets.Dataset.from_dict(with_bad_row(COLUMNS))
    mapped = given.map(BatchMapper(predictor), batched=True, batch_size=4, num_proc=processes)
    assert mapped["id"][:] == COLUMNS["id"]
    assert mapped["embedding"][0] is None
    assert np.array_equal(np.float32(mapped["embedding"][1:]), predictor.embed(COLUMNS["sentence"])[1:])
    assert mapped.features["embedding"].feature.dtype == "float32"
    predicted = given.map(BatchMapper(predictor, "mood"), batched=True, batch_size=4)
    assert predicted["prediction"][1:] == predictor.predict("mood", COLUMNS["sentence"][1:]).labels


def test_datasets_cache_knows_one_model_from_another(predictor, untrained):
    from datasets.fingerprint import Hasher

    same = [Hasher.hash(BatchMapper(predictor, "mood")) for _ in range(2)]
    assert same[0] == same[1] != Hasher.hash(BatchMapper(predictor, "mood", top_k=1))
    assert Hasher.hash(BatchMapper(predictor)) != Hasher.hash(BatchMapper(untrained))


def test_a_pickled_mapper_loads_its_model_again(predictor, tmp_path):
    copied = shutil.copytree(predictor.folder, tmp_path / "model")
    given = BatchMapper(copied, "mood", text="x", prefix="p ", top_k=1, threshold=None)
    pickled = pickle.dumps(given)
    batch = {"x": COLUMNS["sentence"]}
    assert len(pickled) < 2000 and pickle.loads(pickled)(batch) == given(batch)
    other = BatchMapper(copied).predictor.identity
    assert other == given.predictor.identity
    (copied / "manifest.json").write_text("{}")
    with pytest.raises(ModelError):
        pickle.loads(pickled)


def test_wrong_batches_and_options_are_refused(embed, predictor):
    with pytest.raises(DataError, match="the batch has no column 'sentence'; name the text columns with `text`"):
        embed({"x": ["a"]})
    with pytest.raises(DataError, match="the batch already has the column 'embedding'; use a `prefix`"):
        embed({"sentence": ["a"], "embedding": [1]})
    with pytest.raises(RequestError, match="expected a mapping of columns or a pandas data frame, found list"):
        embed(["a"])
    with pytest.raises(RequestError, match="embeddings take one `text` column"):
        BatchMapper(predictor, text=["one", "two"])
    with pytest.raises(RequestError, match="embeddings take one `text` column and no `threshold`"):
        BatchMapper(predictor, top_k=1)
    with pytest.raises(RequestError, match="the model has no task 'moot'; did you mean 'mood'"):
        BatchMapper(predictor, "moot")
