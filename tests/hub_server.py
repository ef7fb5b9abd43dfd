"""A small hub on this machine: models and datasets from folders, at the addresses that huggingface_hub requests."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

NAME = r"(?P<name>[^/]+(?:/[^/]+)?)"
ABOUT = re.compile(rf"/api/(?P<kind>models|datasets)/{NAME}(?:/revision/(?P<revision>[^/]+))?")
TREE = re.compile(rf"/api/(?P<kind>models|datasets)/{NAME}/tree/(?P<revision>[^/]+)(?:/(?P<path>.+))?")
PATHS = re.compile(rf"/api/(?P<kind>models|datasets)/{NAME}/paths-info/(?P<revision>[^/]+)")
RESOLVE = re.compile(rf"/(?:(?P<kind>datasets)/)?{NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
LARGE = (
    ".safetensors",
    ".parquet",
    ".bin",
)  # identified by the sha256 of their content, other files by their git blob id

# Runs first in a child process: nothing outside this machine can be reached.
BLOCK_NETWORK = """
import socket
def look_up(host, *rest, look_up=socket.getaddrinfo, **named):
    if host not in ("127.0.0.1", "localhost", None):
        raise socket.gaierror(socket.EAI_NONAME, "not on this machine")
    return look_up(host, *rest, **named)
