"""Run files: read, overridden, decoded; and settings as the plain JSON that events carry."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...events.errors import SettingsError
from .decoding import Place, check_plain, decode_table
from .overrides import apply_overrides, parse_override
from .tables import DEFAULT_STRATEGY, RunSettings, SearchTable, TaskTable

RUN_FILE = "run.toml"

#: The Struct of a strategy's own keys in ``[search]``, by the strategy's name.
StrategySettings = Callable[[str], type[msgspec.Struct]]


class TaskFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the files that ``[task]`` names. A file that is not named is empty."""

    interface: bytes
    harness: bytes
    evaluator: bytes
    splits: dict[str, bytes]
    baselines: dict[str, bytes] = {}


class RunFile(NamedTuple):
    """A run file with everything that it names."""

    path: Path
    settings: RunSettings
    task: TaskFiles


class _Sections(msgspec.Struct, kw_only=True):
    """The tables by name, to find unknown ones before the strategy is asked for its keys."""

    run: dict[str, Any] = {}
    task: dict[str, Any] = {}
    search: dict[str, Any] = {}
    proposer: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    budget: dict[str, Any] = {}
    workers: dict[str, Any] = {}
    sandbox: dict[str, Any] = {}
    log: dict[str, Any] = {}


def load_run_file(path: Path, overrides: Sequence[str] = (), *, strategy_settings: StrategySettings) -> RunFile:
    """Read a run file and the files that it names.

    Parameters
    ----------
    path
        The file, or a directory that has a ``run.toml``.
    overrides
        Texts of ``--set``, such as ``budget.candidates=60``.
    strategy_settings
        Finds the Struct of a strategy's own keys.

    Raises
    ------
    SettingsError
        If a file is missing or unreadable, is no TOML, or says what evolog does not know.
    """
    if not path.exists():
        raise SettingsError(
            f"there is no run file {path}: name a TOML file or a directory with a {RUN_FILE}, "
            "such as examples/jobshop of evolog's repository"
        )
    file = path / RUN_FILE if path.is_dir() else path
    try:
        table = tomllib.loads(_read(file, f"{file}: the run file").decode())
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is no TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} is no TOML: not UTF-8 at byte {error.start}") from None
    settings = decode_settings(table, overrides, source=str(file), strategy_settings=strategy_settings)
    return RunFile(file, settings, read_task_files(settings.task, file))


def revise(
    recorded: Mapping[str, Any], overrides: Sequence[str], *, strategy_settings: StrategySettings
) -> RunSettings:
    """Recorded effective settings with overrides, for a run that goes on under other settings.

    Raises
    ------
    SettingsError
        If an override does not fit, or would make it another run.
    """
    for text in overrides:
        keys, _ = parse_override(text)
        if keys[0] in ("run", "task") or keys == ("search", "strategy"):
            raise SettingsError(
                f"--set {text}: seed, task and strategy of a run are fixed; start a new run with 'evolog run'"
            )
    return decode_settings(
        recorded, overrides, source="the run's recorded settings", strategy_settings=strategy_settings
    )


def decode_settings(
    table: Mapping[str, Any], overrides: Sequence[str] = (), *, source: str, strategy_settings: StrategySettings
) -> RunSettings:
    """Plain tables into settings; `source` is what the errors name.

    Raises
    ------
    SettingsError
        If a key is unknown or missing, or a value does not fit.
    """
    changed, texts = apply_overrides(table, overrides)
    place = Place(source, overrides=texts)
    check_plain(changed, place)
    _hint_at_table(changed, place)
    decode_table(changed, _Sections, place)
    search = dict(changed.get("search", {}))
    name = search.pop("strategy", DEFAULT_STRATEGY)
    if not isinstance(name, str):
        raise SettingsError(f"{place.at('search').at('strategy')}: search.strategy = {name!r}: expected string")
    options = decode_table(search, strategy_settings(name), place.at("search"), also=("strategy",))
    decoded: dict[str, Any] = {"search": SearchTable(strategy=name, options=options)}
    for field in msgspec.structs.fields(RunSettings):
        if field.name != "search" and (field.required or field.name in changed):
            decoded[field.name] = decode_table(changed.get(field.name, {}), field.type, place.at(field.name))
    try:
        return RunSettings(**decoded)
    except ValueError as error:
        raise SettingsError(f"{source}: {error}") from None


def _hint_at_table(table: Mapping[str, Any], place: Place) -> None:
    """A key at the top that belongs into a table: name the table."""
    for key in table:
        if key in _Sections.__struct_fields__:
            continue
        homes = [
            f"{field.name}.{key}"
            for field in msgspec.structs.fields(RunSettings)
            if key in getattr(field.type, "__struct_fields__", ())
        ]
        if homes:
            raise SettingsError(f"{place.at(key)}: there is no key {key!r} outside a table. Is it {homes[0]}?")


def read_task_files(task: TaskTable, run_file: Path) -> TaskFiles:
    """Read the files that ``[task]`` names, relative to the run file.

    Raises
    ------
    SettingsError
        If one cannot be read.
    """

    def content(name: str, key: str) -> bytes:
        return _read(run_file.parent / name, f"{run_file}: task.{key} = {name!r}") if name else b""

    return TaskFiles(
        interface=content(task.interface, "interface"),
        harness=content(task.harness, "harness"),
        evaluator=content(task.evaluator, "evaluator"),
        splits={key: content(name, f"splits.{key}") for key, name in task.splits.items()},
        baselines={key: content(name, f"baselines.{key}") for key, name in task.baselines.items()},
    )


def _read(file: Path, what: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{what} cannot be read: {error.strerror}") from None


def effective(settings: RunSettings) -> dict[str, Any]:
    """All settings as plain JSON, defaults included, as `run.started` records them.

    Raises
    ------
    SettingsError
        If a value looks like a secret.
    """
    tables: dict[str, Any] = msgspec.to_builtins(settings)
    tables["search"] = {"strategy": settings.search.strategy, **tables["search"]["options"]}
    check_plain(tables, Place("settings"))
    return tables


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ, each with its old and its new value (None: absent)."""
    before, after = _flat(old), _flat(new)
    keys = [*before, *(key for key in after if key not in before)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            found.update(_flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found
