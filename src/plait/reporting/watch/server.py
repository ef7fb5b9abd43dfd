"""The server of `plait watch`: its page and the runs as JSON, for this machine only."""

import hashlib
import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from plait.errors import RequestError
from plait.reporting.watch.runs import WatchedRuns

__all__ = ["WatchServer"]

_PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/watch.js": ("watch.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_LOCAL = {"127.0.0.1", "localhost"}


class WatchServer(ThreadingHTTPServer):
    """Answers on 127.0.0.1; `serve_forever` runs until `shutdown`."""

    daemon_threads = True

    def __init__(self, folders: Sequence[Path], port: int = 8001) -> None:
        self.runs = WatchedRuns(folders)
        self.reading = Lock()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise RequestError(f"`port` {port}: {error.strerror}; choose another `port`") from None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer

    def do_GET(self) -> None:
        if self.headers.get("Host", "").rpartition(":")[0] not in _LOCAL:  # a page of another site, by its own name
            self._answer(403, b"plait watch answers to 127.0.0.1 and localhost only\n", "text/plain")
        elif self.path == "/runs.json":
            with self.server.reading:
                runs = self.server.runs.describe()
            self._answer(200, json.dumps({"runs": runs}).encode(), "application/json")
        elif self.path in _FILES:
            name, kind = _FILES[self.path]
            self._answer(200, (_PAGE / name).read_bytes(), kind)
        else:
            self._answer(404, b"not found\n", "text/plain")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        """Send a body, or nothing if the browser has it already."""
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        known = status == 200 and self.headers.get("If-None-Match") == tag
        self.send_response(304 if known else status)
        self.send_header("ETag", tag)
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Security-Policy", "default-src 'self'")
        self.send_header("X-Content-Type-Options", "nosniff")
        if not known:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not known:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A page that asks every two seconds is no news."""
