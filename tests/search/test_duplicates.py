"""Duplicates: groups around the first text, by cosine or by a head; clusters by density or k-means."""

import csv
import json

import numpy as np
import pytest

import plait
from every_task import TASKS
from plait.errors import RequestError
from plait.inference.predictor import load
from plait.progress import SilentProgress
from plait.search import neighbours
from plait.search.cluster import dense_clusters
from plait.search.duplicates import find_leaders
from plait.search.pair_scores import score_pairs
from search_corpus import TEXTS


@pytest.fixture(scope="module")
def trained(trained_run):
    return load(trained_run)


# ---------------------------------------------------------------- duplicates


def test_a_group_has_no_chains():
    """0 ~ 1 ~ 2, but not 0 ~ 2: 2 is kept. 4 is a copy of 3, and 5 is nearer to 2 than to 0."""
    first_of = np.array([0, 1, 2, 3, 3, 5])
    pairs = np.array([[0, 1], [1, 2], [0, 3], [0, 5], [2, 5]])
    leader, score = find_leaders(first_of, pairs, np.array([0.9, 0.95, 0.92, 0.91, 0.97]))
    assert leader.tolist() == [0, 0, 2, 0, 0, 2]
    assert score.tolist() == [1, 0.9, 1, 0.92, 0.92, 0.97]


def test_duplicates_by_cosine_equal_a_matrix_of_cosines(predictor):
    texts = [*TEXTS[:30], TEXTS[4], f" {TEXTS[4]} "]
    found = plait.duplicates(predictor, texts, at_least=0.99)
    cosines = predictor.similarity(texts, texts)
    for group in found.groups:
        for row, score in zip(group.rows[1:], group.scores[1:], strict=True):
            assert cosines[group.rows[0], row] >= 0.99 - 1e-6 and score == pytest.approx(
                cosines[group.rows[0], row], abs=1e-5
            )
    assert any({4, 30, 31} <= set(group.rows) or {30, 31} <= set(group.rows) for group in found.groups)
    removed = {row for group in found.groups for row in group.rows[1:]}
    kept = [row for row in range(len(texts)) if row not in removed]
    assert len(kept) == found.kept and found.by == "cosine"
    assert (np.triu(cosines[np.ix_(kept, kept)], 1) < 0.99 + 1e-6).all()


def test_a_head_decides_if_the_model_has_one(trained, tmp_path):
    texts = TEXTS[:20]
    limit = 0.3
    found = plait.duplicates(trained, texts, at_least=limit)
    assert found.by == "same" and found.candidates > 0
    for group in found.groups:
        pairs = [(group.texts[0], text) for text in group.texts[1:]]
        yes = trained.task("same").labels.names[1]
        shares = [one.probabilities[yes] for one in trained.predict("same", pairs)]
        assert shares == pytest.approx(group.scores[1:], abs=1e-6) and min(shares) >= limit
    assert plait.duplicates(trained, texts, by="cosine").by == "cosine"
    assert plait.duplicates(trained, texts, by="near", at_least=4).by == "near"


PAIR_TASKS = [name for name, (texts, *_) in TASKS.items() if len(texts) == 2]


@pytest.mark.parametrize("name", PAIR_TASKS)
def test_scores_of_pairs_are_those_of_predict(untrained, name):
    model = load(untrained)
    spec = model.task(name)
    if spec.kind not in ("yes_no", "score"):
        return
    pairs = np.array([[0, 1], [0, 2], [3, 1]])
    scores = score_pairs(model, spec, TEXTS, pairs, SilentProgress())
    expected = model.predict(spec.name, [(TEXTS[first], TEXTS[second]) for first, second in pairs.tolist()])
    wanted = [one.score if spec.kind == "score" else one.probabilities[spec.labels.names[1]] for one in expected]
    assert scores.tolist() == pytest.approx(wanted, abs=1e-6)


def test_faiss_finds_the_same_pairs(predictor, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    vectors = predictor.embed(TEXTS)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    exact = neighbours.near_pairs(vectors, 5, 0.9, SilentProgress())
    monkeypatch.setattr(neighbours, "_APPROXIMATE_FROM", 10)
    near = neighbours.near_pairs(vectors, 5, 0.9, SilentProgress())
    assert len(exact[0]) and len(near[0]) >= 0.9 * len(exact[0])
    assert {tuple(pair) for pair in near[0].tolist()} <= {
        tuple(pair) for pair in neighbours_within(vectors, 0.9 - 1e-5)
    }


def neighbours_within(vectors: np.ndarray, limit: float) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in np.argwhere(np.triu(vectors @ vectors.T, 1) >= limit).tolist()]


