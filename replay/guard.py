"""Stops a strategy that reads anything but the facts of its run.

A strategy must be a function of its run's facts, or a replay of it proves nothing. While a strategy
is being stepped, this guard watches each call that it makes, in Python or in C, and the audit
events of the interpreter. Clocks, global randomness, the environment, files, sockets and processes
are refused. Iteration over sets cannot be seen from here: replaying under another PYTHONHASHSEED
shows it.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from functools import cache, wraps
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, ParamSpec, TypeVar

from ..events.errors import ForbiddenCallError

#: C functions, by the module that defines them and their name. "*" is every name.
_FORBIDDEN_C: dict[str, frozenset[str]] = {
    "time": frozenset(
        {f"{clock}{unit}" for clock in ("time", "monotonic", "perf_counter", "process_time") for unit in ("", "_ns")}
        | {"thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"}
        | {"localtime", "gmtime", "ctime", "sleep"}
    ),
    "posix": frozenset({"urandom", "getrandom", "getenv", "getpid", "fork", "system", "open"}),
    "nt": frozenset({"urandom", "getpid", "system", "open"}),
    "io": frozenset({"open", "open_code"}),
    "_io": frozenset({"open", "open_code"}),
    "_random": frozenset({"*"}),
    "_uuid": frozenset({"*"}),
    "_socket": frozenset({"*"}),
    "_posixsubprocess": frozenset({"*"}),
}
#: Methods of C types: the type's name and the method's.
_FORBIDDEN_METHODS = frozenset(
    {
        ("datetime", "now"),
        ("datetime", "utcnow"),
        ("datetime", "today"),
        ("date", "today"),
        ("Random", "random"),
        ("Random", "getrandbits"),
        ("Random", "seed"),
        ("SystemRandom", "random"),
    }
)
_FORBIDDEN_TYPES = frozenset(type_name for type_name, _ in _FORBIDDEN_METHODS)
#: Python modules none of whose functions a strategy may call.
_FORBIDDEN_MODULES = frozenset({"random", "uuid", "secrets", "socket", "subprocess", "tempfile", "asyncio"})
_AUDITED = frozenset(
    {
        "open",
        "socket.__new__",
        "socket.connect",
        "socket.bind",
        "socket.getaddrinfo",
        "subprocess.Popen",
        "os.system",
        "os.fork",
        "os.posix_spawn",
        "os.listdir",
        "os.scandir",
        "os.remove",
        "os.mkdir",
        "os.rename",
    }
)

P = ParamSpec("P")
T = TypeVar("T")

_state = threading.local()
_environment_code: dict[CodeType, str] = {
    method.__code__: f"os.environ ({name})"
    for name, method in (
        ("__getitem__", type(os.environ).__getitem__),
        ("__iter__", type(os.environ).__iter__),
        ("__setitem__", type(os.environ).__setitem__),
    )
}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _AUDITED:
        return
    guard: Guard | None = getattr(_state, "guard", None)
    if guard is not None:
        target = f" {arguments[0]!r}" if arguments and isinstance(arguments[0], str) else ""
        guard.refuse(f"{event}{target}", sys._getframe(1))


@cache
def _install_audit() -> None:
    # An audit hook cannot be taken out again, so there is one for the process, idle outside a guard.
    sys.addaudithook(_audit)


#: Types none of whose methods are forbidden, as they were met; the guard looks at every call, so it must be quick.
_harmless_types: set[type] = set()
#: Functions of modules and of types, as they were met: the forbidden name or None.
_functions: dict[Any, str | None] = {}


def _name_of_c_call(function: Any) -> str | None:
    owner = getattr(function, "__self__", None)
    kind = type(owner)
    if kind in _harmless_types:
        return None
    if owner is None or isinstance(owner, ModuleType | type):
        if function not in _functions:
            _functions[function] = _forbidden_name(function, owner)
        return _functions[function]
    name = _forbidden_name(function, owner)
    if not any(base.__name__ in _FORBIDDEN_TYPES for base in kind.__mro__):
        _harmless_types.add(kind)
    return name


def _forbidden_name(function: Any, owner: Any) -> str | None:
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None)
    if module is not None:
        forbidden = _FORBIDDEN_C.get(module)
        if forbidden is not None and (name in forbidden or "*" in forbidden):
            return f"{module.lstrip('_')}.{name}"
    if owner is None:
        return None
    kind = owner if isinstance(owner, type) else type(owner)
    for base in kind.__mro__:
        if (base.__name__, name) in _FORBIDDEN_METHODS:
            return f"{base.__name__}.{name}"
    return None


class Guard:
    """A context in which forbidden calls raise.

    The violation is also kept in `violation`, so that a strategy that swallows the exception is
    stopped all the same.

    Raises
    ------
    ForbiddenCallError
        At the call, naming what was called and the file and line of the caller.
    """

    def __init__(self) -> None:
        _install_audit()
        self.violation: ForbiddenCallError | None = None
        self._outer_profile: Any = None
        self._outer_guard: Guard | None = None
        self._collecting = False

    def __enter__(self) -> Guard:
        self._outer_guard = getattr(_state, "guard", None)
        self._outer_profile = sys.getprofile()
        # A collection would run others' finalisers and callbacks in the middle of the strategy's step.
        self._collecting = gc.isenabled()
        gc.disable()
        _state.guard = self
        sys.setprofile(self._profile)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _state.guard = self._outer_guard
        sys.setprofile(self._outer_profile)
        if self._collecting:
            gc.enable()

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            name = _name_of_c_call(argument)
            if name is not None:
                self.refuse(name, frame)
        elif event == "call":
            code = frame.f_code
            if code in _environment_code:
                self.refuse(_environment_code[code], frame.f_back)
            elif frame.f_globals.get("__name__") in _FORBIDDEN_MODULES:
                self.refuse(f"{frame.f_globals['__name__']}.{code.co_qualname}", frame.f_back)

    def refuse(self, what: str, frame: FrameType | None) -> None:
        caller = frame
        while frame is not None:
            # Importing a module reads files and may seed generators: that is not the strategy's doing.
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return
            frame = frame.f_back
        where = f"{caller.f_code.co_filename}:{caller.f_lineno}" if caller is not None else "unknown place"
        self.violation = ForbiddenCallError(
            f"the strategy called {what} at {where}: a strategy may use only its run's facts. Use ctx.now for "
            "time, ctx.draw(purpose) for randomness, settings for configuration and a request for the rest"
        )
        raise self.violation


class Unguarded:
    """Lifts the guard for the runtime's own work inside a strategy's step."""

    def __enter__(self) -> None:
        self._guard = getattr(_state, "guard", None)
        self._profile = sys.getprofile()
        if self._guard is not None:
            _state.guard = None
            sys.setprofile(None)

    def __exit__(self, *exc: object) -> None:
        if self._guard is not None:
            _state.guard = self._guard
            sys.setprofile(self._profile)


def pure(function: Callable[P, T]) -> Callable[P, T]:
    """Mark a function that computes from its arguments alone, so that the guard need not watch inside it.

    Watching costs several times what arithmetic does. Whoever marks a function vouches for it: what
    it does wrong shows only as a divergence, in a replay.
    """

    @wraps(function)
    def unwatched(*args: P.args, **kwargs: P.kwargs) -> T:
        with Unguarded():
            return function(*args, **kwargs)

    return unwatched
