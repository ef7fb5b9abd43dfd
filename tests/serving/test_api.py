"""Every route answers as the Python API does, to the last digit, and explains what it cannot answer."""

import json
import re
from dataclasses import asdict

import numpy as np
import pytest

import plait
from every_task import TASKS, make_model, save
from inline_server import error_of
from plait.model.ensemble_build import build_ensemble
from tiny import sentences

KEYS = {1: "texts", 2: "pairs", 3: "triplets"}
ONE_TEXT = [name for name, (texts, *_) in TASKS.items() if len(texts) == 1]


def examples(task: str, count: int = 5) -> list:
    """Rows of one, two or three texts, some of them longer than the limit."""
    columns = [sentences(count, seed, longest=60) for seed in range(len(TASKS[task][0]))]
    return columns[0] if len(columns) == 1 else [list(row) for row in zip(*columns, strict=True)]


def shown(prediction) -> dict:
    """A prediction as JSON has it."""
    value = asdict(prediction)
    return {**value, "label": list(value["label"]) if isinstance(value["label"], tuple) else value["label"]}


@pytest.mark.parametrize("task", TASKS)
def test_predictions_equal_those_of_python(server, predictor, task):
    rows = examples(task)
    answer = server.answer(f"/predict/{task}", {KEYS[len(TASKS[task][0])]: rows})
    expected = predictor.predict(task, rows if isinstance(rows[0], str) else [tuple(row) for row in rows])
    assert answer["predictions"] == [shown(one) for one in expected]
    assert answer["model"] == "tiny" and answer["task"] == task


@pytest.mark.parametrize("task", ["mood", "same", "far"])
def test_one_example_needs_no_list(server, task):
    key = KEYS[len(TASKS[task][0])]
    first, *_ = examples(task)
    assert server.answer(f"/predict/{task}", {key: first}) == server.answer(f"/predict/{task}", {key: [first]})


@pytest.mark.parametrize("task", TASKS)
def test_explanations_equal_those_of_python(server, predictor, task):
    texts = [f"{text} dog" for text in examples(task, 1)[0]] if len(TASKS[task][0]) > 1 else "the film was good"
    answer = server.answer(f"/explain/{task}", {"example": texts})
    expected = asdict(predictor.explain(task, tuple(texts) if isinstance(texts, list) else texts))
    assert answer["explanation"] == json.loads(json.dumps(expected)) and answer["model"] == "tiny"
    weights = [word["weight"] for words in answer["explanation"]["words"] for word in words]
    assert any(weights) and answer["usage"]["tokens"] > len(weights)


def test_another_class_is_explained_on_request(server, predictor):
    for label in predictor.task("mood").labels.names:
        found = server.answer("/explain/mood", {"example": "the film was good", "label": label})["explanation"]
        assert (
            found["label"] == label
            and found["score"] == predictor.predict("mood", ["the film was good"])[0].probabilities[label]
        )


def test_usage_counts_tokens_and_truncated_texts(server):
    usage = server.answer("/predict/mood", {"texts": ["the film", "dog " * 50]})["usage"]
    assert usage == {"tokens": 4 + 20, "truncated": 1}  # two special tokens; the task's limit


def test_no_texts_give_no_predictions(server):
    assert server.answer("/predict/mood", {"texts": []})["predictions"] == []
    assert server.answer("/similarity", {"first": [], "second": ["a"]})["similarities"] == []
    assert server.answer("/rerank", {"query": "a", "texts": []})["results"] == []


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("mood", {"top_k": 2}),
        ("mood", {"abstain_below": 0.5}),
        ("best", {"abstain_below": 0.7, "top_k": 1}),
        ("tags", {"threshold": 0.52}),
        ("tags", {"threshold": 0.9, "top_k": 1}),
        ("same", {"threshold": 0.45}),
        ("same", {"threshold": 0.55, "abstain_below": 0.52}),
        ("far", {"abstain_below": 0.6}),
    ],
)
def test_options_of_predictions_mean_the_same_as_in_python(server, predictor, task, options):
    rows = examples(task, 20)
    answer = server.answer(f"/predict/{task}", {KEYS[len(TASKS[task][0])]: rows, **options})
    given = rows if isinstance(rows[0], str) else [tuple(row) for row in rows]
    expected = predictor.predict(task, given, **options)
    assert answer["predictions"] == [shown(one) for one in expected]
    assert [list(one["probabilities"]) for one in answer["predictions"]] == [
        list(one.probabilities) for one in expected
    ]
    assert list(expected) != list(predictor.predict(task, given))


def test_analyze_asks_every_task_in_one_pass(serve, predictor):
    server = serve()
    texts = sentences(4, seed=3, longest=60)
    before = len(server.workers[0].batches)
    answer = server.answer("/analyze", {"texts": texts})
    (batch,) = server.workers[0].batches[before:]
    inputs = [count for (count,) in batch["counts"]]  # of each text; two if the tasks' two limits truncate differently
    assert inputs == [1 if len(text.split()) <= 18 else 2 for text in texts] and set(inputs) == {1, 2}
    for number, text in enumerate(texts):
        result = answer["results"][number]
        assert list(result["tasks"]) == ONE_TEXT
        for task in ONE_TEXT:
            assert result["tasks"][task] == shown(predictor.predict(task, [text])[0])
        assert np.array(result["embedding"], np.float32).tolist() == predictor.embed([text])[0].tolist()


