"""Accounting, noise and the ledger."""

from skdp.privacy._accounting import Budget, calibrate, epsilon_of
from skdp.privacy._dp_events import from_dp_event, to_dp_event
from skdp.privacy._events import (
    BoundedRangeEvent,
    ComposedEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    PoissonGaussianEvent,
    PureEvent,
)
from skdp.privacy._ledger import BudgetLedger
from skdp.privacy._ledger_display import LedgerDisplay
from skdp.privacy._opendp import from_opendp, to_opendp
from skdp.privacy._record import PrivacyRecord
from skdp.privacy._record_schema import record_schema
from skdp.privacy._search_events import ParallelEvent, SelectionEvent

__all__ = [
    "BoundedRangeEvent",
    "Budget",
    "BudgetLedger",
    "ComposedEvent",
    "EpsilonDeltaEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "LedgerDisplay",
    "NonPrivateEvent",
    "ObjectiveEvent",
    "ParallelEvent",
    "PoissonGaussianEvent",
    "PrivacyRecord",
    "PureEvent",
    "SelectionEvent",
    "calibrate",
    "epsilon_of",
    "from_dp_event",
    "from_opendp",
    "record_schema",
    "to_dp_event",
    "to_opendp",
]
