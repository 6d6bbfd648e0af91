"""What private transformers share: one commit, then noisy answers to fixed queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin

from skdp._base import PUBLIC_OF_TABLES, PrivateEstimator, ReleaseFacts
from skdp.data import Source
from skdp.privacy._accounting import Budget
from skdp.privacy._door import Commitment, commit
from skdp.privacy._events import Event
from skdp.privacy._laws import LAWS, NoiseLaw
from skdp.privacy._noise import NoiseSource

FloatArray = NDArray[np.float64]

_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A fixed number of releases of vectors of one size; public facts only.

    Parameters
    ----------
    key : str
        Names the mechanism in ``privacy_``.
    params : dict
        Its resolved public configuration.
    size : int
        Numbers in one query.
    sensitivity : float
        L2 sensitivity of one query in exact arithmetic, under the step's adjacency.
    slack : float, default=0.0
        Bound on what floating point adds to it.
    count : int, default=1
        Number of queries; later ones may depend on earlier answers.
    data_norm : float, default=inf
        Norm to which rows are clipped before they are queried.
    """

    key: str
    params: dict[str, Any]
    size: int
    sensitivity: float
    slack: float = 0.0
    count: int = 1
    data_norm: float = math.inf

    def event(self, multiplier: float, law: NoiseLaw) -> Event:
        """Everything that will be released."""
        return replace(law.event(multiplier), count=self.count)


class Answers:
    """Noisy answers to the queries of a mechanism whose event is on the books.

    Parameters
    ----------
    mechanism : Mechanism
    law : NoiseLaw or None
        None: no noise.
    done : Commitment
    noise : NoiseSource

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise in one number; 0.0 without noise. Public.
    is_exact : bool
        Whether statistics are wanted as they are, ``epsilon=inf``, and may be read.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        law: NoiseLaw | None,
        done: Commitment,
        noise: NoiseSource,
    ) -> None:
        self._mechanism, self._law, self._done = mechanism, law, done
        self._noise, self._left = noise, mechanism.count
        self._sensitivity = mechanism.sensitivity + mechanism.slack
        self.is_exact = law is None and done.may_read
        self.sigma = 0.0
        if law is not None:
            size, z = mechanism.size, done.noise_multiplier
            scale = law.scale(self._sensitivity, z, size)
            self.sigma = scale.sigma * law.deviation(1.0, size)

    def to(self, query: Callable[[], FloatArray]) -> FloatArray:
        """The answer to one query, which is not computed in a rehearsal."""
        if self._left == 0:
            raise RuntimeError("All queries that were declared have been answered.")
        self._left -= 1
        if not self._done.may_read:
            return np.zeros(self._mechanism.size)
        # From here on no warning may depend on the data.
        with np.errstate(all="ignore"):
            exact = query()
        assert exact.shape == (self._mechanism.size,), "the declared number of numbers"
        if self._law is None:
            return exact
        multiplier = self._done.noise_multiplier
        return self._law.release(self._noise, exact, self._sensitivity, multiplier)


class PrivateTransformer(TransformerMixin, PrivateEstimator):
    """A transformer whose `fit` releases noisy answers."""

    def _commit(self, mechanism: Mechanism, budget: Budget, source: Source) -> Answers:
        """Declare, calibrate and commit; sets ``privacy_``. Reads nothing."""
        law = LAWS["gaussian" if budget.delta > 0 else "spherical"]
        if budget.is_finite:
            _check_is_possible(mechanism, law, budget)
        name, n = type(self).__name__, source.n_samples
        noise = NoiseSource(self.random_state)
        notes = self._warn_of_public_facts(budget, n, noise)
        done = commit(
            partial(mechanism.event, law=law) if budget.is_finite else None,
            budget,
            adjacency=self.adjacency,
            ledger=self.ledger,
            noise=noise,
            label=f"{name}({mechanism.key})",
        )
        answers = Answers(mechanism, law if budget.is_finite else None, done, noise)
        facts = _facts(mechanism, law, budget, source, done, answers.sigma)
        self.privacy_ = self._privacy_record(
            facts, budget, noise, PUBLIC_OF_TABLES, notes
        )
        return answers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _check_is_possible(mechanism: Mechanism, law: NoiseLaw, budget: Budget) -> None:
    if not law.is_possible(mechanism.count / budget.epsilon, mechanism.size):
        raise ValueError(
            "The 'epsilon' parameter is too small for delta=0 with so many features. "
            f"Got {budget.epsilon:g}. Use a larger epsilon, or a delta above 0."
        )


def _facts(
    mechanism: Mechanism,
    law: NoiseLaw,
    budget: Budget,
    source: Source,
    done: Commitment,
    sigma: float,
) -> ReleaseFacts:
    """What the record says of a mechanism, or of the statistics without one."""
    has_noise = budget.is_finite
    return ReleaseFacts(
        mechanism=f"{law.name} noise, calibrated exactly" if has_noise else "",
        solver=mechanism.key if has_noise else "exact",
        solver_params={"law": law.name} | mechanism.params if has_noise else {},
        why_solver=(
            "the mechanism of this step"
            if has_noise
            else "epsilon=inf: the statistics themselves"
        ),
        event=done.event,
        noise_multiplier=done.noise_multiplier,
        sensitivity=mechanism.sensitivity if has_noise else math.inf,
        noise_scale=sigma,
        n_samples=source.n_samples,
        n_features=source.n_features,
        data_norm=mechanism.data_norm if has_noise else math.inf,
    )


def summation_error(source: Source, record_norm: float) -> float:
    """Bound on what rounding of two neighbours' sums adds to their distance.

    Each number is a sum in blocks of b records, in any order, then over n / b blocks;
    one record's contribution, of norm at most `record_norm`, is itself rounded
    (``docs/proofs/preprocessing.md``, Lemma 7).
    """
    n, b = source.n_samples, source.largest_block
    return record_norm * (2 * n * (b + n / b + 16) + 64) * _UNIT_ROUNDOFF
