r"""Noisy gradients in a quasi-Newton step: what `ValueALS` is compared with.

For ratings of which only the values are private. `ValueALS` finds biases; then, from
small random factors, each of T steps asks once for the gradient of all factors

``(sum_i d_ui q_i)_u, (sum_u d_ui p_u)_i``, d_ui residuals clipped to +-c,

with noise. A changed value moves it by at most ``2 c max (|p_u|^2 + |q_i|^2)^(1/2)``
over the pairs: rows have been released, and are kept within a bound. The rest is
post-processing, the inverse Hessian of limited-memory BFGS included, whose pairs are
differences of releases. Not in the registry: see docs/factorizers/value_als.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_count, check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.decomposition._factorize import Draws, PrivateFactorizer
from skdp.decomposition._ratings import Factors, Pattern, RatingSource, Task, Threads
from skdp.decomposition._value_als import (
    ValueALS,
    clipped,
    residual_sensitivity,
    values_of,
)
from skdp.papers._hamsi import InverseHessian
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import Unit
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Bound, Layout, Line, Part, Plan

_START = ValueALS(n_embedding=0, rank=0, residual_clip=0.3)
_DEVIATION = 0.225  # of residuals, in units of the width of the bounds


@dataclass(frozen=True, kw_only=True)
class NoisyGradientHAMSI(PrivateFactorizer):
    r"""Private quasi-Newton steps under ``privacy_unit="rating_value"``.

    A row of n ratings has about the curvature ``g + l``, with ``g = n E|q|^2 / k`` and
    the penalty ``l = (s^2 + step sigma^2 / g) / tau^2`` that is right for a prior of
    variance tau^2, residuals of variance s^2 and a gradient with noise of variance
    sigma^2, averaged over ``1 / step`` steps. Steps are taken in units of its root, so
    that gradient steps have lengths by public counts and known noise.

    Parameters
    ----------
    n_steps : int in [1, 1000], default=20
        Gradients that are released; they share mu^2 equally.
    step : float in (0, 10], default=0.3
        Length of steps.
    n_corrections : int in [0, 100], default=5
        Pairs that the inverse Hessian is made of; 0: gradient steps.
    certainty : float in [0, 100], default=3.0
        Deviations of the noise that a pair's curvature has to be above what the noise
        alone makes of it; 0: any positive curvature will do.
    residual_clip : float in (0, 0.5], default=0.2
        Bound on residuals, in units of the width of the rating bounds.
    taste : float in [1e-6, 1], default=0.1
        Prior: standard deviation of all factors' part of a rating, in these units.
    row_bound : float in (0, 100], default=0.8
        Bound on norms of rows, in units of the prior's.
    start_share : float in (0, 1) or None, default=None
        Share of mu^2 for the biases. None: ``30 m / (n mu)`` for m ids and n ratings,
        from 0.3 to 0.95.
    """

    key: ClassVar[str] = "noisy_hamsi"
    unit: ClassVar[Unit] = "rating_value"
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=1000),
        "step": partial(check_real, low=1e-6, high=10.0),
        "n_corrections": partial(check_count, low=0, high=100),
        "certainty": partial(check_real, low=0.0, high=100.0),
        "residual_clip": partial(check_real, low=1e-6, high=0.5),
        "taste": partial(check_real, low=1e-6, high=1.0),
        "row_bound": partial(check_real, low=1e-6, high=100.0),
        "start_share": partial(check_real, low=1e-6, high=1 - 1e-6),
    }

    n_steps: int = 20
    step: float = 0.3
    n_corrections: int = 5
    certainty: float = 3.0
    residual_clip: float = 0.2
    taste: float = 0.1
    row_bound: float = 0.8
    start_share: float

    @classmethod
    def planned(cls, given: Given, task: Task, budget: Budget) -> Self:
        cls.check(task, budget)
        mu = gaussian_mu(budget.epsilon, budget.delta)
        evidence = len(task.public_pattern) * mu / (task.n_users + task.n_items)
        share = min(0.95, max(0.3, 30 / max(evidence, 1e-9)))
        return cls(**{"start_share": share, **given})

    @classmethod
    def default_components(cls, given: Given, task: Task, budget: Budget) -> int:
        return 3  # more were no better on validation parts

    @property
    def shares(self) -> tuple[float, ...]:
        """Of mu^2, for each of the releases."""
        start = tuple(self.start_share * share for share in _START.shares)
        return start + ((1 - self.start_share) / self.n_steps,) * self.n_steps

    def plan(self, task: Task) -> Plan:
        start = Part(_START.plan(task), multiple=1 / math.sqrt(self.start_share))
        return Plan((start, Line(self.n_steps, mu_share=self.shares[-1])))

    def sensitivity(self, task: Task) -> float:
        """Largest of one query's, the width of the rating bounds being 1."""
        # Something to spare: rows are shortened in floating point.
        longest = math.sqrt(2) * self._bound(task) * (1 + 1e-8)
        clip = self.residual_clip * longest
        gradient = residual_sensitivity(clip, task.public_pattern)
        return max(_START.sensitivity(task), gradient)

    def bias_noise(self, task: Task, budget: Budget) -> float:
        """That of the start, were it to have the whole budget."""
        return _START.bias_noise(task, budget)

    def run(self, answers: Answers, task: Task, progress: Progress, /) -> Factors:
        rng = check_random_state(task.seed)
        biases = replace(task, n_components=0)
        start = _START.run(answers.part(0), biases, Progress())
        factors = Factors.zeros(task, start.mean)
        k = task.n_components
        if task.biases:
            factors.users[:, k] = start.users[:, 0]
            factors.items[:, k + 1] = start.items[:, 1]
        if k:
            left = Left(task.public_pattern, task.declared_bounds, start)
            users, items = self._descend(answers, left, task, rng, progress)
            factors.users[:, :k], factors.items[:, :k] = users, items
        return factors

    def _descend(
        self,
        answers: Answers,
        left: Left,
        task: Task,
        rng: Draws,
        progress: Progress,
    ) -> tuple[FloatArray, FloatArray]:
        """Rows of factors, in units of the ratings."""
        pattern, threads = task.public_pattern, Threads()
        size = (task.n_users + task.n_items, task.n_components)
        variance = self.taste / math.sqrt(size[1])  # of a factor: tau^2
        bound = self._bound(task)
        rows = _within(math.sqrt(variance) * rng.standard_normal(size), bound)
        hessian = InverseHessian(rows.size, self.n_corrections, 1.0, np.float64)
        counts = np.concatenate([pattern.by_user.counts, pattern.by_item.counts])
        last: tuple[FloatArray, FloatArray, float] | None = None
        for t in range(self.n_steps):
            released = answers.ask(GradientAt(left, rows, self.residual_clip), 1)
            asked, sigma = released.value, released.sigma
            # Of the diagonal: g, and the penalty l.
            square = _other_squares(rows, pattern) / size[1]
            data = np.maximum(counts, 0.1) * np.maximum(square, 1e-12 * variance)
            noisy = self.step * sigma**2 / data
            penalty = (_DEVIATION**2 + noisy) / variance
            roots = np.sqrt(data + penalty)[:, None]
            if last is not None and self.n_corrections:
                moved, change = rows - last[0], last[1] - asked
                if self._is_curvature(
                    moved, change, (last[2], sigma), hessian.sigma, roots
                ):
                    change = change + penalty[:, None] * moved
                    hessian.accept(
                        (moved * roots).ravel(), (change / roots).ravel(), threads
                    )
            last = rows, asked, sigma
            slope = ((penalty[:, None] * rows - asked) / roots).ravel()
            point = (rows * roots).ravel()
            hessian.subtract(point, slope, self.step, threads)
            if np.isfinite(point).all():
                rows = _within(point.reshape(size) / roots, bound)
            progress.step(t + 1, self.n_steps)
        low, high = task.declared_bounds
        rows = rows * math.sqrt(high - low)
        return rows[: task.n_users], rows[task.n_users :]

    def _is_curvature(
        self,
        moved: FloatArray,
        change: FloatArray,
        sigmas: tuple[float, float],
        scale: float,
        roots: FloatArray,
    ) -> bool:
        """Whether a pair's product is above what the noise of two gradients makes.

        A step goes along the noise of the gradient before it, and the change contains
        the same noise: noise alone has positive curvature. About so much of it.
        """
        trace = moved.shape[1] * float(np.sum(roots**-2.0))
        expected = self.step * scale * sigmas[0] ** 2 * trace
        deviation = math.hypot(*sigmas) * float(np.linalg.norm(moved))
        product = float(np.sum(moved * change))
        if not self.certainty:
            return product > 0
        return product > expected + self.certainty * deviation

    def _bound(self, task: Task) -> float:
        """On the norm of a row."""
        usual = math.sqrt(self.taste * math.sqrt(max(1, task.n_components)))
        return self.row_bound * usual


