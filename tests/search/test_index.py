"""An index finds what a matrix of cosines finds, changes by id, and refuses another model and damaged files."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas
import pytest

import plait
from plait.errors import DataError, RequestError, SearchIndexError
from plait.inference import stream
from plait.search import index as index_module
from plait.search.record import IndexRecord
from search_corpus import TEXTS, write_corpus

faiss = pytest.importorskip("faiss", reason="faiss is not installed")


def by_cosines(predictor, texts: dict[str, str], query: str, count: int) -> list[str]:
    """The ids of the nearest texts by a plain product."""
    cosines = predictor.similarity([query], list(texts.values()))[0]
    return [list(texts)[place] for place in np.argsort(-cosines, kind="stable")[:count]]


@pytest.fixture
def index(predictor, corpus, tmp_path) -> plait.Index:
    return plait.index(predictor, corpus, tmp_path / "index", text="text", id="name")


def named(count: int = 80) -> dict[str, str]:
    return {f"n{number}": TEXTS[number] for number in range(count)}


@pytest.mark.parametrize("kind", ["exact", "faiss"])
def test_search_finds_the_nearest_texts(predictor, corpus, tmp_path, kind):
    index = plait.index(predictor, corpus, tmp_path / "index", text="text", id="name", kind=kind)
    for query in ("the film was good", TEXTS[7]):
        hits = index.search(query, top_k=5)
        assert [hit.id for hit in hits] == by_cosines(predictor, named(), query, 5)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert (hits[0].id, hits[0].text, hits[0].row["topic"]) == ("n7", TEXTS[7], "1")
    assert hits[0].score == pytest.approx(1, abs=1e-6)
    assert bool(index.record.segments[0].ann) == (kind == "faiss")
    assert index.check().recall == 1.0


def test_search_in_blocks_equals_one_product(monkeypatch):
    from plait.search import nearest

    monkeypatch.setattr(nearest, "_BLOCK_BYTES", 4 * 8 * 7)  # seven rows
    monkeypatch.setattr(nearest, "_QUERIES", 3)
    generator = np.random.default_rng(1)
    vectors, queries = generator.normal(size=(50, 8)).astype(np.float32), generator.normal(size=(10, 8))
    skip = np.array([0, 13, 14, 49])
    scores, rows = nearest.nearest_rows(vectors, queries.astype(np.float32), 6, skip)
    expected = queries @ vectors.T
    expected[:, skip] = -np.inf
    assert (rows == np.argsort(-expected, axis=1)[:, :6]).all()
    assert np.allclose(scores, np.sort(-expected, axis=1)[:, :6] * -1, atol=1e-5)
    few, numbers = nearest.nearest_rows(vectors[:2], queries[:1].astype(np.float32), 4, np.array([1]))
    assert numbers.tolist() == [[0, -1, -1, -1]] and np.isneginf(few[0, 1:]).all()


def test_rows_without_ids_are_numbered_across_additions(predictor, corpus, tmp_path):
    index = plait.index(predictor, corpus, tmp_path / "index", text="text")
    assert index.search(TEXTS[4], top_k=1)[0].id == "4"
    assert index.add(pandas.DataFrame({"text": ["a cat slept"]})) == 1
    assert index.search("a cat slept", top_k=1)[0].id == str(len(TEXTS)) and len(index) == len(TEXTS) + 1


@pytest.mark.parametrize("kind", ["exact", "faiss"])
def test_rows_are_added_replaced_and_deleted_by_id(predictor, tmp_path, kind):
    first = write_corpus(tmp_path / "first.csv", range(40))
    index = plait.index(predictor, first, tmp_path / "index", text="text", id="name", kind=kind)
    changed = {**named(), "n3": "the storm felt cold", "n5": "who ran"}
    second = tmp_path / "second.jsonl"
    numbers = [3, 5, *range(40, 60)]
    second.write_text("".join(json.dumps({"name": f"n{n}", "text": changed[f"n{n}"]}) + "\n" for n in numbers))
    assert index.add(second) == 22 and len(index) == 60
    assert index.delete(["n0", "n41", "unknown"]) == 2 and len(index) == 58
    left = {name: changed[name] for name in named(60) if name not in ("n0", "n41")}
    for opened in (index, plait.Index(index.folder, model=predictor)):
        for query in ("the storm felt cold", TEXTS[3], TEXTS[0], TEXTS[41]):
            assert [hit.id for hit in opened.search(query, top_k=58)] == by_cosines(predictor, left, query, 58)
        assert len(opened.search("dog", top_k=100)) == 58
    assert {name: text for block in index.blocks(7) for name, text in zip(block.ids, block.texts, strict=True)} == left
    assert index.check().recall == 1.0


def test_many_changes_are_merged_and_nothing_is_left_behind(predictor, tmp_path):
    index = plait.index(
        predictor, write_corpus(tmp_path / "all.csv", range(60)), tmp_path / "index", text="text", id="name"
    )
    for number in range(60, 72):
        index.add([{"name": f"n{number}", "text": TEXTS[number]}])
    assert len(index.record.segments) <= 8 and len(index) == 72
    assert [hit.id for hit in index.search(TEXTS[65], top_k=72)] == by_cosines(predictor, named(72), TEXTS[65], 72)
    index.delete([f"n{number}" for number in range(50)])
    (segment,) = index.record.segments
    assert (segment.rows, segment.deleted) == (22, 0)
    assert {path.name for path in index.folder.iterdir()} == {"index.json", ".lock", segment.name}
    assert {path.name for path in (index.folder / segment.name).iterdir()} == set(segment.files)
    index.delete([f"n{number}" for number in range(80)])
    assert len(index) == 0 and index.search("dog") == [] and index.check().recall == 1.0
    index.add([{"name": "again", "text": "the dog ran"}])
    assert index.search("the dog ran")[0].id == "again"


def test_a_repeated_id_keeps_its_last_row(predictor, tmp_path):
    notes = []

    class Notes(plait.SilentProgress):
        def note(self, message):
            notes.append(message)

    rows = [{"name": "a", "text": "the dog"}, {"name": "b", "text": "the cat"}, {"name": "a", "text": "the river"}]
    index = plait.index(predictor, rows, tmp_path / "index", text="text", id="name", progress=Notes())
    assert len(index) == 2 and index.search("the river", top_k=1)[0].id == "a"
    assert notes == ["rows that repeat an id, of which only the last was indexed: 1"]


def test_bad_rows_are_left_out_and_listed(predictor, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("name,text\na,the dog\nb,\n,the cat\nc,the river,more\nd,why not\n")
    index = plait.index(predictor, file, tmp_path / "index", text="text", id="name")
    assert {hit.id for hit in index.search("dog")} == {"a", "d"} and len(index) == 2
    listed = [json.loads(line) for line in (index.folder / "bad-rows.jsonl").read_text().splitlines()]
    assert sorted(row["where"] for row in listed) == ["bad.csv:3", "bad.csv:4", "bad.csv:5"]


def test_vectors_are_unit_vectors_of_the_model(index, predictor):
    (block,) = index.blocks()
    expected = predictor.embed(block.texts)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(block.vectors_nD, expected, atol=1e-6) and block.vectors_nD.dtype == np.float32


def test_another_model_is_refused(index, tiny_roberta, untrained):
    for model in (tiny_roberta, untrained):
        with pytest.raises(SearchIndexError, match=r"another model than .*, and their vectors cannot be"):
            plait.Index(index.folder, model=model).search("the dog")
    with pytest.raises(RequestError, match="expected queries × 16, found 1 × 3"):
        index.nearest(np.ones((1, 3)))
    with pytest.raises(RequestError, match="`top_k`: expected 1 to 10,000, found 0"):
        index.search("dog", top_k=0)


def test_damage_is_found(index):
    segment = index.folder / index.record.segments[0].name
    vectors = segment / "vectors.npy"
    data = vectors.read_bytes()
    vectors.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(SearchIndexError, match=r"vectors.npy: was modified; build the index again"):
        plait.Index(index.folder).check()
    vectors.write_bytes(data[:-4])
    with pytest.raises(SearchIndexError, match=r"vectors.npy: has another size"):
        plait.Index(index.folder)
    vectors.unlink()
    with pytest.raises(SearchIndexError, match=r"vectors.npy: is missing"):
        plait.Index(index.folder)
    for text, problem in (("{", "cannot be read"), ("[]", "is damaged"), ('{"format": 9}', "by a newer plait")):
        (index.folder / "index.json").write_text(text)
        with pytest.raises(SearchIndexError, match=problem):
            plait.Index(index.folder)
    with pytest.raises(SearchIndexError, match="not an index"):
        plait.Index(segment)


@pytest.mark.parametrize(("key", "name"), [("name", "../000001"), ("name", "/etc"), ("deleted_file", "../x.npy")])
def test_a_record_cannot_lead_out_of_its_folder(index, key, name):
    record = json.loads((index.folder / "index.json").read_text())
    record["segments"][0][key] = name
    (index.folder / "index.json").write_text(json.dumps(record))
    with pytest.raises(SearchIndexError, match="is damaged"):
        plait.Index(index.folder)


def test_changes_leave_other_folders_alone(index):
    (index.folder / "notes").mkdir()
    (index.folder / "000099").mkdir()
    index.delete(["n1"])
    assert (index.folder / "notes").is_dir() and not (index.folder / "000099").exists()


def test_wrong_requests(predictor, corpus, tmp_path, index):
    with pytest.raises(RequestError, match="is an index already; add to it, or choose another `out`"):
        plait.index(predictor, corpus, index.folder, text="text")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep")
    with pytest.raises(RequestError, match="holds other files; choose another `out`"):
        plait.index(predictor, corpus, tmp_path / "mine", text="text")
    with pytest.raises(DataError, match=r"no column 'txt'; did you mean 'text'\? \(use --text text\)"):
        plait.index(predictor, corpus, tmp_path / "new", text="txt")
    assert not (tmp_path / "new").exists()
    with pytest.raises(RequestError, match="there is nothing to resume; drop --resume"):
        plait.index(predictor, corpus, tmp_path / "new", text="text", resume=True)
    with pytest.raises(RequestError, match="`kind`: expected auto, exact, faiss, found 'hnsw'"):
        plait.index(predictor, corpus, tmp_path / "new", kind="hnsw")
    (tmp_path / "empty.csv").write_text("text,name\n")
    with pytest.raises(DataError, match=r"empty.csv: has no rows; there is nothing to index"):
        plait.index(predictor, tmp_path / "empty.csv", tmp_path / "new", text="text")
    assert not (tmp_path / "new").exists()
    with pytest.raises(RequestError, match="`ids`: expected a list of ids"):
        index.delete("n1")
    with pytest.raises(RequestError, match=r"nothing.csv: no such file"):
        index.add(tmp_path / "nothing.csv")


@pytest.mark.parametrize("is_addition", [False, True])
def test_an_interrupted_build_resumes(predictor, corpus, tmp_path, monkeypatch, is_addition):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 16)
    folder = tmp_path / "index"
    if is_addition:
        plait.index(predictor, [{"text": "the first row"}], folder, text="text")
    calls = []

    class Stops(plait.SilentProgress):
        def advance(self, count=1, **facts):
            calls.append(count)
            if len(calls) == 3:
                raise KeyboardInterrupt

    def run(**options):
        if is_addition:
            plait.Index(folder, model=predictor).add(corpus, **options)
        else:
            plait.index(predictor, corpus, folder, text="text", **options)

    with pytest.raises(KeyboardInterrupt):
        run(progress=Stops())
    if not is_addition:
        with pytest.raises(SearchIndexError, match="not an index"):
            plait.Index(folder)
    begun = []

    class Begins(plait.SilentProgress):
        def begin(self, what, total, done=0):
            begun.append((what, done))

    run(progress=Begins(), resume=True)
    assert begun[0] == ("embedding", 48)
    index = plait.Index(folder, model=predictor)
    assert len(index) == len(TEXTS) + is_addition
    assert index.search(TEXTS[70], top_k=1)[0].text == TEXTS[70]


def test_a_killed_build_leaves_no_index_and_can_start_again(predictor, corpus, tmp_path):
    """Killed after the vectors, before the record; then with --resume and without."""
    code = (
        "import os, plait, plait.search.build as build\n"
        "build.write_segment = lambda *arguments: os.kill(os.getpid(), 9)\n"
        f"plait.index({str(predictor.folder)!r}, {str(corpus)!r}, {str(tmp_path / 'index')!r}, text='text')"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == -9
    with pytest.raises(RequestError, match="its text changed since it was begun; start again without --resume"):
        plait.index(predictor, corpus, tmp_path / "index", text="topic", resume=True)
    index = plait.index(predictor, corpus, tmp_path / "index", text="text", resume=True)
    assert len(index) == len(TEXTS)


def test_two_writers_exclude_each_other(index):
    with index_module.changing(index.folder), pytest.raises(RequestError, match="another process is changing"):
        index.delete(["n1"])


def test_a_reader_of_a_replaced_record_opens_the_new_one(index, monkeypatch):
    old = IndexRecord.load(index.folder)
    index.delete([f"n{number}" for number in range(60)])
    records = iter([old])
    load = IndexRecord.load
    monkeypatch.setattr(IndexRecord, "load", staticmethod(lambda folder: next(records, None) or load(folder)))
    assert len(plait.Index(index.folder)) == len(TEXTS) - 60


def test_a_reader_is_not_disturbed_by_a_merge(index, predictor):
    reader = plait.Index(index.folder, model=predictor)
    index.delete([f"n{number}" for number in range(60)])
    assert not (index.folder / reader.record.segments[0].name).exists()
    assert reader.search(TEXTS[3], top_k=1)[0].id == "n3" and sum(len(block.ids) for block in reader.blocks(9)) == 80
    reader.reopen()
    assert len(reader) == 20 and reader.search(TEXTS[3], top_k=1)[0].id != "n3"


def test_opening_and_searching_by_vectors_needs_no_torch(index):
    code = (
        "import sys, numpy; from plait.search.index import Index\n"
        f"print(Index({str(index.folder)!r}).nearest(numpy.ones((1, 16)))[0][0].id, 'torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found[0].startswith("n") and found[1] == "False"
