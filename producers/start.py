"""Starting a run: what an operator says, as facts."""

from __future__ import annotations

import platform
import secrets
from typing import Any

from ..events import Blob, Event, Payload, Writer, content_digest
from ..events.kinds import (
    Baseline,
    RunReconfigured,
    RunResumed,
    RunStarted,
    RunStopped,
    Split,
    TaskDigest,
    TaskRegistered,
)
from ..events.version import VERSION
from ..infra.log import Blobs, Log, fact
from ..infra.settings import RunSettings, TaskFiles, effective

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


def new_run_id() -> str:
    """``r`` and seven characters that cannot be mistaken for one another (35 bits)."""
    return "r" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


async def start_run(
    log: Log,
    blobs: Blobs,
    settings: RunSettings,
    task: TaskFiles,
    *,
    by: Writer,
    strategy_source: str,
    sandbox: str,
    run: str | None = None,
) -> str:
    """Register the task's files and append `task.registered` and `run.started`.

    Parameters
    ----------
    task
        Contents of the files that the run file names.
    strategy_source
        Digest of the strategy's source.
    sandbox
        The backend that was chosen.
    run
        Its id (default: a new one).

    Returns
    -------
    str
        The run's id.
    """
    run = run or new_run_id()
    registered = await register_task(blobs, settings, task)
    started = RunStarted(
        strategy=settings.search.strategy,
        strategy_source=strategy_source,
        settings=effective(settings),
        seed=settings.run.seed,
        tasks=(TaskDigest(name=registered.name, digest=content_digest(registered)),),
        package=VERSION,
        python=platform.python_version(),
        platform=platform.platform(),
        sandbox=sandbox,
    )
    await log.append(operator_fact(run, "started", started, by), operator_fact(run, "task-1", registered, by))
    return run


async def register_task(blobs: Blobs, settings: RunSettings, task: TaskFiles) -> TaskRegistered:
    """Store the task's files and describe it by their digests."""
    table = settings.task
    contents = [task.interface, task.harness, task.evaluator, *task.splits.values(), *task.baselines.values()]
    stored: list[Blob] = await blobs.put(*contents)
    interface, harness, evaluator, *rest = stored
    splits = rest[: len(task.splits)]
    baselines = rest[len(task.splits) :]
    return TaskRegistered(
        name=table.name,
        description=table.description,
        direction=table.direction,
        judge=table.judge,
        interface=interface,
        harness=harness,
        evaluator=evaluator,
        splits=tuple(Split(name=name, data=blob) for name, blob in zip(task.splits, splits, strict=True)),
        baselines=tuple(
            Baseline(name=name, program=blob) for name, blob in zip(task.baselines, baselines, strict=True)
        ),
    )


def operator_fact(run: str, identity: str, data: Payload, by: Writer, cause: tuple[str, ...] = ()) -> Event:
    """A fact that an operator appends, under the id ``<run>/op-<identity>``."""
    return fact(run, f"op-{identity}", data, by, cause)


async def resume_run(log: Log, run: str, *, by: Writer, strategy_source: str) -> None:
    """Append `run.resumed`: under which code and on what machine the run goes on."""
    data = RunResumed(
        strategy_source=strategy_source,
        package=VERSION,
        python=platform.python_version(),
        platform=platform.platform(),
    )
    await log.append(operator_fact(run, f"resumed-{secrets.token_hex(4)}", data, by))


async def reconfigure_run(
    log: Log,
    run: str,
    changes: dict[str, tuple[Any, Any]],
    settings: dict[str, Any],
    *,
    by: Writer,
    completed: str | None,
) -> None:
    """Append `run.reconfigured`; `completed` is the id of the `run.completed` that it answers, if any."""
    data = RunReconfigured(changes=changes, settings=settings)
    cause = () if completed is None else (completed,)
    await log.append(operator_fact(run, f"reconfigured-{secrets.token_hex(4)}", data, by, cause))


async def stop_run(log: Log, run: str, reason: str, *, by: Writer) -> None:
    """Append `run.stopped`; the run's director, now or when it resumes, cancels what is open."""
    await log.append(operator_fact(run, f"stopped-{secrets.token_hex(4)}", RunStopped(reason=reason), by))
