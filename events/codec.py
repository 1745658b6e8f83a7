"""Events to bytes and back. Equal events are equal bytes; unknown kinds survive unchanged."""

from __future__ import annotations

from typing import Any

import msgspec

from . import kinds as _kinds  # noqa: F401  (importing registers evolog's own kinds)
from .envelope import Event, Payload, Unknown, Writer, canonical
from .errors import MalformedEventError, UnknownKindError
from .registry import payload_type, upcasting_steps


class _Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: str
    v: int
    id: str
    run: str
    n: int | None
    place: str | None
    at: int
    by: Writer
    cause: tuple[str, ...]
    data: msgspec.Raw


_wire_decoder = msgspec.json.Decoder(_Wire)
_data_decoders: dict[tuple[str, int], msgspec.json.Decoder[Any] | None] = {}


def encode(event: Event) -> bytes:
    """One line of JSON with its keys in the order of `Event`'s fields.

    Raises
    ------
    UnknownKindError
        If the payload's kind is not registered (writing is strict).
    MalformedEventError
        If envelope and payload do not agree on kind, version or origin.
    """
    data = event.data
    if isinstance(data, Unknown):
        return canonical(_Wire(**_head(event), data=data.raw))
    if payload_type(data.KIND) is not type(data):
        raise UnknownKindError(f"{type(data).__qualname__} is not the registered class of {data.KIND!r}")
    if (event.kind, event.v) != (data.KIND, data.VERSION):
        raise MalformedEventError(
            f"event {event.id}: the envelope says {event.kind}/{event.v}, its payload is {data.KIND}/{data.VERSION}"
        )
    if (data.ORIGIN == "decision") != (event.n is not None and event.place is not None):
        raise MalformedEventError(
            f"event {event.id}: {event.kind} is a {data.ORIGIN}, but n={event.n} and place={event.place!r}"
        )
    return canonical(event)


def _head(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in _Wire.__struct_fields__ if name != "data"}


def decode(raw: bytes | memoryview) -> Event:
    """Read one event. Old versions are lifted to the newest; unknown kinds and newer versions are kept as they are.

    Raises
    ------
    MalformedEventError
        If the bytes are no event, or the data does not fit its kind.
    """
    try:
        wire = _wire_decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise MalformedEventError(f"not an event ({error}): {bytes(raw[:120])!r}") from None
    key = (wire.kind, wire.v)
    try:
        decoder = _data_decoders[key]
    except KeyError:
        decoder = _data_decoders[key] = _data_decoder(*key)
    try:
        data = _lift(wire) if decoder is None else decoder.decode(wire.data)
    except msgspec.MsgspecError as error:
        raise MalformedEventError(f"event {wire.id} ({wire.kind}/{wire.v}): {error}") from None
    return Event(
        kind=wire.kind,
        v=data.VERSION if isinstance(data, Payload) else wire.v,
        id=wire.id,
        run=wire.run,
        n=wire.n,
        place=wire.place,
        at=wire.at,
        by=wire.by,
        cause=wire.cause,
        data=data,
    )


def _data_decoder(kind: str, version: int) -> msgspec.json.Decoder[Any] | None:
    try:
        newest = payload_type(kind)
    except UnknownKindError:
        return None
    return msgspec.json.Decoder(newest) if version == newest.VERSION else None


def _lift(wire: _Wire) -> Payload | Unknown:
    try:
        steps = upcasting_steps(wire.kind, wire.v)
    except UnknownKindError:
        return Unknown(raw=wire.data.copy())
    if steps is None:
        return Unknown(raw=wire.data.copy())
    data = msgspec.json.decode(wire.data)
    for step in steps:
        data = step(data)
    return msgspec.convert(data, payload_type(wire.kind))
