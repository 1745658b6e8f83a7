"""A real HTTP server on loopback that speaks OpenAI's chat completions, answering from a script.

It exists so that tests meet the network's true failures: rate limits, dead and slow servers,
connections that close in the middle of an answer, bodies that are no completion.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import msgspec


class Received(msgspec.Struct, frozen=True):
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class Says(msgspec.Struct, frozen=True, kw_only=True):
    """A well-formed completion. `drop_after` closes the connection after so many bytes of its body."""

    text: str | None
    finish: str = "stop"
    prompt_tokens: int = 11
    completion_tokens: int = 7
    model: str = "served-model-0726"
    fingerprint: str | None = "fp_loopback"
    drop_after: int | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP status with an error body in OpenAI's form."""

    code: int
    message: str = "said by the test server"
    headers: Mapping[str, str] = {}
    error_code: str | None = None


class Raw(msgspec.Struct, frozen=True, kw_only=True):
    """These bytes with status 200, whatever they are."""

    body: bytes
    content_type: str = "application/json"


class Hangs(msgspec.Struct, frozen=True):
    """Nothing, until the server is closed."""


Reply = Says | Status | Raw | Hangs
Script = Iterable[Reply] | Callable[[int, Mapping[str, Any]], Reply]


class OpenAIServer:
    """Answers ``POST …/chat/completions`` on a free loopback port until it is closed.

    Parameters
    ----------
    script
        The replies in the order of requests, the last one repeated; or a function of a request's
        number (from 0) and body. The function runs in the request's own thread and may block.

    Attributes
    ----------
    requests
        What arrived, in order.
    most_at_once
        The greatest number of requests that were being answered at the same moment.
    """

    def __init__(self, script: Script) -> None:
        self._reply: Callable[[int, Mapping[str, Any]], Reply]
        if callable(script):
            self._reply = script
        else:
            replies = list(script)
            self._reply = lambda number, _: replies[min(number, len(replies) - 1)]
        self.requests: list[Received] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner._answer(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
                """Say nothing on the tests' standard error."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            number = len(self.requests)
            self.requests.append(Received(handler.path, dict(handler.headers), body))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self._send(handler, self._reply(number, body))
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True  # the client gave up first, as a timeout makes it
        finally:
            with self._lock:
                self._at_once -= 1

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        match reply:
            case Hangs():
                self._closing.wait()
                handler.close_connection = True
            case Raw():
                self._write(handler, 200, reply.body, {"Content-Type": reply.content_type})
            case Status():
                error = {"message": reply.message, "type": "test", "param": None, "code": reply.error_code}
                content = json.dumps({"error": error}).encode()
                self._write(handler, reply.code, content, {"Content-Type": "application/json", **reply.headers})
            case Says():
                self._write(handler, 200, completion(reply), {"Content-Type": "application/json"}, reply.drop_after)

    @staticmethod
    def _write(
        handler: BaseHTTPRequestHandler,
        code: int,
        content: bytes,
        headers: Mapping[str, str],
        drop_after: int | None = None,
    ) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:drop_after])
        if drop_after is not None:
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)


def completion(reply: Says) -> bytes:
    """The body of a chat completion as OpenAI's servers send it."""
    return json.dumps(
        {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 1753500000,
            "model": reply.model,
            "system_fingerprint": reply.fingerprint,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": reply.text},
                    "finish_reason": reply.finish,
                }
            ],
            "usage": {
                "prompt_tokens": reply.prompt_tokens,
                "completion_tokens": reply.completion_tokens,
                "total_tokens": reply.prompt_tokens + reply.completion_tokens,
            },
        }
    ).encode()


def dead_url() -> str:
    """An address on loopback where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
