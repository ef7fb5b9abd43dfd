"""The route that searches an index."""

from dataclasses import asdict

import numpy as np
from fastapi import APIRouter, Request, Response

from plait.serving.errors import ApiError
from plait.serving.examples import EMBEDDING
from plait.serving.routes import ERRORS, ModelName, as_list, json_response, leaving, service_of
from plait.serving.schemas import SearchRequest, SearchResponse

__all__ = ["search_router"]

search_router = APIRouter(responses=ERRORS, tags=["embeddings"])


@search_router.post("/search", name="search", response_model=SearchResponse)
async def _search(request: Request, body: SearchRequest, model: ModelName = None) -> Response:
    """The rows of an index that are nearest to each query, best first."""
    service = service_of(request)
    index = service.index(body.index, model)
    queries = as_list(body.queries)
    if len(queries) * body.top_k > service.limits.hits:
        what = f"{len(queries):,} queries × top_k {body.top_k:,}, at most {service.limits.hits:,}"
        raise ApiError(413, "too_many_hits", f"queries: {what}")
    found = await service.embed(service.model(index.model), queries, "queries", leaving(request))
    results: list[list[dict[str, object]]] = []
    if queries:
        vectors_mD = np.stack([answer[EMBEDDING] for answer in found.answers])
        results = [[asdict(hit) for hit in hits] for hits in await index.nearest(vectors_mD, body.top_k)]
    return json_response({"model": index.model, "index": index.name, "results": results, "usage": found.usage})
