"""The web application: its routes, middleware and documentation."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

import plait
from plait.serving.errors import ApiError, error_body
from plait.serving.middleware import Authorization, BodyLimits, RequestRecord
from plait.serving.openai_routes import openai_router
from plait.serving.routes import router
from plait.serving.search_routes import search_router
from plait.serving.service import Service

__all__ = ["make_app"]

_FOLDER = Path(__file__).parent
_CODES = {404: "not_found", 405: "method_not_allowed"}
_SHOWN_MISTAKES = 10


def make_app(service: Service) -> FastAPI:
    """The application of a service."""
    app = FastAPI(
        title="plait",
        version=plait.__version__,
        description="One encoder, several sentence tasks.",
        docs_url=None,  # FastAPI's own page fetches its scripts from another server
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    app.include_router(openai_router)
    app.include_router(router)
    app.include_router(search_router)
    app.add_api_route("/docs", _sends(_FOLDER / "docs.html"), include_in_schema=False)
    for file in (_FOLDER / "page").iterdir():
        path = "/" if file.name == "index.html" else f"/{file.name}"
        app.add_api_route(path, _sends(file), include_in_schema=False)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(BodyLimits, limits=service.limits)  # the last one added comes first
    app.add_middleware(Authorization, token=service.settings.token)
    app.add_middleware(RequestRecord, metrics=service.metrics)
    return app


def _sends(file: Path) -> Callable[[], Awaitable[Response]]:
    """A route that answers with a file."""

    async def send() -> Response:
        return FileResponse(file)

    return send


def _error(request: Request, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    body = error_body(code, message, request.state.request_id)
    return Response(body, status, headers, media_type="application/json")


async def _api_error(request: Request, error: Any) -> Response:
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return _error(request, error.status, error.code, error.message, headers)


async def _invalid(request: Request, error: Any) -> Response:
    """Every mistake of a request at once: where, and what is wrong."""
    found = error.errors()
    if any(mistake["type"] == "json_invalid" for mistake in found):
        return _error(request, 400, "invalid_json", f"the body is not valid JSON: {found[0]['ctx']['error']}")
    mistakes = dict.fromkeys(f"{_place(mistake['loc'])}: {mistake['msg']}" for mistake in found)
    shown = "; ".join(list(mistakes)[:_SHOWN_MISTAKES])
    more = f"; and {len(mistakes) - _SHOWN_MISTAKES} more" if len(mistakes) > _SHOWN_MISTAKES else ""
    return _error(request, 422, "invalid_request", shown + more)


def _place(location: tuple[Any, ...]) -> str:
    return ".".join(map(str, location[1:] if location[0] == "body" and len(location) > 1 else location))


async def _http_error(request: Request, error: Any) -> Response:
    code = _CODES.get(error.status_code, "invalid_request")
    message = f"{request.method} {request.url.path}: {error.detail}; /docs lists the routes"
    return _error(request, error.status_code, code, message, dict(error.headers or {}))
