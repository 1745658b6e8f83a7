"""Fixtures that all tests share: a real nats-server on a directory of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fresh data directory; its server starts with the first that opens it and ends with the last."""
    return tmp_path / "home"


@pytest.fixture(scope="session")
def shared_home() -> Iterator[Path]:
    """A data directory whose server stays up for the whole session, for tests that disturb nothing."""
    from evolog.infra.server.home import Home, try_lock
    from processes import wait_for_end

    with tempfile.TemporaryDirectory(prefix="evolog-tests-") as name:
        root = Path(name) / "home"
        files = Home(root)
        files.create()
        using = try_lock(files.clients_lock, shared=True)
        assert using is not None
        yield root
        os.close(using)
        # The keeper sees within a quarter of a second that nobody is left.
        wait_for_end(root)
