"""The one way to call a model (design rule 9).

Every try is announced before it is sent (`call.started`, with what it may cost at worst) and settled
afterwards (`completion.recorded`, with what it did cost). A try that the process did not live to
settle stays announced, and is charged at its worst case. Tries are made here and nowhere below.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ...events import Blob, Payload, Usage, canonical
from ...events.errors import ModelError, RequestFailedError
from ...events.kinds import CallStarted, CompletionRecorded
from .gateway import Gateway, ModelFacts, shared_gateway
from .limiter import Limiter, shared_limiter
from .outcomes import REASONS, RETRIED, Reply
from .prices import Price, price_per_million
from .settings import PREFIX, ModelSettings

Record = Callable[[str, Payload], Awaitable[None]]
Store = Callable[..., Awaitable[list[Blob]]]

#: Sent to an endpoint of the user's own that needs no key; without one, litellm would look for a
#: provider's key in the environment and send that there.
_NO_KEY = "none"
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
#: Shorter values are no secrets, but words such as "none" or "EMPTY" that would be found everywhere.
_SECRET_LENGTH = 8
_MASK = "[secret]"
#: Money is compared with this much tolerance, so that a sum's last bit refuses nothing.
_TOLERANCE_USD = 1e-12


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a chat: ``system``, ``user`` or ``assistant``, and its text."""

    role: str
    content: str


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One completion that is wanted.

    Attributes
    ----------
    place
        The request that it serves, for errors.
    attempt, name
        The worker's attempt, and what tells this call from others of the same attempt.
    tokens
        Completion tokens at most.
    seconds
        Wall time for all tries and the waits between them.
    """

    place: str
    attempt: str
    name: str
    messages: tuple[Message, ...]
    tokens: int
    seed: int | None = None
    temperature: float | None = None
    seconds: float | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer.

    Attributes
    ----------
    finish
        Why it ended: ``stop``, ``length`` (cut off at the token limit), ``content_filter``, …
    request, reply
        What was sent and said, in the blob store.
    tries
        Calls that were made for it.
    """

    text: str
    finish: str
    request: Blob
    reply: Blob
    provider_model: str
    fingerprint: str
    usage: Usage
    tries: int


class Spend:
    """Money and tokens of one request, all its calls together.

    Parameters
    ----------
    limit_usd
        Cap on what is spent and reserved (0: none).
    spent_usd
        What earlier attempts cost or may have cost.
    """

    def __init__(self, limit_usd: float = 0.0, spent_usd: float = 0.0) -> None:
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self.usage = Usage()
        self._reserved: dict[str, float] = {}

    @property
    def total_usd(self) -> float:
        """Spent, and reserved by calls that have not settled."""
        return self.spent_usd + sum(self._reserved.values())

    def affords(self, usd: float) -> bool:
        return self.limit_usd <= 0.0 or self.total_usd + usd <= self.limit_usd + _TOLERANCE_USD

    def reserve(self, call: str, usd: float) -> None:
        self._reserved[call] = usd

    def settle(self, call: str, usd: float, usage: Usage) -> None:
        del self._reserved[call]
        self.spent_usd += usd
        self.usage = Usage(
            prompt_tokens=self.usage.prompt_tokens + usage.prompt_tokens,
            completion_tokens=self.usage.completion_tokens + usage.completion_tokens,
        )


