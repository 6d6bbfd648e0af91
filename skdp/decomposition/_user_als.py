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
from skdp.decomposition._user_queries import CountQuery, PairQuery, RowQuery
from skdp.decomposition._user_rows import solve_users
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit
from skdp.privacy._events import ComposedEvent, Event, GaussianEvent
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Progress
from skdp.solvers._configured import Checks

_FIRST_FACTORS = 2  # they start at the items' biases and popularity
_ROUNDS_BEFORE_PAIRS = 2
# By mu * n_users / n_items: from where on four rounds pay instead of one.
_FOUR_ROUNDS = 1.0
# By mu * n_users, what users have in common against the noise of pairs: from where on
# two factors more pay, and four. More budget does not replace users beyond a mu of 4.
_TWO_MORE, _FOUR_MORE, _LARGEST_MU = 15_000, 24_000, 4.0

_MOST_FACTORS = 4096  # what the rule may choose from
_Query = CountQuery | RowQuery | PairQuery


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
        refined in the others. None: 4 if ``mu * n_users / n_items`` is 1 or more, else
        1.
    n_directions : int in [0, 100] or None, default=None
        Factors besides the first two. They start at eigenvectors of noisy sums of
        products of residuals, for pairs of at most 300 popular items, released after
        two rounds. None: 0, 2 from ``min(mu, 4) * n_users`` of 15,000 on, 4 from 24,000
        on; at most `n_components` less 2. Factors beyond what is used are zero.
    count_share : float in [0.01, 0.49] or None, default=None
        Share of mu^2 that the counts get. None: 0.2 with one round, else 0.15.
    pair_share : float in [0.01, 0.49], default=0.17
        The same for the pairs, if there are any.
    first_share : float in [1e-6, 1) or None, default=None
        Share of what is left that the first sum gets. None: all with one round, else
        0.4.
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
    sensitivity_unit: ClassVar[str] = "half the width of rating_bounds; of counts 1"
    checks: ClassVar[Checks] = {
        "n_rounds": partial(check_count, high=100),
        "n_directions": partial(check_count, low=0, high=100),
        "count_share": partial(check_real, low=0.01, high=0.49),
        "pair_share": partial(check_real, low=0.01, high=0.49),
        "first_share": partial(check_real, low=1e-6, high=1.0, high_open=True),
        "bias_clip": partial(check_real, low=1e-3, high=10.0),
        "row_clip": partial(check_real, low=1e-3, high=10.0),
    }

    n_rounds: int | None = None
    n_directions: int | None = None
    count_share: float | None = None
    pair_share: float = 0.17
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
        # How well the noise leaves a typical item known; public facts only.
        mu = gaussian_mu(budget.epsilon, budget.delta)
        known = mu * task.n_users / task.n_items
        n_rounds, n_directions = self.n_rounds, self.n_directions
        if n_rounds is None:
            n_rounds = 4 if known >= _FOUR_ROUNDS else 1
        if n_directions is None:
            common = min(mu, _LARGEST_MU) * task.n_users
            n_directions = 2 * (common >= _TWO_MORE) + 2 * (common >= _FOUR_MORE)
        if n_rounds <= _ROUNDS_BEFORE_PAIRS:
            n_directions = 0
        room = max(0, task.n_components - _FIRST_FACTORS)
        count, first = self.count_share, self.first_share
        return replace(
            self,
            n_rounds=n_rounds,
            n_directions=min(n_directions, room, task.n_items),
            count_share=(0.2 if n_rounds == 1 else 0.15) if count is None else count,
            first_share=0.4 if first is None else first,
        )

    def default_components(self, task: Task, budget: Budget) -> int:
        resolved = self.resolve(replace(task, n_components=_MOST_FACTORS), budget)
        return _FIRST_FACTORS + (resolved.n_directions or 0)

    def _plan(self, task: Task) -> list[tuple[_Query, float]]:
        """Queries in their order, each with its share of mu^2."""
        assert self.n_rounds is not None, "resolve() fills in the rounds"
        assert self.n_directions is not None, "resolve() fills in the directions"
        assert self.count_share is not None, "resolve() fills in the shares"
        assert self.first_share is not None, "resolve() fills in the shares"
        size = task.n_users, task.n_items
        n_factors = min(task.n_components, _FIRST_FACTORS)
        pair_share = self.pair_share if self.n_directions else 0.0
        left = 1 - self.count_share - pair_share
        first, n_later = self.first_share, self.n_rounds - 1
        if not n_later:
            first = 1.0
        plan: list[tuple[_Query, float]] = [
            (CountQuery(*size), self.count_share),
            (RowQuery(*size, 0, self.bias_clip), left * first),
        ]
        for done in range(1, self.n_rounds):
            if done == _ROUNDS_BEFORE_PAIRS and self.n_directions:
                plan.append((PairQuery(*size), pair_share))
                n_factors += self.n_directions
            query = RowQuery(*size, n_factors, self.row_clip)
            plan.append((query, left * (1 - first) / n_later))
        return plan

    def event(self, noise_multiplier: float, task: Task) -> Event:
        shares = (share for _, share in self._plan(task))
        parts = (noise_multiplier / math.sqrt(share) for share in shares)
        return ComposedEvent(tuple(GaussianEvent(part) for part in parts))

    def sensitivity(self, task: Task) -> float:
        return max(query.sensitivity for query, _ in self._plan(task))

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
        assert self.n_directions is not None, "resolve() fills in the directions"
        low, high = task.rating_bounds
        middle, half = (low + high) / 2, (high - low) / 2
        kept = kept_ratings(ratings, task.max_ratings, rng)
        items = NoisyItems(task, min(task.n_components, _FIRST_FACTORS))
        plan = self._plan(task)
        for t, (query, share) in enumerate(plan):
            multiplier = noise_multiplier / math.sqrt(share)
            sigma = multiplier * query.sensitivity
            release = partial(
                noise.gaussian,
                sensitivity=query.sensitivity,
                noise_multiplier=multiplier,
            )
            if isinstance(query, CountQuery):
                released = release(query.of(kept, middle, half))
                items.start(*query.read(released, sigma), sigma)
                progress.step(t + 1, len(plan))
                continue
            factors = items.factors(middle, half)
            rows = solve_users(factors, kept)
            if isinstance(query, PairQuery):
                chosen = items.popular(query.n_paired)
                pairs = query.read(release(query.of(kept, factors, rows, chosen, half)))
                items.add_directions(pairs, chosen, self.n_directions)
            else:
                weights = items.weights(sigma)
                sums = query.of(kept, factors, rows, weights, half)
                items.learn(*query.read(release(sums)), weights, sigma)
            progress.step(t + 1, len(plan))
        return items.factors(middle, half)
