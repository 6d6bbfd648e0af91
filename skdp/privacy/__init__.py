"""Accounting, noise and the ledger."""

from skdp.privacy.accounting._calibrate import Budget, calibrate, epsilon_of
from skdp.privacy.accounting._events import (
    BoundedRangeEvent,
    ComposedEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
)
from skdp.privacy.accounting._interop import (
    from_dp_event,
    from_opendp,
    to_dp_event,
    to_opendp,
)
from skdp.privacy.ledger._ledger import BudgetLedger
from skdp.privacy.release._record import PrivacyRecord, record_schema

__all__ = [
    "BoundedRangeEvent",
    "Budget",
    "BudgetLedger",
    "ComposedEvent",
    "EpsilonDeltaEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
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
