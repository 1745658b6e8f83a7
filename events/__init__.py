"""What can be said: event types, envelope, codec, subjects, schemas, upcasters. No I/O."""

from .codec import decode, encode
from .envelope import Event, Origin, Payload, Unknown, Writer, canonical, content_digest
from .registry import kinds, payload_type, register, upcaster
from .schema import asyncapi, json_schema
from .subjects import STREAM, check_run_id, run_filter, subject_of
from .values import (
    Attestation,
    Blob,
    Direction,
    Limits,
    Outcome,
    Purpose,
    Reading,
    ReadingStatus,
    Ref,
    Resources,
    RunStatus,
    Usage,
    Value,
    blob_of,
)

__all__ = [
    "STREAM",
    "Attestation",
    "Blob",
    "Direction",
    "Event",
    "Limits",
    "Origin",
    "Outcome",
    "Payload",
    "Purpose",
    "Reading",
    "ReadingStatus",
    "Ref",
    "Resources",
    "RunStatus",
    "Unknown",
    "Usage",
    "Value",
    "Writer",
    "asyncapi",
    "blob_of",
    "canonical",
    "check_run_id",
    "content_digest",
    "decode",
    "encode",
    "json_schema",
    "kinds",
    "payload_type",
    "register",
    "run_filter",
    "subject_of",
    "upcaster",
]
