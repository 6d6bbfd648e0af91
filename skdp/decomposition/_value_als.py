r"""Noisy alternating least squares for ratings of which only the values are private.

Algorithm: with residuals ``d_ui = clip(r_ui - prediction, -c, c)`` against what has
been released, and rows x_i, z_u of norm at most 1 made from the pattern and from what
has been released,

1. ``sum_ui d_ui z_u x_i' + N`` for points z, x of the pattern alone: a small
   matrix M explains ratings by ``z_u' M x_i``;
2. ``sum_u d_ui z_u + N`` for every item: item rows;
3. ``sum_i d_ui x_i + N`` for every user: user rows; and 2, 3 again.

Each is a half-step of alternating least squares whose linear terms alone need noise:
the Gram matrices are those of public rows over public pairs. The rows are posterior
means for normal priors and noise of known size, so what noise drowns is left out. At
the end each part is fitted again, from the same releases, to what the others leave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp._validation import check_count, check_real
from skdp.decomposition._factorizer import Draws, PrivateFactorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._low_rank import LowRank
from skdp.decomposition._pattern_embedding import pattern_embedding
from skdp.decomposition._posterior_rows import ClippedNormal
from skdp.decomposition._prediction_parts import (
    Bilinear,
    Fit,
    ItemRows,
    Part,
    Release,
    UserRows,
)
from skdp.decomposition._rating_values import (
    RatingValues,
    ResidualSum,
    residual_sensitivity,
)
from skdp.decomposition._ratings import Order, Pattern
from skdp.decomposition._task import Task
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit
from skdp.privacy._answers import Answers
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._plan import Line, Plan
from skdp.solvers._progress import Progress

# Shares of mu^2: the first query if it has points to explain ratings by, or if it has
# only the mean to find; of the rest, users, of whom there are more.
_PATTERN_SHARE, _MEAN_SHARE, _USER_SHARE = 0.15, 0.01, 0.58
# Everything below is in units of the width of the rating bounds.
_FIRST_CLIP = 0.375  # residuals of the first query, which has little to start from
_DEVIATION = 0.225  # of residuals
_PATTERN_DEVIATION = 0.18  # prior: of entries of M
_ITEM_BIAS, _USER_BIAS = 0.05, 0.09  # prior: biases beyond what the points explain
_WHOLE_ITEM_BIAS, _WHOLE_USER_BIAS = 0.11, 0.11  # prior: biases if there are none
_ITEM_TASTE, _USER_TASTE = 0.0375, 0.0625  # prior: all other terms of a row together
# Length of the constant in rows of norm 1, in the first query and in the others.
_FIRST_CONSTANT, _CONSTANT = 0.5, 0.75
_COMPONENTS = 10  # returned; more were no better on validation parts


@dataclass(frozen=True, kw_only=True)
class ValueALS(PrivateFactorizer):
    r"""Private factorisation under ``privacy_unit="rating_value"``.

    Privacy
    -------
    The value of one rating changes; who rated what is public. ``1 + 2 n_rounds``
    adaptive Gaussian releases with fixed shares of mu^2: exactly mu-GDP. All releases
    may be published. The L2 sensitivity of each is twice the bound on clipped
    residuals, as derived in ``docs/proofs/mf_rating_value.md``.

    Utility
    -------
    K coefficients that share n ratings equally, each from a statistic of sensitivity
    S, add ``(K S / (n mu))^2`` to the mean squared error before shrinkage. The first
    query has few coefficients, so it is all but free; the others have a prior that
    leaves out what noise would drown.

    Parameters
    ----------
    n_embedding : int in [0, 60] or None, default=None
        Dimensions of the points that users and items have from the pattern alone.
        None: ``0.7 n^0.3``, at most 40.
    n_rounds : int in [0, 100], default=2
        Half-steps for items and for users.
    rank : int in [0, 60], default=10
        Factors of each half-step, beside the biases.
    residual_clip : float in (0, 0.5] or None, default=None
        Bound on the residuals of the half-steps, in units of the width of the rating
        bounds. None: ``0.19 + 0.06 mu``, at most 0.3.
    prior_scale : float in [1e-6, 100], default=1.0
        Multiplies all standard deviations of the prior: smaller shrinks more. It
        takes the place of alpha, which is None in private fits.

    Notes
    -----
    Whatever is asked for, the predictions inside have rank ``n_embedding + 2 +
    2 n_rounds (rank + 1)``; the best `n_components` factors of them for the pattern
    are returned, beside the biases.

    References
    ----------
    .. [1] Zhou, Wilkinson, Schreiber and Pan (2008). Large-scale parallel
       collaborative filtering for the Netflix prize. AAIM. (the half-steps)
    .. [2] Foulds, Geumlek, Welling and Chaudhuri (2016). On the theory and practice
       of privacy-preserving Bayesian data analysis. UAI.
       https://arxiv.org/abs/1603.07294 (noisy sufficient statistics)
    .. [3] Bernstein and Sheldon (2019). Differentially private Bayesian linear
       regression. NeurIPS. https://arxiv.org/abs/1910.13153 (noise in the posterior)
    .. [4] Dong, Roth and Su (2022). Gaussian differential privacy, Corollary 3.3.
       https://arxiv.org/abs/1905.02383
    """

    key: ClassVar[str] = "als"
    unit: ClassVar[Unit] = "rating_value"
    sensitivity_unit: ClassVar[str] = "the width of rating_bounds"
    checks: ClassVar[Checks] = {
        "n_embedding": partial(check_count, low=0, high=60),
        "n_rounds": partial(check_count, low=0, high=100),
        "rank": partial(check_count, low=0, high=60),
        "residual_clip": partial(check_real, low=1e-6, high=0.5),
        "prior_scale": partial(check_real, low=1e-6, high=100.0),
    }

    n_embedding: int
    n_rounds: int = 2
    rank: int = 10
    residual_clip: float
    prior_scale: float = 1.0

    @classmethod
    def planned(cls, given: Given, task: Task, budget: Budget) -> Self:
        cls.check(task, budget)
        mu = gaussian_mu(budget.epsilon, budget.delta)
        rules: dict[str, Any] = {
            "n_embedding": min(40, round(0.7 * len(task.public_pattern) ** 0.3)),
            "residual_clip": min(0.3, 0.19 + 0.06 * mu),
        }
        return cls(**{**rules, **given})

    @classmethod
    def default_components(cls, given: Given, task: Task, budget: Budget) -> int:
        return _COMPONENTS

    @property
    def shares(self) -> tuple[float, ...]:
        """Of mu^2, for each of the releases."""
        if not self.n_rounds:
            return (1.0,)
        first = _PATTERN_SHARE if self.n_embedding else _MEAN_SHARE
        rest = (1 - first) / self.n_rounds
        users = rest * _USER_SHARE
        return (first, *(rest - users, users) * self.n_rounds)

    def plan(self, task: Task) -> Plan:
        return Plan(tuple(Line(mu_share=share) for share in self.shares))

    def sensitivity(self, task: Task) -> float:
        """Largest of one query's, the width of the rating bounds being 1."""
        clip = max(_FIRST_CLIP, self.residual_clip) if self.n_rounds else _FIRST_CLIP
        return residual_sensitivity(clip, task.public_pattern)

    def bias_noise(self, task: Task, budget: Budget) -> float:
        """Of users or items, of whichever there are fewer."""
        mu = gaussian_mu(budget.epsilon, budget.delta)
        ratings_each = len(task.public_pattern) / min(task.n_users, task.n_items)
        return 2 * self.residual_clip / (mu * ratings_each)

    def run(
        self, answers: Answers, task: Task, rng: Draws, progress: Progress
    ) -> Factors:
        pattern, n_queries = task.public_pattern, len(self.shares)
        values = RatingValues(pattern, task.declared_bounds)
        fit = Fit(pattern)

        points = pattern_embedding(pattern, self.n_embedding, rng)
        rows = [_with_constant(each, _FIRST_CONSTANT) for each in points]
        size, scale = rows[0].shape[1] * rows[1].shape[1], self.prior_scale
        prior = np.full(size, (_PATTERN_DEVIATION * scale) ** 2)
        query = ResidualSum(values, Bilinear(*rows), fit.predictions, _FIRST_CLIP)
        fit.add(_release(answers, query, prior, line=0))
        progress.step(1, n_queries)

        for t in range(1, n_queries):
            part, prior = self._half_step(fit.model, pattern, is_for_items=t % 2 == 1)
            query = ResidualSum(values, part, fit.predictions, self.residual_clip)
            fit.add(_release(answers, query, prior, line=t))
            progress.step(t + 1, n_queries)
        fit.sweep()
        return _in_units_of_ratings(fit.model, task).factors(pattern, task)

    def _half_step(
        self, model: LowRank, pattern: Pattern, *, is_for_items: bool
    ) -> tuple[Part, FloatArray]:
        """The next part and its prior: what is released and public decides."""
        known = model.centred(pattern).principal(pattern, self.rank)
        if is_for_items:
            bias = _ITEM_BIAS if self.n_embedding else _WHOLE_ITEM_BIAS
            rows, order, taste = known.users, pattern.by_user, _ITEM_TASTE
        else:
            bias = _USER_BIAS if self.n_embedding else _WHOLE_USER_BIAS
            rows, order, taste = known.items, pattern.by_item, _USER_TASTE
        rows = _unit_rows(rows, order)
        deviations = bias * self.prior_scale, taste * self.prior_scale
        part: Part = ItemRows(rows) if is_for_items else UserRows(rows)
        return part, _prior(rows, order, *deviations)


