"""What a record risks, in one sentence, from what a privacy record says anyway."""

from __future__ import annotations

import math

from scipy.special import ndtr

from skdp.privacy._events import Event

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
