r"""Private factorisation that protects all ratings of a user: noisy alternation.

The rows of users never leave the computation. In every round each user, alone, fits
his own row to the items as they were last released, and contributes what his residuals
say about the items:

    G = sum_u c_u,   c_u[i] = w_u d_i e_ui z_u,   w_u = (kept ratings of u)^(-1/2),

with e his residuals, clipped, z his row and d weights of the items, public by then.
The whole c_u is clipped to a ball, so that G has a known sensitivity; see
``docs/proofs/mf_user.md``. Before the rounds the weighted counts of the items are
released, ``N_i = sum of w_u over those who rated i``. They turn G into steps, and they
are a first factor: how a user's ratings change with popularity is worth more than any
factor that noise leaves to be learned. The second is the item's bias.

Everything after a release is Bayesian with a known noise: what several rounds say of
a row of an item is averaged by precision and shrunk towards where the row started.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

from skdp._validation import check_count, check_real
from skdp.decomposition._factorizer import Draws, PrivateFactorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._kept_ratings import kept_ratings
from skdp.decomposition._noisy_items import NoisyItems
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._user_queries import CountQuery, RowQuery
from skdp.decomposition._user_rows import solve_users
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit
from skdp.privacy._events import ComposedEvent, Event, GaussianEvent
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Progress
from skdp.solvers._configured import Checks

_MOST_FACTORS = 2  # popularity and bias are where factors start
# By mu * n_users / n_items: from where on four rounds pay, and five.
_FOUR_ROUNDS, _FIVE_ROUNDS = 1.0, 4.0


@dataclass(frozen=True, kw_only=True)
class UserALS(PrivateFactorizer):
    r"""Noisy alternation between items, released, and users, each on his own.

    Privacy
    -------
    One Gaussian release of weighted counts and `n_rounds` of clipped sums over users,
    composed exactly: ``1 / noise_multiplier``-GDP for the replacement of all ratings of
    one user. Nothing about who rated what is public. Derived in
    ``docs/proofs/mf_user.md``.

    Utility
    -------
    The noise of an item's bias is about ``2 clip / (mu N_i)`` for the weighted count
    N_i, so few users per item, a small mu, or both, leave popular items only.
    ``mu n_users / n_items`` decides how many rounds pay.

    Parameters
    ----------
    n_rounds : int in [1, 100] or None, default=None
        Sums that are released after the counts. The first is for biases; factors are
        refined in the others. None: 1, 4 or 5, as ``mu * n_users / n_items`` is below
        1, below 4, or above.
    count_share : float in [1e-6, 1) or None, default=None
        Share of mu^2 that the counts get. None: 0.2 with one round, else 0.15.
    first_share : float in [1e-6, 1] or None, default=None
        Share of what is left that the first sum gets. None: all with one round, 0.4
        with up to four, else as much as the others.
    bias_clip : float in [1e-3, 10], default=0.325
        Norm of a user's contribution to the first sum, in units of half the width of
        the rating bounds.
    row_clip : float in [1e-3, 10], default=0.5
        The same in later rounds.

    References
    ----------
    .. [1] McSherry and Mironov (2009). Differentially private recommender systems.
       KDD. (Item means, then a covariance of items, of centred and clipped users.)
    .. [2] Hardt and Price (2014). The noisy power method. NeurIPS.
       https://arxiv.org/abs/1311.2495
    .. [3] Chien et al. (2021). Private alternating least squares. ICML.
       https://arxiv.org/abs/2107.09802 (users' rows never released)

    Deviations: one joint contribution of a user clipped as a whole, weights of items
    from released counts, popularity and bias as starts, shrinkage by known noise.
    """

    key: ClassVar[str] = "als"
    unit: ClassVar[Unit] = "user"
    checks: ClassVar[Checks] = {
        "n_rounds": partial(check_count, high=100),
        "count_share": partial(check_real, low=1e-6, high=1.0, high_open=True),
        "first_share": partial(check_real, low=1e-6, high=1.0),
        "bias_clip": partial(check_real, low=1e-3, high=10.0),
        "row_clip": partial(check_real, low=1e-3, high=10.0),
    }

    n_rounds: int | None = None
    count_share: float | None = None
    first_share: float | None = None
    bias_clip: float = 0.325
    row_clip: float = 0.5

    def refusal(self, task: Task, budget: Budget) -> str:
        reason = super().refusal(task, budget)
        if reason or task.biases:
            return reason
        return (
            f"solver={self.key!r} with privacy_unit='user' releases biases first. "
            "Use biases=True."
        )

    def resolve(self, task: Task, budget: Budget) -> Self:
        n_rounds = self.n_rounds
        if n_rounds is None:
            n_rounds = _rounds(task, budget) if task.n_components else 1
        count, first = self.count_share, self.first_share
        if count is None:
            count = 0.2 if n_rounds == 1 else 0.15
        if n_rounds == 1:
            first = 1.0
        elif first is None:
            first = 0.4 if n_rounds < 5 else 1 / n_rounds
        elif first == 1:
            raise ValueError(
                "The 'first_share' parameter must be below 1 with more than one round. "
                "Got 1, which leaves nothing for the others. Use n_rounds=1."
            )
        return replace(self, n_rounds=n_rounds, count_share=count, first_share=first)

    def default_components(self, task: Task, budget: Budget) -> int:
        return _MOST_FACTORS

    @property
    def _shares(self) -> tuple[float, ...]:
        """Of mu^2: the counts' and each round's."""
        assert self.n_rounds is not None, "resolve() fills in the rounds"
        assert self.count_share is not None, "resolve() fills in the shares"
        assert self.first_share is not None, "resolve() fills in the shares"
        left = 1 - self.count_share
        if self.n_rounds == 1:
            return self.count_share, left
        other = left * (1 - self.first_share) / (self.n_rounds - 1)
        others = (other,) * (self.n_rounds - 1)
        return self.count_share, left * self.first_share, *others

    def event(self, noise_multiplier: float, task: Task) -> Event:
        parts = (noise_multiplier / math.sqrt(share) for share in self._shares)
        return ComposedEvent(tuple(GaussianEvent(part) for part in parts))

    def _queries(self, task: Task) -> tuple[CountQuery, RowQuery, RowQuery]:
        """Of the counts, the first round and the later ones."""
        n_factors = min(task.n_components, _MOST_FACTORS)
        size = task.n_users, task.n_items
        return (
            CountQuery(*size),
            RowQuery(*size, 0, self.bias_clip),
            RowQuery(*size, n_factors, self.row_clip),
        )

    def sensitivity(self, task: Task) -> float:
        return max(query.sensitivity for query in self._queries(task))

    def run(
        self,
        ratings: Ratings,
        task: Task,
        noise_multiplier: float,
        noise: NoiseSource,
        rng: Draws,
        progress: Progress,
    ) -> Factors:
        assert task.rating_bounds is not None, "refusal() asks for them"
        low, high = task.rating_bounds
        middle, half = (low + high) / 2, (high - low) / 2
        kept = kept_ratings(ratings, task.max_ratings, rng)
        counts, first, later = self._queries(task)
        shares = self._shares
        multiplier = noise_multiplier / math.sqrt(shares[0])
        released = noise.gaussian(
            counts.of(kept, middle, half),
            sensitivity=counts.sensitivity,
            noise_multiplier=multiplier,
        )
        items = NoisyItems(
            task,
            later.n_factors,
            *counts.read(released),
            sigma=multiplier * counts.sensitivity,
        )
        progress.step(1, len(shares))
        for t, share in enumerate(shares[1:]):
            query = later if t else first
            multiplier = noise_multiplier / math.sqrt(share)
            sigma = multiplier * query.sensitivity
            weights = items.weights(sigma)
            factors = items.factors(middle, half)
            rows = solve_users(factors, kept)
            released = noise.gaussian(
                query.of(kept, factors, rows, weights, half),
                sensitivity=query.sensitivity,
                noise_multiplier=multiplier,
            )
            items.learn(*query.read(released), weights, sigma)
            progress.step(t + 2, len(shares))
        return items.factors(middle, half)


def _rounds(task: Task, budget: Budget) -> int:
    """By how far the noise leaves the items known; public facts only."""
    mu = gaussian_mu(budget.epsilon, budget.delta)
    known = mu * task.n_users / task.n_items
    return 1 + 3 * (known >= _FOUR_ROUNDS) + (known >= _FIVE_ROUNDS)
