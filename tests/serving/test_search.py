"""/search answers as `Index.search` does, by the model that the index was built with."""

from dataclasses import asdict

import pytest

import plait
from inline_server import InlineServer
from plait.errors import RequestError, SearchIndexError
from plait.serving.indexes import open_indexes
from real_server import running
from tiny import sentences

TEXTS = list(dict.fromkeys(sentences(60, seed=8, longest=12)))


@pytest.fixture(scope="module")
def folder(predictor, tmp_path_factory):
    rows = [{"name": f"n{number}", "text": text, "stars": number % 5} for number, text in enumerate(TEXTS)]
    return plait.index(predictor, rows, tmp_path_factory.mktemp("index") / "notes", text="text", id="name").folder


@pytest.fixture(scope="module")
def searched(untrained, tiny_bert, folder):
    server = InlineServer(models={"plain": str(tiny_bert), "tiny": str(untrained)}, indexes={"notes": str(folder)})
    yield server
    server.close()


def test_hits_equal_those_of_python(searched, predictor, folder):
    queries = ["the film was good", TEXTS[3]]
    answer = searched.answer("/search", {"queries": queries, "top_k": 4})
    expected = plait.Index(folder, model=predictor).search_many(queries, top_k=4)
    assert answer["results"] == [[asdict(hit) for hit in hits] for hits in expected]
    assert (answer["model"], answer["index"]) == ("tiny", "notes") and answer["usage"]["tokens"] > 0
    assert answer["results"][1][0]["row"] == {"name": "n3", "text": TEXTS[3], "stars": 3}
    one = searched.answer("/search", {"queries": queries[1], "index": "notes"}, params={"model": "tiny"})["results"]
    assert len(one) == 1 and len(one[0]) == 10
    assert searched.answer("/search", {"queries": []})["results"] == []


def test_a_model_lists_its_indexes(searched):
    assert searched.get("/model", params={"model": "tiny"}).json()["indexes"] == {"notes": len(TEXTS)}
    assert searched.get("/model").json()["indexes"] == {}


@pytest.mark.parametrize(
    ("body", "model", "expected"),
    [
        ({"queries": "a", "index": "notess"}, None, (404, "unknown_index", "did you mean 'notes'?")),
        ({"queries": "a"}, "plain", (404, "unknown_index", "the model 'plain' has no index")),
        ({"queries": "a"}, "none", (404, "unknown_model", "there is no model 'none'")),
        (
            {"queries": ["a"] * 11, "top_k": 1000},
            None,
            (413, "too_many_hits", "11 queries × top_k 1,000, at most 10,000"),
        ),
        ({"queries": "a", "top_k": 0}, None, (422, "invalid_request", "top_k")),
        ({"queries": ["a", " "]}, None, (422, "invalid_text", "queries: text 1 is empty")),
        ({"query": "a"}, None, (422, "invalid_request", "queries: Field required; query: Extra inputs")),
    ],
)
def test_errors_say_what_is_wrong(searched, body, model, expected):
    status, code, message = searched.error("/search", body, params={"model": model} if model else {})
    assert (status, code) == expected[:2] and expected[2] in message


def test_a_server_without_an_index_says_so(server):
    assert server.error("/search", {"queries": "a"})[:2] == (404, "unknown_index")


def test_an_index_of_another_model_is_refused(searched, folder):
    others = {"plain": searched.service.pool.models["plain"]}
    with pytest.raises(SearchIndexError, match="which is not served or has changed; serve that model too"):
        searched.run(open_indexes({"notes": str(folder)}, others))


def test_reload_opens_the_changed_index(serve, untrained, predictor, tmp_path):
    index = plait.index(predictor, [{"text": "the dog"}], tmp_path / "index", text="text")
    server = serve(indexes={"index": str(index.folder)})
    index.add([{"text": "the river"}])
    assert len(server.answer("/search", {"queries": "river"})["results"][0]) == 1
    server.answer("/reload", {})
    (hits,) = server.answer("/search", {"queries": "the river"})["results"]
    assert [hit["id"] for hit in hits] == ["1", "0"]


def test_clients_search_a_real_server(untrained, predictor, folder):
    expected = plait.Index(folder, model=predictor).search_many(["a dog", "why"], top_k=3)
    with (
        running(f"tiny={untrained}", "--index", f"notes={folder}", "--workers", "1") as server,
        plait.Client(server.address) as client,
    ):
        assert client.search_many(["a dog", "why"], top_k=3) == expected
        assert client.search("a dog", top_k=3, index="notes") == expected[0]
        with pytest.raises(RequestError, match="there is no index 'other'"):
            client.search("a dog", index="other")
