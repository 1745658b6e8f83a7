"""Commands that put runs to work: run, resume, stop, worker."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from ..events.errors import ConflictError, EvologError, LeaseHeldError, RunError, SettingsError
from ..events.kinds import RunCompleted, RunStarted
from ..infra.command import Command, add_json, add_nats, add_run, add_set
from ..infra.log import Store, open_store, writer
from ..infra.runs import effective_settings, read_summary, resolve_run
from ..infra.settings import diff, effective, load_run_file, revise
from ..infra.snapshots import Snapshots
from ..producers.start import reconfigure_run, resume_run, start_run, stop_run
from ..replay.commands import replayed
from ..replay.plugins import plugin, source_digest, strategy_named
from .progress import Progress, exit_code_of, report
from .session import Interrupted, direct, interruptible, team, unless_interrupted

INTERRUPTED = 130
ROLES = ("proposing", "evaluation")


def strategy_settings(name: str) -> Any:
    """The Struct of a strategy's own keys in ``[search]``."""
    settings = getattr(plugin("strategies", name), "Settings", None)
    if settings is None:
        raise SettingsError(f"strategy {name!r} has no class Settings: see examples/custom")
    return settings


def _main(work: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(work)
    except Interrupted:
        return INTERRUPTED


# run


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE|DIR", help="run file (TOML), or a directory with a run.toml")
    add_set(parser)
    add_nats(parser)
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _run(args: argparse.Namespace) -> int:
    file = load_run_file(Path(args.file), args.set, strategy_settings=strategy_settings)
    settings = file.settings
    # All that can be refused is refused before anything is written.
    strategy = strategy_named(settings.search.strategy)
    backend = asyncio.run(check_tools(effective(settings)))

    async def work() -> int:
        async with interruptible() as asked, open_store(args.home, args.nats, sync=settings.log.sync) as store:
            run = await start_run(
                store.log,
                store.blobs,
                settings,
                file.task,
                by=writer("operator"),
                strategy_source=source_digest(strategy),
                sandbox=backend,
            )
            if not args.quiet:
                print(
                    f"run {run}: {settings.task.name}, seed {settings.run.seed}, data in {args.home}", file=sys.stderr
                )
            return await _see_through(store, run, settings_table=effective(settings), asked=asked, args=args)

    return _main(work())


async def check_tools(settings: Mapping[str, Any]) -> str:
    """Make what the settings name once, so that what is missing is said before a run starts.

    Returns
    -------
    str
        The sandbox's backend, or ``none`` where the evaluator needs none.

    Raises
    ------
    EvologError
        If something is missing.
    """
    name, _, argument = settings["proposer"]["model"].partition(":")
    proposer = plugin("proposers", name)(argument, settings["proposer"])
    check = getattr(proposer, "check", None)
    if check is not None and settings["workers"]["proposals"] > 0:
        await check(argument, settings["proposer"]["usd"])
    if settings["task"]["judge"] != "sandbox":
        return "none"
    if settings["workers"]["evaluations"] == 0:
        return str(settings["sandbox"]["backend"])  # other hosts evaluate, and say in each trace with what
    from ..infra.sandbox import open_sandbox

    return open_sandbox(settings["sandbox"]["backend"]).name


async def _see_through(
    store: Store, run: str, *, settings_table: Mapping[str, Any], asked: asyncio.Future[str], args: argparse.Namespace
) -> int:
    """Direct a run to its end, report, and replay it offline."""
    progress = Progress(settings_table["budget"]["candidates"], quiet=args.quiet)
    workers = settings_table["workers"]
    wanted = {"proposing": workers["proposals"], "evaluation": workers["evaluations"]}
    slots = {role: count for role, count in wanted.items() if count}
    home = None if args.nats else args.home
    try:
        completed = await direct(store, run, slots, asked, home=home, on_event=progress)
    except Interrupted as interrupted:
        progress.finish()
        print(f"evolog: {interrupted}; nothing is lost: 'evolog resume {run}' goes on", file=sys.stderr)
        raise
    except (ConflictError, LeaseHeldError):
        raise
    except EvologError as error:
        progress.finish()
        print(f"evolog: {error}", file=sys.stderr)
        print(f"evolog: nothing acknowledged is lost: 'evolog resume {run}' goes on", file=sys.stderr)
        return error.exit_code
    progress.finish()
    views = progress.views
    scored = completed.best is not None
    if args.json:
        from msgspec import to_builtins

        summary, _ = await read_summary(store.log, run, Snapshots(args.home))
        print(json.dumps(to_builtins(summary)))
    else:
        source = ""
        if completed.best is not None and views.archive.best is not None:
            source = (await store.blobs.get(views.archive.best.program)).decode(errors="replace")
        print(report(views, run, source))
    code = await _replay(run, asked, args)
    return code or exit_code_of(completed.status, scored=scored)


async def _replay(run: str, asked: asyncio.Future[str], args: argparse.Namespace) -> int:
    """Recompute the run's decisions and views from its log, and say whether they are equal.

    In a process of its own, so that another seed of the hash function finds what the order of a set decided,
    and an interruption need not wait for it.
    """
    found = []
    for level in ("decisions", "views"):
        command = [sys.executable, "-P", "-m", "evolog.infra.cli", "--home", str(args.home)]
        command += ["replay", run, "--level", level, "--json", *(["--nats", args.nats] if args.nats else [])]
        try:
            code, out = await unless_interrupted(asked, _output_of(command))
        except Interrupted as interrupted:
            print(f"evolog: {interrupted}; the run is complete, 'evolog replay {run}' checks it", file=sys.stderr)
            raise
        if code:
            return int(code)
        found.append(json.loads(out))
    if not args.json:
        decisions, views = found[0]["decisions"], len(found[1]["equal"])
        print(f"\nreplayed offline: all {decisions} decisions and {views} views are equal")
    return 0


async def _output_of(command: list[str]) -> tuple[int, bytes]:
    environment = {**os.environ, "PYTHONHASHSEED": str(secrets.randbelow(2**32))}
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, env=environment, start_new_session=True
    )
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out


