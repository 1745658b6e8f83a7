"""What a proposer or the model client records, kept in memory in order."""

from __future__ import annotations

from evolog.events import Blob, Payload, blob_of, canonical
from evolog.events.kinds import CallStarted, CompletionRecorded


class Notebook:
    """The `record` and `store` of one attempt.

    Parameters
    ----------
    dies_after
        Raise `ProcessDiedError` from `record` right after a fact of this kind is kept, as a process dies that
        has appended it.
    """

    def __init__(self, dies_after: str | None = None) -> None:
        self.facts: dict[str, Payload] = {}
        self.blobs: dict[str, bytes] = {}
        self.dies_after = dies_after

    async def record(self, name: str, payload: Payload) -> None:
        assert name not in self.facts, f"two facts are named {name}"
        self.facts[name] = payload
        if self.dies_after == payload.KIND:
            raise ProcessDiedError(name)

    async def store(self, *contents: bytes) -> list[Blob]:
        blobs = [blob_of(content) for content in contents]
        self.blobs.update((blob.sha256, content) for blob, content in zip(blobs, contents, strict=True))
        return blobs

    @property
    def started(self) -> list[CallStarted]:
        return [fact for fact in self.facts.values() if isinstance(fact, CallStarted)]

    @property
    def ended(self) -> list[CompletionRecorded]:
        return [fact for fact in self.facts.values() if isinstance(fact, CompletionRecorded)]

    def everything(self) -> bytes:
        """All bytes that were recorded or stored."""
        return b"\n".join([*(canonical(fact) for fact in self.facts.values()), *self.blobs.values()])


class ProcessDiedError(Exception):
    """The process is gone."""
