"""Where model-written code runs: the port, its backends, and the choice among them."""

from .choose import BACKENDS, SAFE, open_sandbox, probe
from .launched import LaunchedSandbox
from .port import Execution, Job, Sandbox, SandboxLimits, Service

__all__ = [
    "BACKENDS",
    "SAFE",
    "Execution",
    "Job",
    "LaunchedSandbox",
    "Sandbox",
    "SandboxLimits",
    "Service",
    "open_sandbox",
    "probe",
]
