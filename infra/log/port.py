"""The ports of the log: what every implementation offers. See design sections 3 and 6."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from ...events import Blob, Event
from ...events.envelope import Origin


class Stored(NamedTuple):
    """An event and its position: the sequence in the stream, counting from 1."""

    seq: int
    event: Event


class Log(Protocol):
    """One append-only sequence of events.

    Raises
    ------
    LogUnavailableError, LogFullError, LogDamagedError
        From every method, where they apply.
    """

    async def append(self, *facts: Event) -> list[int]:
        """Append facts, each once by its id, and return their sequences when all are stored.

        Retried until acknowledged. Appending an id again is not an error and stores nothing within
        the duplicate window; past it a second copy may be stored, which folds ignore.
        """
        ...

    async def decide(self, decisions: Sequence[Event], *, after: int) -> list[int]:
        """Append one run's decisions in order, if its last decision is at `after`.

        Many go in atomic batches, few one by one: a crash may leave the first ones only, which does no
        harm, since the next director makes the same and appends the rest (design section 3).

        Parameters
        ----------
        after
            Sequence of the run's last decision (0: none).

        Returns
        -------
        list of int
            Sequence of each.

        Raises
        ------
        ConflictError
            If another director has written since, or the acknowledgement was lost and the tail of
            the log holds something else. If the tail holds exactly these decisions, it succeeded.
        """
        ...

    def read(self, run: str | None = None, *, start: int = 1, until: int | None = None) -> AsyncIterator[Stored]:
        """Events in order from sequence `start` to `until` (default: the newest at the time of the call).

        Raises
        ------
        LogDamagedError
            If the stream has a gap.
        """
        ...

    def follow(
        self, run: str | None = None, *, start: int = 1, origin: Origin | None = None
    ) -> AsyncIterator[Stored]:
        """As `read`, and then each new event as it arrives, until closed; only decisions or facts if asked."""
        ...

    async def last(self, run: str, kind: str | None = None, origin: Origin | None = None) -> Stored | None:
        """The newest event of a run, of one kind or origin if given."""
        ...

    async def tip(self) -> int:
        """Sequence of the newest event (0: none)."""
        ...

    async def runs(self) -> list[str]:
        """Ids of the runs in the log."""
        ...


class Blobs(Protocol):
    """Content by its sha256. Putting the same content again stores nothing."""

    async def put(self, *contents: bytes) -> list[Blob]:
        """Store contents; they can be read by anyone when this returns."""
        ...

    async def get(self, blob: Blob) -> bytes:
        """The content, checked against its digest.

        Raises
        ------
        BlobMissingError
            If the store does not have it, or has something else under that digest.
        """
        ...


class Work(NamedTuple):
    """A pointer to an open request.

    Attributes
    ----------
    role
        Who answers it: ``proposing`` or ``evaluation``.
    run, place
        Which request.
    seq
        Sequence of the request in the log; what earlier attempts left comes after it.
    again
        Whether it was put back, and so may have been taken up before.
    request
        The encoded event itself, which saves the worker a read; empty: read it at `seq`.
    """

    role: str
    run: str
    place: str
    seq: int = 0
    again: bool = False
    request: bytes = b""


class WorkQueue(Protocol):
    """Pointers to open requests. It holds no truth: purge it and the director puts them back."""

    async def put(self, *work: Work) -> None: ...

    async def purge(self, run: str) -> None:
        """Drop all pointers of a run."""
        ...

    async def count(self, run: str) -> int:
        """How many pointers of a run are waiting or being worked on."""
        ...
