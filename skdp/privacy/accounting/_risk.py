"""What a release lets an attacker learn about one record."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import bdtr, bdtrc, expit, ndtr, ndtri

from skdp.privacy.accounting._calibrate import epsilon_of, simple
from skdp.privacy.accounting._events import Event, PureEvent, SelectionEvent

# ---------------- The most powerful test of one record that a release leaves room for
# A test that tells two neighbouring data sets apart raises a false alarm with
# probability `a` and is right with probability `b`. What accounting knows of a release
# bounds b:
#
# - mu-Gaussian differential privacy: b <= Phi(Phi^-1(a) + mu) [1]_, equation (6);
# - (epsilon, delta): b <= exp(epsilon) a + delta and
#   1 - a >= exp(-epsilon) (1 - b - delta) [2]_, Theorem 2.1.
#
# Every pair of the profile delta(epsilon) gives a line of its own, and their least is
# the trade-off function itself where the profile is exact [1]_, Proposition 2.12. A
# person with k records is met by k such steps, one after the other [1]_, Theorem 2.14.
#
# References
# ----------
# .. [1] Dong, Roth and Su (2022). Gaussian differential privacy. JRSS B 84(1).
#    https://arxiv.org/abs/1905.02383
# .. [2] Kairouz, Oh and Viswanath (2015). The composition theorem for differential
#    privacy. ICML. https://arxiv.org/abs/1311.0776


Array = NDArray[np.float64]
# The profile of a composition is asked for so many epsilons, closer to each other
# where they are small: the least of the lines is then within 1e-7 of the curve.
_EPSILONS = 8001
# Where there is no profile, epsilon is asked for at these deltas.
_DELTAS = np.logspace(-12, -0.01, 60)
# What of the profile is resolved; smaller false alarms than this mean nothing.
_RESOLVED = 1e-12
_FARTHEST = 60.0
# By how much a search may miss the top; added, so that no bound is too small.
_SEARCHED = 1e-8


@dataclass(frozen=True, eq=False)
class PowerCurve:
    """Bound on true positive rates, by false positive rate.

    Parameters
    ----------
    mu : float in [0, inf]
        Of Gaussian differential privacy; inf if nothing is known.
    epsilons, deltas : ndarray of shape (n_pairs,)
        Pairs that hold; they may be of no length.
    n_records : int of at least 1
        By how many records the neighbours differ.
    """

    mu: float
    epsilons: Array
    deltas: Array
    n_records: int = 1

    def __call__(self, false_positive_rate: Array) -> Array:
        """Largest true positive rates.

        Parameters
        ----------
        false_positive_rate : ndarray of float in [0, 1]

        Returns
        -------
        ndarray of float in [0, 1], of the same shape
        """
        rates = np.asarray(false_positive_rate, dtype=np.float64)
        found = rates.ravel()
        for _ in range(self.n_records):
            found = np.array([self._of_one(rate) for rate in found])
        if math.isfinite(self.mu):
            whole = ndtr(ndtri(rates.ravel()) + self.n_records * self.mu)
            found = np.minimum(found, whole)
        return np.asarray(found.reshape(rates.shape))

    def _of_one(self, rate: float) -> float:
        found = 1.0
        if math.isfinite(self.mu):
            found = float(ndtr(ndtri(rate) + self.mu))
        if self.epsilons.size:
            # By logarithms: an epsilon may be in the thousands, a rate below all else.
            logs = self.epsilons + (math.log(rate) if rate > 0 else -math.inf)
            low = (np.exp(np.minimum(logs, 0.0)) + self.deltas).min()
            high = (1 - (1 - self.deltas - rate) * np.exp(-self.epsilons)).min()
            found = min(found, float(low), float(high))
        return max(found, rate)

    def best(self, prior: float = 0.5) -> float:
        """Largest probability of telling the two apart, the first having this prior."""

        def wrong(rate: float) -> float:
            right = float(self(np.array([rate]))[0])
            return prior * (1 - right) + (1 - prior) * rate

        # Concave on both sides of its top: one search finds it. Guessing what is more
        # likely, always, is a test as well.
        found = minimize_scalar(
            wrong, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12}
        )
        return min(1.0, 1 - min(float(found.fun), prior, 1 - prior) + _SEARCHED)


def power_of_pair(epsilon: float, delta: float, n_records: int = 1) -> PowerCurve:
    """What one pair of epsilon and delta leaves room for."""
    if math.isinf(epsilon):
        return PowerCurve(math.inf, np.empty(0), np.empty(0), n_records)
    return PowerCurve(math.inf, np.array([epsilon]), np.array([delta]), n_records)


def power_of_event(event: Event, n_records: int = 1) -> PowerCurve:
    """What an event fixed in advance leaves room for.

    Exact for Gaussian events; for others as tight as what accounting knows of them.
    """
    mu = math.sqrt(event.gdp_mu_squared)
    projected_onto_box = event.pure_epsilon > 0 or event.box_delta > 0
    if math.isfinite(event.mu_squared) and not projected_onto_box:
        # Gaussian all through: nothing is tighter than the one number.
        return PowerCurve(mu, np.empty(0), np.empty(0), n_records)
    if math.isinf(event.pure_epsilon):
        return PowerCurve(mu, np.empty(0), np.empty(0), n_records)
    epsilons, deltas = _profile(event)
    if event.mu_squared == 0:
        epsilons = np.append(epsilons, event.pure_epsilon)
        deltas = np.append(deltas, event.box_delta)
    return PowerCurve(mu, epsilons, deltas, n_records)


def _profile(event: Event) -> tuple[Array, Array]:
    """Pairs of the profile of an event that is not Gaussian all through."""
    # Imported here, because what it rests on takes a second to import.
    from skdp.privacy.accounting._pld import pld_profile

    leaves = tuple(found for leaf in event.leaves if (found := simple(leaf)))
    is_all = len(leaves) == len(event.leaves)
    if is_all and len(leaves) == 1 and isinstance(leaves[0], PureEvent):
        return _pure_profile(leaves[0])
    exchanged = [getattr(x, "adjacency", "") == "replace_one" for x in leaves]
    is_whole = is_all and len({*exchanged}) == 1
    if is_whole and not any(isinstance(x, SelectionEvent) for x in leaves):
        profile = pld_profile(leaves, _RESOLVED)
        if profile is not None:
            reach = min(_FARTHEST, max(epsilon_of(event, _RESOLVED), 1e-6))
            epsilons = reach * np.linspace(0.0, 1.0, _EPSILONS) ** 2
            return epsilons, profile(epsilons)
    epsilons = np.array([epsilon_of(event, delta) for delta in _DELTAS])
    known = np.isfinite(epsilons)  # an infinite one says nothing
    return epsilons[known], _DELTAS[known]


def _pure_profile(event: PureEvent) -> tuple[Array, Array]:
    """The corners of the optimal composition of equal pure releases ([2]_, 3.3)."""
    # Randomised response, told the truth so often, has these losses and no others.
    # Fewer corners are valid too.
    lies = np.unique(np.linspace(0, event.count // 2, 2000).astype(int))
    epsilons = (event.count - 2.0 * lies) * event.epsilon
    told = expit(event.epsilon)
    right = np.where(lies > 0, bdtr(lies - 1, event.count, 1 - told), 0.0)
    # Lies and truths change places under the other data set.
    wrong = np.where(lies > 0, bdtrc(event.count - lies, event.count, 1 - told), 0.0)
    with np.errstate(divide="ignore"):
        weighed = np.exp(np.minimum(epsilons + np.log(wrong), 0.0))
    return epsilons, np.clip(right - weighed, 0.0, 1.0) * (1 + 1e-9)


# ------------------------------------------------------------------------------------
# What a record risks, in one sentence, from what a privacy record says anyway


_DOUBT = {
    "replace_one": "which of two records one row holds",
    "zero_out": "whether one record was there",
    "replace_user": "which of two users' rows were there",
    "zero_out_user": "whether one user's rows were there",
    "rating_value": "which of two values one rating has",
    "user": "which of two users' ratings were there",
}


def gaussian_advantage(mu: float) -> float:
    """Largest true minus false positive rate under mu-Gaussian privacy."""
    return float(2 * ndtr(mu / 2) - 1)


def pair_advantage(epsilon: float, delta: float) -> float:
    """The same under one pair, in [0, 1]."""
    if not math.isfinite(epsilon):
        return 1.0
    half = math.tanh(epsilon / 2)
    return min(1.0, half + delta * (1 - half))


def risk_sentence(event: Event, epsilon: float, delta: float, relation: str) -> str:
    """One sentence on what one record risks at the most.

    From mu where the whole event has one, else from epsilon and delta, which allow for
    attacks that hardly any mechanism leaves room for.
    """
    found = {
        "mu of its noise": gaussian_advantage(math.sqrt(event.gdp_mu_squared)),
        "epsilon and delta": pair_advantage(epsilon, delta),
    }
    basis = min(found, key=lambda name: found[name])
    return advantage_sentence(found[basis], relation, basis)


def advantage_sentence(advantage: float, relation: str | None, basis: str) -> str:
    """The sentence, for an advantage in [0, 1]; None stands for an untold relation."""
    doubt = _DOUBT[relation] if relation else "of which of two neighbours these are"
    told = relation or "the relation that was promised"
    return (
        f"Whoever knows all other data and wants to know {doubt} gains at "
        f"most {_points(advantage)} in true minus false positive rate, "
        f"{_points(advantage / 2)} over a coin in guessing right ({told}; from the "
        f"{basis})."
    )


def _points(share: float) -> str:
    """A share in points of a hundred, rounded up."""
    points = math.ceil(share * 1000 - 1e-6) / 10
    return f"{min(points, 100.0):.1f} points"
