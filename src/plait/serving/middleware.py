"""Middleware: request ids, the checks of host and token, and limits on the body."""

import asyncio
import base64
import binascii
import hmac
import logging
import re
import secrets
import time
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plait.serving.errors import ApiError, error_body
from plait.serving.metrics import Metrics
from plait.serving.settings import Limits, is_local

__all__ = ["Authorization", "BodyLimits", "RequestRecord", "send_error"]

_OPEN = frozenset({"/health"})  # routes that need no token
_LEFT = 499  # the status of a request whose client left before the answer
_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_log = logging.getLogger("plait.serving")


async def send_error(send: Send, error: ApiError, request_id: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer with an error."""
    body = error_body(error.code, error.message, request_id)
    sent = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    if error.retry_after is not None:
        sent.append((b"retry-after", str(error.retry_after).encode()))
    await send({"type": "http.response.start", "status": error.status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


class RequestRecord:
    """Gives each request an id, measures it, and answers an unexpected failure without its details."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        began, status = time.perf_counter(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            _log.exception("request %s failed", request_id)
            if status:
                raise  # too late for another answer: the server closes the connection
            failed = ApiError(500, "internal_error", "the server failed; its log has the details under the request id")
            await send_error(send_with_id, failed, request_id)
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.requests.labels(route, str(status or _LEFT)).inc()
        self._metrics.seconds.labels(route).observe(time.perf_counter() - began)
        return None


class Authorization:
    """Admits requests that carry the token; without a token, those that address this machine by a local name.

    A browser may send the token as the password of Basic authentication. The check of the name keeps other people's web
    pages from reaching a local server through a host name of their own.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token.encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            headers = Headers(scope=scope)
            if self._token is None and not is_local(_host_name(headers.get("host", ""))):
                error = ApiError(403, "unknown_host", "a server without a token answers only to localhost")
                return await send_error(send, error, scope["state"]["request_id"])
            if self._token is not None and not self._is_valid(headers.get("authorization", "")):
                error = ApiError(401, "unauthorized", "send the server's token as: Authorization: Bearer TOKEN")
                ask = (b"www-authenticate", b'Bearer realm="plait", Basic realm="plait"')
                return await send_error(send, error, scope["state"]["request_id"], ask)
        return await self._app(scope, receive, send)

    def _is_valid(self, header: str) -> bool:
        assert self._token is not None
        kind, _, value = header.partition(" ")
        given = value.strip().encode()
        if kind.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif kind.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self._token)


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


class BodyLimits:
    """Reads the whole body before the route runs, within the limits of size and time."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            body = await self._read(scope, receive)
        except ApiError as error:  # the rest of the body is not read, so the connection cannot be used again
            return await send_error(send, error, scope["state"]["request_id"], (b"connection", b"close"))
        if body is None:
            return None  # the client left

        async def replay() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message: dict[str, Any] = {"type": "http.request", "body": body, "more_body": False}
            body = None
            return message

        return await self._app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        most = self._limits.bytes
        too_large = ApiError(413, "too_many_bytes", f"the body has more than {most:,} bytes; send fewer texts at once")
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise too_large
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            what = f"the body did not arrive within {self._limits.body_seconds:g} s"
            raise ApiError(408, "too_slow", what) from None
