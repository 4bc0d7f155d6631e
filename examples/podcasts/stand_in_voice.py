"""A stand-in for the voice service, for the demo and the tests: it waits, refuses and breaks when it is told to."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from examples.podcasts.audio import notes_of

PATIENCE = 40.0


class StandInVoice:
    """Answers ``POST {"text": …}`` with notes, on a port of this machine, until ``close``."""

    def __init__(self, port: int = 0) -> None:
        self._changed = threading.Condition()
        self._asked: Counter[str] = Counter()
        self._answers: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self._held: set[str] = set()
        self._let_through: set[tuple[str, int]] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    @property
    def address(self) -> str:
        """What ``EXAMPLE_PODCASTS_VOICE`` has to be."""
        return f"http://127.0.0.1:{self.port}/notes"

    def hold(self, text: str) -> None:
        """Let whoever asks for this text wait until it is released."""
        with self._changed:
            self._held.add(text)

    def release(self, text: str, request: int | None = None) -> None:
        """Answer those who wait, or only the first, second … who asked."""
        with self._changed:
            if request is None:
                self._held.discard(text)
            else:
                self._let_through.add((text, request))
            self._changed.notify_all()

    def answer(self, text: str, *answers: tuple[int, bytes]) -> None:
        """Give these answers (status and body) for this text first, one each time."""
        with self._changed:
            self._answers[text].extend(answers)

    def wait_until_asked(self, text: str, times: int = 1) -> None:
        """Wait until this text was asked for so many times. Raises ``TimeoutError``."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._asked[text] >= times, PATIENCE):
                raise TimeoutError(f"the voice was asked {self._asked[text]} times for {text!r}, not {times}")

    def times_asked(self, text: str) -> int:
        """How often this text was asked for."""
        with self._changed:
            return self._asked[text]

    def reply(self, text: str) -> tuple[int, bytes]:
        """Choose the answer to one request; called by the server."""
        with self._changed:
            self._asked[text] += 1
            self._changed.notify_all()
            request = (text, self._asked[text])
            self._changed.wait_for(lambda: text not in self._held or request in self._let_through, PATIENCE)
            if self._answers[text]:
                return self._answers[text].pop(0)
        return 200, json.dumps([asdict(note) for note in notes_of(text)]).encode()

    def close(self) -> None:
        """Stop listening, and let nobody wait any more."""
        with self._changed:
            self._held.clear()
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _handler(voice: StandInVoice) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = voice.reply(sent["text"])
            with suppress(ConnectionError):  # who asked may have been killed meanwhile
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
