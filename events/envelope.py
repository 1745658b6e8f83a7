"""The envelope that every event travels in, and the base of what it carries."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, Literal

import msgspec

Origin = Literal["fact", "decision"]

_canonical = msgspec.json.Encoder(order="deterministic")


class Payload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an event says, apart from its envelope.

    A kind of event is a subclass with `KIND` (``noun.verb``), `VERSION` and `ORIGIN`, registered
    with `evolog.events.registry.register`. Fields are frozen, equal payloads encode to equal bytes.

    `VOLATILE` names the fields that describe how an answer came about (seconds, hosts, tries) and
    not what it says. They are left out of the content digest, so that two equal runs name each
    other's answers by equal digests although the clock differed.
    """

    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1
    ORIGIN: ClassVar[Origin]
    VOLATILE: ClassVar[frozenset[str]] = frozenset()
    #: For a request: the kinds of fact that answer it.
    ANSWERED_BY: ClassVar[frozenset[str]] = frozenset()


class Unknown(msgspec.Struct, frozen=True):
    """A payload of a kind or version that this reader does not know, kept as its exact bytes."""

    raw: msgspec.Raw


class Writer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who appended an event: its role in the system, where it ran, and its code version."""

    role: str
    host: str
    process: int
    version: str


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One immutable entry of the log.

    Attributes
    ----------
    kind, v
        ``noun.verb`` and the version of its schema.
    id
        Unique in the log. A decision's is ``<run>/<place>``.
    run
        The run that the event belongs to.
    n, place
        For decisions: the dense ordinal within the run (from 0) and the place in the strategy.
        ``None`` for facts.
    at
        When it was appended: nanoseconds since the Unix epoch, UTC.
    by
        Who appended it.
    cause
        Ids of the requests or events that it answers or follows.
    data
        The payload, or `Unknown`.
    """

    kind: str
    v: int
    id: str
    run: str
    n: int | None
    place: str | None
    at: int
    by: Writer
    cause: tuple[str, ...]
    data: Payload | Unknown

    @property
    def origin(self) -> Origin:
        return "fact" if self.n is None else "decision"


def canonical(value: Any) -> bytes:
    """JSON bytes with object keys in a fixed order: equal values give equal bytes."""
    return _canonical.encode(value)


def content_digest(data: Payload) -> str:
    """sha256 (hex) of what a payload says: kind, version and every field that is not volatile."""
    fields: Any = data
    if data.VOLATILE:
        fields = {name: getattr(data, name) for name in data.__struct_fields__ if name not in data.VOLATILE}
    head = f"{data.KIND}/{data.VERSION}\n".encode()
    return hashlib.sha256(head + canonical(fields)).hexdigest()
