"""Events described for other languages: JSON Schema of every kind, and one AsyncAPI document of all subjects.

The schemas are draft 7, which is what AsyncAPI 3.0 has as its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from .envelope import Payload, Writer
from .registry import kinds
from .subjects import ROOT, RUN_PATTERN
from .version import VERSION

DRAFT = "http://json-schema.org/draft-07/schema#"
ASYNCAPI = "3.0.0"


def json_schema(payload: type[Payload]) -> dict[str, Any]:
    """JSON Schema (draft 7) of an event of one kind, its envelope included.

    Parameters
    ----------
    payload
        A registered payload class, such as ``payload_type("candidate.admitted")``.
    """
    template = "#/definitions/{name}"
    (data, writer), definitions = _components((payload, Writer), template)
    return {"$schema": DRAFT, **_event_schema(payload, data, writer), "definitions": definitions}


def asyncapi(payloads: Iterable[type[Payload]] | None = None) -> dict[str, Any]:
    """The AsyncAPI 3.0 document of what evolog appends: a channel, an operation and a message for each kind.

    Parameters
    ----------
    payloads
        Kinds to describe (default: all registered ones, those of installed packages included).
    """
    described = list(kinds() if payloads is None else payloads)
    references, schemas = _components((*described, Writer), "#/components/schemas/{name}")
    writer = references.pop()
    document: dict[str, Any] = {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "evolog",
            "version": VERSION,
            "description": (
                "Events of program search runs on one NATS JetStream stream, EVOLOG. Follow a run with "
                f"`nats sub '{ROOT}.RUN.>'`. Facts came from outside; decisions were computed from facts "
                "by the run's strategy and are numbered by `n` without gaps."
            ),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {},
        "operations": {},
        "components": {"messages": {}, "schemas": schemas},
    }
    for payload, data in zip(described, references, strict=True):
        kind = payload.KIND
        document["channels"][kind] = _channel(payload)
        document["operations"][f"append.{kind}"] = _operation(payload)
        document["components"]["messages"][kind] = _message(payload)
        schemas[kind] = _event_schema(payload, data, writer)
    return document


def _components(types: Iterable[type], template: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    references, components = msgspec.json.schema_components(types, ref_template=template)
    return list(references), {name: _draft_7(schema) for name, schema in components.items()}


def _draft_7(schema: Any) -> Any:
    """msgspec writes draft 2020-12, which differs from draft 7 in how it says a tuple."""
    if isinstance(schema, list):
        return [_draft_7(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    known = {key: _draft_7(inner) for key, inner in schema.items()}
    # A mapping of property names may have a property of that name; its value is then a schema.
    if isinstance(known.get("prefixItems"), list):
        known["additionalItems"] = known.pop("items", True)
        known["items"] = known.pop("prefixItems")
    return known


def _event_schema(payload: type[Payload], data: dict[str, Any], writer: dict[str, Any]) -> dict[str, Any]:
    decision = payload.ORIGIN == "decision"
    properties: dict[str, Any] = {
        "kind": {"const": payload.KIND},
        "v": {"const": payload.VERSION},
        "id": {"type": "string", "description": "Unique in the log. A decision's is '<run>/<place>'."},
        "run": {"type": "string", "pattern": f"^{RUN_PATTERN}$"},
        "n": {"type": "integer", "minimum": 0} if decision else {"type": "null"},
        "place": {"type": "string"} if decision else {"type": "null"},
        "at": {"type": "integer", "description": "When it was appended: nanoseconds since the Unix epoch, UTC."},
        "by": writer,
        "cause": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Ids of the requests or events that it answers or follows.",
        },
        "data": data,
    }
    return {
        "title": payload.KIND,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _channel(payload: type[Payload]) -> dict[str, Any]:
    return {
        "address": f"{ROOT}.{{run}}.{payload.ORIGIN}.{payload.KIND}",
        "parameters": {"run": {"description": "Id of the run: 2 to 40 lower-case letters, digits and hyphens."}},
        "messages": {payload.KIND: {"$ref": f"#/components/messages/{payload.KIND}"}},
    }


def _operation(payload: type[Payload]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "action": "send",
        "channel": {"$ref": f"#/channels/{payload.KIND}"},
        "summary": _first_line(payload),
        "messages": [{"$ref": f"#/channels/{payload.KIND}/messages/{payload.KIND}"}],
    }
    if payload.ANSWERED_BY:
        operation["x-answered-by"] = sorted(payload.ANSWERED_BY)
    return operation


def _message(payload: type[Payload]) -> dict[str, Any]:
    message: dict[str, Any] = {
        "name": payload.KIND,
        "title": payload.__name__,
        "summary": _first_line(payload),
        "contentType": "application/json",
        "headers": {
            "type": "object",
            "properties": {"Nats-Msg-Id": {"type": "string", "description": "The event's id."}},
        },
        "payload": {"$ref": f"#/components/schemas/{payload.KIND}"},
    }
    if payload.VOLATILE:
        message["x-volatile"] = sorted(payload.VOLATILE)
    return message


def _first_line(payload: type[Payload]) -> str:
    return (payload.__doc__ or payload.KIND).strip().partition("\n")[0]
