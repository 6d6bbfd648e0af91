"""The books of one trial within a search that has paid for all of its trials.

A search commits one event of its own and gives each trial an `Allowance` in place of a
ledger. In a *rehearsal*, before that commit, private steps declare and calibrate as
ever, their events are noted down, and they answer with constants in place of reading
data. In the trial itself only events that were rehearsed are accepted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from skdp.exceptions import UnplannedEventError
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Adjacency
from skdp.privacy._events import Event


class Allowance:
    """Events that one trial may release.

    Parameters
    ----------
    adjacency : {"replace_one", "zero_out"}
    unit : str
    events : tuple of events or None, default=None
        What was rehearsed. None: a rehearsal.

    Attributes
    ----------
    noted : list of events
        What has been committed.
    """

    path: ClassVar[str] = ""
    dataset: ClassVar[str] = ""

    def __init__(
        self,
        adjacency: Adjacency,
        unit: str,
        events: tuple[Event, ...] | None = None,
    ) -> None:
        self.adjacency = adjacency
        self.unit = unit
        self.events = events
        self.noted: list[Event] = []

    @property
    def is_rehearsal(self) -> bool:
        """Whether events are only noted down, so that no data may be read."""
        return self.events is None

    def check_accepts(self, *, adjacency: Adjacency, is_private: bool) -> None:
        """Raise ValueError if a step has another adjacency than its search."""
        if adjacency != self.adjacency:
            raise ValueError(
                f"Every step of a search must have adjacency={self.adjacency!r}, the "
                f"search's own. Got {adjacency!r}. Leave the parameter of the steps at "
                "its default."
            )

    def commit(
        self, event: Event, *, adjacency: Adjacency, budget: Budget, label: str
    ) -> None:
        """Note an event down; raise if it is more than was rehearsed."""
        self.check_accepts(adjacency=adjacency, is_private=True)
        if self.events is not None:
            left = Counter(self.events)
            left.subtract(self.noted)
            if left[event] <= 0:
                raise UnplannedEventError(
                    f"A step must release what it declared before the search began. "
                    f"Got another event from {label}. Nothing was read."
                )
        self.noted.append(event)

    # Meta-estimators clone their steps, and clones of one trial share one allowance.
    def __deepcopy__(self, memo: dict[int, Any]) -> Allowance:
        return self
