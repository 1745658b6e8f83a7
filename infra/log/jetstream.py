"""One connection to a NATS server, with the retries and the errors that the log needs.

nats-py brings the connection; requests to JetStream are made here, because each kind of failure must
become one of evolog's errors and each publish must be safe to repeat.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ...events.errors import LogError, LogFullError, LogUnavailableError
from ..server import Address

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

T = TypeVar("T")

#: Seconds for one request, before it is repeated.
REQUEST_SECONDS = 5.0
_RETRY_SECONDS = 0.05
_FULL = frozenset({10023, 10047, 10077})
WRONG_LAST_SEQUENCE = 10071
DUPLICATE_IN_BATCH = 10201
STREAM_NOT_FOUND = 10059
STREAM_NAME_IN_USE = 10058
CONSUMER_NOT_FOUND = 10014


class ApiError(LogError):
    """JetStream refused: `code` is its ``err_code``."""

    def __init__(self, code: int, description: str, what: str) -> None:
        self.code = code
        super().__init__(f"{what}: {description} (err_code {code})")


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Ack(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


_acks = msgspec.json.Decoder(_Ack)


class JetStream:
    """A connection.

    Parameters
    ----------
    client
        Connected nats-py client.
    place
        The server's address without its token, for errors.
    patience
        Seconds for which a server that does not answer is asked again.
    """

    def __init__(self, client: Client, place: str, patience: float) -> None:
        self.client = client
        self.place = place
        self.patience = patience
        self._on_reconnect: list[Callable[[], None]] = []
        self._inbox = client.new_inbox()
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._count = 0

    async def listen(self) -> None:
        """Receive answers; once, before the first request."""
        await self.client.subscribe(f"{self._inbox}.*", cb=self._answered)

    async def _answered(self, message: Msg) -> None:
        waiting = self._waiting.get(message.subject.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def disconnected(self) -> None:
        """Let all requests under way know at once that their answers are lost."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(NoAnswerError("the connection was lost"))

    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after each reconnection; returns what takes it off again."""
        self._on_reconnect.append(callback)
        return lambda: self._on_reconnect.remove(callback)

    def reconnected(self) -> None:
        for callback in list(self._on_reconnect):
            callback()

    async def publish(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> _Ack:
        """Publish until acknowledged. The caller's headers make a repetition harmless.

        Raises
        ------
        LogFullError, ApiError, LogUnavailableError
        """
        return await self._until_answered(lambda: self.publish_once(subject, payload, headers))

    async def publish_once(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> _Ack:
        """Publish and wait for one acknowledgement; a `NoAnswerError` leaves open whether it was stored."""
        reply = await self.request(subject, payload, headers)
        ack = _acks.decode(reply.data)
        if ack.error is not None:
            if ack.error.err_code in _FULL:
                raise LogFullError(
                    f"the server at {self.place} refuses to store more ({ack.error.description}): its disk is full. "
                    "Everything acknowledged is kept. Make room, then 'evolog resume' goes on"
                )
            if ack.error.code == 503:
                raise NoAnswerError(ack.error.description)
            raise ApiError(ack.error.err_code, ack.error.description, f"publishing on {subject}")
        return ack

    async def try_publish(self, subject: str, payload: bytes) -> int:
        """Publish and wait for one acknowledgement: 0, or the ``err_code`` of the refusal.

        Raises
        ------
        NoAnswerError
            If none came: it may or may not have been stored.
        """
        ack = _acks.decode((await self.request(subject, payload)).data)
        return ack.error.err_code if ack.error is not None else 0

    async def request(self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None) -> Msg:
        """One request, one answer. nats-py's own costs more than ten times as much, and waits out its time
        when the connection is lost.

        Raises
        ------
        NoAnswerError
            If none came.
        """
        import nats.errors

        if not self.client.is_connected:
            # nats-py would queue it, and each repetition too.
            if self.client.is_closed:
                raise LogUnavailableError(f"the connection to {self.place} is closed")
            raise NoAnswerError("not connected")
        loop = asyncio.get_running_loop()
        self._count += 1
        token = str(self._count)
        waiting: asyncio.Future[Msg] = loop.create_future()
        self._waiting[token] = waiting
        alarm = loop.call_later(REQUEST_SECONDS, _give_up, waiting)
        try:
            await self.client.publish(
                subject, payload, reply=f"{self._inbox}.{token}", headers=dict(headers) if headers else None
            )
            message = await waiting
        except nats.errors.MaxPayloadError:
            raise LogError(
                f"{len(payload)} bytes on {subject} are more than the server takes in one message"
            ) from None
        except (nats.errors.Error, OSError) as error:
            raise NoAnswerError(str(error) or type(error).__name__) from error
        finally:
            alarm.cancel()
            del self._waiting[token]
        if message.headers is not None and message.headers.get("Status") == "503":
            raise NoAnswerError("nobody answers on the server (JetStream is starting, or is not enabled)")
        return message

    async def api(self, name: str, body: Any = None) -> dict[str, Any]:
        """Call the JetStream API: ``await api("STREAM.INFO.EVOLOG")``.

        Raises
        ------
        ApiError, LogUnavailableError
        """
        payload = b"" if body is None else msgspec.json.encode(body)

        async def once() -> dict[str, Any]:
            reply = await self.request(f"$JS.API.{name}", payload)
            answer: dict[str, Any] = msgspec.json.decode(reply.data)
            error = answer.get("error")
            if error is not None:
                if error.get("err_code") in _FULL:
                    raise LogFullError(
                        f"{name}: {error.get('description')}: the disk of {self.place} is full; make room"
                    )
                if error.get("code") == 503:
                    raise NoAnswerError(error.get("description", ""))
                raise ApiError(error.get("err_code", 0), error.get("description", ""), name)
            return answer

        return await self._until_answered(once)

    async def direct_get(self, stream: str, body: Mapping[str, Any]) -> Msg | None:
        """A message of a stream by a direct read, or None."""

        async def once() -> Msg | None:
            reply = await self.request(f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(body))
            status = (reply.headers or {}).get("Status")
            if status == "404":
                return None
            if status is not None:
                raise NoAnswerError(f"status {status}")
            return reply

        return await self._until_answered(once)

    async def _until_answered(self, once: Callable[[], Awaitable[T]]) -> T:
        until = time.monotonic() + self.patience
        while True:
            try:
                return await once()
            except NoAnswerError as error:
                if time.monotonic() > until:
                    raise LogUnavailableError(
                        f"the server at {self.place} has not answered for {self.patience:g} s ({error}): "
                        "is it running? Nothing acknowledged is lost"
                    ) from None
                await asyncio.sleep(_RETRY_SECONDS)


async def _look(address: Address) -> None:
    """Say hello to a server once: nats-py, told to reconnect for ever, also connects for ever and says nothing.

    Raises
    ------
    OSError
        If it cannot be reached, or refuses.
    """
    scheme, _, place = address.url.partition("://")
    host, _, port = place.rpartition(":")
    if scheme == "tls" or not host:
        return
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    try:
        if not (await reader.readline()).startswith(b"INFO "):
            raise ConnectionError("what answers there is no NATS server")
        hello = {"auth_token": address.token, "verbose": False, "pedantic": False, "lang": "python", "version": "1"}
        writer.write(b"CONNECT " + msgspec.json.encode(hello) + b"\r\nPING\r\n")
        answer = (await reader.readline()).decode(errors="replace").strip()
        if answer != "PONG":
            raise ConnectionError(answer.removeprefix("-ERR ").strip("'") or "it closed the connection")
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _give_up(waiting: asyncio.Future[Msg]) -> None:
    if not waiting.done():
        waiting.set_exception(NoAnswerError(f"no answer within {REQUEST_SECONDS:g} s"))


class NoAnswerError(LogError):
    """A request got no answer; it may or may not have been carried out."""


async def connect_jetstream(address: Address, *, patience: float = 60.0, name: str = "evolog") -> JetStream:
    """Connect to a server.

    Raises
    ------
    LogUnavailableError
        If it cannot be reached, refuses the token, or has no JetStream.
    """
    import nats
    import nats.errors

    made: list[JetStream] = []

    async def on_error(error: Exception) -> None:
        _ = error  # nats-py would print it; what matters shows in the requests' own errors

    async def on_disconnect() -> None:
        for one in made:
            one.disconnected()

    async def on_reconnect() -> None:
        for one in made:
            one.reconnected()

    options: dict[str, Any] = {"name": name, "error_cb": on_error, "connect_timeout": 2}
    if address.token:
        options["token"] = address.token
    try:
        async with asyncio.timeout(10.0):
            await _look(address)
            client = await nats.connect(
                address.url,
                disconnected_cb=on_disconnect,
                reconnected_cb=on_reconnect,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.05,
                pending_size=64 * 1024 * 1024,
                **options,
            )
    except (OSError, TimeoutError, nats.errors.Error) as error:
        reason = "it refuses the token" if "uthorization" in str(error) else str(error) or type(error).__name__
        raise LogUnavailableError(
            f"no NATS server can be used at {address.url}: {reason}. Check the address (--nats) and EVOLOG_NATS_TOKEN"
        ) from None
    found = JetStream(client, address.url, patience)
    await found.listen()
    made.append(found)
    return found
