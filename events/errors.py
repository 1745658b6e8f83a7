"""Every error that evolog raises on purpose.

EvologError
├── EventError                 an event that cannot be said or read
│   ├── UnknownKindError       written, but nobody registered it
│   ├── DuplicateKindError     two payloads claim one kind and version
│   └── MalformedEventError    bytes that are no event, or data that does not fit its kind
├── SettingsError              a run file or an override that does not fit
├── MissingExtraError          an optional dependency is not installed
├── LogError                   the log cannot be read or written
│   ├── ConflictError          another director wrote since; fold again
│   ├── LogDamagedError        a gap, a damaged block, a stream with the wrong limits
│   ├── LogFullError           the disk or the store is full; nothing acknowledged is lost
│   ├── LogUnavailableError    the server cannot be reached
│   └── BlobMissingError       an event names content that the store does not have
├── ServerError                the embedded server cannot be started or kept
│   └── StoreHeldError         another server holds the data directory
├── RunError                   a run that does not exist, is ambiguous, or cannot go on
│   └── LeaseHeldError         another director is alive on this run
├── StrategyError              the strategy did what a strategy must not do
│   ├── ForbiddenCallError     it read a clock, the environment, a file, a socket or global randomness
│   └── DivergenceError        on replay it decided something else
├── RequestFailedError         raised inside a strategy: a request ended without an answer
├── RequestCancelledError      raised inside a strategy: it cancelled the request itself
├── RunStoppedError            raised inside a strategy: an operator stopped the run
├── SandboxError               the sandbox could not be set up
└── ModelError                 a model call failed (see infra.models)
"""

from __future__ import annotations


class EvologError(Exception):
    """Base of all errors that evolog raises on purpose. Its text names the value, the place and the next step."""

    exit_code = 1


class EventError(EvologError):
    pass


class UnknownKindError(EventError):
    pass


class DuplicateKindError(EventError):
    pass


class MalformedEventError(EventError):
    pass


class SettingsError(EvologError):
    pass


class MissingExtraError(EvologError):
    """An optional dependency is missing.

    Parameters
    ----------
    what
        What needed it, for the message.
    extra
        The extra of the distribution that brings it.
    """

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs the extra '{extra}': pip install 'evolog[{extra}]'")


class LogError(EvologError):
    pass


class ConflictError(LogError):
    pass


class LogDamagedError(LogError):
    pass


class LogFullError(LogError):
    pass


class LogUnavailableError(LogError):
    pass


class BlobMissingError(LogError):
    pass


class ServerError(EvologError):
    pass


class StoreHeldError(ServerError):
    pass


class RunError(EvologError):
    pass


class LeaseHeldError(RunError):
    pass


class StrategyError(EvologError):
    pass


class ForbiddenCallError(StrategyError):
    pass


class DivergenceError(StrategyError):
    """A replayed decision is not the recorded one; `difference` is an `evolog.replay.Difference`."""

    exit_code = 3

    def __init__(self, message: str, difference: object = None) -> None:
        self.difference = difference
        super().__init__(message)


class RequestFailedError(EvologError):
    """A request ended without an answer; `reason` is that of `request.failed`."""

    def __init__(self, place: str, reason: str, detail: str, usd: float = 0.0) -> None:
        self.place, self.reason, self.detail, self.usd = place, reason, detail, usd
        super().__init__(f"request {place} failed ({reason}): {detail}")


class RequestCancelledError(EvologError):
    def __init__(self, place: str, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(f"request {place} was cancelled: {reason}")


class RunStoppedError(EvologError):
    pass


class SandboxError(EvologError):
    pass


class ModelError(EvologError):
    pass