def test_analyze_with_some_tasks_and_without_embedding(server):
    (result,) = server.answer("/analyze", {"texts": "the film", "tasks": ["tags"], "embedding": False})["results"]
    assert list(result["tasks"]) == ["tags"] and result["embedding"] is None


def test_similarity_equals_that_of_python(server, predictor):
    first, second = sentences(3, seed=1), sentences(2, seed=2)
    found = server.answer("/similarity", {"first": first, "second": second})["similarities"]
    assert np.array(found, np.float32).tolist() == predictor.similarity(first, second).tolist()
    itself = server.answer("/similarity", {"first": first})["similarities"]
    assert np.array(itself, np.float32).tolist() == predictor.similarity(first, first).tolist()


def test_rerank_orders_by_cosine(server, predictor):
    texts = sentences(6, seed=4)
    results = server.answer("/rerank", {"query": "a dog", "texts": texts, "top_k": 3, "return_texts": True})["results"]
    cosines = predictor.similarity(["a dog"], texts)[0]
    assert [one["index"] for one in results] == np.argsort(-cosines, kind="stable")[:3].tolist()
    assert [one["text"] for one in results] == [texts[one["index"]] for one in results]
    assert [np.float32(one["score"]) for one in results] == np.sort(cosines)[::-1][:3].tolist()


@pytest.mark.parametrize("task", ["same", "alike"])
def test_rerank_by_a_task(server, predictor, task):
    texts = sentences(6, seed=4)
    results = server.answer("/rerank", {"query": "a dog", "texts": texts, "task": task})["results"]
    found = predictor.predict(task, [("a dog", text) for text in texts])
    scores = [one.score if one.probabilities is None else one.probabilities["yes"] for one in found]
    assert [one["score"] for one in results] == sorted(scores, reverse=True)


def test_model_tells_its_tasks(server, predictor):
    about = server.get("/model").json()
    assert list(about["tasks"]) == list(TASKS) and about["identity"] == predictor.identity
    assert about["tasks"]["mood"]["labels"] == ["bad", "fair", "good"] and about["tasks"]["mood"]["max_length"] == 20
    assert about["tasks"]["near"]["range"] == [1, 5] and about["tasks"]["near"]["labels"] is None
    assert about["dimensions"] == 16 and str(predictor.folder) not in str(about)


def test_trained_model_tells_its_scores(serve, trained_run):
    tasks = serve(models={"run": str(trained_run)}).get("/model").json()["tasks"]
    assert 0 <= tasks["mood"]["scores"]["accuracy"] <= 1


def test_ensemble_answers_as_in_python(serve, tiny_bert, tmp_path):
    members = [save(make_model(tiny_bert, pooling=pooling), tmp_path / pooling) for pooling in ("mean", "cls")]
    build_ensemble([str(member) for member in members], tmp_path / "both")
    together = plait.load(tmp_path / "both")
    server = serve(models={"both": str(tmp_path / "both")})
    pairs, texts = examples("same"), sentences(3, seed=8)
    answer = server.answer("/predict/same", {"pairs": pairs})
    assert answer["predictions"] == [shown(one) for one in together.predict("same", [tuple(pair) for pair in pairs])]
    (result,) = server.answer("/analyze", {"texts": texts[:1]})["results"]
    assert np.array(result["embedding"], np.float32).tolist() == together.embed(texts[:1])[0].tolist()


