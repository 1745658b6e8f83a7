"""Settings: a run file, ``--set`` overrides, and the plain JSON that events carry."""

from .decoding import Bytes, Place, decode_table
from .overrides import apply_overrides, parse_override
from .runfile import (
    RunFile,
    StrategySettings,
    TaskFiles,
    decode_settings,
    diff,
    effective,
    load_run_file,
    read_task_files,
    revise,
)
from .tables import (
    BudgetTable,
    EvaluationTable,
    LogTable,
    ProposerTable,
    RunSettings,
    RunTable,
    SandboxTable,
    SearchTable,
    TaskTable,
    WorkersTable,
    model_settings,
)

__all__ = [
    "BudgetTable",
    "Bytes",
    "EvaluationTable",
    "LogTable",
    "Place",
    "ProposerTable",
    "RunFile",
    "RunSettings",
    "RunTable",
    "SandboxTable",
    "SearchTable",
    "StrategySettings",
    "TaskFiles",
    "TaskTable",
    "WorkersTable",
    "apply_overrides",
    "decode_settings",
    "decode_table",
    "diff",
    "effective",
    "load_run_file",
    "model_settings",
    "parse_override",
    "read_task_files",
    "revise",
]
