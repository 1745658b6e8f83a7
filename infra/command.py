"""What a command is. Each folder's ``commands.py`` has a table ``COMMANDS`` of them, which `evolog.infra.cli` mounts.

Light on purpose: the command line starts with this module and the standard library alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple


class Command(NamedTuple):
    """One command of ``evolog``.

    Attributes
    ----------
    configure
        Adds the command's arguments to its parser.
    run
        Does the work and returns the exit code: 0 done, 1 refused or failed, 2 budget, 3 divergence
        or broken seal. ``args.home`` is the data directory, ``args.command`` the command's name.
    """

    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the argument RUN: ``args.run_id``."""
    parser.add_argument("run_id", metavar="RUN", help="id of a run, a unique beginning of one, or 'latest'")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``: ``args.json``."""
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")


def add_nats(parser: argparse.ArgumentParser) -> None:
    """Add ``--nats``: ``args.nats``."""
    parser.add_argument(
        "--nats",
        metavar="URL",
        help="use the NATS server at nats://HOST:PORT instead of the embedded one (token: $EVOLOG_NATS_TOKEN)",
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``: ``args.set``, a list of texts."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting, such as budget.candidates=60 (may be repeated)",
    )
