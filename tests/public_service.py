"""A server of records and files on this machine that misbehaves on demand."""

import hashlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from covad.events.download import RECORDS


@dataclass
class Service:
    """What the server announces and serves, how it misbehaves (once a request), and what it was asked."""

    url: str = ""
    records: dict[int, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    mischief: list[str] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def publish(self, sample: str, name: str, content: bytes, **changes: Any) -> None:
        """Announce a file as the public service does; `changes` overwrites what is said about it."""
        self.files[name] = content
        entry = {
            "key": name,
            "size": len(content),
            "checksum": f"md5:{hashlib.md5(content).hexdigest()}",
            "links": {"self": f"{self.url}/files/{name}/content"},
        }
        record = self.records.setdefault(RECORDS[sample], {"id": RECORDS[sample], "files": []})
        record["files"].append(entry | changes)

    @property
    def ranges(self) -> list[str | None]:
        """The Range headers of the requests for files."""
        return [asked for path, asked in self.asked if path.startswith("/files/")]


class Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_GET(self) -> None:
        service = self.server.service
        service.asked.append((self.path, self.headers["Range"]))
        mischief = service.mischief.pop(0) if service.mischief else "none"
        if mischief.isdecimal():
            self.send_error(int(mischief))
        elif self.path.startswith("/api/records/"):
            self.metadata(service.records.get(int(self.path.rpartition("/")[2])), mischief)
        else:
            self.content(service.files.get(self.path.split("/")[2]), mischief)

    def metadata(self, record: Any, mischief: str) -> None:
        if record is None:
            self.send_error(404)
            return
        self.answer(200, record if isinstance(record, bytes) else json.dumps(record).encode(), mischief)

    def content(self, content: bytes | None, mischief: str) -> None:
        if content is None:
            self.send_error(404)
            return
        if mischief == "wrong bytes":
            content = content[:-1] + bytes([255 - content[-1]])
        if mischief == "truncate":
            content = content[: len(content) // 3]
        start = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        if start >= len(content) > 0:
            self.send_error(416)
        elif self.headers["Range"] is None or mischief == "ignore range":
            self.answer(200, content, mischief)
        else:
            shift = 1 if mischief == "other range" else 0
            whole = f"bytes {start + shift}-{len(content) - 1}/{len(content)}"
            self.answer(206, content[start + shift :], mischief, ("Content-Range", whole))

    def answer(self, status: int, body: bytes, mischief: str, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if mischief in ("drop", "reset") else body)
        if mischief == "reset":  # without the polite end of a connection
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    service: Service

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what some tests are about."""


@contextmanager
def serve() -> Iterator[Service]:
    """The server, running."""
    with Server(("127.0.0.1", 0), Handler) as server:
        server.service = Service(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.service
        server.shutdown()
        thread.join()
