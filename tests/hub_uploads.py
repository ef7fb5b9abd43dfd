"""The hub of hub_server.py, which also takes uploads: repositories, LFS objects and commits."""

import base64
import hashlib
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from hub_server import LARGE, NAME, Handler, HubServer

PREUPLOAD = re.compile(rf"/api/models/{NAME}/preupload/main")
COMMIT = re.compile(rf"/api/models/{NAME}/commit/main")
BATCH = re.compile(rf"/{NAME}\.git/info/lfs/objects/batch")


class UploadHub(HubServer):
    """Its repositories are folders below `root`; who has a token that it knows may write."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.commits: list[str] = []  # their messages
        self.objects: dict[str, bytes] = {}  # LFS objects by sha256
        self.server.RequestHandlerClass = UploadHandler

    def create(self, name: str) -> Path:
        self.folders["models"][name] = self.root / name
        (self.root / name).mkdir(parents=True)
        return self.root / name


class UploadHandler(Handler):
    def do_PUT(self) -> None:  # noqa: N802
        oid = urlsplit(self.path).path.removeprefix("/lfs/")
        content = self.read_body()
        assert hashlib.sha256(content).hexdigest() == oid
        self.server.hub.objects[oid] = content
        self.send_json({})

    def do_POST(self) -> None:  # noqa: N802
        path = unquote(urlsplit(self.path).path)
        replies = {r"/api/repos/create": self.create, r"/api/validate-yaml": self.validate}
        replies |= {PREUPLOAD.pattern: self.preupload, COMMIT.pattern: self.commit, BATCH.pattern: self.batch}
        for pattern, reply in replies.items():
            if found := re.fullmatch(pattern, path):
                self.server.hub.requests.append(f"POST {path}")
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                body = self.read_body()
                if token not in self.server.hub.tokens:
                    self.refuse(401, "", "Invalid username or password.")
                else:
                    reply(found.groupdict().get("name", ""), body, token)
                return
        self.answer()

    def read_body(self) -> bytes:
        """The body, of a known length or in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def create(self, _: str, body: bytes, token: str) -> None:
        hub, asked = self.server.hub, json.loads(body)
        name = f"{asked['organization']}/{asked['name']}"
        if name in hub.folders["models"]:
            self.send_response(409)
            self.end_json({"error": "You already created this model repo", "url": f"{hub.url}/{name}"})
            return
        hub.create(name)
        if asked.get("visibility") == "private" or asked.get("private"):
            hub.private[name] = token
        self.send_json({"url": f"{hub.url}/{name}"})

    def validate(self, _: str, body: bytes, token: str) -> None:
        front = json.loads(body)["content"].split("---\n")[1]
        try:
            YAML(typ="safe").load(front)
        except YAMLError as error:
            self.send_response(400)
            self.end_json({"errors": [{"message": str(error).splitlines()[0]}], "warnings": []})
        else:
            self.send_json({"errors": [], "warnings": []})

    def preupload(self, name: str, body: bytes, token: str) -> None:
        files = [
            {"path": path, "uploadMode": "lfs" if path.endswith(LARGE) else "regular", "shouldIgnore": False}
            for path in (file["path"] for file in json.loads(body)["files"])
        ]
        self.send_json({"files": files})

    def batch(self, name: str, body: bytes, token: str) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.server.hub.url}/lfs/{each['oid']}"}}}
            for each in json.loads(body)["objects"]
        ]
        self.send_json({"transfer": "basic", "objects": objects})

    def commit(self, name: str, body: bytes, token: str) -> None:
        hub = self.server.hub
        folder = hub.folders["models"][name]
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                hub.commits.append(value["summary"])
                continue
            path = folder / value["path"]
            if line["key"] == "deletedFile":
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            is_large = line["key"] == "lfsFile"
            path.write_bytes(hub.objects[value["oid"]] if is_large else base64.b64decode(value["content"]))
        commit = hub.commit_of("models", name)
        self.send_json({"success": True, "commitOid": commit, "commitUrl": f"{hub.url}/{name}/commit/{commit}"})

    def end_json(self, value: object) -> None:
        """The rest of an answer that is an error."""
        content = json.dumps(value).encode()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
