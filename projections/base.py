"""What a projection is: a pure, incremental fold over one run's events with a digest of its state."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from ..events import Direction, Event, Payload, Unknown, canonical
from ..events.errors import UnknownKindError

S = TypeVar("S", bound=msgspec.Struct)
H = TypeVar("H", bound=Callable[..., None])

_MARK = "_evolog_handles"


def on(*payloads: type[Payload]) -> Callable[[H], H]:
    """Declare a method of a `Projection` as the handler of these kinds: ``method(self, event, data)``."""

    def mark(method: H) -> H:
        setattr(method, _MARK, payloads)
        return method

    return mark


class Projection(Generic[S]):
    """A fold over the events of one run, in log order.

    A subclass names its `State` and marks its handlers with `on`. A handler changes `state` from
    the event alone: no I/O, no clock, and no iteration whose order could change what it writes,
    since a dict that was dumped and loaded is in another order. Only then do equal prefixes of the
    log give equal digests wherever the fold was cut.

    Delivery is at least once: a decision with an ordinal that was folded already is skipped here;
    for facts the handlers hold what they need (mostly the open requests, design rule 4).

    Attributes
    ----------
    NAME, VERSION
        ``name/version`` names the digest in `views.digested`. `VERSION` rises with every change to
        the state or to what is folded into it.
    State
        Struct of plain values with a default for every field.
    state
        What is known so far. Readers must not change it.
    """

    NAME: ClassVar[str]
    VERSION: ClassVar[int] = 1
    State: ClassVar[type[msgspec.Struct]]
    _methods: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        methods = dict(cls._methods)
        for name, member in vars(cls).items():
            for payload in getattr(member, _MARK, ()):
                methods[payload.KIND] = name
        cls._methods = methods

    def __init__(self) -> None:
        self.state: S = self.State()  # type: ignore[assignment]
        self._next_n = 0
        self._handlers: dict[str, Callable[[Event, Any], None]] = {
            kind: getattr(self, method) for kind, method in self._methods.items()
        }

    @property
    def key(self) -> str:
        return f"{self.NAME}/{self.VERSION}"

    @property
    def handles(self) -> frozenset[str]:
        """The kinds that change this projection; it need not be given others."""
        return frozenset(self._handlers)

    def apply(self, event: Event) -> None:
        """Fold the next event in.

        Raises
        ------
        UnknownKindError
            If the event is of a version that this code does not know, of a kind that it folds.
        """
        handler = self._handlers.get(event.kind)
        if handler is None:
            return
        data = event.data
        if type(data) is Unknown:
            raise UnknownKindError(
                f"event {event.id}: {event.kind}/{event.v} is newer than this evolog, and projection {self.key} "
                "rests on it: upgrade evolog"
            )
        n = event.n
        if n is not None:
            if n < self._next_n:
                return
            self._next_n = n + 1
        handler(event, data)

    def digest(self) -> str:
        """sha256 (hex) of the state as canonical JSON."""
        return hashlib.sha256(canonical(self.state)).hexdigest()

    def dump(self) -> bytes:
        """Everything that `load` needs to go on from here."""
        return canonical((self._next_n, self.state))

    def load(self, dumped: bytes | msgspec.Raw) -> None:
        """Go on from what another instance of the same version dumped.

        Raises
        ------
        msgspec.MsgspecError
            If the bytes are not that.
        """
        self._next_n, self.state = msgspec.json.decode(dumped, type=tuple[int, self.State])  # type: ignore[name-defined]


def fold(events: Iterable[Event], projections: Iterable[Projection[Any]]) -> None:
    """Fold events into each of `projections`; every event goes only to those that handle its kind."""
    dispatch: dict[str, tuple[Callable[[Event], None], ...]] = {}
    for projection in projections:
        for kind in projection.handles:
            dispatch[kind] = (*dispatch.get(kind, ()), projection.apply)
    nobody: tuple[Callable[[Event], None], ...] = ()
    for event in events:
        for apply in dispatch.get(event.kind, nobody):
            apply(event)


def answered_place(event: Event) -> str:
    """Place of the request that a fact answers: its first cause is ``<run>/<place>`` (empty: none)."""
    return event.cause[0].rpartition("/")[2] if event.cause else ""


def better(score: float, than: float | None, direction: Direction) -> bool:
    """Whether `score` is strictly better; anything is better than nothing, so ties keep the earlier one."""
    if than is None:
        return True
    return score > than if direction == "maximize" else score < than
