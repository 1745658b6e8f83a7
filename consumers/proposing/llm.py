"""The proposer ``litellm:<model>``: asks a language model for programs."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, ClassVar

import msgspec

from ...events import Blob, canonical
from ...events.errors import MissingExtraError, RequestFailedError, SettingsError
from ...events.kinds import Failure, ProposalMade, Refusal, Sample
from ...infra.models import Completion, ModelCall, ModelClient, ModelSettings, Spend
from ...infra.settings import model_settings
from .normal import normal_digest
from .port import Brief, Record, Store
from .prompts import FILE_NAME, render, reply_style
from .reply import Parsed, parse_reply

_PREFIX = "litellm:"


class LiteLLMProposer:
    """Implements `Proposer` with any model that litellm can call.

    Parameters
    ----------
    argument
        What follows ``litellm:`` in the model's name: any name that litellm knows.
    settings
        The table ``[proposer]``. The request's own model, temperature and token limit go first.

    Raises
    ------
    MissingExtraError
        If litellm is not installed.
    """

    Settings: ClassVar[type[msgspec.Struct]] = ModelSettings

    def __init__(self, argument: str, settings: ModelSettings | Mapping[str, Any]) -> None:
        if not argument:
            raise SettingsError("proposer.model = 'litellm:' names no model; write litellm:openai/gpt-4o-mini")
        if find_spec("litellm") is None:
            raise MissingExtraError(f"proposer.model = '{_PREFIX}{argument}'", "llm")
        self._settings = settings if isinstance(settings, ModelSettings) else model_settings(dict(settings))

    async def check(self, argument: str, limit_usd: float) -> None:
        """Refuse in advance what every request would be refused for (see `ModelClient.check`)."""
        await ModelClient(self._settings, model=argument).check(limit_usd)

    async def propose(self, brief: Brief, *, record: Record, store: Store) -> ProposalMade:
        """Make one call for each sample, all at once, within one budget.

        Raises
        ------
        RequestFailedError
            If no sample was answered. A sample without an answer among others that have one is a
            sample with a problem.
        """
        began = time.monotonic()
        request = brief.request
        client = ModelClient(self._settings, model=request.model.removeprefix(_PREFIX))
        messages = render(brief, self._settings.format)
        [prompt] = await store(canonical(messages))
        spend = Spend(limit_usd=request.limits.usd, spent_usd=brief.spent_usd)
        calls = [
            client.complete(
                ModelCall(
                    place=brief.place,
                    attempt=brief.attempt,
                    name=str(index),
                    messages=messages,
                    seed=sample_seed(request.seed, index),
                    temperature=request.temperature,
                    tokens=request.limits.tokens or self._settings.tokens,
                    seconds=request.limits.seconds,
                ),
                spend=spend,
                record=record,
                store=store,
            )
            for index in range(request.samples)
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        completions: list[Completion | RequestFailedError] = []
        for answer in answers:
            if isinstance(answer, MissingExtraError):
                raise RequestFailedError(brief.place, "missing-extra", str(answer), spend.total_usd) from answer
            if isinstance(answer, BaseException) and not isinstance(answer, RequestFailedError):
                raise answer
            completions.append(answer)
        failures = [answer for answer in completions if isinstance(answer, RequestFailedError)]
        if failures and len(failures) == len(completions):
            # Every sample has ended by now, so this sum is final; that inside the failure is not.
            first = failures[0]
            raise RequestFailedError(brief.place, first.reason, first.detail, spend.total_usd) from first
        return ProposalMade(
            samples=tuple([await self._sample(brief, answer, store) for answer in completions]),
            prompt=prompt,
            replies=tuple(answer.reply for answer in completions if isinstance(answer, Completion)),
            usage=spend.usage,
            usd=spend.total_usd,
            seconds=time.monotonic() - began,
        )

    async def _sample(self, brief: Brief, answer: Completion | RequestFailedError, store: Store) -> Sample:
        if isinstance(answer, RequestFailedError):
            problem: Refusal = "over-budget" if answer.reason == _OVER_BUDGET else "empty"
            return Sample(program=None, normal=None, problem=problem, diagnostics=(f"no reply: {answer.detail}",))
        parsed = parse_reply(
            answer.text,
            finish=answer.finish,
            style=reply_style(brief, self._settings.format),
            base=brief.parents[0] if brief.parents else "",
            file_name=FILE_NAME,
        )
        return await _stored(parsed, store)


_OVER_BUDGET: Failure = "over-budget"


async def _stored(parsed: Parsed, store: Store) -> Sample:
    if parsed.program is None:
        return Sample(program=None, normal=None, problem=parsed.problem, diagnostics=parsed.diagnostics)
    try:
        normal = normal_digest(parsed.program)
    except RecursionError:
        # What the parser still takes, the unparser may not.
        diagnostics = (*parsed.diagnostics, "nested too deeply to be normalised")
        return Sample(program=None, normal=None, problem="unparsable", diagnostics=diagnostics)
    blobs: list[Blob] = await store(parsed.program.encode())
    return Sample(program=blobs[0], normal=normal, diagnostics=parsed.diagnostics)


def sample_seed(seed: int, sample: int) -> int:
    """The seed of one sample: 31 bits, since some providers take no more."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{sample}".encode()).digest()[:4]) >> 1
