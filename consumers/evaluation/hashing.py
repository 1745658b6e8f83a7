"""The evaluator ``hash``: a score from the program's digest, in process. For tests of evolog itself."""

from __future__ import annotations

import hashlib
import time

from ...events import Attestation, Reading, Resources
from ...events.kinds import TraceRecorded
from .port import Assignment, Store


class HashEvaluator:
    """Scores the first 32 bits of the program's sha256, as a fraction of 2**32. It runs nothing."""

    async def evaluate(self, assignment: Assignment, *, store: Store) -> TraceRecorded:
        """Score a program. The port's `store` is not used: there is no output."""
        del store
        began = time.perf_counter()
        digest = hashlib.sha256(assignment.program).hexdigest()
        return TraceRecorded(
            reading=Reading(status="scored", score=int(digest[:8], 16) / 2**32),
            outcome="exited",
            exit_code=0,
            output=None,
            feedback=None,
            resources=Resources(wall_seconds=time.perf_counter() - began),
            attestation=Attestation(backend="none", backend_version="", evaluator="hash", files=digest),
        )
