"""The embedded nats-server: one for each data directory, shared by all evolog processes that use it."""

from .client import Address, embedded, named_server
from .home import find_binary, status

__all__ = ["Address", "embedded", "find_binary", "named_server", "status"]