def _release(
    answers: Answers, query: ResidualSum, prior: FloatArray, *, line: int
) -> Release:
    """The part's noisy sums, with what is known of them."""
    released = answers.ask(query, line)
    law = ClippedNormal(_DEVIATION, query.clip)
    return Release(
        query.part, released.value, released.sigma, law, prior, query.predictions
    )


def _in_units_of_ratings(model: LowRank, task: Task) -> LowRank:
    low, high = task.declared_bounds
    middle = np.full((task.n_users, 1), low / 2 + high / 2)
    scaled = LowRank(model.users * (high - low), model.items)
    return scaled.plus(LowRank(middle, np.ones((task.n_items, 1))))


def _with_constant(rows: FloatArray, constant: float) -> FloatArray:
    """Rows of norm at most 1 with one more entry in front, of norm at most 1."""
    if not rows.shape[1]:
        return np.ones((len(rows), 1))
    rest = math.sqrt(1 - constant**2)
    return np.column_stack([np.full(len(rows), constant), rest * rows])


def _unit_rows(factors: FloatArray, order: Order) -> FloatArray:
    """Factors as rows of norm at most 1, with a constant in front for the bias.

    Rows longer than a rating's usual one are shortened to it: the noise would be made
    for the longest of all.
    """
    squares = np.sum(factors * factors, axis=1)
    usual = math.sqrt(_mean(squares, order))
    norms = np.maximum(np.sqrt(squares), max(usual, 1e-100))
    return _with_constant(factors / norms[:, None], _CONSTANT)


def _prior(rows: FloatArray, order: Order, bias: float, taste: float) -> FloatArray:
    """Variances of coefficients that make a bias and a taste of these deviations."""
    variances = np.full(rows.shape[1], (bias / rows[0, 0]) ** 2)
    energy = _mean(np.sum(rows[:, 1:] ** 2, axis=1), order)
    variances[1:] = taste**2 / energy if energy > 0 else 0.0
    return variances


def _mean(numbers: FloatArray, order: Order) -> float:
    """Over ratings."""
    return float(np.average(numbers, weights=np.maximum(order.counts, 1e-3)))
