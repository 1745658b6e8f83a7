"""A rate limit that all processes of a server share: a sliding window kept by the server itself."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from .jetstream import STREAM_NAME_IN_USE, ApiError, JetStream, NoAnswerError

ROOT = "evolog_rate"
WINDOW_SECONDS = 60.0
_SUBJECT_FULL = 10077


class SharedRates:
    """Counts starts within any 60 s, of all processes and hosts that use the server.

    For each account and limit there is a stream whose only subject holds as many messages as starts
    are allowed, each for 60 s, and refuses one more. So the count is exact, survives any client, and
    needs nobody to tidy up.

    Parameters
    ----------
    js
        Connection.
    window_seconds
        Length of the window; tests make it shorter.
    """

    def __init__(self, js: JetStream, window_seconds: float = WINDOW_SECONDS) -> None:
        self._js = js
        self._window = window_seconds
        self._made: set[str] = set()

    def tokens(self, account: tuple[str, ...]) -> Callable[[int], Awaitable[bool]]:
        """What asks for one start under a limit of so many within the window: whether it may go ahead.

        Parameters
        ----------
        account
            What tells one account at one provider from another; it is stored as a digest only.
        """
        digest = hashlib.sha256("\0".join(account).encode()).hexdigest()[:16]

        async def take(limit: int) -> bool:
            return await self._take(f"{digest}_{limit}", limit)

        return take

    async def _take(self, name: str, limit: int) -> bool:
        subject = f"{ROOT}.{name}"
        if name not in self._made:
            await self._make(f"EVOLOG_RATE_{name}", subject, limit)
            self._made.add(name)
        try:
            code = await self._js.try_publish(subject, b"")
        except NoAnswerError:
            return False  # the server is away: the caller asks again
        if code == _SUBJECT_FULL:
            return False
        if code:
            raise ApiError(code, "a token was refused", f"publishing on {subject}")
        return True

    async def _make(self, stream: str, subject: str, limit: int) -> None:
        config = {
            "name": stream,
            "subjects": [subject],
            "retention": "limits",
            "storage": "file",
            "max_age": int(self._window * 1e9),
            "max_msgs_per_subject": limit,
            "discard": "new",
            "discard_new_per_subject": True,
            # No longer than messages live; the server takes no longer one.
            "duplicate_window": int(min(self._window, 1.0) * 1e9),
        }
        try:
            await self._js.api(f"STREAM.CREATE.{stream}", config)
        except ApiError as refused:  # there already, perhaps with another window
            if refused.code != STREAM_NAME_IN_USE:
                raise
