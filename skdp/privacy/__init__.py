"""Accounting, noise and the ledger."""

from skdp.privacy._accounting import Budget, calibrate, epsilon_of
from skdp.privacy._events import (
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
from skdp.privacy._record import PrivacyRecord

__all__ = [
    "Budget",
    "BudgetLedger",
    "ComposedEvent",
    "EpsilonDeltaEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "NonPrivateEvent",
    "ObjectiveEvent",
    "PoissonGaussianEvent",
    "PrivacyRecord",
    "PureEvent",
    "calibrate",
    "epsilon_of",
]
