"""Commands about the installation itself: what it can say, and what this machine lacks."""

from __future__ import annotations

import argparse
import json

from ..events import asyncapi, json_schema, payload_type
from .command import Command, add_json, add_nats


def _schema_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind",
        metavar="NOUN.VERB",
        help="print the JSON Schema of this kind of event instead, such as candidate.admitted",
    )


def _schema(args: argparse.Namespace) -> int:
    described = json_schema(payload_type(args.kind)) if args.kind else asyncapi()
    print(json.dumps(described, indent=2))
    return 0


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    add_nats(parser)
    add_json(parser)


def _doctor(args: argparse.Namespace) -> int:
    from .doctor import examine

    findings = []
    for finding in examine(args.home, args.nats):
        findings.append(finding)
        if not args.json:
            print(f"{finding.verdict:<9} {finding.what:<15} {finding.detail}")
            if finding.fix:
                print(f"{'':<25} fix: {finding.fix}")
    if args.json:
        import msgspec

        print(json.dumps(msgspec.to_builtins(findings), indent=2))
    return 1 if any(finding.verdict == "missing" for finding in findings) else 0


COMMANDS: dict[str, Command] = {
    "doctor": Command(configure=_doctor_arguments, run=_doctor),
    "schema": Command(configure=_schema_arguments, run=_schema),
}
