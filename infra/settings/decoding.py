"""Tables of plain values into typed Structs, with errors that name the place, the value and the nearest known key."""

from __future__ import annotations

import datetime
import difflib
import math
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from ...events.errors import SettingsError

S = TypeVar("S", bound=msgspec.Struct)

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_TOML_NAMES = {"int": "integer", "str": "string", "bool": "boolean", "object": "table"}

#: A number of bytes; a run file may also say it as text with a unit, such as ``"256MiB"``.
Bytes = Annotated[int, msgspec.Meta(ge=1, extra={"unit": "bytes"})]

_KEY_PREFIXES = r"(?:sk-|sk_|pk-|rk-|gsk_|xai-|hf_|nvapi-|pplx-|r8_|ghp_|github_pat_|AIza|AKIA|Bearer\s)"
_KEY_ALONE = re.compile(rf"{_KEY_PREFIXES}\S*")
#: Within a text the beginning alone proves nothing ("sk-learn"): a long word with a digit does.
_KEY_IN_TEXT = re.compile(rf"(?<![A-Za-z0-9]){_KEY_PREFIXES}(?=[\w-]*\d)[\w-]{{20,}}")
_SECRET_NAMES = re.compile(r"(?i)(?:^|[_-])(?:api[_-]?key|access[_-]?token|authorization|password|passwd|secret)$")


class Place(NamedTuple):
    """Where a value stands: the file or override that it came from, and the keys that lead to it.

    `overrides` has the text of each ``--set`` by its dotted key.
    """

    source: str
    keys: tuple[str, ...] = ()
    overrides: Mapping[str, str] = {}

    @property
    def dotted(self) -> str:
        return ".".join(self.keys)

    def at(self, key: str) -> Place:
        return self._replace(keys=(*self.keys, key))

    def __str__(self) -> str:
        override = self.overrides.get(self.dotted)
        return self.source if override is None else f"--set {override}"


def decode_table(table: Mapping[str, Any], into: type[S], where: Place | str, *, also: Iterable[str] = ()) -> S:
    """Decode a table of plain values into a Struct.

    Parameters
    ----------
    table
        As read from TOML or JSON.
    into
        The Struct; nested Structs are nested tables. A `Bytes` field takes text with a unit too.
    where
        What the errors name: a file's name, or a `Place` within it.
    also
        Keys that the table may have elsewhere, for the list of known keys.

    Raises
    ------
    SettingsError
        If a key is unknown or missing, or a value does not fit.
    """
    place = where if isinstance(where, Place) else Place(where)
    fitted = _fit_struct(table, into, place, tuple(also))
    try:
        return msgspec.convert(fitted, into)
    except msgspec.ValidationError as error:
        # What is left are the Structs' own checks, whose messages name key and value.
        raise SettingsError(f"{place}: {_without_path(error)}") from None


def _fit_struct(table: Any, into: type[msgspec.Struct], place: Place, also: tuple[str, ...] = ()) -> dict[str, Any]:
    """`table` with its values checked one by one, so that each error has its exact place."""
    if not isinstance(table, Mapping):
        raise SettingsError(f"{place}: {place.dotted} = {_shown(table)}: expected a table")
    fields = {field.encode_name: field for field in msgspec.structs.fields(into)}
    for key in table:
        if key not in fields:
            raise SettingsError(_unknown_key(key, (*also, *fields), place))
    for key, field in fields.items():
        if field.required and key not in table:
            raise SettingsError(f"{place}: {_named(place)} lacks the key {key!r}, which has no default")
    return {key: _fit(value, fields[key].type, place.at(key)) for key, value in table.items()}


def _fit(value: Any, annotation: Any, place: Place) -> Any:
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return None if value is None and annotation is not option else _fit_struct(value, option, place)
        if get_origin(option) is dict and isinstance(value, Mapping):
            of = get_args(option)[1]
            return {key: _fit(inner, of, place.at(key)) for key, inner in value.items()}
        if isinstance(value, str) and _in_bytes(option):
            return _bytes(value, place)
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{place}: {place.dotted} = {_shown(value)}: {_in_toml_words(error)}") from None
    return value


def _options(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, else the annotation itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _in_bytes(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated and any(
        isinstance(meta, msgspec.Meta) and (meta.extra or {}).get("unit") == "bytes"
        for meta in annotation.__metadata__
    )


def _bytes(text: str, place: Place) -> int:
    match = _AMOUNT.fullmatch(text)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or float(match[1]) * unit < 1:
        raise SettingsError(
            f"{place}: {place.dotted} = {_shown(text)}: expected bytes, as an integer or as text with one of the "
            'units B, kB, MB, GB, KiB, MiB, GiB, such as "256MiB"'
        )
    return int(float(match[1]) * unit)


def _unknown_key(key: str, known: tuple[str, ...], place: Place) -> str:
    near = difflib.get_close_matches(key, known, n=2)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    has = f"It has: {', '.join(sorted(known))}" if known else "It has no keys"
    return f"{place.at(key)}: {_named(place)} has no key {key!r}.{hint} {has}"


def _named(place: Place) -> str:
    return f"the table [{place.dotted}]" if place.keys else "the file"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _without_path(error: msgspec.ValidationError) -> str:
    return re.sub(r" - at `\$[^`]*`$", "", str(error))


def _in_toml_words(error: msgspec.ValidationError) -> str:
    """``Expected `int | null`, got `str``` becomes ``expected integer, got string``."""

    def words(match: re.Match[str]) -> str:
        names = [name for name in match[1].split(" | ") if name != "null"]
        return " or ".join(_TOML_NAMES.get(name, name) for name in names)

    text = re.sub(r"`([^`]*)`", words, _without_path(error))
    return text[0].lower() + text[1:]


def _leaves(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, place.at(str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _leaves(inner, place.at(str(index)))
    else:
        yield place, value


def check_plain(table: Mapping[str, Any], where: Place) -> None:
    """Refuse what must not be recorded: secrets, numbers that are not finite, dates.

    The text of the error does not repeat a secret.

    Raises
    ------
    SettingsError
        For the first such value.
    """
    for place, value in _leaves(table, where):
        if isinstance(value, str):
            alone = _KEY_ALONE.fullmatch(value.strip()) is not None
            named = bool(value) and _SECRET_NAMES.search(place.keys[-1] if place.keys else "") is not None
            if alone or named or _KEY_IN_TEXT.search(value):
                # An override's text holds the value, so only its key is named.
                source = "--set" if place.dotted in place.overrides else place.source
                raise SettingsError(
                    f"{source}: {place.dotted} looks like a key or password itself, and settings are recorded. "
                    'Put it into an environment variable and name that: proposer.api_key_env = "OPENAI_API_KEY"'
                )
        elif isinstance(value, float) and not math.isfinite(value):
            raise SettingsError(f"{place}: {place.dotted} = {value}: expected a finite number")
        elif isinstance(value, datetime.date | datetime.time):
            raise SettingsError(f"{place}: {place.dotted} = {value}: a date is written as text, in quotes")
