"""Events of searches: the best of secretly many trials, and disjoint sets of records.

They answer the questions of `skdp.privacy._events`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from skdp.privacy._events import Event, GaussianEvent, PureEvent, Single
from skdp.privacy._random_stopping import (
    Family,
    TrialCount,
    pure_selection_epsilon,
    selection_epsilon,
)


@dataclass(frozen=True)
class SelectionEvent(Single):
    """The best of a secret random number of independent trials of one mechanism.

    Parameters
    ----------
    trial : GaussianEvent or PureEvent
        What one trial costs, its score included: mu-GDP, or pure.
    family, mean, most, shape
        The law of the number of trials, see `TrialCount`.
    """

    trial: GaussianEvent | PureEvent
    family: Family
    mean: float
    most: int
    shape: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.trial, (GaussianEvent, PureEvent)):
            raise TypeError(
                "The 'trial' parameter must be a GaussianEvent or a PureEvent. "
                f"Got an instance of {type(self.trial).__name__}."
            )
        law = self.trials
        # Plain numbers, so that equal events have equal text.
        object.__setattr__(self, "mean", law.mean)
        object.__setattr__(self, "most", law.most)
        object.__setattr__(self, "shape", law.shape)

    @property
    def trials(self) -> TrialCount:
        """The law of the number of trials."""
        return TrialCount(self.family, self.mean, self.most, self.shape)

    def epsilon(self, delta: float) -> float:
        """Epsilon at `delta`, rounded up."""
        if isinstance(self.trial, PureEvent):
            return self.pure_epsilon
        return selection_epsilon(self.trials, math.sqrt(self.trial.mu_squared), delta)

    @property
    def mu_squared(self) -> float:
        return 0.0 if isinstance(self.trial, PureEvent) else math.inf

    @property
    def pure_epsilon(self) -> float:
        if isinstance(self.trial, GaussianEvent):
            return 0.0
        return pure_selection_epsilon(self.trials, self.trial.pure_epsilon)

    @property
    def gdp_mu_squared(self) -> float:
        if isinstance(self.trial, GaussianEvent):
            return math.inf
        return PureEvent(self.pure_epsilon).gdp_mu_squared


@dataclass(frozen=True)
class ParallelEvent(Single):
    """Mechanisms that read disjoint sets of records, chosen without regard to the data.

    A record is in one of the sets, under replace_one and zero_out alike, so the whole
    costs what the dearest part costs.

    Parameters
    ----------
    parts : tuple of events, at least one
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(hasattr(part, "leaves") for part in self.parts):
            raise TypeError(
                "The 'parts' parameter must hold events only, at least one."
            )

    @property
    def dominating(self) -> Event | None:
        """A simple event that costs no less in any composition, if there is one."""
        if self._is_pure:
            return PureEvent(self.pure_epsilon)
        mu = math.sqrt(self.gdp_mu_squared)
        return GaussianEvent(1 / mu) if math.isfinite(mu) else None

    @property
    def _is_pure(self) -> bool:
        return all(part.mu_squared == 0 == part.box_delta for part in self.parts)

    @property
    def mu_squared(self) -> float:
        return 0.0 if self._is_pure else self.gdp_mu_squared

    @property
    def pure_epsilon(self) -> float:
        most = max(part.pure_epsilon for part in self.parts)
        return most if self._is_pure or math.isinf(most) else 0.0

    @property
    def gdp_mu_squared(self) -> float:
        return max(part.gdp_mu_squared for part in self.parts)
