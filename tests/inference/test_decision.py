"""Another threshold, abstention and the most probable classes, in Python and in files."""

import json
from dataclasses import replace

import numpy as np
import pytest

from counting_job import Notes, run
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RequestError
from plait.inference import stream
from plait.inference.decision import Decision
from plait.inference.jobs import predict_job
from plait.inference.prediction import Prediction
from plait.inference.predictions import Predictions
from streaming import read_rows, rows_of, write_rows
from tiny import sentences

SHARES = np.array([[0.9, 0.2, 0.6], [0.1, 0.3, 0.2]])
FOUR = np.array([[0.1, 0.4, 0.2, 0.3], [0.7, 0.1, 0.1, 0.1]])


def four_classes(predictor, decision: Decision) -> Predictions:
    names = ("a", "b", "c", "d")
    spec = replace(predictor.tasks["mood"], labels=Labels("classes", names, names))
    return Predictions(spec, PredictionArrays(FOUR.argmax(axis=1), FOUR), decision=decision)


# In Python


def test_a_threshold_by_hand(predictor):
    arrays = PredictionArrays((SHARES >= 0.5).astype(int), SHARES)
    found = Predictions(predictor.tasks["tags"], arrays, decision=Decision(threshold=0.25))
    assert found.labels == [("x", "z"), ("y",)]
    assert found.scores == pytest.approx([0.6, 0.3])
    yes = PredictionArrays(np.array([0, 0, 1]), np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]]))
    found = Predictions(predictor.tasks["same"], yes, decision=Decision(threshold=0.3))
    assert found.labels == ["no", "yes", "yes"] and found.scores.tolist() == [0.9, 0.3, 0.8]


@pytest.mark.parametrize("task", ["same", "tags"])
def test_the_own_threshold_changes_nothing_and_the_ends_decide_all(predictor, task):
    texts = sentences(20) if task == "tags" else list(zip(sentences(20), sentences(20, 1), strict=True))
    assert predictor.predict(task, texts, threshold=0.5) == predictor.predict(task, texts)
    classes = predictor.tasks[task].labels.names
    assert set(predictor.predict(task, texts, threshold=0).labels) == {"yes" if task == "same" else tuple(classes)}
    assert set(predictor.predict(task, texts, threshold=1).labels) == {"no" if task == "same" else ()}


def test_abstention_by_hand(predictor):
    found = four_classes(predictor, Decision(abstain_below=0.5))
    assert found.labels == [None, "a"] and found.abstained.tolist() == [True, False]
    assert found.scores.tolist() == [0.4, 0.7]  # of the label that was withheld
    assert found[0] == Prediction(None, 0.4, {"a": 0.1, "b": 0.4, "c": 0.2, "d": 0.3}) and found[0].abstained
    assert found.to_frame()["prediction"].isna().tolist() == [True, False]
    assert "<td>abstained</td>" in found._repr_html_()
    assert found[:1].labels == [None]
    assert four_classes(predictor, Decision(abstain_below=0.4)).labels == ["b", "a"]  # not below


def test_without_abstention_nothing_is_withheld(predictor):
    for task in ("mood", "near"):
        texts = sentences(3) if task == "mood" else list(zip(sentences(3), sentences(3), strict=True))
        found = predictor.predict(task, texts)
        assert not found.abstained.any() and not any(prediction.abstained for prediction in found)


def test_the_most_probable_classes_by_hand(predictor):
    found = four_classes(predictor, Decision(top_k=2, abstain_below=0.5))
    assert [list(prediction.probabilities.items()) for prediction in found] == [
        [("b", 0.4), ("d", 0.3)],
        [("a", 0.7), ("b", 0.1)],  # of equal ones the first
    ]
    assert found.probabilities.shape == (2, 4) and found.classes == ("a", "b", "c", "d")
    frame = found.to_frame()
    assert frame.columns.tolist() == ["prediction", "probability", "top 1", "p(top 1)", "top 2", "p(top 2)"]
    assert frame.values[:, 1:].tolist() == [[0.4, "b", 0.4, "d", 0.3], [0.7, "a", 0.7, "b", 0.1]]
    assert frame["prediction"].isna().tolist() == [True, False]
    assert len(four_classes(predictor, Decision(top_k=9)).to_frame().columns) == 2 + 2 * 4
    assert len(predictor.predict("tags", sentences(3), top_k=1)[0].probabilities) == 1


