"""Which kinds of event exist, in which versions, and how an old version is lifted to the newest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from .envelope import Payload
from .errors import DuplicateKindError, UnknownKindError

P = TypeVar("P", bound=type[Payload])
Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

_newest: dict[str, type[Payload]] = {}
_upcasters: dict[tuple[str, int], Upcaster] = {}


def register(payload: P) -> P:
    """Make a kind of event known. Used as a decorator on a `Payload` subclass.

    Raises
    ------
    DuplicateKindError
        If another class already claims this kind.
    """
    known = _newest.get(payload.KIND)
    if known is not None and known is not payload:
        raise DuplicateKindError(
            f"event kind {payload.KIND!r} is claimed by {known.__module__}.{known.__qualname__} and by "
            f"{payload.__module__}.{payload.__qualname__}: name one of them otherwise"
        )
    _newest[payload.KIND] = payload
    return payload


def upcaster(kind: str, version: int) -> Callable[[Upcaster], Upcaster]:
    """Declare how the data of `kind` at `version` becomes data at ``version + 1``.

    The decorated function takes and returns the payload as plain JSON values.

    Raises
    ------
    DuplicateKindError
        If this step has an upcaster already.
    """

    def declare(step: Upcaster) -> Upcaster:
        if (kind, version) in _upcasters:
            raise DuplicateKindError(f"{kind} version {version} already has an upcaster")
        _upcasters[kind, version] = step
        return step

    return declare


@cache
def _load_entry_points() -> None:
    for point in entry_points(group="evolog.events"):
        point.load()


def payload_type(kind: str) -> type[Payload]:
    """The newest payload class of `kind`.

    Raises
    ------
    UnknownKindError
        If nothing registered it, neither here nor under the entry point group ``evolog.events``.
    """
    found = _newest.get(kind)
    if found is None:
        _load_entry_points()
        found = _newest.get(kind)
    if found is None:
        import difflib

        near = difflib.get_close_matches(kind, _newest, n=1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise UnknownKindError(
            f"event kind {kind!r} is not registered{meant}: import the module that declares it, or list that "
            "module under the entry point group 'evolog.events'"
        )
    return found


def upcasting_steps(kind: str, version: int) -> list[Upcaster] | None:
    """The steps from `version` to the newest version of `kind`, or None where the chain has a gap."""
    newest = payload_type(kind).VERSION
    steps = []
    for at in range(version, newest):
        step = _upcasters.get((kind, at))
        if step is None:
            return None
        steps.append(step)
    return steps if version <= newest else None


def kinds() -> Iterator[type[Payload]]:
    """All registered kinds, by name."""
    _load_entry_points()
    for kind in sorted(_newest):
        yield _newest[kind]
