"""The routes that OpenAI's clients use."""

import base64
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from plait.serving.errors import ApiError
from plait.serving.examples import EMBEDDING
from plait.serving.routes import ERRORS, as_list, json_response, leaving, service_of
from plait.serving.schemas import EmbeddingRequest, EmbeddingResponse, ModelEntry, ModelList

__all__ = ["openai_router"]

openai_router = APIRouter(prefix="/v1", responses=ERRORS, tags=["OpenAI"])


@openai_router.post("/embeddings", name="embeddings", response_model=EmbeddingResponse)
async def _embeddings(request: Request, body: EmbeddingRequest) -> Response:
    """The embedding of each text, in the shape of OpenAI's API."""
    service = service_of(request)
    served = service.model(body.model)
    width = served.about["dimensions"]
    if body.dimensions is not None and body.dimensions > width:
        raise ApiError(422, "invalid_request", f"dimensions: {body.dimensions}, but the model has {width}")
    texts = as_list(body.input)  # type: ignore[arg-type]  # refused below if they are tokens
    if any(not isinstance(text, str) for text in texts):
        what = "input: expected texts, found token ids, which mean nothing to this model's tokenizer"
        raise ApiError(422, "invalid_request", what)
    found = await service.embed(served, texts, "input", leaving(request))
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _encode(_shorten(answer[EMBEDDING], body.dimensions), body.encoding_format),
        }
        for index, answer in enumerate(found.answers)
    ]
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    return json_response({"object": "list", "data": data, "model": served.name, "usage": usage})


def _shorten(vector_D: np.ndarray, dimensions: int | None) -> np.ndarray:
    """The first dimensions as a unit vector."""
    if dimensions is None or dimensions == len(vector_D):
        return vector_D
    part_D = vector_D[:dimensions]
    scaled_D: np.ndarray = part_D / max(np.linalg.norm(part_D), np.float32(1e-12))
    return scaled_D


def _encode(vector_D: np.ndarray, form: str) -> Any:
    """A list of numbers, or the bytes of float32 in base64."""
    return base64.b64encode(vector_D.astype("<f4").tobytes()).decode() if form == "base64" else vector_D


@openai_router.get("/models", name="models", response_model=ModelList)
async def _models(request: Request) -> Response:
    """The models by name."""
    entries = [_entry(request, name) for name in service_of(request).pool.models]
    return json_response({"object": "list", "data": entries})


@openai_router.get("/models/{model}", name="model", response_model=ModelEntry)
async def _model(request: Request, model: str) -> Response:
    """One of the models."""
    return json_response(_entry(request, service_of(request).model(model).name))


def _entry(request: Request, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": service_of(request).started, "owned_by": "plait"}
