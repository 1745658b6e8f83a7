"""The command ``replay``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import aclosing

from ..events.errors import DivergenceError
from ..infra.command import Command, add_json, add_nats, add_run
from ..infra.log import Log, open_store
from ..infra.runs import resolve_run
from .course import Difference, Survey
from .plugins import strategy_named
from .replayer import DecisionReplay, Replay
from .verify import ViewsCheck

DIVERGED = 3


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "--level",
        choices=("views", "decisions"),
        default="decisions",
        help="views: fold the projections and compare their digests; decisions: run the strategy on the recorded "
        "facts and compare every decision (default)",
    )
    parser.add_argument("--to", type=int, metavar="N", help="stop after decision N, counting from 0")
    add_nats(parser)
    add_json(parser)


def _replay(args: argparse.Namespace) -> int:
    return asyncio.run(_views(args) if args.level == "views" else _decisions(args))


async def _views(args: argparse.Namespace) -> int:
    import msgspec

    check = ViewsCheck(args.to)
    async with open_store(args.home, args.nats) as store:
        run = await resolve_run(store.log, args.run_id)
        async with aclosing(store.log.read(run)) as events:  # type: ignore[type-var]
            async for _, event in events:
                if not check.add(event):
                    break
    verdict = check.verdict
    if args.json:
        print(json.dumps({"run": run, "level": "views", **msgspec.to_builtins(verdict)}, indent=2))
    else:
        for name, digest in verdict.computed.items():
            standing = "equal" if name in verdict.equal else "DIFFERS" if name in verdict.differing else "computed"
            print(f"{name:<16} {digest}  {standing}")
        if verdict.unknown:
            print(f"recorded by views that are not installed here: {', '.join(verdict.unknown)}")
        if verdict.recorded_at:
            print(f"run {run}: {verdict.events} events folded, {len(verdict.equal)} recorded digests equal")
        else:
            print(f"run {run}: {verdict.events} events folded; no digests are recorded there to compare with")
    if verdict.differing:
        print(f"evolog: run {run}: these views differ: {', '.join(verdict.differing)}", file=sys.stderr)
        return DIVERGED
    return 0


async def _decisions(args: argparse.Namespace) -> int:
    try:
        async with open_store(args.home, args.nats) as store:
            run = await resolve_run(store.log, args.run_id)
            replay = await replayed(store.log, run, to=args.to)
    except DivergenceError as error:
        if args.json and isinstance(error.difference, Difference):
            import msgspec

            found = {"run": run, "level": "decisions", "equal": False}
            print(json.dumps({**found, "difference": msgspec.to_builtins(error.difference)}, indent=2))
        print(f"evolog: run {run}: {error}", file=sys.stderr)
        return DIVERGED
    if args.json:
        found = {"run": run, "level": "decisions", "equal": True}
        counts = {"decisions": replay.equal, "facts": replay.facts, "ahead": replay.ahead}
        print(json.dumps({**found, **counts}, indent=2))
        return 0
    print(f"run {run}: {replay.equal} decisions recomputed from {replay.facts} facts, all equal")
    if replay.ahead:
        print(f"the log was cut off: the strategy decides {replay.ahead} more ('evolog resume {run}' appends them)")
    return 0


async def replayed(log: Log, run: str, *, to: int | None = None) -> Replay:
    """Replay a run's decisions from its log, read twice so that no more than one event is held.

    Raises
    ------
    DivergenceError
        At the first decision that differs.
    RunError
        If the log does not reach `to`.
    """
    survey = Survey()
    async for _, event in log.read(run):
        survey.add(event)
    replay = DecisionReplay(survey, strategy_named, to=to)
    async with aclosing(log.read(run)) as events:  # type: ignore[type-var]
        async for _, event in events:
            if not replay.add(event):
                break
    return replay.result


COMMANDS: dict[str, Command] = {"replay": Command(configure=_arguments, run=_replay)}
