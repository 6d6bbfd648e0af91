"""`StepPrivacy`: what one step says of its privacy, the same for every class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from skdp.privacy._adjacency import Relation
from skdp.privacy._events import Event


@dataclass(frozen=True, kw_only=True)
class StepPrivacy:
    """What one step costs: planned if it is not fitted, else spent.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of the step alone: 0, 0 if it works by a declared rule on each row on
        its own, inf if it is not private.
    adjacency : str or None, default=None
        None if the step costs nothing.
    event : Event or None, default=None
        What was released. None before the fit, and for a step that costs nothing.
    adds_in_squares : bool, default=False
        Whether the step, not fitted yet, will release Gaussian noise only and stay
        within the largest mu that its epsilon and delta allow.
    note : str, default=""
        What the reader should know.
    release : str, default=""
        Name of the joint release that this step is a part of: parts of one release,
        such as the steps that a search selected, are paid once.
    of_users : str, default=""
        What to change beside steps that protect users, to whom the number of rows is
        private; empty: nothing.
    """

    epsilon: float
    delta: float
    adjacency: Relation | None = None
    event: Event | None = None
    adds_in_squares: bool = False
    note: str = ""
    release: str = ""
    of_users: str = ""


class PrivacyStep(Protocol):
    """What every estimator of skdp can say of itself; never fits anything."""

    def step_privacy(self) -> StepPrivacy:
        """What this object costs, planned or spent."""
        ...


class NormStep(Protocol):
    """What a step that bounds the rows that come out says of them; reads nothing."""

    def output_norm(self, input_norm: float | None = None) -> float | None:
        """Largest L2 norm of a row that comes out; None if unknown.

        `input_norm` is that of the rows that come in. By parameters before the fit and
        by public facts of the fit after it, up to rounding.
        """
        ...


FREE = StepPrivacy(
    epsilon=0.0, delta=0.0, note="declared rule, each row on its own: costs nothing"
)
