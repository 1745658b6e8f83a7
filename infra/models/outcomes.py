"""What became of one call: litellm's exceptions and replies, told apart by their cause.

litellm turns most failures into one class (a dead server, a reply that is no JSON and a real status
500 are all its ``InternalServerError``), so the class alone says little. What tells them apart is
the chain of causes, and whether a server answered at all. Classes are compared by name: this module
does not import litellm.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from ...events import Usage
from ...events.kinds import Failure

CallOutcome = Literal["ok", "rate-limited", "timeout", "unreachable", "refused", "garbage", "error"]
#: What a call is charged: by its usage, nothing, or its worst case since nobody knows.
Charge = Literal["usage", "nothing", "worst"]

RETRIED: frozenset[CallOutcome] = frozenset({"rate-limited", "timeout", "unreachable", "garbage", "error"})
REASONS: Mapping[CallOutcome, Failure] = {
    "rate-limited": "rate-limited",
    "timeout": "timeout",
    "unreachable": "unreachable",
    "refused": "refused",
    "garbage": "error",
    "error": "error",
}

_DETAIL_CHARACTERS = 600
_NEVER_CONNECTED = frozenset(
    {"ConnectError", "ConnectTimeout", "ClientConnectorError", "ConnectionTimeoutError", "ConnectionRefusedError"}
)
_BROKE_OFF = frozenset(
    {
        "ClientOSError",
        "ClientPayloadError",
        "ConnectionResetError",
        "IncompleteReadError",
        "ReadError",
        "RemoteProtocolError",
        "ServerDisconnectedError",
        "WriteError",
    }
)
_TIMED_OUT = frozenset({"APITimeoutError", "ReadTimeout", "Timeout", "TimeoutError", "TimeoutException"})
#: Raised by litellm itself, before anything is sent or about a body that names the fault.
_REFUSED = frozenset(
    {
        "AuthenticationError",
        "BadRequestError",
        "BudgetExceededError",
        "NotFoundError",
        "PermissionDeniedError",
        "UnprocessableEntityError",
    }
)
#: Client errors that are no word on the request itself.
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429})
#: A gateway lost the server behind it, or gave up on it: the call may have been made, and billed.
_PERHAPS_BILLED = frozenset({408, 502, 504})


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """How one call ended.

    Attributes
    ----------
    usage
        Tokens as the provider counted them; None if it did not say.
    usd
        Cost as litellm works it out, if it can.
    retry_after
        Seconds that the provider asks to be left alone.
    """

    outcome: CallOutcome
    charge: Charge
    text: str = ""
    finish: str = ""
    provider_model: str = ""
    fingerprint: str = ""
    usage: Usage | None = None
    usd: float | None = None
    retry_after: float | None = None
    detail: str = ""


def timed_out(seconds: float) -> Reply:
    """The reply to a call that was given up."""
    return Reply(
        outcome="timeout", charge="worst", detail=f"no answer within {seconds:g} s (proposer.timeout_seconds)"
    )


def reply_of_response(response: Any) -> Reply:
    """What litellm's `ModelResponse` says. One without a choice is no completion."""
    choices: list[Any] = getattr(response, "choices", None) or []
    message = getattr(choices[0], "message", None) if choices else None
    if message is None:
        return Reply(outcome="garbage", charge="worst", detail="the reply has no choices, so it is no completion")
    hidden = getattr(response, "_hidden_params", None) or {}
    usd = hidden.get("response_cost")
    usage = _usage(getattr(response, "usage", None))
    return Reply(
        outcome="ok",
        charge="usage" if usage is not None else "worst",
        text=_well_formed(message.content or ""),
        finish=str(choices[0].finish_reason or ""),
        provider_model=_well_formed(str(response.model or "")),
        fingerprint=_well_formed(str(getattr(response, "system_fingerprint", None) or "")),
        usage=usage,
        usd=float(usd) if isinstance(usd, int | float) else None,
        detail="" if usage is not None else "the reply gives no usage, so the call is charged at its worst case",
    )


def _usage(usage: Any) -> Usage | None:
    entering, leaving = getattr(usage, "prompt_tokens", None) or 0, getattr(usage, "completion_tokens", None) or 0
    # litellm fills in zeros for a server that counts nothing; a prompt of no tokens cannot be sent.
    return Usage(prompt_tokens=int(entering), completion_tokens=int(leaving)) if entering > 0 else None


