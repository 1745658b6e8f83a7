"""The deterministic runtime and replay: what a run decides follows from its facts."""

from .course import Course, Difference, Survey, TakeoverPoint, compare, divergence
from .draw import Draw, pick, pick_rounded, rounded
from .guard import pure
from .replayer import DecisionReplay, Replay, Replayer
from .runtime import Decision, Recorded, Runtime
from .strategy import Answer, Branch, Context, Pool, Sealed, Strategy, Task

__all__ = [
    "Answer",
    "Branch",
    "Context",
    "Course",
    "Decision",
    "DecisionReplay",
    "Difference",
    "Draw",
    "Pool",
    "Recorded",
    "Replay",
    "Replayer",
    "Runtime",
    "Sealed",
    "Strategy",
    "Survey",
    "TakeoverPoint",
    "Task",
    "compare",
    "divergence",
    "pick",
    "pick_rounded",
    "pure",
    "rounded",
]
