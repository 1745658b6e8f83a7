"""Proposers: who answers `proposal.requested`."""

from .normal import normal_digest
from .port import Brief, Proposer, Record, Store

__all__ = ["Brief", "Proposer", "Record", "Store", "normal_digest"]
