"""Privacy events: frozen descriptions of what a mechanism releases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

from skdp._checks import check_count, check_delta, check_real
from skdp._configured import Checks
from skdp.privacy.accounting._gaussian import pure_mu
from skdp.privacy.accounting._objective_perturbation import ObjectiveLoss, dominating_mu
from skdp.privacy.accounting._random_stopping import (
    Family,
    TrialCount,
    pure_selection_epsilon,
    selection_epsilon,
)
from skdp.privacy.accounting._relations import Adjacency, check_adjacency

# ----------------------------------------------------------------- Events of mechanisms
# An event is declared from public facts before any data is read. Its noise multiplier
# is sigma divided by the sensitivity under the adjacency that is stored beside the
# event (in the objective, in the privacy record, in the ledger).
#
# Every event has these attributes:
#
# ``mu_squared``
#     Sum of mu^2 over its parts that are neither pure nor black boxes; exact if they
#     are Gaussian, inf for sampled ones.
# ``pure_epsilon``
#     Sum of epsilon over its pure parts and black boxes (basic composition).
# ``box_delta``
#     Sum of delta over its black boxes.
# ``gdp_mu_squared``
#     mu^2 of the whole, with pure parts converted to Gaussian differential privacy; inf
#     if there is no such mu.
# ``leaves``
#     The events without parts of which it is composed.
#
# **Stability.** Events are stored in ledgers, in records and in fitted models. The
# meaning of an event, of its fields and of their values must never change, because a
# stored event states what was released. A new meaning requires a new event, a new field
# whose default is the old meaning, or a new schema number (``docs/support.md``). Only
# the cost that accounting computes from an event may change, to a smaller bound that
# has a proof, or to a larger bound if the smaller one was wrong.


class Event(Protocol):
    """A release, as accounting describes it."""

    @property
    def mu_squared(self) -> float: ...

    @property
    def pure_epsilon(self) -> float: ...

    @property
    def box_delta(self) -> float: ...

    @property
    def gdp_mu_squared(self) -> float: ...

    @property
    def leaves(self) -> tuple[Event, ...]: ...


# Largest number of outputs of an `ObjectiveEvent`.
MOST_OUTPUTS = 500

_check_size = partial(check_real, low=1e-100, high=1e100)
_check_times = partial(check_count, high=2**53)
_check_exponent = partial(check_real, low=0.0, high=1e8)


def _check_curvature(name: str, value: Any) -> float | None:
    return None if value is None else _check_exponent(name, value)


class Single:
    """An event without parts; costs that a subclass does not define are 0."""

    _checks: ClassVar[Checks] = {}

    def __init_subclass__(cls) -> None:
        if not {"mu_squared", "pure_epsilon"} & set(vars(cls)):
            raise TypeError(f"{cls.__name__} must define a cost. Got none.")

    def __post_init__(self) -> None:
        for name, check in self._checks.items():
            # Plain numbers, so that equal events are stored as equal text.
            object.__setattr__(self, name, check(name, getattr(self, name)))

    @property
    def mu_squared(self) -> float:
        return 0.0

    @property
    def pure_epsilon(self) -> float:
        return 0.0

    @property
    def box_delta(self) -> float:
        return 0.0

    @property
    def gdp_mu_squared(self) -> float:
        return self.mu_squared

    @property
    def leaves(self) -> tuple[Event, ...]:
        return (self,)


def needs_no_delta(event: Event, epsilon: float) -> bool:
    """Whether the noise of an event keeps an epsilon with delta = 0."""
    is_pure = event.mu_squared == 0 and event.box_delta == 0
    return is_pure and event.pure_epsilon <= epsilon


@dataclass(frozen=True)
class GaussianEvent(Single):
    """`count` Gaussian releases, each with noise sigma = multiplier * sensitivity.

    Parameters
    ----------
    noise_multiplier : float in [1e-100, 1e100]
        sigma over the L2 sensitivity, without a unit.
    count : int, default=1
        Number of releases; later queries may depend on earlier releases.
    """

    _checks: ClassVar[Checks] = {"noise_multiplier": _check_size, "count": _check_times}

    noise_multiplier: float
    count: int = 1

    @property
    def mu_squared(self) -> float:
        return self.count * (1 / self.noise_multiplier) ** 2


@dataclass(frozen=True)
class PureEvent(Single):
    """`count` epsilon-DP releases; Laplace noise has epsilon 1 / noise_multiplier.

    Parameters
    ----------
    epsilon : float in [1e-100, 1e100]
    count : int, default=1
    """

    _checks: ClassVar[Checks] = {"epsilon": _check_size, "count": _check_times}

    epsilon: float
    count: int = 1

    @property
    def pure_epsilon(self) -> float:
        return self.count * self.epsilon

    @property
    def gdp_mu_squared(self) -> float:
        return self.count * pure_mu(self.epsilon) ** 2


@dataclass(frozen=True)
class BoundedRangeEvent(Single):
    r"""`count` selections of bounded range, such as the exponential mechanism.

    A mechanism has epsilon-bounded range if the logarithm of the ratio of its
    probabilities under neighbouring data varies by at most epsilon between outcomes
    [1]_; it is then epsilon-DP. An example is the exponential mechanism with weights
    ``exp(epsilon * score / (2 * sensitivity))``. Two neighbours are at least as hard to
    distinguish as two logistic distributions of unit scale whose means differ by
    epsilon (``docs/proofs/accounting.md``, Lemma 6).

    Parameters
    ----------
    epsilon : float in [1e-100, 1e100]
    count : int, default=1
        Number of selections; later ones may depend on earlier ones.

    References
    ----------
    .. [1] Dong, Durfee and Rogers (2020). Optimal differential privacy composition for
       exponential mechanisms. ICML. https://arxiv.org/abs/1909.13830
    """

    _checks: ClassVar[Checks] = {"epsilon": _check_size, "count": _check_times}

    epsilon: float
    count: int = 1

    @property
    def pure_epsilon(self) -> float:
        return self.count * self.epsilon

    @property
    def gdp_mu_squared(self) -> float:
        # Two Gaussians at this distance cross the logistic trade-off where both errors
        # are equal, as for a pure mechanism of half the epsilon.
        return self.count * pure_mu(self.epsilon / 2) ** 2


@dataclass(frozen=True)
class LaplaceEvent(Single):
    """`count` Laplace releases, each with noise of scale multiplier * sensitivity.

    Parameters
    ----------
    noise_multiplier : float in [1e-100, 1e100]
        Scale over the L1 sensitivity, without a unit.
    count : int, default=1
    """

    _checks: ClassVar[Checks] = {"noise_multiplier": _check_size, "count": _check_times}

    noise_multiplier: float
    count: int = 1

    @property
    def pure_epsilon(self) -> float:
        return self.count / self.noise_multiplier

    @property
    def gdp_mu_squared(self) -> float:
        return self.count * pure_mu(1 / self.noise_multiplier) ** 2


@dataclass(frozen=True)
class EpsilonDeltaEvent(Single):
    """`count` (epsilon, delta)-DP releases of mechanisms that are otherwise unknown.

    Parameters
    ----------
    epsilon : float in [1e-100, 1e100]
    delta : 0 or float in [1e-50, 1)
    count : int, default=1
    """

    _checks: ClassVar[Checks] = {
        "epsilon": _check_size,
        "delta": lambda name, value: check_delta(value),
        "count": _check_times,
    }

    epsilon: float
    delta: float
    count: int = 1

    @property
    def pure_epsilon(self) -> float:
        return self.count * self.epsilon

    @property
    def box_delta(self) -> float:
        return self.count * self.delta

    @property
    def gdp_mu_squared(self) -> float:
        return math.inf if self.delta > 0 else self.count * pure_mu(self.epsilon) ** 2


@dataclass(frozen=True)
class PoissonGaussianEvent(Single):
    """`count` sums over Poisson samples, each with Gaussian noise.

    Every record enters a sample independently with the same probability; samples are
    not published.

    Parameters
    ----------
    noise_multiplier : float in [1e-100, 1e100]
        Under both adjacencies sigma over the zero_out sensitivity, that is, over the
        largest L2 norm of one record's contribution.
    sampling_rate : float in (0, 1]
    count : int, default=1
        Number of releases; later queries may depend on earlier releases.
    adjacency : {"zero_out", "replace_one"}, default="zero_out"
        Adjacency for which the event is charged. replace_one is charged as two steps,
        from a record to the null record and from there to the other record, for all
        `count` releases together.
    """

    _checks: ClassVar[Checks] = {
        "noise_multiplier": _check_size,
        "sampling_rate": partial(check_real, low=1e-100, high=1.0),
        "count": _check_times,
        "adjacency": lambda name, value: check_adjacency(value),
    }

    noise_multiplier: float
    sampling_rate: float
    count: int = 1
    adjacency: Adjacency = "zero_out"

    @property
    def mu_squared(self) -> float:
        return math.inf


@dataclass(frozen=True)
class ObjectiveEvent(Single):
    r"""Minimising an objective with a Gaussian linear term (objective perturbation).

    The fields bound the privacy loss in both orders of the neighbours, see
    `skdp.privacy.accounting._objective_perturbation`. The computed minimiser is rounded
    and gets more noise, which is charged as a separate `GaussianEvent`.

    Parameters
    ----------
    noise_multiplier : float in [1e-100, 1e100]
        sigma of the linear term over the L2 sensitivity of the gradient sum, without a
        unit.
    log_determinant : float in [0, 1e8]
        Bound on the logarithm of the ratio of the Jacobian determinants.
    corners, half_corners : int, default=1 and 0
        Numbers of Gaussian variables with parameter mu = 1 / noise_multiplier, and with
        mu / 2. The privacy loss is at most the maximum of these variables.
    curvature : float in [0, 1e8] or None, default=None
        Bound kappa on the relative change of curvature: by one record, with one corner,
        or by the two records of replace_one, with one corner and two half corners.
    outputs : int in [1, 500], default=1
        With several outputs, the privacy loss is the part of the determinant plus a sum
        of independent maxima. Each is over variables of mu / sqrt(outputs): one corner,
        and no half corners or two.
    """

    _checks: ClassVar[Checks] = {
        "noise_multiplier": _check_size,
        "log_determinant": _check_exponent,
        "corners": _check_times,
        "half_corners": partial(check_count, low=0, high=2**53),
        "curvature": _check_curvature,
        "outputs": partial(check_count, high=MOST_OUTPUTS),
    }

    noise_multiplier: float
    log_determinant: float
    corners: int = 1
    half_corners: int = 0
    curvature: float | None = None
    outputs: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = self.corners, self.half_corners
        if self.curvature is not None and counts not in {(1, 0), (1, 2)}:
            raise ValueError(
                "The 'curvature' parameter must be None unless there is one corner and "
                f"no half corner, or two. Got {self.curvature!r} with {self.corners} "
                f"corners and {self.half_corners} half corners."
            )
        is_plain = self.curvature is None and counts in {(1, 0), (1, 2)}
        if self.outputs > 1 and not is_plain:
            raise ValueError(
                "The 'outputs' parameter must be 1 with a curvature, and unless there "
                "is one corner and no half corner, or two. Got "
                f"{self.outputs!r} with {self.corners} corners and "
                f"{self.half_corners} half corners."
            )

    @property
    def loss(self) -> ObjectiveLoss:
        """The random variable that bounds the privacy loss in both orders."""
        return ObjectiveLoss(
            1 / self.noise_multiplier,
            self.log_determinant,
            self.corners,
            self.half_corners,
            self.curvature,
            self.outputs,
        )

    @property
    def mu_squared(self) -> float:
        return dominating_mu(self.loss) ** 2


@dataclass(frozen=True)
class ComposedEvent:
    """Several events on the same data, all declared in advance.

    Parameters
    ----------
    parts : tuple of events
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not all(hasattr(part, "leaves") for part in self.parts):
            raise TypeError("The 'parts' parameter must contain events only.")

    @property
    def mu_squared(self) -> float:
        return math.fsum(part.mu_squared for part in self.parts)

    @property
    def pure_epsilon(self) -> float:
        return math.fsum(part.pure_epsilon for part in self.parts)

    @property
    def box_delta(self) -> float:
        return math.fsum(part.box_delta for part in self.parts)

    @property
    def gdp_mu_squared(self) -> float:
        return math.fsum(part.gdp_mu_squared for part in self.parts)

    @property
    def leaves(self) -> tuple[Event, ...]:
        return tuple(leaf for part in self.parts for leaf in part.leaves)


@dataclass(frozen=True)
class NonPrivateEvent(Single):
    """A release without privacy: without noise, or with noise from a seed."""

    @property
    def mu_squared(self) -> float:
        return math.inf

    @property
    def pure_epsilon(self) -> float:
        return math.inf


# ----------------------------------- Events of searches and of disjoint sets of records


@dataclass(frozen=True)
class SelectionEvent(Single):
    """The best of a secret random number of independent trials of one mechanism.

    Parameters
    ----------
    trial : GaussianEvent or PureEvent
        Cost of one trial, including its score: mu-GDP or pure DP.
    family, mean, most, shape
        Distribution of the number of trials, see `TrialCount`.
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
        # Plain numbers, so that equal events are stored as equal text.
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
    """Mechanisms that read disjoint sets of records, which do not depend on the data.

    Neighbours differ in one record, which is in one of the sets. So the whole event
    costs as much as its most expensive part.

    Parameters
    ----------
    parts : tuple of events, at least one
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(hasattr(part, "leaves") for part in self.parts):
            raise TypeError(
                "The 'parts' parameter must contain events only, at least one."
            )

    @property
    def dominating(self) -> Event | None:
        """A simple event that costs at least as much in any composition, or None."""
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
