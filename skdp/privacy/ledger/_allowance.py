"""`Allowance`: the budget of one trial of a search, which has paid for all trials.

A search commits one event, and each of its trials has an `Allowance` instead of a
ledger. Before the commit there is a *rehearsal*: private steps declare and calibrate as
usual, the allowance notes their events, and the steps return constants and read no
data. In the trial itself, events are accepted as long as together they cost no more
than the allowance. Later steps may depend on releases of earlier steps, since squares
of mu, and pure epsilons, also add up for adaptively chosen releases
(``docs/guide/before_you_sign.md``).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NoReturn

from skdp.exceptions import UnplannedEventError
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    PureEvent,
)
from skdp.privacy.accounting._relations import Relation

# The largest cost of a trial: a mu, or a pure epsilon.
EventCost = GaussianEvent | PureEvent

# Relative excess allowed for sums of doubles; calibration leaves a wider margin.
_ROUNDING = 1e-12


def cost_over(event: Event, strength: EventCost) -> float:
    """Ratio of an event's cost to the allowed cost, in units of epsilon or of mu."""
    if isinstance(strength, PureEvent):
        is_pure = event.mu_squared == 0 and event.box_delta == 0
        return event.pure_epsilon / strength.pure_epsilon if is_pure else math.inf
    return math.sqrt(event.gdp_mu_squared / strength.mu_squared)


class Allowance:
    """The events that one trial may release.

    Together they may cost at most `strength`, which is None in a rehearsal. With
    `allow_nonprivate`, for a search that is not private itself, steps with a
    random_state are accepted. `noted` contains the committed events.
    """

    path: ClassVar[str] = ""
    dataset: ClassVar[str] = ""

    def __init__(
        self,
        adjacency: Relation,
        unit: str,
        strength: EventCost | None = None,
        *,
        allow_nonprivate: bool = False,
    ) -> None:
        self.adjacency = adjacency
        self.unit = unit
        self.strength = strength
        self.allow_nonprivate = allow_nonprivate
        self.noted: list[Event] = []

    @property
    def is_rehearsal(self) -> bool:
        """Whether events are only noted, so that no data may be read."""
        return self.strength is None

    def check_accepts(self, *, adjacency: Relation, is_private: bool) -> None:
        """Raise ValueError if a step's adjacency differs from that of its search."""
        if adjacency != self.adjacency:
            raise ValueError(
                f"Every step of a search must have adjacency={self.adjacency!r}, "
                f"as the search has. Got {adjacency!r}. Leave the parameter of the "
                "steps at its default."
            )

    def commit(
        self, event: Event, *, adjacency: Relation, budget: Budget, label: str
    ) -> None:
        """Note an event; raise if the trial would cost more than its allowance."""
        self.check_accepts(adjacency=adjacency, is_private=True)
        seeded = self.allow_nonprivate and isinstance(event, NonPrivateEvent)
        if self.strength is not None and not seeded:
            whole = ComposedEvent((*self.noted, event))
            if not cost_over(whole, self.strength) <= 1 + _ROUNDING:
                raise UnplannedEventError(
                    "The steps of a trial must release no more than the search has "
                    f"paid for. Got {label}, which exceeds it. Use steps whose queries "
                    "follow from public facts. Nothing was read."
                )
        self.noted.append(event)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "An allowance must stay in the process of its trial. Got a step that is "
            "fitted in another process. Use n_jobs=1 within a candidate."
        )

    # Meta-estimators clone their steps, and all clones of a trial share its allowance.
    def __deepcopy__(self, memo: dict[int, Any]) -> Allowance:
        return self
