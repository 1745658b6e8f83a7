"""The port of a proposer: it answers one `proposal.requested`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from ...events import Blob, Payload
from ...events.kinds import ProposalMade, ProposalRequested, TaskRegistered


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """A request with everything that it names, read from the blob store.

    Attributes
    ----------
    interface
        What the task tells a proposer about the program that it wants (text).
    parents
        Source of each parent, in the order of ``request.parents``.
    feedback
        What the failing program printed, for `debug`.
    attempt
        Id of this attempt; facts appended through `record` are named after it.
    spent_usd
        What earlier attempts at the same request cost or may have cost.
    """

    run: str
    place: str
    request: ProposalRequested
    task: TaskRegistered
    interface: str
    parents: tuple[str, ...]
    feedback: str
    attempt: str
    attempt_number: int = 1
    spent_usd: float = 0.0


#: Appends a fact of the attempt durably before returning: ``await record("call-1", CallStarted(...))``.
Record = Callable[[str, Payload], Awaitable[None]]
#: Stores texts and returns their references: ``await store(b"...", b"...")``.
Store = Callable[..., Awaitable[list[Blob]]]


class Proposer(Protocol):
    """What an entry point of the group ``evolog.proposers`` makes, given the model's argument and ``[proposer]``.

    It may also have ``async check(argument, limit_usd)``, which is called before a run starts and raises an
    `evolog.events.errors.EvologError` where no request could be answered.
    """

    async def propose(self, brief: Brief, *, record: Record, store: Store) -> ProposalMade:
        """Make the programs that were asked for.

        Raises
        ------
        RequestFailedError
            If trying again cannot help, or this proposer's own retries are used up. Its `usd` is
            what all attempts cost.
        """
        ...