class ModelClient:
    """Calls the model of `settings`.

    Parameters
    ----------
    settings
        Which model, where, how often, at what price.
    model
        Its name as litellm has it; that of `settings` unless given.
    gateway
        Where calls go; that of the process unless given.
    sleep
        Waits so many seconds between two tries.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        model: str = "",
        gateway: Gateway | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self._sleep = sleep
        self.model = model or settings.model_name
        self._gateway = gateway or shared_gateway()

    async def complete(self, call: ModelCall, *, spend: Spend, record: Record, store: Store) -> Completion:
        """Make the call, again where that can help, and record every try.

        Parameters
        ----------
        spend
            The request's account; what this call costs is added, its failed tries too.
        record
            Appends a fact of the attempt durably before it returns.
        store
            Stores contents and returns their references.

        Raises
        ------
        RequestFailedError
            If the model refused, the tries or the time are used up, or another try would pass the
            money; `usd` is what the whole request has cost so far.
        MissingExtraError
            If litellm is not installed.
        """
        settings = self.settings
        facts = await self._facts(call, spend)
        key = self._key(call, spend)
        price = self._price(facts, call, spend)
        request = self._request(call, facts)
        raw = canonical(request)
        [request_blob] = await store(raw)
        worst = price.worst(len(raw), call.tokens) if price is not None else 0.0
        limiter = shared_limiter(facts.provider, settings.api_base or "", settings.api_key_env or "")
        began = time.monotonic()
        number, last = 0, ""
        while True:
            number += 1
            async with limiter.slot(per_minute=settings.requests_per_minute, concurrent=settings.concurrent):
                if not spend.affords(worst):
                    raise self._over_budget(call, number, worst, spend, last)
                reply, reply_blob, usage = await self._try(
                    call, number, request, request_blob, key, price, worst, spend, record, store
                )
            if reply_blob is not None:
                return Completion(
                    text=reply.text,
                    finish=reply.finish,
                    request=request_blob,
                    reply=reply_blob,
                    provider_model=reply.provider_model,
                    fingerprint=reply.fingerprint,
                    usage=usage,
                    tries=number,
                )
            wait = self._wait(reply, number, limiter)
            self._check_going_on(call, reply, number, wait, time.monotonic() - began, spend)
            last = f"; the try before it: {reply.detail}"
            await self._sleep(wait)

    async def check(self, limit_usd: float) -> None:
        """Refuse in advance what every request would be refused for; nothing is sent.

        Parameters
        ----------
        limit_usd
            Money that one request may cost (0: no limit).

        Raises
        ------
        ModelError
            If the model's provider or price is unknown, or its key is missing.
        MissingExtraError
            If litellm is not installed.
        """
        call, spend = ModelCall(place="", attempt="", name="", messages=(), tokens=1), Spend(limit_usd)
        try:
            facts = await self._facts(call, spend)
            self._key(call, spend)
            self._price(facts, call, spend)
        except RequestFailedError as error:
            raise ModelError(f"proposer.model = '{PREFIX}{self.model}': {error.detail}") from None

    # One try.

    async def _try(
        self,
        call: ModelCall,
        number: int,
        request: dict[str, Any],
        request_blob: Blob,
        key: str | None,
        price: Price | None,
        worst: float,
        spend: Spend,
        record: Record,
        store: Store,
    ) -> tuple[Reply, Blob | None, Usage]:
        settings = self.settings
        name = f"call-{call.name}-{number}"
        identity = f"{call.attempt}/{name}"
        spend.reserve(identity, worst)
        await record(
            name,
            CallStarted(
                attempt=call.attempt,
                call=identity,
                model=self.model,
                request=request_blob,
                worst_usd=worst,
                number=number,
            ),
        )
        sent = time.monotonic()
        reply = await self._gateway.send(
            request, api_base=settings.api_base, api_key=key, timeout=settings.timeout_seconds
        )
        seconds = time.monotonic() - sent
        reply = _without_secrets(reply, key)
        usage = reply.usage or Usage()
        usd = self._cost(reply, usage, price, worst)
        reply_blob = None
        if reply.outcome == "ok":
            [reply_blob] = await store(reply.text.encode())
        await record(
            f"{name}-end",
            CompletionRecorded(
                attempt=call.attempt,
                call=identity,
                model=self.model,
                request=request_blob,
                outcome=reply.outcome,
                number=number,
                provider_model=reply.provider_model,
                fingerprint=reply.fingerprint,
                reply=reply_blob,
                finish=reply.finish,
                usage=usage,
                usd=usd,
                retry_after=reply.retry_after,
                detail=reply.detail,
                seconds=seconds,
            ),
        )
        spend.settle(identity, usd, usage)
        return reply, reply_blob, usage

    def _cost(self, reply: Reply, usage: Usage, price: Price | None, worst: float) -> float:
        if price is None or reply.charge == "nothing":
            return 0.0
        if reply.charge == "worst":
            return worst
        if self.settings.usd_per_million_input is None and reply.usd is not None:
            return reply.usd  # litellm knows of cached and reasoning tokens
        return price.of(usage)

    # Before the first try.

    async def _facts(self, call: ModelCall, spend: Spend) -> ModelFacts:
        try:
            return await self._gateway.facts(self.model)
        except ModelError as error:
            raise RequestFailedError(call.place, "refused", str(error), spend.total_usd) from error

    def _key(self, call: ModelCall, spend: Spend) -> str | None:
        name = self.settings.api_key_env
        if name is None:
            return None if self.settings.api_base is None else _NO_KEY
        key = os.environ.get(name)
        if not key:
            detail = (
                f"the environment variable {name} (proposer.api_key_env) is not set: export it, then run or resume"
            )
            raise RequestFailedError(call.place, "refused", detail, spend.total_usd)
        return key

    def _price(self, facts: ModelFacts, call: ModelCall, spend: Spend) -> Price | None:
        settings = self.settings
        if settings.usd_per_million_input is not None and settings.usd_per_million_output is not None:
            return price_per_million(settings.usd_per_million_input, settings.usd_per_million_output)
        if facts.price is None and spend.limit_usd > 0.0:
            detail = (
                f"the price of {self.model} is unknown and the request has a money limit of {spend.limit_usd:g} USD: "
                "set proposer.usd_per_million_input and proposer.usd_per_million_output (0.0 for a model that "
                "costs nothing), or take the limit away (proposer.usd = 0)"
            )
            raise RequestFailedError(call.place, "refused", detail, spend.total_usd)
        return facts.price

    def _request(self, call: ModelCall, facts: ModelFacts) -> dict[str, Any]:
        """What is sent. Parameters that the model does not take are left out, and so not recorded either."""
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in call.messages],
            "max_tokens": call.tokens,
            **self.settings.extra,
        }
        if call.temperature is not None and "temperature" in facts.parameters:
            request["temperature"] = call.temperature
        if call.seed is not None and "seed" in facts.parameters:
            request["seed"] = call.seed
        return request

    # After a try that failed.

    def _wait(self, reply: Reply, number: int, limiter: Limiter) -> float:
        wait = max(self.settings.backoff_seconds * 2.0 ** (number - 1), reply.retry_after or 0.0)
        if reply.outcome == "rate-limited":
            limiter.pause(wait)
        return wait

    def _check_going_on(
        self, call: ModelCall, reply: Reply, number: int, wait: float, elapsed: float, spend: Spend
    ) -> None:
        """Raise unless another try may help and fits."""
        if reply.outcome not in RETRIED:
            why = reply.detail
        elif number >= self.settings.tries:
            why = f"{number} of {number} tries failed (proposer.tries); the last: {reply.detail}"
        elif call.seconds is not None and elapsed + wait >= call.seconds:
            why = (
                f"the next try could start after {elapsed + wait:.1f} s, and the request has {call.seconds:g} s "
                f"(proposer.seconds); try {number}: {reply.detail}"
            )
        else:
            return
        raise RequestFailedError(call.place, REASONS[reply.outcome], why, spend.total_usd)

    def _over_budget(self, call: ModelCall, number: int, worst: float, spend: Spend, last: str) -> RequestFailedError:
        detail = (
            f"try {number} may cost {worst:.6f} USD (proposer.tokens = {call.tokens} bounds it), "
            f"{spend.total_usd:.6f} USD are spent or reserved, and the request's limit is {spend.limit_usd:g} USD "
            f"(proposer.usd){last}"
        )
        return RequestFailedError(call.place, "over-budget", detail, spend.total_usd)


def _without_secrets(reply: Reply, key: str | None) -> Reply:
    """The reply with secrets masked: some servers quote keys back.

    What the model said loses only the key itself, and says so; an error's detail loses the value of
    every variable of this process that is named like a secret.
    """
    changed = {}
    if key is not None and len(key) >= _SECRET_LENGTH:
        for field in ("text", "detail", "provider_model", "fingerprint", "finish"):
            said = getattr(reply, field)
            if key in said:
                changed[field] = said.replace(key, _MASK)
    detail = changed.get("detail", reply.detail)
    for name, value in os.environ.items():
        if len(value) >= _SECRET_LENGTH and _SECRET_NAME.search(name.upper()):
            detail = detail.replace(value, _MASK)
    if "text" in changed:
        detail = f"{detail} The reply quoted the key; it is masked.".strip()
    changed["detail"] = detail
    return msgspec.structs.replace(reply, **changed)
