"""The routes of plait's own API.

n and m texts, D width.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Query, Request, Response

from plait.errors import RequestError
from plait.inference.cosines import unit_vectors
from plait.inference.explanation import explain_answers, find_words, variants
from plait.serving.errors import ApiError
from plait.serving.examples import EMBEDDING
from plait.serving.predictions import Wishes, relevance
from plait.serving.schemas import (
    AnalyzeRequest,
    AnalyzeResponse,
    ErrorResponse,
    ExplainRequest,
    ExplainResponse,
    ModelResponse,
    PredictRequest,
    PredictResponse,
    ReloadResponse,
    RerankRequest,
    RerankResponse,
    SimilarityRequest,
    SimilarityResponse,
    StatusResponse,
)
from plait.serving.service import Disconnected, Service

__all__ = ["ERRORS", "ModelName", "as_list", "json_response", "leaving", "router", "service_of"]

_MOST_EXPLAINED = 5_000_000  # characters of an example, counted once for each of its words
_FIELDS = {1: "texts", 2: "pairs", 3: "triplets"}  # texts in an example → the key that holds them
ModelName = Annotated[str | None, Query(description="The model to use; the first one if there are several.")]
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": about}
    for status, about in {
        400: "The request is not valid HTTP or JSON.",
        401: "The token is missing or wrong.",
        403: "A server without a token answers only to local names.",
        404: "There is no such model, task, index or route.",
        408: "The request took too long to arrive.",
        413: "The request is over a limit.",
        422: "The request is invalid.",
        429: "Too much work waits; try again after Retry-After seconds.",
        500: "The server failed.",
        503: "No worker is running; try again after Retry-After seconds.",
        504: "The request was not answered in time.",
    }.items()
}
router = APIRouter(responses=ERRORS)


def service_of(request: Request) -> Service:
    """The service behind the app."""
    service: Service = request.app.state.service
    return service


def leaving(request: Request) -> Disconnected:
    """Returns when the client of a request has disconnected."""

    async def wait() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return wait


def json_response(value: Any, status: int = 200) -> Response:
    """JSON, numpy arrays included."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), status, media_type="application/json")


def as_list(texts: str | list[str]) -> list[str]:
    """One text or several as a list."""
    return [texts] if isinstance(texts, str) else texts


@router.post("/predict/{task}", name="predict", response_model=PredictResponse, tags=["tasks"])
async def _predict(request: Request, task: str, body: PredictRequest, model: ModelName = None) -> Response:
    """What a task predicts for texts, pairs or triplets."""
    service = service_of(request)
    served = service.model(model)
    about = service.task(served, task)
    wishes = Wishes(body.threshold, body.abstain_below, body.top_k)
    wishes.check(task, about)
    columns, where = _columns(task, about, body)
    found = await service.ask(served, [task], columns, where, leaving(request))
    predictions = [wishes.apply(answer[task], about) for answer in found.answers]
    return json_response({"model": served.name, "task": task, "predictions": predictions, "usage": found.usage})


def _columns(task: str, about: Mapping[str, Any], body: PredictRequest) -> tuple[Sequence[Sequence[str]], str]:
    """The texts of a request column by column, and the key that held them."""
    needed = _FIELDS[about["texts"]]
    given = [name for name in _FIELDS.values() if getattr(body, name) is not None]
    if given != [needed]:
        found = ", ".join(given) or "none of them"
        raise ApiError(422, "invalid_request", f"the task {task!r} reads {needed}: give just that key, found {found}")
    if needed == "texts":
        return [as_list(body.texts or [])], needed
    rows: list[Any] = getattr(body, needed)
    if rows and isinstance(rows[0], str):
        rows = [rows]
    return [[row[side] for row in rows] for side in range(about["texts"])], needed


@router.post("/explain/{task}", name="explain", response_model=ExplainResponse, tags=["tasks"])
async def _explain(request: Request, task: str, body: ExplainRequest, model: ModelName = None) -> Response:
    """Which words a task's answer depends on: what it loses without each of them."""
    service = service_of(request)
    served = service.model(model)
    about = service.task(served, task)
    texts = as_list(body.example)
    if len(texts) != about["texts"]:
        needed = ("one text", "two texts", "three texts")[about["texts"] - 1]
        message = f"example: the task {task!r} reads {needed}, {len(texts)} given"
        raise ApiError(422, "invalid_request", message)
    if (1 + sum(len(find_words(text)) for text in texts)) * sum(map(len, texts)) > _MOST_EXPLAINED:
        raise ApiError(413, "text_too_long", "example: too many words; send a shorter text")
    found = await service.ask(served, [task], list(zip(*variants(texts), strict=True)), "example", leaving(request))
    answers = [answer[task] for answer in found.answers]
    try:
        explanation = explain_answers(task, texts, answers, body.label, truncated=found.truncated > 0)
    except RequestError as error:
        raise ApiError(422, "invalid_request", str(error).replace("the argument `label`", "label")) from None
    return json_response({"model": served.name, "explanation": asdict(explanation), "usage": found.usage})