def reply_of_error(error: BaseException, where: str) -> Reply:
    """What an exception that litellm raised means.

    Parameters
    ----------
    where
        The endpoint, for the detail.
    """
    chain = list(_chain(error))
    names = {cls.__name__ for link in chain for cls in type(link).__mro__}
    own = {cls.__name__ for cls in type(error).__mro__}
    status, headers = _answer(chain)
    after = _retry_after(headers)
    detail = _detail(error, where)
    if status is None:
        return _without_answer(names, own, chain, detail, where)
    if status == 429:
        if "insufficient_quota" in f"{getattr(error, 'code', '')}{getattr(error, 'body', '')}{error}":
            return Reply(outcome="refused", charge="nothing", detail=f"HTTP 429, quota used up: {detail}")
        return Reply(outcome="rate-limited", charge="nothing", retry_after=after, detail=f"HTTP 429: {detail}")
    if status < 400:
        return Reply(outcome="garbage", charge="worst", detail=f"HTTP {status}, but no completion: {detail}")
    if status < 500 and status not in _WORTH_ANOTHER_TRY:
        return Reply(outcome="refused", charge="nothing", detail=f"HTTP {status}: {detail}")
    outcome: CallOutcome = "timeout" if status in (408, 504) else "error"
    charge: Charge = "worst" if status in _PERHAPS_BILLED else "nothing"
    return Reply(outcome=outcome, charge=charge, retry_after=after, detail=f"HTTP {status}: {detail}")


def _without_answer(names: set[str], own: set[str], chain: list[BaseException], detail: str, where: str) -> Reply:
    """No server answered with a status: it was never reached, broke off, or what it said was no completion."""
    innermost = _clip(_well_formed(str(chain[-1])))
    if names & _NEVER_CONNECTED:
        return Reply(outcome="unreachable", charge="nothing", detail=f"cannot connect to {where}: {innermost}")
    if names & _TIMED_OUT:
        return Reply(outcome="timeout", charge="worst", detail=detail)
    if names & _BROKE_OFF:
        return Reply(
            outcome="unreachable", charge="worst", detail=f"{where} broke off in the middle of the call: {innermost}"
        )
    if own & _REFUSED:
        return Reply(outcome="refused", charge="nothing", detail=detail)
    # What is left after a connection that held: the body could not be read as a completion.
    if "JSONDecodeError" in names or "LookupError" in names or own & {"APIError", "InternalServerError"}:
        return Reply(outcome="garbage", charge="worst", detail=f"the reply is no completion: {detail}")
    return Reply(outcome="error", charge="worst", detail=detail)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _answer(chain: list[BaseException]) -> tuple[int | None, Mapping[str, str]]:
    """Status and headers of the server's answer.

    litellm gives its exceptions a made-up response with a status and no headers; a real answer has some.
    """
    for link in chain:
        response = getattr(link, "response", None)
        headers = getattr(response, "headers", None) or getattr(link, "litellm_response_headers", None)
        status = getattr(response, "status_code", None) or getattr(link, "status_code", None)
        if headers and isinstance(status, int):
            return status, {str(name).lower(): str(value) for name, value in dict(headers).items()}
    return None, {}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds in ``Retry-After-Ms`` or ``Retry-After``, which may be a date (RFC 9110, 10.2.3)."""
    milliseconds, said = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds is not None:
            return _seconds(float(milliseconds) / 1000.0)
        return None if said is None else _seconds(float(said))
    except ValueError:
        pass
    try:
        return _seconds(email.utils.parsedate_to_datetime(said or "").timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _seconds(value: float) -> float | None:
    return min(max(value, 0.0), 86_400.0) if value == value else None  # noqa: PLR0124  (NaN)


def _detail(error: BaseException, where: str) -> str:
    return _clip(f"{where}: {_well_formed(str(error))}")


def _clip(text: str) -> str:
    return text if len(text) <= _DETAIL_CHARACTERS else text[:_DETAIL_CHARACTERS] + " …"


def _well_formed(text: str) -> str:
    """`text` with lone surrogates, which JSON can carry and UTF-8 cannot, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