def test_several_models_are_chosen_by_name(serve, untrained, tiny_bert):
    server = serve(models={"tiny": str(untrained), "plain": str(tiny_bert)})
    assert server.get("/model").json()["name"] == "tiny"
    assert server.get("/model", params={"model": "plain"}).json()["tasks"] == {}
    plain = server.answer("/similarity", {"first": ["a dog"], "second": ["a cat"]}, params={"model": "plain"})
    assert plain["model"] == "plain"
    status, code, message = server.error("/predict/mood", {"texts": "a"}, params={"model": "plain"})
    assert (status, code) == (404, "unknown_task") and "plain encoder, which only embeds" in message


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "message"),
    [
        (
            "/predict/mod",
            {"texts": "a"},
            404,
            "unknown_task",
            "the model 'tiny' has no task 'mod'; did you mean 'mood'?",
        ),
        ("/predict/mood?model=tin", {"texts": "a"}, 404, "unknown_model", "no model 'tin'; did you mean 'tiny'?"),
        (
            "/predict/mood",
            {"pairs": ["a", "b"]},
            422,
            "invalid_request",
            "reads texts: give just that key, found pairs",
        ),
        ("/predict/same", {}, 422, "invalid_request", "the task 'same' reads pairs: give just that key, found none"),
        ("/predict/mood", {"texts": ["a", " "]}, 422, "invalid_text", "texts: text 1 is empty"),
        ("/predict/same", {"pairs": [["a", ""]]}, 422, "invalid_text", "pairs: example 0, text 1 is empty"),
        (
            "/predict/near",
            {"pairs": ["a", "b"], "top_k": 1},
            422,
            "invalid_request",
            "top_k is for classes, not for scores",
        ),
        ("/predict/mood", {"texts": 3, "topk": 2}, 422, "invalid_request", "topk: Extra inputs are not permitted"),
        ("/predict/mood", {"texts": "a", "top_k": 0}, 422, "invalid_request", "top_k: Input should be greater than"),
        (
            "/predict/mood",
            {"texts": "a", "threshold": 0.3},
            422,
            "invalid_request",
            "multilabel tasks; use abstain_below",
        ),
        (
            "/predict/tags",
            {"texts": "a", "abstain_below": 0.3},
            422,
            "invalid_request",
            "with one label; use threshold",
        ),
        ("/explain/same", {"example": "a"}, 422, "invalid_request", "the task 'same' reads two texts, 1 given"),
        ("/explain/same", {"example": ["a", " "]}, 422, "invalid_text", "example: example 0, text 1 is empty"),
        ("/explain/near", {"example": ["a", "b"], "label": "x"}, 422, "invalid_request", "predicts a score; drop it"),
        ("/explain/mood", {"example": "a", "label": "x"}, 422, "invalid_request", "label: the task 'mood' has no 'x'"),
        ("/explain/mood", {"example": "a " * 4000}, 413, "text_too_long", "example: too many words; send a shorter"),
        ("/analyze", {"texts": "a", "tasks": ["same"]}, 422, "invalid_request", "'same' reads more than one text"),
        ("/analyze", {"texts": "a", "tasks": [], "embedding": False}, 422, "invalid_request", "nothing is asked for"),
        (
            "/rerank",
            {"query": "a", "texts": ["b"], "task": "kind"},
            422,
            "invalid_request",
            "'kind' does not score pairs",
        ),
        ("/nowhere", {}, 404, "not_found", "POST /nowhere: Not Found; /docs lists the routes"),
        ("/model", {}, 405, "method_not_allowed", "POST /model"),
    ],
)
def test_mistakes_are_explained(server, path, body, status, code, message):
    found = server.error(path, body)
    assert found[:2] == (status, code) and message in found[2]


def test_lone_surrogates_are_refused(server):
    response = server.run(
        server.http.post("/predict/mood", content=rb'{"texts": "\ud800"}', headers={"content-type": "application/json"})
    )
    assert error_of(response) == (
        422,
        "invalid_text",
        "texts: text 0 contains a lone surrogate, which is half a character",
    )


def test_invalid_json_is_refused(server):
    headers = {"content-type": "application/json"}
    status, code, message = error_of(server.run(server.http.post("/analyze", content=b'{"texts": ', headers=headers)))
    assert (status, code) == (400, "invalid_json") and "not valid JSON" in message


def test_request_id_is_that_of_the_caller_if_it_is_sound(server):
    assert server.get("/health", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert server.get("/health", headers={"x-request-id": "a b"}).headers["x-request-id"] != "a b"


def test_documentation_fetches_nothing_from_outside(server):
    page = server.get("/docs")
    assert page.status_code == 200 and not re.search(r"https?://|//cdn", page.text)
    schema = server.get("/openapi.json").json()
    assert {"/v1/embeddings", "/predict/{task}", "/analyze", "/reload"} <= schema["paths"].keys()


def test_metrics_count_what_was_done(serve):
    server = serve()
    server.answer("/predict/mood", {"texts": ["the film", "dog " * 50]})
    server.post("/predict/no", {"texts": "a"})
    lines = dict(line.rsplit(" ", 1) for line in server.get("/metrics").text.splitlines() if line[0] != "#")
    assert lines['plait_requests_total{route="/predict/{task}",status="200"}'] == "1.0"
    assert lines['plait_requests_total{route="/predict/{task}",status="404"}'] == "1.0"
    assert lines["plait_tokens_total"] == "24.0" and lines["plait_truncated_examples_total"] == "1.0"
    assert lines["plait_batch_examples_sum"] == "2.0" and lines["plait_batch_tokens_sum"] == "24.0"
    assert lines["plait_ready"] == "1.0" and lines["plait_queue_tokens"] == "0.0"


def test_failure_of_the_server_is_told_without_details(serve, monkeypatch, caplog):
    server = serve()
    monkeypatch.setattr(type(server.service), "model", lambda *_: 1 / 0)
    status, code, message = error_of(server.get("/model"))
    assert (status, code) == (500, "internal_error") and "ZeroDivisionError" not in message
    assert "ZeroDivisionError" in caplog.text


def test_page_and_its_files_need_the_token_too(serve):
    server = serve(token="a-token-of-some-length")
    headers = {"authorization": "Bearer a-token-of-some-length"}
    assert "<title>plait</title>" in server.get("/", headers=headers).text
    assert server.get("/app.js", headers=headers).headers["content-type"].startswith("text/javascript")
    assert error_of(server.get("/none.js", headers=headers))[:2] == (404, "not_found")
    assert server.get("/").status_code == server.get("/app.js").status_code == 401