@dataclass(frozen=True, eq=False)
class Left:
    """What a released start leaves of the ratings, in units of the bounds' width."""

    pattern: Pattern
    bounds: tuple[float, float]
    start: Factors

    def read(self, source: RatingSource) -> FloatArray:
        """Pair by pair. Private."""
        low, high = self.bounds
        values = np.asarray(source.ratings.values, dtype=np.float64)
        known = self.start.predictions(self.pattern.users, self.pattern.items)
        return np.asarray((values - known) / (high - low))


@dataclass(frozen=True, eq=False)
class GradientAt:
    """Sums over residuals at rows of factors, ascending; a row for each id."""

    family: Left
    rows: FloatArray
    clip: float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape

    def bound(self) -> Bound:
        # As of rows of norm 1: Lemma 6 of docs/proofs/ratings.md.
        longest = longest_pair(self.rows, self.family.pattern)
        return Bound(
            rating_value=residual_sensitivity(self.clip * longest, self.family.pattern)
        )

    def slack(self, layout: Layout) -> float:
        return 0.0  # in the bound

    def open(self, source: RatingSource) -> FloatArray:
        return self.family.read(source)

    def total(self, reader: FloatArray, rows: IntArray | None) -> FloatArray:
        pattern = self.family.pattern
        users, items = self.rows[: pattern.n_users], self.rows[pattern.n_users :]
        of_pairs = users[pattern.users], items[pattern.items]
        residuals = reader - np.einsum("ij,ij->i", *of_pairs)
        table = values_of(pattern, clipped(residuals, self.clip))
        return np.vstack([table @ items, table.T @ users])


def longest_pair(rows: FloatArray, pattern: Pattern) -> float:
    """Largest norm of the two rows of a pair; never 0."""
    squares = np.einsum("ij,ij->i", rows, rows)
    both = squares[pattern.users] + squares[pattern.n_users :][pattern.items]
    return math.sqrt(max(float(both.max(initial=0.0)), 1e-100))


def _other_squares(rows: FloatArray, pattern: Pattern) -> FloatArray:
    """For rows of users, the mean square of rows of items over ratings, and so on."""
    squares = np.einsum("ij,ij->i", rows, rows)
    users, items = squares[pattern.users], squares[pattern.n_users :][pattern.items]
    means = [float(np.mean(each)) if len(each) else 0.0 for each in (items, users)]
    return np.repeat(means, [pattern.n_users, pattern.n_items])


def _within(rows: FloatArray, bound: float) -> FloatArray:
    """Rows brought to norm `bound` if they are longer."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, bound / np.maximum(norms, 1e-100)))
