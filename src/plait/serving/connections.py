"""Connections within limits: how many, how slowly headers may arrive, how long an answer may stay unread."""

import asyncio
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from plait.serving.errors import error_body
from plait.serving.settings import Limits

__all__ = ["limited_protocol"]

_HEADER_BYTES = 65_536


def limited_protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """uvicorn's protocol with these limits."""

    class Limited(HttpToolsProtocol):
        """One connection."""

        _timer: asyncio.TimerHandle | None = None  # until the headers of a request must be complete
        _unread: asyncio.TimerHandle | None = None  # until the client must read
        _header_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._refuse(b"503 Service Unavailable", "too_many_connections", "too many connections; try again")
            else:
                self._expect_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timers()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self._timer is not None:
                self._header_bytes += len(data)
                if self._header_bytes > _HEADER_BYTES:
                    self._refuse(
                        b"431 Request Header Fields Too Large", "headers_too_large", "the headers are too large"
                    )

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_headers()

        def on_headers_complete(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            super().on_headers_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self.loop.call_later(limits.read_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
            super().resume_writing()

        def send_400_response(self, msg: str) -> None:
            self._refuse(b"400 Bad Request", "invalid_http", msg)

        def _expect_headers(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._header_bytes = 0
            self._timer = self.loop.call_later(limits.header_seconds, self._cut_off)

        def _cut_off(self) -> None:
            self._refuse(b"408 Request Timeout", "too_slow", "the headers of a request did not arrive in time")

        def _refuse(self, status: bytes, code: str, message: str) -> None:
            """Answer without a request, and close the connection."""
            self._stop_timers()
            body = error_body(code, message, secrets.token_hex(8))
            head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (status, len(body)) + body)
            self.transport.close()

        def _stop_timers(self) -> None:
            timers: list[Any] = [self._timer, self._unread]
            for timer in timers:
                if timer is not None:
                    timer.cancel()
            self._timer = self._unread = None

    return Limited
