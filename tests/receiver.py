"""A receiver of webhooks on loopback: real HTTP, whose answers a test chooses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers with the first of ``answers``, taken away, and with 204 once there is none."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook?token=not-to-be-shown"
        self.received: list[Received] = []
        self.answers: list[int] = []
        self.location = ""


@contextmanager
def receiver() -> Iterator[Receiver]:
    """One that is there until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            here.received.append(Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status = here.answers.pop(0) if here.answers else 204
            self.send_response(status)
            if here.location:
                self.send_header("location", here.location)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