@pytest.mark.parametrize(
    ("task", "options", "mistakes"),
    [
        (
            "mood",
            {"threshold": 0.3},
            [
                "`threshold` is for yes/no and multilabel tasks; "
                "the task 'mood' predicts one of several classes; use `abstain_below`"
            ],
        ),
        (
            "tags",
            {"abstain_below": 0.3},
            [
                "`abstain_below` is for tasks with one label; "
                "the task 'tags' predicts any number of several labels; use `threshold`"
            ],
        ),
        (
            "near",
            {"threshold": 0.3, "abstain_below": 0.3, "top_k": 2},
            [
                "`threshold` is for yes/no and multilabel tasks; the task 'near' predicts a score",
                "`abstain_below` is for labels; the task 'near' predicts a score",
                "`top_k` is for classes; the task 'near' predicts a score",
            ],
        ),
        (
            "same",
            {"threshold": 1.5, "abstain_below": float("nan"), "top_k": 0},
            [
                "`threshold`: expected a probability from 0 to 1, found 1.5",
                "`abstain_below`: expected a probability from 0 to 1, found nan",
                "`top_k`: expected a whole number from 1, found 0",
            ],
        ),
    ],
)
def test_what_a_task_cannot_do_is_refused_all_at_once(predictor, task, options, mistakes):
    with pytest.raises(RequestError) as refused:
        predictor.predict(task, [], **options)
    assert list(refused.value.mistakes) == mistakes


# In files


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_abstentions_in_files_are_empty_and_counted(predictor, kind, tmp_path):
    rows = rows_of(30)
    expected = predictor.predict("mood", [row["sentence"] for row in rows])
    limit = float(np.median(expected.scores))
    decision = Decision(abstain_below=limit, top_k=1)
    job = predict_job(predictor, predictor.task("mood"), ["sentence"], decision)
    bad = [*rows, {**rows[0], "sentence": ""}]
    run(job, write_rows(tmp_path / "in.csv", bad), tmp_path / f"out.{kind}", progress=(notes := Notes()))
    withheld = int((expected.scores < limit).sum())
    assert 0 < withheld < 30
    assert notes.messages == [f"{withheld} of 30 rows have no prediction: its probability would be below {limit:g}"]
    found = read_rows(tmp_path / f"out.{kind}")[:30]
    labels = [None if score < limit else label for label, score in zip(expected.labels, expected.scores, strict=True)]
    assert [row["prediction"] or None for row in found] == labels
    assert [float(row["probability"]) for row in found] == expected.scores.tolist()
    assert [row["top 1"] for row in found] == expected.labels and "p(high)" not in found[0]


def test_a_resumed_output_counts_all_abstentions_and_keeps_its_options(predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 2)
    source, output = write_rows(tmp_path / "in.csv", rows_of(6)), tmp_path / "out.csv"
    job = predict_job(predictor, predictor.task("mood"), ["sentence"], Decision(abstain_below=1))
    done = []

    def work(texts):
        done.append(texts)
        if len(done) == 2:
            raise KeyboardInterrupt
        return job.work(texts)

    with pytest.raises(KeyboardInterrupt):
        run(replace(job, work=work), source, output)
    for changed, option in (
        (replace(job, decision=Decision(abstain_below=0.9)), "--abstain-below"),
        (replace(job, prefix="my "), "--prefix"),
        (replace(job, encoding="latin-1"), "--encoding"),
    ):
        with pytest.raises(RequestError, match=f"the option {option} changed since it was begun"):
            run(changed, source, output, resume=True)
    run(job, source, output, progress=(notes := Notes()), resume=True)
    assert notes.messages == [
        "resuming after row 2",
        "6 of 6 rows have no prediction: its probability would be below 1",
    ]


# Encodings


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.jsonl", "in.json"])
def test_files_in_another_encoding_are_read(predictor, name, tmp_path):
    rows = [{"sentence": "a café", "note": "Zoë"}, {"sentence": "a dog", "note": "x"}]
    text = write_rows(tmp_path / name, rows).read_text("utf-8")
    if name == "in.json":
        text = json.dumps(rows, ensure_ascii=False)
    (tmp_path / name).write_text(text, "latin-1")
    job = predict_job(predictor, predictor.task("mood"), ["sentence"])
    done = run(replace(job, encoding="latin-1"), tmp_path / name, tmp_path / "out.csv")
    assert done.bad == 0 and [row["note"] for row in read_rows(tmp_path / "out.csv")] == ["Zoë", "x"]


def test_rows_that_are_not_utf8_are_counted_with_the_way_out(predictor, tmp_path):
    (tmp_path / "in.csv").write_bytes("sentence,note\na café,x\na dog,y\nun été,z\n".encode("latin-1"))
    job = predict_job(predictor, predictor.task("mood"), ["sentence"])
    assert run(job, tmp_path / "in.csv", tmp_path / "out.csv", progress=(notes := Notes())).bad == 2
    assert notes.messages == ["2 rows are not UTF-8; if the input is latin-1, use --encoding latin-1"]
