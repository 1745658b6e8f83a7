"""The proposer ``builtin:mutate``: a seeded syntactic operator on Python source. It needs no model and no network."""

from .proposer import MutateProposer

__all__ = ["MutateProposer"]
