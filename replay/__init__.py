"""The deterministic runtime and replay: what a run decides follows from its facts."""

from .course import Course, Difference, TakeoverPoint, compare, divergence, takeover_point
from .draw import Draw, pick, pick_rounded, rounded
from .guard import pure
from .replayer import Replay, Replayer, strategy_of
from .runtime import Decision, Recorded, Runtime
from .strategy import Answer, Branch, Context, Pool, Sealed, Strategy, Task

__all__ = [
    "Answer",
    "Branch",
    "Context",
    "Course",
    "Decision",
    "Difference",
    "Draw",
    "Pool",
    "Recorded",
    "Replay",
    "Replayer",
    "Runtime",
    "Sealed",
    "Strategy",
    "TakeoverPoint",
    "Task",
    "compare",
    "divergence",
    "pick",
    "pick_rounded",
    "pure",
    "rounded",
    "strategy_of",
    "takeover_point",
]
