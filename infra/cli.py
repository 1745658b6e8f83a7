"""The command line: mounts the folders' commands by name and loads a folder when one of its commands is called."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn

from .home import data_home

FAILED, INTERRUPTED, BROKEN_PIPE = 1, 130, 141


class Mounted(NamedTuple):
    """A command's line in the help, and the module whose ``COMMANDS`` has it."""

    help: str
    module: str


COMMANDS = {
    "run": Mounted("start a run from a run file or its directory", "evolog.consumers.commands"),
    "resume": Mounted("go on with a run from its very next decision", "evolog.consumers.commands"),
    "stop": Mounted("end a run before its budget does", "evolog.consumers.commands"),
    "ls": Mounted("list the runs", "evolog.producers.commands"),
    "show": Mounted("show what a run found, spent and decided", "evolog.producers.commands"),
    "tail": Mounted("follow the events as they are appended", "evolog.producers.commands"),
    "replay": Mounted("recompute a run from its log and compare", "evolog.replay.commands"),
    "schema": Mounted("print the schemas of all events (AsyncAPI 3)", "evolog.infra.commands"),
    "worker": Mounted("add hands to the runs of a server, on this or another host", "evolog.consumers.commands"),
    "doctor": Mounted("say what is missing on this machine and how to get it", "evolog.infra.commands"),
}

_EPILOG = """\
exit codes:
  0 done, 1 refused or failed, 2 budget, 3 divergence or broken seal, 130 interrupted

'evolog COMMAND --help' explains a command."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors exit with 1, since 2 says that a budget ended."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments
        Command line without the program's name (default: this process's own).

    Returns
    -------
    int
        The exit code.
    """
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it exits, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _dispatch(arguments: Sequence[str] | None) -> int:
    parser = _main_parser()
    known = parser.parse_args(arguments)
    if known.version:
        from ..events.version import VERSION

        print(f"evolog {VERSION}")
        return 0
    if known.command is None:
        parser.print_help()
        return 0
    if known.command not in COMMANDS:
        parser.error(_unknown(known.command))
    command = import_module(COMMANDS[known.command].module).COMMANDS[known.command]
    own = Parser(prog=f"evolog {known.command}", description=_sentence(COMMANDS[known.command].help))
    own.add_argument("--home", metavar="DIR", default=known.home, help=_HOME_HELP)
    command.configure(own)
    args = own.parse_args(known.rest)
    args.command, args.home = known.command, data_home(args.home)

    from ..events.errors import EvologError

    try:
        return int(command.run(args))
    except EvologError as error:
        print(f"evolog: {error}", file=sys.stderr)
        return error.exit_code


_HOME_HELP = "data directory (default: $EVOLOG_HOME, else evolog in the user's data directory)"


def _main_parser() -> Parser:
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:<{width}}{mounted.help}" for name, mounted in COMMANDS.items())
    parser = Parser(
        prog="evolog",
        usage="evolog [--home DIR] COMMAND ...",
        description="Self-improving program search, recorded on one immutable event log.",
        epilog=f"commands:\n{commands}\n\n{_EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--home", metavar="DIR", help=_HOME_HELP)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return f"there is no command {name!r}. {hint}Commands: {', '.join(COMMANDS)}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    sys.exit(main())
