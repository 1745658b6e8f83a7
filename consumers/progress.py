"""What a run says while it works and when it has ended: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from ..events import RunStatus
from ..infra.log import Stored
from ..projections import Board, Views

#: Seconds between two lines: a terminal's is overwritten, elsewhere each stays.
_TERMINAL_SECONDS = 0.2
_PLAIN_SECONDS = 5.0


class Progress:
    """Folds the run's events and shows where it stands.

    Parameters
    ----------
    candidates
        The budget, for the time left.
    out
        Where to write.
    quiet
        Whether to say nothing.
    """

    def __init__(self, candidates: int, *, out: TextIO | None = None, quiet: bool = False) -> None:
        self.views = Views()
        self.seq = 0
        self._candidates = candidates
        self._out = out or sys.stderr
        self._quiet = quiet
        self._terminal = self._out.isatty()
        self._shown = 0.0
        self._began = time.monotonic()
        self._before: int | None = None

    def __call__(self, stored: Stored) -> None:
        self.seq = stored.seq
        self.views.apply(stored.event)
        now = time.monotonic()
        if not self._quiet and now - self._shown >= (_TERMINAL_SECONDS if self._terminal else _PLAIN_SECONDS):
            self._shown = now
            self.show()

    def caught_up(self) -> None:
        """From here on events are new: what came before does not count for the speed."""
        self._before = self.views.attempts.outcomes.attempts
        self._began = time.monotonic()

    def line(self) -> str:
        """Where the run stands, in one line."""
        counts = self.views.attempts.outcomes
        parts = [f"{counts.attempts}/{self._candidates} candidates"]
        parts += [
            f"{getattr(counts, name)} {name}"
            for name in ("admitted", "rejected", "refused", "failed", "cancelled", "open")
            if getattr(counts, name)
        ]
        best = self.views.convergence.state.best
        if best is not None:
            parts.append(f"best {best:.4f}")
        done = counts.attempts - counts.open - (self._before or 0)
        seconds = time.monotonic() - self._began
        if done > 0 and seconds > 0:
            rate = done / seconds
            parts.append(f"{rate:.1f}/s")
            left = max(0, self._candidates - counts.attempts + counts.open) / rate
            parts.append(f"{_duration(left)} left")
        parts.append(f"${self.views.ledger.charged_usd:.4f}")
        return ", ".join(parts)

    def show(self) -> None:
        if self._terminal:
            self._out.write(f"\r\x1b[2K{self.line()}")
        else:
            self._out.write(f"{self.line()}\n")
        self._out.flush()

    def finish(self) -> None:
        """Leave the last line standing."""
        if not self._quiet:
            self.show()
            if self._terminal:
                self._out.write("\n")
                self._out.flush()


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    if whole < 5400:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def report(views: Views, run: str, source: str) -> str:
    """What a finished run is told to have found: the best program, its scores, the baselines', what to type next."""
    lines: list[str] = []
    lifecycle = views.lifecycle.state
    counts = views.attempts.outcomes
    lines.append(f"run {run}: {lifecycle.status}, {lifecycle.reason}")
    lines.append(
        f"attempts {counts.attempts} = {counts.admitted} admitted + {counts.rejected} rejected + "
        f"{counts.refused} refused + {counts.failed} failed + {counts.cancelled} cancelled + {counts.open} open; "
        f"spent ${views.ledger.charged_usd:.4f}"
    )
    if lifecycle.best is not None:
        lines += ["", f"best program (candidate {lifecycle.best}):", ""]
        lines += [f"    {line}" for line in printable(source).splitlines()]
        lines += ["", *score_table(views)]
    lines += [
        "",
        "next:",
        f"  evolog show {run}",
        f"  evolog tail {run} --no-follow",
        f"  evolog replay {run} --level decisions",
    ]
    return "\n".join(lines)


def score_table(views: Views) -> list[str]:
    """Search and holdout score of the best candidate beside each baseline's, as aligned lines."""
    best_name = views.lifecycle.state.best
    floor, search, holdout = (_board(views, purpose) for purpose in ("floor", "search", "holdout"))
    rows: list[tuple[str, float | None, float | None]] = []
    if search is not None and search.best is not None:
        held = holdout.named.get(best_name or "") if holdout is not None else None
        rows.append(("best", search.best.score, held.score if held is not None else None))
    names = {*(floor.baselines if floor else ()), *(holdout.baselines if holdout else ())}
    for name in sorted(names):
        on_search = floor.baselines.get(name) if floor is not None else None
        on_holdout = holdout.baselines.get(name) if holdout is not None else None
        rows.append((name, on_search.score if on_search else None, on_holdout.score if on_holdout else None))
    if not rows:
        return []
    direction = views.archive.state.direction
    table = [f"{'score (' + direction + ')':<20} {'search':>10} {'holdout':>10}"]
    return table + [f"{name:<20} {_number(a):>10} {_number(b):>10}" for name, a, b in rows]


def _board(views: Views, purpose: str) -> Board | None:
    return next((board for board in views.best.boards() if board.purpose == purpose), None)


def _number(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"


def printable(text: str) -> str:
    """Model-written text without control characters, which a terminal would obey."""
    return "".join(c if c in "\n\t" or c.isprintable() else "�" for c in text)


def exit_code_of(status: RunStatus, *, scored: bool) -> int:
    """0 done, 2 budget exhausted, 1 otherwise; a run that produced nothing is a failure (design, section 8)."""
    if not scored or status == "failed":
        return 1
    return 2 if status == "budget_exhausted" else 0
