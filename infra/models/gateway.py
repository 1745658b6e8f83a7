"""litellm, in a thread and an event loop of its own.

Importing it takes seconds and its bookkeeping some milliseconds for each call; neither may hold up
the loop that serves the log. One loop for the life of the process also keeps its cached connections
valid. It is started by the first call.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

import msgspec

from ...events.errors import EvologError, MissingExtraError, ModelError
from .outcomes import Reply, reply_of_error, reply_of_response, timed_out
from .prices import Price, price_in_map

T = TypeVar("T")

_STOP_SECONDS = 0.5


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What litellm knows of a model.

    Attributes
    ----------
    provider
        litellm's name of the provider.
    parameters
        Which of OpenAI's parameters the model takes.
    price
        From litellm's cost map, None if it is not in there.
    """

    provider: str
    parameters: frozenset[str]
    price: Price | None


class Gateway:
    """Sends calls through litellm. Use `shared_gateway`; one for a process is enough."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: Future[Any] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="evolog-litellm", daemon=True)

    async def facts(self, model: str) -> ModelFacts:
        """What is known of a model; no network is used.

        Raises
        ------
        MissingExtraError
            If litellm is not installed.
        ModelError
            If litellm knows no provider for this name.
        """

        async def look_up(litellm: Any) -> ModelFacts:
            try:
                name, provider, _, _ = litellm.get_llm_provider(model)
            except litellm.exceptions.BadRequestError:
                raise ModelError(
                    f"litellm knows no provider for the model {model!r}: name it as <provider>/<model>, "
                    "such as openai/gpt-4o-mini, or openai/<name> with proposer.api_base for any "
                    "OpenAI-compatible server (https://docs.litellm.ai/docs/providers)"
                ) from None
            parameters = litellm.get_supported_openai_params(model=name, custom_llm_provider=provider) or ()
            return ModelFacts(
                provider=provider, parameters=frozenset(parameters), price=_price(litellm.model_cost, model, provider)
            )

        return await self._run(look_up)

    async def send(
        self, request: Mapping[str, Any], *, api_base: str | None, api_key: str | None, timeout: float
    ) -> Reply:
        """Make one call: one HTTP request, never a hidden second one.

        Parameters
        ----------
        request
            ``model``, ``messages`` and the parameters, as `litellm.acompletion` takes them.
        timeout
            Seconds for all of it.

        Raises
        ------
        MissingExtraError
            If litellm is not installed.
        """

        async def call(litellm: Any) -> Reply:
            where = api_base or str(request["model"])
            try:
                async with asyncio.timeout(timeout):
                    response = await litellm.acompletion(
                        **request,
                        api_base=api_base,
                        api_key=api_key,
                        # Later than ours, which bounds the whole call and not each read.
                        timeout=timeout + 1.0,
                        # Both, always: either default makes hidden tries.
                        num_retries=0,
                        max_retries=0,
                    )
            except TimeoutError:
                return timed_out(timeout)
            except litellm.exceptions.openai.OpenAIError as error:
                return reply_of_error(error, where)
            return reply_of_response(response)

        return await self._run(call)

    async def _run(self, make: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        with self._lock:
            if self._ready is None:
                self._ready = Future()
                # A future that runs cannot be cancelled by one of those who wait for it.
                self._ready.set_running_or_notify_cancel()
                self._thread.start()
                atexit.register(self._stop)
        litellm = await asyncio.wrap_future(self._ready)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(make(litellm), self._loop))

    def _serve(self) -> None:
        ready = self._ready
        assert ready is not None
        asyncio.set_event_loop(self._loop)
        try:
            litellm = _import_litellm()
        except EvologError as error:
            ready.set_exception(error)
        else:
            ready.set_result(litellm)
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)


@cache
def shared_gateway() -> Gateway:
    """The gateway of this process."""
    return Gateway()


def _import_litellm() -> Any:
    # Read at import: without the first, litellm fetches its prices from the network; with the
    # second at its default it loads a .env file from the working directory into the environment.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    try:
        import litellm
    except ModuleNotFoundError as error:
        if error.name == "litellm":
            raise MissingExtraError("a model named litellm:<model>", "llm") from None
        raise ModelError(
            f"litellm is installed but cannot be imported ({error}): pip install 'evolog[llm]'"
        ) from error
    except ImportError as error:
        raise ModelError(
            f"litellm is installed but cannot be imported ({error}): pip install 'evolog[llm]'"
        ) from error
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    litellm.drop_params = False
    litellm.num_retries = 0
    litellm.cache = None
    for callbacks in ("input_callback", "success_callback", "failure_callback", "service_callback", "callbacks"):
        setattr(litellm, callbacks, [])
    return litellm


def _price(cost_map: Mapping[str, Any], model: str, provider: str) -> Price | None:
    entry = cost_map.get(model)
    if entry is None:
        entry = cost_map.get(model.removeprefix(f"{provider}/"))
        # Without the provider's name the entry may be another provider's price.
        if entry is not None and not str(entry.get("litellm_provider")).startswith(provider):
            entry = None
    return None if entry is None else price_in_map(entry)