def test_the_command_writes_groups(plait, tiny_bert, tmp_path):
    file = tmp_path / "texts.csv"
    file.write_text("id,text\na,the dog ran\nb,why\nc,\nd,the dog ran\n")
    out, _ = plait("duplicates", file, "--model", tiny_bert, "--at-least", 0.9999, "--out", tmp_path / "groups.csv")
    assert "texts: 3, duplicates: 1, groups: 1, by cosine of at least 0.9999: " in out
    with (tmp_path / "groups.csv").open() as lines:
        rows = {row["id"]: row for row in csv.DictReader(lines)}
    assert [rows[name]["duplicate_of"] for name in "abcd"] == ["", "", "", "0"]
    assert rows["a"]["group"] == rows["d"]["group"] == "0" and rows["d"]["duplicate_score"] == "1.0"
    lines, _ = plait("duplicates", file, "--model", tiny_bert, "--at-least", 0.9999, "--json")
    result = json.loads(lines.splitlines()[-1])
    assert result["kept"] == 2 and result["groups"][0]["rows"] == [0, 3]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"by": "sane"}, r"`by`: the model has no task 'sane' that scores pairs; did you mean 'same'\?"),
        ({"by": "mood"}, "`by`: the model has no task 'mood' that scores pairs"),
        ({"by": "near"}, "`at_least`: give the score of 'near', 0 to 5, from which two texts are duplicates"),
        ({"at_least": 1.5}, "`at_least`: expected 0 to 1, found 1.5"),
        ({"by": "cosine", "at_least": -2}, "`at_least`: expected -1 to 1, found -2"),
    ],
)
def test_wrong_requests(trained, options, problem):
    with pytest.raises(RequestError, match=problem):
        plait.duplicates(trained, ["a", "b"], **options)


def test_wrong_files(plait, tiny_bert, tmp_path):
    file = tmp_path / "texts.csv"
    file.write_text("text\nthe dog\n")
    for command in ("duplicates", "cluster"):
        _, errors = plait(command, tmp_path / "none.csv", "--model", tiny_bert, code=2)
        assert errors == f"plait: {tmp_path}/none.csv: no such file\n"
        _, errors = plait(command, file, "--model", tiny_bert, "--out", tmp_path / "out.txt", code=2)
        assert errors == f"plait: --out {tmp_path}/out.txt: unknown file format; use .csv, .jsonl or .parquet\n"
        _, errors = plait(command, file, "--model", tiny_bert, "--out", file, code=2)
        assert errors == f"plait: --out {file}: is the input itself; choose another name\n"
        _, errors = plait(command, file, "--model", tiny_bert, "--text", "txt", code=2)
        assert errors.splitlines()[-1] == f"plait: {file}:1: no column 'txt'; did you mean 'text'? (use --text text)"


# ---------------------------------------------------------------- clusters


def test_dense_clusters_by_hand():
    """Three near (1, 0), two near (0, 1), one alone."""
    angles = np.radians([0, 5, 10, 90, 95, 200])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    labels = dense_clusters(vectors, np.cos(np.radians(6)), 2, SilentProgress())
    assert labels.tolist() == [0, 0, 0, 1, 1, -1]
    assert dense_clusters(vectors, np.cos(np.radians(6)), 3, SilentProgress()).tolist() == [0, 0, 0, -1, -1, -1]


def test_clusters_are_named_by_their_most_typical_text(predictor):
    found = plait.cluster(predictor, TEXTS, clusters=4)
    assert sum(len(one.rows) for one in found.clusters) == len(TEXTS) and found.unclustered == 0
    sizes = [len(one.rows) for one in found.clusters]
    assert len(sizes) == 4 and sizes == sorted(sizes, reverse=True)
    vectors = predictor.embed(TEXTS)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for one in found.clusters:
        members = list(one.rows)
        typical = members[int(np.argmax(vectors[members] @ vectors[members].mean(axis=0)))]
        assert one.name == one.texts[0] == TEXTS[typical]
    assert plait.cluster(predictor, TEXTS, clusters=4) == found  # seeded


def test_the_cluster_command(plait, tiny_bert, tmp_path):
    file = tmp_path / "texts.jsonl"
    rows = [{"text": text, "place": place} for place, text in enumerate(TEXTS[:40])]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ("cluster", file, "--model", tiny_bert, "--at-least", 0.9, "--smallest", 3)
    out, _ = plait(*arguments, "--out", tmp_path / "clusters.jsonl")
    assert "texts: 40, clusters: " in out and "clusters.jsonl" in out
    written = [json.loads(line) for line in (tmp_path / "clusters.jsonl").read_text().splitlines()]
    result = json.loads(plait(*arguments, "--json")[0].splitlines()[-1])
    assert [row["place"] for row in written] == list(range(40)) and result["clusters"]
    for number, one in enumerate(result["clusters"]):
        assert [row["place"] for row in written if row["cluster"] == number] == sorted(one["rows"])
        assert {row["cluster_name"] for row in written if row["cluster"] == number} == {one["name"]}
    assert sum(row["cluster"] is None for row in written) == result["unclustered"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"clusters": 1}, "`clusters`: expected at least 2, found 1"),
        ({"clusters": 9}, "`clusters`: 9, but there are 2 texts"),
        ({"at_least": 0}, "`at_least`: expected a cosine above 0 and up to 1, found 0"),
        ({"smallest": 0}, "`smallest`: expected at least 1, found 0"),
    ],
)
def test_wrong_requests_for_clusters(predictor, options, problem):
    with pytest.raises(RequestError, match=problem):
        plait.cluster(predictor, ["a", "b"], **options)
