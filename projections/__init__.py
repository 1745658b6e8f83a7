"""What is known: pure folds over events, each with a version and a digest. No I/O."""

from .archive import Archive, Eviction, Member
from .attempts import Attempts, Outcomes
from .base import Projection, fold, on
from .best import BestPerTask, Board, Measured
from .checkpoint import Boundary, SearchCheckpoint
from .convergence import Convergence, Generation, Improvement
from .ledger import Ledger, ModelUse
from .lifecycle import Lifecycle
from .lineage import Descent, Lineage
from .views import Views, user_projections

__all__ = [
    "Archive",
    "Attempts",
    "BestPerTask",
    "Board",
    "Boundary",
    "Convergence",
    "Descent",
    "Eviction",
    "Generation",
    "Improvement",
    "Ledger",
    "Lifecycle",
    "Lineage",
    "Measured",
    "Member",
    "ModelUse",
    "Outcomes",
    "Projection",
    "SearchCheckpoint",
    "Views",
    "fold",
    "on",
    "user_projections",
]