# resume


def _resume_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_set(parser)
    add_nats(parser)
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _resume(args: argparse.Namespace) -> int:
    async def work() -> int:
        async with interruptible() as asked, open_store(args.home, args.nats) as store:
            run = await resolve_run(store.log, args.run_id)
            started, before = await effective_settings(store.log, run)
            completed = await store.log.last(run, "run.completed")
            reconfigured = await store.log.last(run, "run.reconfigured")
            ended = completed is not None and (reconfigured is None or reconfigured.seq < completed.seq)
            settings, changes = before, {}
            if args.set:
                revised = revise(before, args.set, strategy_settings=strategy_settings)
                settings = effective(revised)
                changes = diff(before, settings)
            if ended and not changes:
                assert completed is not None
                status = getattr(completed.event.data, "status", "completed")
                raise RunError(
                    f"run {run} is {status}; to go on with a larger budget: "
                    f"evolog resume {run} --set budget.candidates={2 * before['budget']['candidates']}"
                )
            await check_tools(settings)
            await _check_code(store, run, started)
            by = writer("operator")
            # The lease is looked at first: a run that is at work elsewhere must not hear of a resume.
            async with store.leased(run):
                if changes:
                    identity = completed.event.id if ended and completed is not None else None
                    await reconfigure_run(store.log, run, changes, settings, by=by, completed=identity)
                source = source_digest(strategy_named(started.strategy))
                await resume_run(store.log, run, by=by, strategy_source=source)
            return await _see_through(store, run, settings_table=settings, asked=asked, args=args)

    return _main(work())


async def _check_code(store: Store, run: str, started: RunStarted) -> None:
    """Where the strategy's code has changed since the run was started, replay first.

    Raises
    ------
    DivergenceError
        If the changed code does not decide as recorded.
    """
    if source_digest(strategy_named(started.strategy)) == started.strategy_source:
        return
    print(
        f"evolog: the code of strategy {started.strategy!r} has changed since run {run} was started "
        f"(by evolog {started.package}); replaying its decisions first",
        file=sys.stderr,
    )
    await replayed(store.log, run)


# stop


def _stop_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--reason", default="stopped by an operator", help="why, for the log")
    add_nats(parser)


def _stop(args: argparse.Namespace) -> int:
    async def work() -> int:
        async with interruptible() as asked, open_store(args.home, args.nats) as store:
            run = await resolve_run(store.log, args.run_id)
            summary, _ = await read_summary(store.log, run, Snapshots(args.home))
            if summary.status in ("completed", "budget_exhausted", "stopped", "failed"):
                print(f"run {run} has ended already: {summary.status}, {summary.reason}")
                return 0
            await stop_run(store.log, run, args.reason, by=writer("operator"))
            completed = await unless_interrupted(asked, _ended(store, run, asked))
            print(f"run {run}: {completed.status}, {completed.reason}")
            return 0

    return _main(work())


async def _ended(store: Store, run: str, asked: asyncio.Future[str]) -> RunCompleted:
    """Wait for the run's director to end it; where there is none, do it here."""
    while True:
        try:
            return await direct(store, run, {}, asked, home=None)
        except (LeaseHeldError, ConflictError):
            await asyncio.sleep(0.1)
        last = await store.log.last(run, "run.completed")
        stopped = await store.log.last(run, "run.stopped")
        if last is not None and stopped is not None and last.seq > stopped.seq:
            assert isinstance(last.event.data, RunCompleted)
            return last.event.data


# worker


def _worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--roles", default=",".join(ROLES), help=f"what to do, of {','.join(ROLES)} (default: all)")
    parser.add_argument("--slots", type=int, default=2, help="requests answered at once, of each role (default: 2)")
    add_nats(parser)


def _worker(args: argparse.Namespace) -> int:
    roles = [role.strip() for role in args.roles.split(",") if role.strip()]
    for role in roles:
        if role not in ROLES:
            raise SettingsError(f"--roles {args.roles}: there is no role {role!r}; roles: {', '.join(ROLES)}")
    if not roles or args.slots < 1:
        raise SettingsError(f"--roles {args.roles!r} --slots {args.slots}: at least one role and one slot are needed")

    async def work() -> int:
        async with (
            interruptible() as asked,
            open_store(args.home, args.nats) as store,
            team(store, dict.fromkeys(roles, args.slots)),
        ):
            print(f"worker: {', '.join(roles)}, {args.slots} slots each, at {store.address.url}", file=sys.stderr)
            name = await asked
            print(f"worker: ended by {name}; what was not finished goes back to the queue", file=sys.stderr)
        return INTERRUPTED

    return _main(work())


COMMANDS: dict[str, Command] = {
    "run": Command(configure=_run_arguments, run=_run),
    "resume": Command(configure=_resume_arguments, run=_resume),
    "stop": Command(configure=_stop_arguments, run=_stop),
    "worker": Command(configure=_worker_arguments, run=_worker),
}
