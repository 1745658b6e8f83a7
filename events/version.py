"""The version of the installed code, as written into every envelope."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("evolog")
    except PackageNotFoundError:
        return "0+unknown"


VERSION = _installed()
