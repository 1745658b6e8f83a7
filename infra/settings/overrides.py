"""``--set key=value``: one key of a run file replaced on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from ...events.errors import SettingsError


def parse_override(text: str) -> tuple[tuple[str, ...], Any]:
    """Split ``budget.candidates=60`` into its keys and its value.

    The value is TOML (``60``, ``0.5``, ``true``, ``"text"``, ``["a"]``); what is no TOML value is text,
    so that ``search.strategy=program`` needs no quotes. Nothing after ``=`` is None: the default.

    Raises
    ------
    SettingsError
        If there is no ``=`` or no key.
    """
    dotted, equals, written = text.partition("=")
    keys = tuple(key.strip() for key in dotted.split("."))
    if not equals or not all(keys):
        raise SettingsError(f"--set {text}: expected KEY=VALUE, such as budget.candidates=60")
    written = written.strip()
    if not written:
        return keys, None
    try:
        document = tomllib.loads(f"value = {written}")
    except tomllib.TOMLDecodeError:
        return keys, written
    # A line break in the value could bring further keys.
    return keys, document["value"] if len(document) == 1 else written


def apply_overrides(table: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """`table` with the overrides applied in order, and the text of each override by its dotted key.

    Raises
    ------
    SettingsError
        If an override is malformed or its key leads through a value that is no table.
    """
    changed = _copy(table)
    texts: dict[str, str] = {}
    for text in overrides:
        keys, value = parse_override(text)
        inner = changed
        for depth, key in enumerate(keys[:-1], 1):
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise SettingsError(f"--set {text}: {'.'.join(keys[:depth])} is a value, not a table")
        if value is None:
            inner.pop(keys[-1], None)
        else:
            inner[keys[-1]] = value
        # Each table on the way counts as set too: an unknown one has its cause here.
        for depth in range(1, len(keys) + 1):
            dotted = ".".join(keys[:depth])
            if depth == len(keys) or _lookup(table, keys[:depth]) is None:
                texts[dotted] = text
    return changed, texts


def _copy(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in table.items()}


def _lookup(table: Mapping[str, Any], keys: Sequence[str]) -> Any:
    found: Any = table
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
