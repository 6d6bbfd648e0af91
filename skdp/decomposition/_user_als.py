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
from typing import Any, ClassVar, Self

from skdp._configured import Checks, Given
from skdp._validation import check_count, check_real
from skdp.decomposition._factorizer import Draws, PrivateFactorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._released_items import NoisyItems
from skdp.decomposition._task import Task
from skdp.decomposition._users import CountQuery, KeptRatings, PairQuery, RowQuery
from skdp.exceptions import Refused
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit
from skdp.privacy._answers import Answers
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._plan import Line, Plan
from skdp.solvers._progress import Progress

_FIRST_FACTORS = 2  # they start at the items' biases and popularity
_ROUNDS_BEFORE_PAIRS = 2
# By mu * n_users / n_items: from where on four rounds pay instead of one.
_FOUR_ROUNDS = 1.0
# By mu * n_users, what users have in common against the noise of pairs: from where on
# two factors more pay, and four. More budget does not replace users beyond a mu of 4.
_TWO_MORE, _FOUR_MORE, _LARGEST_MU = 15_000, 24_000, 4.0

_RATINGS_EACH = 100  # for a forecast, of a user whose max_ratings is not declared
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

    n_rounds: int
    n_directions: int
    count_share: float
    pair_share: float = 0.17
    first_share: float
    bias_clip: float = 0.325
    row_clip: float = 0.5

    @classmethod
    def check(cls, task: Task, budget: Budget) -> None:
        super().check(task, budget)
        if not task.biases:
            raise Refused(
                f"solver={cls.key!r} with privacy_unit='user' releases biases first. "
                "Use biases=True."
            )

    @classmethod
    def planned(cls, given: Given, task: Task, budget: Budget) -> Self:
        cls.check(task, budget)
        # How well the noise leaves a typical item known; public facts only.
        mu = gaussian_mu(budget.epsilon, budget.delta)
        known = mu * task.n_users / task.n_items
        n_rounds = given.get("n_rounds", 4 if known >= _FOUR_ROUNDS else 1)
        common = min(mu, _LARGEST_MU) * task.n_users
        by_rule = 2 * (common >= _TWO_MORE) + 2 * (common >= _FOUR_MORE)
        n_directions = given.get("n_directions", by_rule)
        if n_rounds <= _ROUNDS_BEFORE_PAIRS:
            n_directions = 0
        room = max(0, task.n_components - _FIRST_FACTORS)
        rules: dict[str, Any] = {
            "n_rounds": n_rounds,
            "count_share": 0.2 if n_rounds == 1 else 0.15,
            "first_share": 0.4,
        }
        most = {"n_directions": min(n_directions, room, task.n_items)}
        return cls(**{**rules, **given, **most})

    @classmethod
    def default_components(cls, given: Given, task: Task, budget: Budget) -> int:
        roomy = replace(task, n_components=_MOST_FACTORS)
        return _FIRST_FACTORS + cls.planned(given, roomy, budget).n_directions

    def queries(self, task: Task) -> list[tuple[_Query, float]]:
        """In their order, each with its share of mu^2."""
        size = task.n_users, task.n_items
        n_factors = min(task.n_components, _FIRST_FACTORS)
        pair_share = self.pair_share if self.n_directions else 0.0
        left = 1 - self.count_share - pair_share
        first, n_later = self.first_share, self.n_rounds - 1
        if not n_later:
            first = 1.0
        queries: list[tuple[_Query, float]] = [
            (CountQuery(*size), self.count_share),
            (RowQuery(*size, 0, self.bias_clip), left * first),
        ]
        for done in range(1, self.n_rounds):
            if done == _ROUNDS_BEFORE_PAIRS and self.n_directions:
                queries.append((PairQuery(*size), pair_share))
                n_factors += self.n_directions
            query = RowQuery(*size, n_factors, self.row_clip)
            queries.append((query, left * (1 - first) / n_later))
        return queries

    def plan(self, task: Task) -> Plan:
        return Plan(tuple(Line(mu_share=share) for _, share in self.queries(task)))

    def sensitivity(self, task: Task) -> float:
        return max(query.sensitivity for query, _ in self.queries(task))

    def bias_noise(self, task: Task, budget: Budget) -> float:
        """Of items; how many ratings a user has is private, so many are assumed."""
        mu = gaussian_mu(budget.epsilon, budget.delta)
        kept = min(task.max_ratings or _RATINGS_EACH, task.n_items)
        weighted_count = task.n_users * math.sqrt(kept) / task.n_items
        return self.bias_clip / (mu * weighted_count)

    def run(
        self, answers: Answers, task: Task, rng: Draws, progress: Progress
    ) -> Factors:
        seed = int(rng.randint(2**32))
        kept = KeptRatings(task.declared_bounds, task.max_ratings, seed)
        items = NoisyItems(task, min(task.n_components, _FIRST_FACTORS))
        queries = [query for query, _ in self.queries(task)]
        for line, query in enumerate(queries):
            self._learn(items, query, answers, kept, line)
            progress.step(line + 1, len(queries))
        return items.factors(kept.middle, kept.half)

    def _learn(
        self,
        items: NoisyItems,
        query: _Query,
        answers: Answers,
        kept: KeptRatings,
        line: int,
    ) -> None:
        """Ask, and take in what is released."""
        sigma = answers.multiplier(line) * query.sensitivity
        if isinstance(query, CountQuery):
            released = answers.ask(query.asked(kept), line).value
            items.start(*query.read(released, sigma), sigma)
            return
        factors = items.factors(kept.middle, kept.half)
        if isinstance(query, PairQuery):
            chosen = items.popular(query.n_paired)
            released = answers.ask(query.at(kept, factors, chosen), line).value
            items.add_directions(query.read(released), chosen, self.n_directions)
            return
        weights = items.weights(sigma)
        released = answers.ask(query.at(kept, factors, weights), line).value
        items.learn(*query.read(released), weights, sigma)