@router.post("/analyze", name="analyze", response_model=AnalyzeResponse, tags=["tasks"])
async def _analyze(request: Request, body: AnalyzeRequest, model: ModelName = None) -> Response:
    """Every task that reads one text, and the embedding, in one pass of the encoder."""
    service = service_of(request)
    served = service.model(model)
    tasks = [name for name, about in served.tasks.items() if about["texts"] == 1]
    if body.tasks is not None:
        for name in body.tasks:
            if service.task(served, name)["texts"] != 1:
                raise ApiError(422, "invalid_request", f"tasks: {name!r} reads more than one text; use /predict")
        tasks = list(dict.fromkeys(body.tasks))
    asked = [*tasks, *([EMBEDDING] if body.embedding else [])]
    if not asked:
        raise ApiError(422, "invalid_request", "tasks: nothing is asked for; name a task, or ask for the embedding")
    found = await service.ask(served, asked, [as_list(body.texts)], "texts", leaving(request))
    wishes = Wishes(top_k=body.top_k)
    results = [
        {
            "tasks": {name: wishes.apply(answer[name], served.tasks[name]) for name in tasks},
            "embedding": answer.get(EMBEDDING),
        }
        for answer in found.answers
    ]
    return json_response({"model": served.name, "results": results, "usage": found.usage})


@router.post("/similarity", name="similarity", response_model=SimilarityResponse, tags=["embeddings"])
async def _similarity(request: Request, body: SimilarityRequest, model: ModelName = None) -> Response:
    """The cosine of every text of one list with every text of another."""
    service = service_of(request)
    served = service.model(model)
    first = as_list(body.first)
    second = first if body.second is None else as_list(body.second)
    if len(first) * len(second) > service.limits.cells:
        what = f"{len(first):,} × {len(second):,} similarities, at most {service.limits.cells:,}"
        raise ApiError(413, "too_many_texts", f"first, second: {what}")
    texts, where = (first, "first") if body.second is None else (first + second, "first and second")
    found = await service.embed(served, texts, where, leaving(request))
    cosines_nm: Any = [[] for _ in first]
    if first and second:
        unit_nD = unit_vectors(np.stack([answer[EMBEDDING] for answer in found.answers]))
        others_mD = (
            unit_nD.copy() if body.second is None else unit_nD[len(first) :]
        )  # numpy squares a matrix differently
        cosines_nm = await asyncio.to_thread(lambda: unit_nD[: len(first)] @ others_mD.T)
    return json_response({"model": served.name, "similarities": cosines_nm, "usage": found.usage})


@router.post("/rerank", name="rerank", response_model=RerankResponse, tags=["embeddings"])
async def _rerank(request: Request, body: RerankRequest, model: ModelName = None) -> Response:
    """Texts in the order in which they fit a query, best first."""
    service = service_of(request)
    served = service.model(model)
    if body.task is None:
        found = await service.embed(served, [body.query, *body.texts], "query and texts", leaving(request))
        unit_nD = unit_vectors(np.stack([answer[EMBEDDING] for answer in found.answers]))
        scores = (unit_nD[:1] @ unit_nD[1:].T)[0].tolist()
    else:
        name = relevance(body.task, service.task(served, body.task))
        columns = [[body.query] * len(body.texts), body.texts]
        found = await service.ask(served, [body.task], columns, "query and texts", leaving(request))
        predictions = [answer[body.task] for answer in found.answers]
        scores = [one["score"] if name is None else one["probabilities"][name] for one in predictions]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])[: body.top_k]
    results = [
        {"index": index, "score": scores[index], "text": body.texts[index] if body.return_texts else None}
        for index in order
    ]
    return json_response({"model": served.name, "results": results, "usage": found.usage})


@router.get("/model", name="describe", response_model=ModelResponse, tags=["models"])
async def _describe(request: Request, model: ModelName = None) -> Response:
    """The tasks of a model, their labels or ranges, their scores, and its indexes."""
    service = service_of(request)
    served = service.model(model)
    indexes = {one.name: len(one.index) for one in service.pool.indexes.values() if one.model == served.name}
    return json_response({**served.about, "indexes": indexes})


@router.post("/reload", name="reload", response_model=ReloadResponse, tags=["models"])
async def _reload(request: Request) -> Response:
    """Load the models from their directories again; no request is lost."""
    return json_response({"changed": await service_of(request).reload()})


@router.get("/health", name="health", response_model=StatusResponse, tags=["server"])
async def _health() -> Response:
    """Whether the server runs; needs no token."""
    return json_response({"status": "ok"})


@router.get("/ready", name="ready", response_model=StatusResponse, tags=["server"])
async def _ready(request: Request) -> Response:
    """Whether every worker made a forward pass within the last seconds."""
    if not service_of(request).is_ready:
        raise ApiError(503, "not_ready", "a worker is missing, busy for too long, or the server stops", retry_after=1)
    return json_response({"status": "ready"})


@router.get("/metrics", name="metrics", tags=["server"], response_class=Response)
async def _metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    return Response(service_of(request).metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")
