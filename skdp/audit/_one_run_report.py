"""What an audit of one run found, as numbers, text, HTML and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from skdp._card import card
from skdp.audit._guesses import Guesses
from skdp.privacy._gaussian import gaussian_epsilon

# An epsilon is rounded up by less; a lower bound must not be.
_ROUNDED = 1 - 1e-6


@dataclass(frozen=True, kw_only=True)
class OneRunBounds:
    """What a number of right guesses refutes.

    Parameters
    ----------
    guesses : Guesses
    delta : float in [0, 1)
        At which an epsilon is told.
    confidence : float in (0, 1)
        Of each bound by itself.
    """

    guesses: Guesses
    delta: float
    confidence: float

    @property
    def epsilon_lower(self) -> float:
        """Largest epsilon that is refuted, whatever the release is; 0.0 if none is."""
        return self.guesses.least_epsilon(self.delta, self.confidence)

    @property
    def mu_lower(self) -> float:
        """Largest mu of Gaussian differential privacy that is refuted."""
        return self.guesses.least_mu(self.confidence)

    @property
    def gaussian_epsilon_lower(self) -> float:
        """The epsilon of `mu_lower`, a bound if the release is as Gaussian noise is.

        0.0 if delta is 0, which Gaussian noise does not keep.
        """
        if not self.delta:
            return 0.0
        return gaussian_epsilon(self.mu_lower, self.delta) * _ROUNDED


@dataclass(frozen=True, kw_only=True)
class OneRunAudit:
    """Lower bounds on what one fit has told.

    Parameters
    ----------
    bounds : OneRunBounds
        Of the guesses that were made.
    expected : OneRunBounds or None
        Said in advance: the bounds of the guesses to be expected where nothing but
        Gaussian noise of the claimed size hides a canary. None without a finite claim.
    claimed_epsilon : float or None
        None if none is known.
    adjacency : {"replace_one", "zero_out"}
        What a turned coin is a step of.
    estimator : str
        Name of its class.
    """

    bounds: OneRunBounds
    expected: OneRunBounds | None
    claimed_epsilon: float | None
    adjacency: str
    estimator: str

    @property
    def epsilon_lower(self) -> float:
        """Largest epsilon that is refuted at the claimed delta."""
        return self.bounds.epsilon_lower

    @property
    def mu_lower(self) -> float:
        """Largest mu of Gaussian differential privacy that is refuted."""
        return self.bounds.mu_lower

    @property
    def gaussian_epsilon_lower(self) -> float:
        """The epsilon of `mu_lower`, of releases as private as Gaussian noise."""
        return self.bounds.gaussian_epsilon_lower

    @property
    def refutes(self) -> bool:
        """Whether the claimed epsilon and delta are refuted, for any release."""
        return self._claimed() < self.epsilon_lower

    @property
    def refutes_gaussian(self) -> bool:
        """Whether Gaussian noise for the claimed epsilon and delta is refuted."""
        return self._claimed() < self.gaussian_epsilon_lower

    def _claimed(self) -> float:
        return math.inf if self.claimed_epsilon is None else self.claimed_epsilon

    def sentence(self) -> str:
        """What was found, in one sentence, to be quoted."""
        found, of = self.bounds.guesses, self.bounds
        return (
            f"One fit of {self.estimator} was read well enough to guess "
            f"{found.n_right} of {found.n_guesses} coins rightly: epsilon is above "
            f"{self.epsilon_lower:.2f}, and above {self.gaussian_epsilon_lower:.2f} if "
            f"its noise is Gaussian (delta {of.delta:g}, {self.adjacency}, confidence "
            f"{of.confidence:g} each)."
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers, JSON-ready."""
        expected = self.expected
        return {
            "estimator": self.estimator,
            "adjacency": self.adjacency,
            "claimed_epsilon": _finite(self.claimed_epsilon),
            "delta": self.bounds.delta,
            "confidence": self.bounds.confidence,
            "n_canaries": self.bounds.guesses.n_canaries,
            "n_guesses": self.bounds.guesses.n_guesses,
            "n_right": self.bounds.guesses.n_right,
            "epsilon_lower": self.epsilon_lower,
            "mu_lower": self.mu_lower,
            "gaussian_epsilon_lower": self.gaussian_epsilon_lower,
            "expected_epsilon_lower": expected and expected.epsilon_lower,
            "expected_gaussian_epsilon_lower": (
                expected and expected.gaussian_epsilon_lower
            ),
            "refutes": self.refutes,
            "refutes_gaussian": self.refutes_gaussian,
            "is_private": False,
            "on_the_books": False,
            "sentence": self.sentence(),
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True, allow_nan=False)

    def _rows(self) -> list[tuple[str, str]]:
        claim = "none" if self.claimed_epsilon is None else f"{self.claimed_epsilon:g}"
        rows = [("claimed epsilon", claim)]
        if self.expected is not None:
            known = self.expected
            rows.append(
                (
                    "at most to expect",
                    f"{known.epsilon_lower:.2f}, Gaussian "
                    f"{known.gaussian_epsilon_lower:.2f}",
                )
            )
        told = {True: "yes", False: "no"}
        rows.append(("claim refuted", told[self.refutes]))
        rows.append(("as Gaussian noise", told[self.refutes_gaussian]))
        return rows

    def __repr__(self) -> str:
        lines = [f"  {name:<20} {value}" for name, value in self._rows()]
        return "\n".join([self.sentence(), *lines])

    def _repr_html_(self) -> str:
        return card(self.sentence(), self._rows(), is_good=not self.refutes)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
