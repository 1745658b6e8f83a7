"""Events: stable bytes, kinds that are known and unknown, versions lifted, schemas that describe what is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import msgspec
import pytest
from event_samples import EVENTS, sample
from evolog.events import (
    Event,
    Origin,
    Payload,
    Reading,
    Unknown,
    asyncapi,
    check_run_id,
    content_digest,
    decode,
    encode,
    json_schema,
    kinds,
    payload_type,
    register,
    subject_of,
    upcaster,
)
from evolog.events.errors import DuplicateKindError, EventError, MalformedEventError, UnknownKindError
from hypothesis import given
from hypothesis import strategies as st

DATA = Path(__file__).parent.parent / "data"
GOLDEN = DATA / "golden-kinds.jsonl"
OWN = {event.kind for event in EVENTS}


# Bytes.


@pytest.mark.parametrize("number", range(len(EVENTS)), ids=[event.kind for event in EVENTS])
def test_every_kind_is_written_as_ever(number: int) -> None:
    """A changed byte here is a changed format: it needs a new version and an upcaster, not a new golden file."""
    event, line = EVENTS[number], GOLDEN.read_bytes().splitlines()[number]
    assert encode(event) == line
    assert decode(line) == event
    assert encode(decode(line)) == line


def test_there_is_a_golden_line_for_every_kind() -> None:
    assert {kind.KIND for kind in kinds() if kind.__module__.startswith("evolog.")} == OWN
    assert len(EVENTS) == len(OWN)


def test_equal_events_are_equal_bytes_however_their_mappings_were_filled() -> None:
    one = msgspec.structs.replace(EVENTS[8].data, attempts={"b": 1, "a": 2})  # type: ignore[type-var]
    other = msgspec.structs.replace(EVENTS[8].data, attempts={"a": 2, "b": 1})  # type: ignore[type-var]
    assert encode(msgspec.structs.replace(EVENTS[8], data=one)) == encode(
        msgspec.structs.replace(EVENTS[8], data=other)
    )


def test_the_content_digest_leaves_out_how_an_answer_came_about() -> None:
    trace = next(event.data for event in EVENTS if event.kind == "trace.recorded")
    assert isinstance(trace, Payload)
    slower = msgspec.structs.replace(trace, resources=msgspec.structs.replace(trace.resources, wall_seconds=9.0))  # type: ignore[attr-defined]
    worse = msgspec.structs.replace(trace, reading=Reading(status="scored", score=12.19))
    assert content_digest(slower) == content_digest(trace)
    assert content_digest(worse) != content_digest(trace)


# Reading is lenient, writing is strict.


def test_an_unknown_kind_survives_byte_by_byte() -> None:
    line = (
        GOLDEN.read_bytes()
        .splitlines()[3]
        .replace(b'"run.paused"', b'"zebra.seen"')
        .replace(b'"reason":', b'"z":1e3,"a" :')
    )
    event = decode(line)
    assert isinstance(event.data, Unknown)
    assert encode(event) == line


def test_a_newer_version_of_a_known_kind_survives_too() -> None:
    line = GOLDEN.read_bytes().splitlines()[3].replace(b'"v":1', b'"v":9')
    event = decode(line)
    assert isinstance(event.data, Unknown)
    assert event.v == 9
    assert encode(event) == line


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"[1]", b"\xff\xfe", GOLDEN.read_bytes().splitlines()[0][:-2], b'{"kind":"run.paused"}'],
)
def test_what_is_no_event_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedEventError):
        decode(raw)


def test_a_payload_with_a_wrong_field_is_refused_by_name() -> None:
    line = GOLDEN.read_bytes().splitlines()[3].replace(b'"reason"', b'"raison"')
    with pytest.raises(MalformedEventError, match=r"run\.paused.*raison|raison"):
        decode(line)


def test_writing_refuses_what_does_not_fit_together() -> None:
    fact = EVENTS[3]
    with pytest.raises(MalformedEventError, match="is a fact"):
        encode(msgspec.structs.replace(fact, n=3, place="3"))
    with pytest.raises(MalformedEventError, match="its payload is"):
        encode(msgspec.structs.replace(fact, kind="run.stopped"))

    class Unregistered(Payload, frozen=True, kw_only=True):
        KIND: ClassVar[str] = "never.registered"
        ORIGIN: ClassVar[Origin] = "fact"

    with pytest.raises(UnknownKindError):
        encode(sample(1, Unregistered()))


@given(st.floats())
def test_a_score_that_is_not_finite_is_no_reading(value: float) -> None:
    if value - value == 0.0:
        assert Reading(status="scored", score=value).score == value
    else:
        with pytest.raises(ValueError, match="not finite"):
            Reading(status="scored", score=value)


# Kinds and versions.


@register
class Herd(Payload, frozen=True, kw_only=True):
    """A test kind in its third version: `sheep` was `count`, and before that a text."""

    KIND: ClassVar[str] = "herd.counted"
    VERSION: ClassVar[int] = 3
    ORIGIN: ClassVar[Origin] = "fact"

    sheep: int
    dogs: int = 0


@upcaster("herd.counted", 1)
def _text_to_number(data: dict[str, Any]) -> dict[str, Any]:
    return {"count": int(data["count"])}


@upcaster("herd.counted", 2)
def _count_to_sheep(data: dict[str, Any]) -> dict[str, Any]:
    return {"sheep": data["count"], "dogs": 1}


def old_herd(version: int, data: dict[str, Any]) -> bytes:
    head = json.loads(encode(sample(1, Herd(sheep=1))))
    return json.dumps({**head, "v": version, "data": data}).encode()


@pytest.mark.parametrize(
    ("version", "data", "sheep", "dogs"),
    [(1, {"count": "12"}, 12, 1), (2, {"count": 12}, 12, 1), (3, {"sheep": 12, "dogs": 5}, 12, 5)],
)
def test_old_versions_are_lifted_to_the_newest(version: int, data: dict[str, Any], sheep: int, dogs: int) -> None:
    event = decode(old_herd(version, data))
    assert event.data == Herd(sheep=sheep, dogs=dogs)
    assert event.v == 3
    assert decode(encode(event)) == event


def test_a_version_without_a_way_up_is_kept_as_it_is() -> None:
    assert isinstance(decode(old_herd(0, {"n": 1})).data, Unknown)


def test_a_kind_and_an_upcasting_step_have_one_owner() -> None:
    with pytest.raises(DuplicateKindError, match=r"herd\.counted"):

        @register
        class Other(Payload, frozen=True, kw_only=True):
            KIND: ClassVar[str] = "herd.counted"
            ORIGIN: ClassVar[Origin] = "fact"

    with pytest.raises(DuplicateKindError, match="version 1"):
        upcaster("herd.counted", 1)(lambda data: data)
    with pytest.raises(UnknownKindError, match=r"no\.such"):
        payload_type("no.such")


# Subjects.


@pytest.mark.parametrize("run", ["", "a", "A1", "a.b", "a b", "a*", "a>", "-a", "x" * 41, "ä1"])
def test_a_run_id_is_one_token_of_a_subject(run: str) -> None:
    with pytest.raises(EventError, match="run id"):
        check_run_id(run)


def test_the_subject_says_run_origin_and_kind() -> None:
    assert subject_of(EVENTS[3]) == "evolog.r1.fact.run.paused"
    assert subject_of(EVENTS[6]) == "evolog.r1.decision.run.checkpointed"


# Schemas.


def own_kinds() -> list[type[Payload]]:
    return [kind for kind in kinds() if kind.KIND in OWN]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_the_json_schema_accepts_what_is_written_and_nothing_else(event: Event) -> None:
    schema = json_schema(payload_type(event.kind))
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    written = json.loads(encode(event))
    validator.validate(written)
    for wrong in (
        {**written, "more": 1},
        {**written, "kind": "other.kind"},
        {**written, "data": {**written["data"], "more": 1}},
        {key: value for key, value in written.items() if key != "data"},
    ):
        assert not validator.is_valid(wrong)


def test_the_asyncapi_document_is_valid_and_names_every_subject() -> None:
    document = asyncapi()
    schema = json.loads((DATA / "asyncapi-3.0.0.json").read_text())
    jsonschema.Draft7Validator(schema).validate(document)
    addresses = {channel["address"] for channel in document["channels"].values()}
    for event in EVENTS:
        assert subject_of(event).replace("evolog.r1.", "evolog.{run}.") in addresses
    # Every reference points somewhere.
    for reference in references(document):
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
    # The validator does refuse.
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate({**document, "channels": {"x": {"addres": 1}}})


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for value in node.values() for ref in references(value)]
    if isinstance(node, list):
        return [ref for value in node for ref in references(value)]
    return []


def test_evolog_schema_prints_both() -> None:
    def printed(*arguments: str) -> Any:
        command = [sys.executable, "-m", "evolog.infra.cli", "schema", *arguments]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    assert printed()["asyncapi"] == "3.0.0"
    assert printed("--kind", "run.paused") == json_schema(payload_type("run.paused"))
    unknown = subprocess.run(
        [sys.executable, "-m", "evolog.infra.cli", "schema", "--kind", "run.pausd"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert unknown.returncode == 1
    assert "'run.pausd'" in unknown.stderr
    assert "did you mean 'run.paused'?" in unknown.stderr