socket.getaddrinfo = look_up
"""


class HubServer:
    """Serves until its `with` block ends, and records its requests."""

    def __init__(self, *, models: Mapping[str, Path] | None = None, datasets: Mapping[str, Path] | None = None) -> None:
        self.folders = {"models": dict(models or {}), "datasets": dict(datasets or {})}
        self.requests: list[str] = []  # "GET /api/models/tiny/revision/main"
        self.gated: set[str] = set()  # names whose files are not accessible
        self.private: dict[str, str] = {}  # name → the token that opens it
        self.tokens = {"a-token"}  # tokens that the hub knows
        self.failing: dict[str, int] = {}  # file → the status to answer instead
        self.breaking: dict[str, int] = {}  # file → how many more of its downloads break halfway
        self.holding: str | None = None  # a file of which only the first half is ever sent
        self.is_held = threading.Event()
        self.let_go = threading.Event()
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.hub = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port, so that connections are refused."""
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def asked_for(self, part: str) -> list[str]:
        """The requests whose address contains this part."""
        return [request for request in self.requests if part in request]

    def commit_of(self, kind: str, name: str) -> str:
        """A hash of the current content of a repository."""
        folder = self.folders[kind][name]
        return hashlib.sha1(
            "".join(f"{path} {blob_id(folder / path)}" for path in files_of(folder)).encode()
        ).hexdigest()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: HubServer

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may be killed
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def answer(self) -> None:
        hub, (_, _, path, query, _) = self.server.hub, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        with hub.lock:
            hub.requests.append(f"{self.command} {path}")
        for pattern, reply in (
            (TREE, self.send_tree),
            (PATHS, self.send_paths),
            (ABOUT, self.send_about),
            (RESOLVE, self.send_file),
        ):
            if found := pattern.fullmatch(unquote(path)):
                kind, name = found["kind"] or "models", found["name"]
                if self.may_see(kind, name, found.groupdict().get("revision")):
                    reply(kind, name, found.groupdict(), parse_qs(body or query))
                return
        self.refuse(404, "", "Not found")

    def may_see(self, kind: str, name: str, revision: str | None) -> bool:
        """Whether this client can see the repository and its revision; if not, answers like the hub."""
        hub = self.server.hub
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in hub.tokens:
            self.refuse(401, "", "Invalid credentials in Authorization header")
        elif name not in hub.folders[kind] or hub.private.get(name, token) != token:
            self.refuse(404 if token else 401, "RepoNotFound", "Repository not found")
        elif revision not in (None, "main", hub.commit_of(kind, name)):
            self.refuse(404, "RevisionNotFound", "Invalid rev id")
        else:
            return True
        return False

    def send_about(self, kind: str, name: str, found: dict[str, str], query: dict[str, list[str]]) -> None:
        hub = self.server.hub
        files = [{"rfilename": path} for path in files_of(hub.folders[kind][name])]
        about = {"id": name, "sha": hub.commit_of(kind, name), "siblings": files, "tags": [], "downloads": 0}
        self.send_json({**about, "private": name in hub.private, "gated": "auto" if name in hub.gated else False})

    def send_tree(self, kind: str, name: str, found: dict[str, str], query: dict[str, list[str]]) -> None:
        folder, start = self.server.hub.folders[kind][name], found["path"]
        if start and not (folder / start).is_dir():
            self.refuse(404, "EntryNotFound", f"{start} does not exist")
            return
        everything = query.get("recursive", ["false"])[0].lower() == "true"
        inside = (folder / (start or "")).rglob("*") if everything else (folder / (start or "")).glob("*")
        self.send_json([entry_of(folder, path) for path in sorted(inside)])

    def send_paths(self, kind: str, name: str, found: dict[str, str], query: dict[str, list[str]]) -> None:
        folder = self.server.hub.folders[kind][name]
        wanted = [folder / path for path in query.get("paths", [])]
        self.send_json([entry_of(folder, path) for path in wanted if path.exists()])

    def send_file(self, kind: str, name: str, found: dict[str, str], query: dict[str, list[str]]) -> None:
        hub, path = self.server.hub, found["path"]
        file, commit = hub.folders[kind][name] / path, hub.commit_of(kind, name)
        if name in hub.gated:
            known = "Authorization" in self.headers
            self.refuse(403 if known else 401, "GatedRepo", f"Access to {name} is restricted")
        elif not file.is_file():
            self.refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
        elif path in hub.failing:
            self.refuse(hub.failing[path], "", "Something is broken")
        else:
            self.send_bytes(path, file.read_bytes(), {"X-Repo-Commit": commit, "ETag": f'"{etag_of(file)}"'})

    def send_bytes(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """A file or the requested range of it, unless its connection should break or hang."""
        hub, status, whole = self.server.hub, 200, len(body)
        if span := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(span[1]), int(span[2] or whole - 1)
            status, body = 206, body[first : last + 1]
            headers = {**headers, "Content-Range": f"bytes {first}-{min(last, whole - 1)}/{whole}"}
        self.send_response(status)
        for key, value in {**headers, "Accept-Ranges": "bytes", "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        with hub.lock:
            breaks = hub.breaking.get(path, 0) > 0
            hub.breaking[path] = hub.breaking.get(path, 0) - breaks
        if not breaks and hub.holding != path:
            self.wfile.write(body)
            return
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        self.close_connection = True
        if not breaks:
            hub.is_held.set()
            hub.let_go.wait()

    def send_json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {**(headers or {}), "X-Error-Code": code, "X-Error-Message": message}.items():
            if value:
                self.send_header(key, value)
        self.send_header("Content-Length", "0")
        self.end_headers()


def files_of(folder: Path) -> list[str]:
    """The paths of the files in a repository."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def blob_id(path: Path) -> str:
    """The git blob id of a file."""
    return hashlib.sha1(b"blob %d\0" % path.stat().st_size + path.read_bytes()).hexdigest()


def etag_of(path: Path) -> str:
    """The ETag that the hub gives a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.name.endswith(LARGE) else blob_id(path)


def entry_of(folder: Path, path: Path) -> dict[str, object]:
    """A file or a folder as the hub lists it."""
    inside = path.relative_to(folder).as_posix()
    if path.is_dir():
        return {"type": "directory", "path": inside, "oid": hashlib.sha1(inside.encode()).hexdigest(), "size": 0}
    entry: dict[str, object] = {"type": "file", "path": inside, "oid": blob_id(path), "size": path.stat().st_size}
    if inside.endswith(LARGE):
        entry["lfs"] = {"oid": etag_of(path), "size": path.stat().st_size, "pointerSize": 130}
    return entry


def hub_environment(home: Path, url: str, *, offline: bool = False, token: str = "") -> dict[str, str]:
    """The environment of a child process whose hub is at `url` and whose cache is in `home`."""
    removed = ("HF_", "HUGGING", "TRANSFORMERS_OFFLINE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    kept = {key: value for key, value in os.environ.items() if not key.upper().startswith(removed)}
    kept |= {"HF_ENDPOINT": url, "HF_HOME": str(home), "TOKENIZERS_PARALLELISM": "false"}
    return kept | ({"HF_HUB_OFFLINE": "1"} if offline else {}) | ({"HF_TOKEN": token} if token else {})


def run_here(
    code: str, environment: Mapping[str, str], *arguments: str, here: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python code, in the folder `here`, in a child process that can reach only this machine."""
    command = [sys.executable, "-W", "error", "-c", BLOCK_NETWORK + code, *arguments]
    return subprocess.run(
        command, env=dict(environment), cwd=here, capture_output=True, text=True, timeout=300, check=False
    )
