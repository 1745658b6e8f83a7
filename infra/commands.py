"""Commands about the installation itself: what it can say, and what this machine lacks."""

from __future__ import annotations

import argparse
import json

from ..events import asyncapi, json_schema, payload_type
from .command import Command


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


COMMANDS: dict[str, Command] = {
    "schema": Command(configure=_schema_arguments, run=_schema),
}
