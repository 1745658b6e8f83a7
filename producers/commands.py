"""Commands that look at runs: ls, show, tail. They write nothing into a log."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from ..events import Event, Unknown, kinds
from ..events.errors import RunError, SettingsError
from ..infra.command import Command, add_json, add_nats, add_run
from ..infra.log import Store, Stored, open_store
from ..infra.runs import RunSummary, read_summary, resolve_run, runs_by_age
from ..infra.snapshots import Snapshots
from ..projections import Views
from .text import clean, clock, number, print_table, seconds, short, usd

VIEWS = ("summary", "archive", "best", "lineage", "budget", "models", "timeline")
INTERRUPTED = 130


def _out(value: Any) -> None:
    print(json.dumps(msgspec.to_builtins(value), indent=2, allow_nan=False))


def _main(work: Coroutine[Any, Any, int]) -> int:
    """Run to the end; SIGTERM ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return asyncio.run(work)


# ls


def _ls_arguments(parser: argparse.ArgumentParser) -> None:
    add_nats(parser)
    add_json(parser)


def _ls(args: argparse.Namespace) -> int:
    async def work() -> int:
        async with open_store(args.home, args.nats) as store:
            snapshots = Snapshots(args.home)
            runs = await runs_by_age(store.log)
            summaries = [(await read_summary(store.log, run, snapshots))[0] for run in runs]
        if args.json:
            _out(summaries)
        elif not summaries:
            print("no runs yet: start one with 'evolog run FILE'")
        else:
            rows = [
                (
                    s.run,
                    s.status,
                    ",".join(s.tasks),
                    s.strategy,
                    str(s.seed),
                    str(s.attempts.attempts),
                    number(s.score),
                    usd(s.usd),
                    clock(s.started_at),
                )
                for s in summaries
            ]
            headers = ("run", "status", "task", "strategy", "seed", "candidates", "best", "spent", "started (UTC)")
            print_table(headers, rows, right=(4, 5, 6, 7))
        return 0

    return _main(work())


# show


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("view", nargs="?", default="summary", choices=VIEWS, help="what to show (default: summary)")
    parser.add_argument("--candidate", metavar="NAME", help="lineage: of this candidate (default: the best)")
    add_nats(parser)
    add_json(parser)


def _show(args: argparse.Namespace) -> int:
    async def work() -> int:
        async with open_store(args.home, args.nats) as store:
            run = await resolve_run(store.log, args.run_id)
            summary, views = await read_summary(store.log, run, Snapshots(args.home))
            shown = {
                "summary": _summary,
                "archive": _archive,
                "best": _best,
                "lineage": _lineage,
                "budget": _budget,
                "models": _models,
                "timeline": _timeline,
            }[args.view]
            return await shown(Seen(args, store, summary, views))

    return _main(work())


class Seen(NamedTuple):
    """What a view is shown from."""

    args: argparse.Namespace
    store: Store
    summary: RunSummary
    views: Views


async def _summary(seen: Seen) -> int:
    if seen.args.json:
        _out(seen.summary)
        return 0
    counts = seen.summary.attempts
    print(f"run        {seen.summary.run}")
    print(f"status     {seen.summary.status}{f', {clean(seen.summary.reason)}' if seen.summary.reason else ''}")
    print(f"task       {', '.join(map(clean, seen.summary.tasks))} ({seen.summary.direction})")
    print(f"strategy   {seen.summary.strategy}, seed {seen.summary.seed}")
    print(f"started    {clock(seen.summary.started_at)} UTC, {seconds(seen.summary.active_seconds)} at work")
    print(
        f"attempts   {counts.attempts} = {counts.admitted} admitted + {counts.rejected} rejected + {counts.refused} "
        f"refused + {counts.failed} failed + {counts.cancelled} cancelled + {counts.open} open"
    )
    print(f"spent      {usd(seen.summary.usd)}")
    print(f"best       {seen.summary.best or '-'}, score {number(seen.summary.score)}")
    print(f"position   sequence {seen.summary.seq}")
    print(f"\nnext: evolog show {seen.summary.run} best | archive | lineage | budget | models | timeline")
    return 0


async def _archive(seen: Seen) -> int:
    members = seen.views.archive.members()
    if seen.args.json:
        _out(members)
        return 0
    rows = [
        (m.candidate, number(m.score), str(m.island), str(m.generation), m.operator, m.program.sha256[:12])
        for m in members
    ]
    print_table(("candidate", "score", "island", "generation", "operator", "program"), rows, right=(1, 2, 3))
    return 0


async def _best(seen: Seen) -> int:
    best = seen.views.archive.best
    boards = seen.views.best.boards()
    source = (await seen.store.blobs.get(best.program)).decode(errors="replace") if best is not None else None
    if seen.args.json:
        _out({"best": best, "source": source, "boards": boards})
        return 0
    rows = []
    for board in boards:
        entries = [(board.best.candidate, board.best)] if board.best is not None else []
        entries += sorted(board.named.items())
        entries += sorted((f"baseline {name}", measured) for name, measured in board.baselines.items())
        rows += [(board.task, board.split, board.purpose, who, m.status, number(m.score)) for who, m in entries]
    print_table(("task", "split", "purpose", "program", "reading", "score"), rows, right=(5,))
    if best is not None and source is not None:
        print(f"\ncandidate {best.candidate}, score {number(best.score)}:\n")
        print(clean(source, lines=True))
    return 0


