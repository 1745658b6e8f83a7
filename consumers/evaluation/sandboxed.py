"""The evaluator ``sandbox``: the candidate in one sandbox, its judge in another (design rule 8)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...events import Attestation, Blob, Reading, Resources
from ...events.kinds import TraceRecorded
from ...infra.sandbox import Execution, Job, Sandbox, SandboxLimits, Service
from .port import Assignment, Store

HARNESS, PROGRAM, DATA = "harness.py", "program.py", "data.json"
_JUDGE = Path(__file__).with_name("judge.py")
#: Bytes of a program's error output that a debug operator is shown: the end says most.
_FEEDBACK_BYTES = 2_000
_REASON_CHARACTERS = 300
_REMEMBERED_SPLITS = 8


class _Split(msgspec.Struct, forbid_unknown_fields=True):
    given: msgspec.Raw
    answers: msgspec.Raw


class _Verdict(msgspec.Struct):
    nonce: str
    score: float | None = None
    metrics: dict[str, float] = {}
    invalid: str | None = None
    broken: str | None = None
    wanted: str | None = None


_verdicts = msgspec.json.Decoder(_Verdict)


class _Judge:
    """One judge process for one evaluator, and the splits that it has been told."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.told: set[str] = set()
        self.turn = asyncio.Lock()


class SandboxEvaluator:
    """Runs ``harness.py`` with the candidate as ``program.py`` and the given part of the data as ``data.json``.

    What the harness prints, one JSON document, is all that leaves the sandbox. The judge, in another
    sandbox and process, gets it as data, together with the answers, which the candidate's sandbox
    never had.

    Parameters
    ----------
    settings
        The run's effective settings.
    sandbox
        Gives the sandbox.
    """

    def __init__(self, settings: Mapping[str, Any], sandbox: Callable[[], Sandbox]) -> None:
        self._settings = settings
        self._sandbox_of = sandbox
        self._sandbox: Sandbox | None = None
        self._judges: dict[str, _Judge] = {}
        self._splits: dict[str, _Split] = {}
        self._starting = asyncio.Lock()

    async def evaluate(self, assignment: Assignment, *, store: Store) -> TraceRecorded:
        """Run and judge a program."""
        if self._sandbox is None:
            self._sandbox = self._sandbox_of()
        digest = _split_digest(assignment)
        split = self._split(digest, assignment.data)
        files = {HARNESS: assignment.harness, PROGRAM: assignment.program, DATA: bytes(split.given)}
        limits = assignment.request.limits
        default = SandboxLimits()
        execution = await self._sandbox.run(
            Job(
                files=files,
                entry=HARNESS,
                limits=SandboxLimits(
                    seconds=limits.seconds,
                    memory=limits.memory or default.memory,
                    processes=limits.processes or default.processes,
                    output=limits.output or default.output,
                ),
                seed=assignment.request.seed,
            )
        )
        reading, seconds = await self._reading(assignment, execution, digest, split)
        feedback = _feedback(reading, execution) if reading.status == "invalid" else b""
        blobs: list[Blob] = await store(execution.stdout, *([feedback] if feedback else []))
        return TraceRecorded(
            reading=reading,
            outcome=execution.outcome,
            exit_code=execution.exit_code,
            output=blobs[0],
            feedback=blobs[1] if feedback else None,
            resources=Resources(
                wall_seconds=execution.wall_seconds + seconds,
                cpu_seconds=execution.cpu_seconds,
                peak_bytes=execution.peak_bytes,
            ),
            attestation=Attestation(
                backend=self._sandbox.name,
                backend_version=self._sandbox.version,
                evaluator=hashlib.sha256(assignment.evaluator).hexdigest(),
                files=_files_digest(files),
            ),
        )

    def _split(self, digest: str, data: bytes) -> _Split:
        split = self._splits.get(digest)
        if split is None:
            split = msgspec.json.decode(data, type=_Split)
            if len(self._splits) >= _REMEMBERED_SPLITS:
                self._splits.clear()
            self._splits[digest] = split
        return split

    async def _reading(
        self, assignment: Assignment, execution: Execution, digest: str, split: _Split
    ) -> tuple[Reading, float]:
        """The reading, and the seconds that judging took."""
        if execution.outcome == "unavailable":
            return Reading(status="not_run", reason=f"sandbox: {execution.detail}"), 0.0
        if execution.outcome != "exited":
            return _invalid(f"{execution.outcome}: {execution.detail}"), 0.0
        if execution.exit_code != 0:
            return _invalid(f"exit code {execution.exit_code}: {_last_line(execution.stderr)}"), 0.0
        try:
            msgspec.json.decode(execution.stdout)
        except msgspec.MsgspecError as error:
            return _invalid(f"what it printed is not one JSON document: {error}"), 0.0
        loop = asyncio.get_running_loop()
        began = loop.time()
        verdict = await self._judged(assignment, digest, split, msgspec.Raw(execution.stdout))
        seconds = loop.time() - began
        if verdict is None:
            return Reading(status="not_run", reason="the judge ended without a verdict"), seconds
        if verdict.broken is not None:
            return Reading(status="not_run", reason=f"task.evaluator cannot be loaded: {verdict.broken}"), seconds
        if verdict.score is None:
            return _invalid(verdict.invalid or "no score"), seconds
        return Reading(status="scored", score=verdict.score, metrics=verdict.metrics), seconds

    async def _judged(
        self, assignment: Assignment, digest: str, split: _Split, output: msgspec.Raw
    ) -> _Verdict | None:
        judge = await self._judge(assignment)
        async with judge.turn:
            data = None if digest in judge.told else split
            nonce = secrets.token_hex(16)
            question = {"nonce": nonce, "split": digest, "data": data, "output": output}
            answer = await judge.service.ask(msgspec.json.encode(question))
            if answer is None:
                return None
            try:
                verdict = _verdicts.decode(answer)
            except msgspec.MsgspecError:
                verdict = None
            if verdict is None or verdict.nonce != nonce or verdict.wanted is not None:
                # What does not keep to the protocol is not asked again.
                await judge.service.close()
                return None
            judge.told.add(digest)
            return verdict

    async def _judge(self, assignment: Assignment) -> _Judge:
        assert self._sandbox is not None
        name = hashlib.sha256(assignment.evaluator).hexdigest()
        async with self._starting:
            judge = self._judges.get(name)
            if judge is None or not judge.service.alive:
                seconds = assignment.request.limits.seconds
                service = await self._sandbox.serve(
                    Job(
                        files={"judge.py": _JUDGE.read_bytes(), "evaluator.py": assignment.evaluator},
                        entry="judge.py",
                        arguments=(repr(seconds),),
                        limits=SandboxLimits(seconds=seconds + 10.0, memory=2**30, output=2**24),
                    )
                )
                judge = self._judges[name] = _Judge(service)
            return judge

    async def close(self) -> None:
        """End the judges."""
        judges, self._judges = self._judges, {}
        await asyncio.gather(*(judge.service.close() for judge in judges.values()))


def _split_digest(assignment: Assignment) -> str:
    name = assignment.request.split
    return next(split.data.sha256 for split in assignment.task.splits if split.name == name)


def _files_digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return digest.hexdigest()


def _invalid(reason: str) -> Reading:
    return Reading(status="invalid", reason=reason[:_REASON_CHARACTERS])


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing on standard error"


def _feedback(reading: Reading, execution: Execution) -> bytes:
    return f"{reading.reason}\n".encode() + execution.stderr[-_FEEDBACK_BYTES:]