async def _lineage(seen: Seen) -> int:
    candidate = seen.args.candidate or seen.summary.best
    if candidate is None:
        raise RunError(f"run {seen.summary.run} has no best candidate yet: name one with --candidate")
    ancestors = seen.views.lineage.ancestors(candidate)
    if seen.args.json:
        _out([{"depth": depth, "candidate": name, "descent": descent} for depth, name, descent in ancestors])
        return 0
    if not ancestors or ancestors[0][2] is None:
        run = seen.summary.run
        raise RunError(f"run {run} has no candidate {candidate!r}: 'evolog show {run} archive' lists some")
    for depth, name, descent in ancestors:
        told = "not evaluated" if descent is None else f"{descent.operator}, score {number(descent.score)}"
        print(f"{'  ' * depth}{name}  {told}")
    return 0


async def _budget(seen: Seen) -> int:
    ledger = seen.views.ledger
    told = {
        "charged_usd": ledger.charged_usd,
        "settled_usd": ledger.settled_usd,
        "unsettled_usd": ledger.unsettled_usd,
        "reserved_usd": ledger.reserved_usd,
        "cap_usd": ledger.state.budget_usd,
        "attempts": seen.summary.attempts,
    }
    if seen.args.json:
        _out(told)
        return 0
    print(f"charged    {usd(ledger.charged_usd)} (settled calls, and unsettled ones at their worst)")
    print(f"settled    {usd(ledger.settled_usd)}")
    print(f"unsettled  {usd(ledger.unsettled_usd)}")
    print(f"reserved   {usd(ledger.reserved_usd)} for open requests")
    cap = ledger.state.budget_usd
    print(f"cap        {'none' if cap is None else usd(cap)} (budget.usd)")
    print(f"attempts   {seen.summary.attempts.attempts}, {seen.summary.attempts.open} open")
    return 0


async def _models(seen: Seen) -> int:
    models = seen.views.ledger.state.models
    if seen.args.json:
        _out(models)
        return 0
    rows = [
        (name, str(m.calls), str(m.failed), str(m.prompt_tokens), str(m.completion_tokens), usd(m.usd))
        for name, m in sorted(models.items())
    ]
    if not rows:
        print(f"run {seen.summary.run} called no model")
    else:
        headers = ("model", "calls", "failed", "prompt tokens", "completion tokens", "settled")
        print_table(headers, rows, right=(1, 2, 3, 4, 5))
    return 0


async def _timeline(seen: Seen) -> int:
    convergence = seen.views.convergence.state
    if seen.args.json:
        _out({"improvements": convergence.improvements, "generations": convergence.generations})
        return 0
    rows = [(str(i.candidates), clean(i.candidate), number(i.score)) for i in convergence.improvements]
    print_table(("candidates", "new best", "score"), rows, right=(0, 2))
    return 0


# tail


def _tail_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_id", metavar="RUN", nargs="?", help="id of a run, a unique beginning, or 'latest' (default: all runs)"
    )
    parser.add_argument(
        "--from", dest="start", type=int, metavar="SEQ", default=1, help="first sequence (default: 1)"
    )
    parser.add_argument("--new", action="store_true", help="begin behind the newest event there is")
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="NOUN.VERB",
        help="only events of this kind; 'noun.*' for all of a noun (may be repeated)",
    )
    parser.add_argument("--no-follow", action="store_true", help="end at the newest event")
    add_nats(parser)
    add_json(parser)


def _tail(args: argparse.Namespace) -> int:
    known = [payload.KIND for payload in kinds()]
    for kind in args.kind:
        noun, _, verb = kind.partition(".")
        if kind not in known and not (verb == "*" and any(k.startswith(f"{noun}.") for k in known)):
            from difflib import get_close_matches

            near = get_close_matches(kind, known, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise SettingsError(
                f"--kind {kind}: there is no such kind of event.{hint} 'evolog schema' lists them all"
            )
    if args.start < 1:
        raise SettingsError(f"--from {args.start}: sequences count from 1")

    async def work() -> int:
        async with open_store(args.home, args.nats) as store:
            run = await resolve_run(store.log, args.run_id) if args.run_id else None
            start = await store.log.tip() + 1 if args.new else args.start
            reading = store.log.read(run, start=start) if args.no_follow else store.log.follow(run, start=start)
            async with aclosing(reading) as events:  # type: ignore[type-var]
                async for stored in events:
                    if _wanted(stored.event, args.kind):
                        print(_json_line(stored) if args.json else _line(stored), flush=not args.no_follow)
        return 0

    return _main(work())


def _wanted(event: Event, wanted: list[str]) -> bool:
    return not wanted or any(
        event.kind == kind or (kind.endswith(".*") and event.kind.startswith(kind[:-1])) for kind in wanted
    )


def _json_line(stored: Stored) -> str:
    from ..events import encode

    return f'{{"seq":{stored.seq},"event":{encode(stored.event).decode()}}}'


def _line(stored: Stored) -> str:
    seq, event = stored
    data = event.data
    fields: dict[str, Any] = msgspec.json.decode(data.raw) if isinstance(data, Unknown) else msgspec.to_builtins(data)
    told = " ".join(
        f"{name}={_shown(value)}" for name, value in fields.items() if value not in (None, "", [], {}, ())
    )
    where = event.place or ">" + ",".join(cause.partition("/")[2] for cause in event.cause[:1])
    width = 200 if not sys.stdout.isatty() else 120
    return short(f"{seq:>7} {clock(event.at)[11:]} {event.run} {event.kind:<20} {where:<12} {told}", width)


def _shown(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"sha256", "size"}:
        return f"{value['sha256'][:12]}"
    if isinstance(value, dict) and set(value) == {"place", "digest"}:
        return str(value["place"])
    if isinstance(value, float):
        return number(value)
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text if len(text) <= 60 else f"{text[:57]}..."


COMMANDS: dict[str, Command] = {
    "ls": Command(configure=_ls_arguments, run=_ls),
    "show": Command(configure=_show_arguments, run=_show),
    "tail": Command(configure=_tail_arguments, run=_tail),
}
