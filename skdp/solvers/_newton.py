"""Newton's method with noisy sums in released coordinates, and standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from skdp._arrays import FloatArray
from skdp._base import rounded
from skdp._checks import check_count, check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._base import Loss
from skdp.losses._classification import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import SquaredLoss
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._plan import Line, Plan, Query
from skdp.solvers._adassp import EstimatedSolution, with_bias
from skdp.solvers._base import Solution, Solver, box_radius, projected_onto_box
from skdp.solvers._target_base import base_rate
from skdp.sums._moments import (
    Coordinates,
    LengthCounts,
    NewtonAnswer,
    NewtonSum,
    NewtonSums,
    NewtonWeights,
)
from skdp.sums._record_sums import ErrorSum, TargetSum

# ---------------------------------------- Newton step from released sums, and its error
# For coordinates u, residuals r, curvatures c, weights s of rows and weights v, with
# noise N_g and N in the released ``g = sum s r u`` and ``H = sum c u u'``, and a
# penalty K, let v* have gradient 0 in the population. The step d from v satisfies
#
#     (H + N + K) (v + d - v*) = - sum s r* u - K v* - N_g - N d + second order.
#
# The variance of the right hand side is known up to the variance of the records, which
# follows from the released squares. Everything here is post-processing
# (``docs/proofs/moments.md``, Standard errors).


# _CLEAR: above this eigenvalue of the curvatures, in units of the edge of the noise's
# spectrum, a direction is clear: noise changes the inverse little. _MOST_BENT: limit on
# terms of second order, in units of the errors (benchmarks/intervals.py). Below four
# edges the fits that pass are fits whose noise added curvature: at three, 6 % of the
# fits of a table with 2 % positives passed, and their 95 % intervals held 86 %.
_CLEAR, _MOST_BENT = 4.0, 1.0
# Eigenvalues within so many edges are alike.
_ALIKE = 2.0
# Larger numbers are cut, so that squares do not overflow.
_LARGEST = 1e140


def edge_of(curvature_noise: float, n_columns: int) -> float:
    """Edge of the spectrum of the noise in the curvatures."""
    return curvature_noise * math.sqrt(2 * n_columns)


def _spectrum_of(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and directions of a matrix whose numbers are brought into reach."""
    return np.linalg.eigh(np.clip(np.nan_to_num(matrix), -_LARGEST, _LARGEST))


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """One step, in weights of the coordinates u.

    Parameters
    ----------
    start : ndarray of shape (n_columns,)
        Released weights of rows at which the sums were queried.
    frame : ndarray of shape (n_columns, n_columns)
        Weights of rows, from weights of u; released.
    sums : NewtonAnswer
        Released sums.
    gradient_noise, curvature_noise : float
        Standard deviation of the noise in an entry of the gradient, and in a diagonal
        entry of the curvatures; other entries have it over the root of 2. Public.
    penalty : float
        Factor on half of the squared weights of rows, in the sum of the losses. Public.
    n_samples : int
    lift : float
        Smaller eigenvalues of the curvatures are raised to this multiple of the edge.
    """

    start: FloatArray
    frame: FloatArray
    sums: NewtonAnswer
    gradient_noise: float
    curvature_noise: float
    penalty: float
    n_samples: int
    lift: float

    @cached_property
    def _pulled(self) -> FloatArray:
        """Gradient of the penalty."""
        return np.asarray(self.penalty * (self.frame.T @ self.start))

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        bent = self.sums.curvature + self.penalty * (self.frame.T @ self.frame)
        return _spectrum_of(bent)

    @cached_property
    def is_clear(self) -> np.ndarray:
        """Which directions of the spectrum noise leaves clear.

        The edge is that of the noise among directions with eigenvalues alike, which
        noise mixes: a direction alone below the others is clear earlier.
        """
        eigenvalues = self._spectrum[0]
        edge = edge_of(self.curvature_noise, len(self.start))
        alike = np.searchsorted(eigenvalues, eigenvalues + _ALIKE * edge)
        edges = self.curvature_noise * np.sqrt(2 * alike)
        return np.asarray(eigenvalues > np.maximum(_CLEAR * edges, 0.0))

    @cached_property
    def _inverse(self) -> FloatArray:
        """Inverse of the curvatures, with small eigenvalues raised."""
        eigenvalues, basis = self._spectrum
        edge = edge_of(self.curvature_noise, len(self.start))
        raised = np.maximum(eigenvalues, max(self.lift * edge, 1e-300))
        return np.asarray((basis / raised) @ basis.T)

    @cached_property
    def length(self) -> FloatArray:
        """Change of the weights of u."""
        return np.asarray(-self._inverse @ (self.sums.gradient + self._pulled))

    @property
    def end(self) -> FloatArray:
        """Weights of rows after the step."""
        return np.asarray(self.start + self.frame @ self.length)

    def covariance(self, bend: float, unit: float) -> FloatArray:
        """Covariance of the weights of rows after the step; inf where it is unknown.

        The step says little in a direction that is not clear. The error of its weight
        is taken to have the mean square of the clear weights, or that of a prediction
        of one `unit` that all directions share evenly. It biases the weights of rows,
        which the covariance includes; a weight whose bias may be large is unknown.

        Parameters
        ----------
        bend : float
            Half of the largest relative change of a curvature per unit of the raw
            prediction.
        unit : float
            A usual prediction.
        """
        clear, variance = self.is_clear, self._variance()
        unknown = np.full(self.frame.shape, np.inf)
        # With most directions hidden, the clear weights say nothing about the others.
        if 2 * clear.sum() < len(clear) or self._left(variance, bend) > _MOST_BENT:
            return unknown
        basis = self._spectrum[1]
        own = (self.frame @ basis[:, clear]) @ (basis[:, clear].T @ self._inverse)
        found = own @ variance @ own.T
        if not np.isfinite(found).all():
            return unknown
        weights = basis.T @ np.linalg.lstsq(self.frame, self.end, rcond=None)[0]
        usual = max(math.sqrt(np.mean(weights[clear] ** 2)), unit)
        hidden = usual * self.frame @ basis[:, ~clear]
        return with_bias(found, hidden)

    def _variance(self) -> FloatArray:
        """Variance of the right hand side: records, and the noise ``N_g + N d``."""
        # At the optimum the sum of the records' gradients balances the penalty.
        pulled = self._pulled
        squares = self.sums.squares - np.outer(pulled, pulled) / self.n_samples
        if not np.isfinite(squares).all():
            return np.full_like(squares, np.inf)
        eigenvalues, basis = _spectrum_of(squares)
        of_records = (basis * np.maximum(eigenvalues, 0.0)) @ basis.T
        d = self.length
        of_gradient = self.gradient_noise**2 * np.eye(len(d))
        of_curvature = (float(d @ d) * np.eye(len(d)) + np.outer(d, d)) / 2
        return np.asarray(
            of_records + of_gradient + self.curvature_noise**2 * of_curvature
        )

    def _left(self, variance: FloatArray, bend: float) -> float:
        """Approximate upper bound on terms of second order, over the errors."""
        if not np.isfinite(variance).all():
            return math.inf
        eigenvalues, basis = self._spectrum
        moved = np.maximum(eigenvalues, 0.0) * (basis.T @ self.length)
        # Mean square change of the raw predictions of rows of norm 1.
        total = float(np.maximum(eigenvalues, 0.0).sum())
        change = float(self.length @ basis @ moved) / total if total > 0 else math.inf
        spread, axes = _spectrum_of(variance)
        along = axes.T @ (basis @ moved)
        size = np.divide(along**2, spread, out=np.zeros_like(along), where=spread > 0)
        return bend * math.sqrt(max(change, 0.0) * float(size.sum()))


# ---------------------------------- Newton's method with noisy gradients and curvatures
# Algorithm: sums of second moments of the rows first, each in the coordinates that the
# one before made even. Then, in the last coordinates,
#
#     v_{k+1} = v_k - (H_k + N_H + K)^{-1} (g_k + N_g + K v_k),
#
# where g_k is the gradient sum and H_k the curvature sum at the released weights, both
# in one Gaussian answer. Eigenvalues below the edge of the noise's spectrum are raised
# to the edge. The last answer has the largest share of the budget,
# and contains the squared gradients too, from which the error follows (`NewtonStep`).
#
# The first sum of second moments hides all directions in which the rows vary less than
# its noise. In coordinates that are even up to this noise, a direction with n times the
# noise's variance is visible next. With correlations of .95 among eight columns of
# 16,000 rows, least squares from one sum had intervals in 0 of 30 fits at epsilon 4;
# with four sums all coefficients have intervals that are 1.1 times as wide as without
# privacy, also at a condition number of 10,000.


_MOST_FEATURES = 1000  # about a million numbers in the last query
# Ratio of the fractions of mu squared of a Newton step and of the step before, and of
# a sum of second moments and of the sum before.
_GROWTH, _GROWTH_OF_MOMENTS = 3.0, 2.0
# Fraction of mu squared for the base rate or the mean error, and for counts of lengths.
_SMALL_SHARE = 0.02
# Rows are cut to a squared length of this multiple of its mean in the first released
# coordinates, and to twice the multiple in each that follow, up to the last number. Cut
# to the mean everywhere, a column with few large values looks narrow: weights of adult
# with capital gains were off by 5 errors, and with these multiples by 1.
_WIDER, _WIDEST = 2.0, 4.0
# Least estimate of the mean squared length, which noise may make negative.
_LEAST_SQUARES = 0.01
# Multiples of the mean squared length beyond which rows weigh less in Newton steps.
_REACHES = 1.5 * 2.0 ** np.arange(7)
_ROOTS = np.sqrt(_REACHES)
# A forecast is for columns that all correlate by this; and its largest number.
_CORRELATED, _MOST_RECORDS = 0.95, 1e15
# Curvatures in a forecast, in units of the largest: labels whose log-odds vary by 1.2
# have .8, and rows that weigh less leave .75 of the mean curvature. With these numbers
# 95 % of fits of 3 and of 8 columns had all errors (benchmarks/intervals.py).
_USUAL_BENDS: dict[type[Loss], float] = {LogisticLoss: 0.45, SquaredLoss: 0.75}
# Least expected curvature of even rows over the least clear curvature.
_MARGIN = 2.5
# Newton steps: the squared loss is quadratic, and a second step leaves little noise of
# its curvatures. Labels need five from the base rate: with four, predictions that vary
# by 3 log-odds have 95 % intervals that hold 92 %.
_STEPS_OF_SQUARES, _STEPS_OF_LABELS = 2, 5
# Residuals of the last step are clipped to this many root mean squares, which are 1.25
# times the mean error of normal residuals.
_RESIDUALS, _ROOT_OF_MEAN = 4.0, 1.25
# Largest factor on the length of a row. Entries are rounded to 2^-22 of `data_norm`;
# with this factor, columns that are alike but for the rounding stay hidden.
_MOST_GAIN = 2.0**14
# Least clip of residuals, in units of the largest.
_LEAST_CLIP = 1e-3
# Half of the largest relative change of a curvature per unit of raw prediction.
_BENDS: dict[type[Loss], float] = {LogisticLoss: 0.5, SquaredLoss: 0.0}


def _check_reach(name: str, value: Any) -> float | str:
    if isinstance(value, str) and value == "adaptive":
        return value
    return check_real(name, value, low=0.1, high=1e6, remedy="Or use 'adaptive'.")


@dataclass(frozen=True, kw_only=True)
class NoisyNewton(Solver):
    """Noisy Newton steps, the last of which has standard errors.

    Use it for intervals and p-values of `DPLogisticRegression` with two classes, or of
    `DPLinearRegression`, on few features and many records; columns may be strongly
    correlated. For predictions prefer the default. It refuses ``delta=0``, several
    classes, ``class_weight``, ``privacy_unit="user"`` and more than 1000 features.

    Parameters
    ----------
    n_steps : int in [1, 50]
        Newton steps, each with three times the budget fraction of the one before.
        Default: 5 for labels, 2 for targets.
    moment_steps : int in [0, 20], default=4
        Sums of second moments before the Newton steps. Each makes directions visible
        in which the rows vary less.
    moment_share : float in (0, 1), default=0.2
        Fraction of mu squared for these sums.
    reach : float in [0.1, 1e6] or "adaptive", default="adaptive"
        Rows weigh less if their squared length in the released coordinates exceeds this
        multiple of its mean. "adaptive": released counts choose the least multiple with
        few longer rows, from 1.5 up to what the noise allows.
    residual_reach : float in [0.1, inf], default=4.0
        Residuals of targets are clipped to this multiple of their released root mean
        square. inf: to twice the largest target.
    intercept_weight : float in [1e-6, 1], default=0.5
        Constant in the intercept's column of the first query, in units of `data_norm`.
    curvature_weight : float in [1e-6, 1e6], default=0.5
        Factor on the curvatures, in units of their bound.
    squares_weight : float in [1e-6, 1e6], default=0.25
        Factor on the squared gradients, for the errors.
    lift : float in [0, 1e6], default=1.0
        Eigenvalues below so many edges of the noise's spectrum are raised to it.

    Notes
    -----
    Released are adaptive Gaussian answers, exactly (1/z)-GDP together. Unit of privacy:
    one record. Proof: ``docs/proofs/moments.md``, Theorem 2.

    `estimates_` and ``summary()`` are a sandwich: no logistic model has to be true. The
    interval is of the coefficients that minimise the objective over the population,
    where records far from the others weigh less and residuals of targets are clipped.
    Coefficients of columns that noise leaves alike have NaN and errors of inf, and
    ``fit`` names the columns.

    References
    ----------
    .. [1] Ganesh, Haghifam, Steinke and Thakurta (2023). Faster differentially private
       convex optimization via second-order methods. NeurIPS.
       https://arxiv.org/abs/2305.13209
    .. [2] Biswas, Dong, Kamath and Ullman (2020). CoinPress: Practical private mean and
       covariance estimation. NeurIPS. https://arxiv.org/abs/2006.06618
    .. [3] White (1982). Maximum likelihood estimation of misspecified models.
       Econometrica 50(1). https://doi.org/10.2307/1912526
    """

    key: ClassVar[str] = "noisy_newton"
    mechanism: ClassVar[str] = "Gaussian noise, calibrated exactly"
    is_pure: ClassVar[bool] = False
    is_for_errors: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=50),
        "moment_steps": partial(check_count, low=0, high=20),
        "moment_share": partial(
            check_real, low=0.0, high=1.0, low_open=True, high_open=True
        ),
        "reach": _check_reach,
        "residual_reach": partial(check_real, low=0.1, high=math.inf),
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
        "curvature_weight": partial(check_real, low=1e-6, high=1e6),
        "squares_weight": partial(check_real, low=1e-6, high=1e6),
        "lift": partial(check_real, low=0.0, high=1e6),
    }

    n_steps: int
    moment_steps: int = 4
    moment_share: float = 0.2
    reach: float | str = "adaptive"
    residual_reach: float = _RESIDUALS
    intercept_weight: float = 0.5
    curvature_weight: float = 0.5
    squares_weight: float = 0.25
    lift: float = 1.0

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        me = f"solver={cls.key!r}"
        if type(objective.loss) not in _BENDS:
            raise Refused(
                f"{me} needs the logistic loss of two classes that count alike, or the "
                "squared loss: bounds on their curvatures are derived. Use another "
                "solver."
            )
        if objective.offset or objective.product_norm is not None:
            raise Refused(
                f"{me} takes raw predictions to be products of clipped rows and "
                "weights, and nothing more. Use solver='noisy_gd'."
            )
        if objective.n_features > _MOST_FEATURES:
            raise Refused(
                f"{me} releases numbers for every pair of features and takes at most "
                f"{_MOST_FEATURES} features. Use solver='noisy_gd'."
            )
        cls.check(objective, budget)
        is_of_labels = isinstance(objective.loss, LogisticLoss)
        n_steps = _STEPS_OF_LABELS if is_of_labels else _STEPS_OF_SQUARES
        return cls(**{"n_steps": n_steps, **given})

    def sums(
        self,
        objective: LinearObjective,
        frame: Coordinates,
        *,
        gradient: float = 1.0,
        squares: float = 0.0,
    ) -> NewtonSums:
        """The queries in a frame."""
        parts = NewtonWeights(gradient, self.curvature_weight, squares)
        return NewtonSums(objective, parts, frame)

    def scalar(self, objective: LinearObjective, weights: FloatArray) -> Query | None:
        """The query for the base rate of labels, or for the mean error of targets."""
        n, loss = objective.n_samples, objective.loss
        if isinstance(loss, LogisticLoss):
            return TargetSum(n, 0.5, 0.5) if objective.fit_intercept else None
        if math.isinf(self.residual_reach):
            return None
        return ErrorSum(
            n,
            loss,
            coef=weights[: objective.n_features],
            offset=objective.intercept_value * weights[objective.n_features :].sum(0),
            clip=loss.zero_out_bound(math.inf),
            norm=objective.data_norm,
        )

    def shares(self, objective: LinearObjective) -> dict[str, float]:
        """Fraction of mu squared of each answer, by name, in the order of asking."""
        names = [f"moments {k}" for k in range(self.moment_steps)]
        if self.moment_steps and isinstance(self.reach, str):
            names.append("lengths")
        steps = [f"step {k}" for k in range(self.n_steps)]
        names += steps
        if self.scalar(objective, np.zeros(objective.shape)) is not None:
            # The base rate is the start of the steps, the mean error clips the last.
            is_of_labels = isinstance(objective.loss, LogisticLoss)
            first = self.moment_steps if is_of_labels else len(names) - 1
            names.insert(first, "scalar")
        found = dict.fromkeys(names, _SMALL_SHARE)
        growing = _growing(self.moment_steps, _GROWTH_OF_MOMENTS)
        for k, share in enumerate(growing):
            found[f"moments {k}"] = self.moment_share * float(share)
        left = 1 - math.fsum(found[name] for name in names if name not in steps)
        for name, share in zip(steps, _growing(self.n_steps, _GROWTH), strict=True):
            found[name] = left * float(share)
        return found

    def plan(self, objective: LinearObjective) -> Plan:
        shares = self.shares(objective).values()
        return Plan(tuple(Line(mu_share=share) for share in shares))

    def sensitivity(self, objective: LinearObjective) -> float:
        queries = self.sums(
            objective, self.first_frame(objective), squares=self.squares_weight
        )
        bounds = [queries.worst]
        scalar = self.scalar(objective, np.zeros(objective.shape))
        if scalar is not None:
            bounds.append(scalar.bound())
        return max(bound.under(objective.adjacency) for bound in bounds)

    def forecast_notes(
        self, objective: LinearObjective, noise_multiplier: float
    ) -> tuple[str, ...]:
        """From how many records on all coefficients have standard errors."""
        enough = rounded(self._enough(objective, noise_multiplier), 2)
        return (
            f"Coefficients have standard errors from about {enough} records on if rows "
            f"spread over their ranges, also if all columns correlate by "
            f"{_CORRELATED:g}; skewed columns need more",
        )

    def _enough(self, objective: LinearObjective, multiplier: float) -> float:
        """The least number of records that leaves all directions clear."""
        low, high = 0.0, 1.0
        while high < _MOST_RECORDS and not self._clears(high, objective, multiplier):
            low, high = high, 2 * high
        for _ in range(10):
            middle = (low + high) / 2
            if self._clears(middle, objective, multiplier):
                high = middle
            else:
                low = middle
        return high

    def _clears(self, n: float, objective: LinearObjective, multiplier: float) -> bool:
        """Whether released sums of usual rows would leave all directions clear.

        Rows are even in a box, so that their mean square is a third of the largest. The
        moments of each direction follow from one sum to the next.
        """
        d, frame = objective.n_features, self.first_frame(objective)
        lines = dict(
            zip(self.shares(objective), self.plan(objective).lines, strict=True)
        )
        even = np.full(d, (1 - _CORRELATED) / (3 * d))
        even[0] += _CORRELATED / 3
        moments = np.append(even, [self.intercept_weight**2] * objective.fit_intercept)
        norm = frame.norm

        def edge(sums: NewtonSums, name: str) -> float:
            line = lines[name]
            assert isinstance(line, Line)
            bound = sums.worst.under(objective.adjacency)
            noise = sums.noise(line.multiplier(multiplier) * bound)[1]
            return edge_of(noise / objective.loss.smoothness, objective.n_columns)

        for k in range(self.moment_steps):
            own = moments / norm**2
            least = edge(self.sums(objective, frame, gradient=0.0), f"moments {k}") / n
            moments = own / np.maximum(own, least)
            norm = math.sqrt(min(_WIDER**k, _WIDEST) * max(moments.sum(), 1.0))
        if self.moment_steps:
            reach = _REACHES[0] if isinstance(self.reach, str) else self.reach
            norm = math.sqrt(reach * max(moments.sum(), 1.0))
        last = self.sums(objective, frame, squares=self.squares_weight)
        bend = _USUAL_BENDS[type(objective.loss)]
        needed = (_CLEAR + 1) * edge(last, f"step {self.n_steps - 1}") / n
        return bool(bend * moments.min() / norm**2 > needed)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        return _Run(self, answers, objective, progress).solution()

    def first_frame(self, objective: LinearObjective) -> Coordinates:
        """Coordinates before anything is released: rows over their norm; public."""
        unit = np.full(objective.n_columns, 1 / objective.data_norm)
        t = self.intercept_weight if objective.fit_intercept else 0.0
        unit[objective.n_features :] *= t
        return Coordinates.of(np.diag(unit), math.sqrt(1 + t**2))


def _growing(count: int, growth: float) -> FloatArray:
    shares = growth ** np.arange(count)
    return np.asarray(shares / shares.sum())


class _Run:
    """One run over released values."""

    def __init__(
        self,
        solver: NoisyNewton,
        answers: Answers,
        objective: LinearObjective,
        progress: Progress,
    ) -> None:
        self._solver, self._answers, self._objective = solver, answers, objective
        self._progress, self._weights = progress, np.zeros(objective.shape)
        self._lines = {name: k for k, name in enumerate(solver.shares(objective))}
        self._done, self._far = 0, 0.0

    def _ask(self, query: Query, name: str) -> Released:
        released = self._answers.ask(query, line=self._lines[name])
        self._done += 1
        self._progress.step(self._done, len(self._lines))
        return released

    def solution(self) -> Solution:
        solver, objective = self._solver, self._objective
        frame = solver.first_frame(objective)
        for k in range(solver.moment_steps):
            frame = self._evened(frame, k)
        is_of_labels = isinstance(objective.loss, LogisticLoss)
        if is_of_labels and "scalar" in self._lines:
            self._weights[-1] = self._log_odds()
        if solver.moment_steps:
            frame = self._widened(frame)
        for k in range(solver.n_steps):
            is_last = k == solver.n_steps - 1
            if is_last and not is_of_labels and "scalar" in self._lines:
                objective = self._with_clip(objective)
            squares = solver.squares_weight if is_last else 0.0
            step = self._stepped(solver.sums(objective, frame, squares=squares), k)
        own = np.ones(objective.n_columns)
        # The intercept in the model is the weight of a column of ones.
        own[objective.n_features :] = objective.intercept_value
        unit = objective.loss.prediction_unit
        covariance = step.covariance(_BENDS[type(objective.loss)], unit)
        values = own * self._weights[:, 0]
        values[~np.isfinite(np.diag(covariance))] = np.nan
        return EstimatedSolution(
            weights=self._weights,
            noise_scale=self._answers.noise_scale,
            estimate=values,
            covariance=covariance * np.outer(own, own),
            far=self._far,
        )

    def _evened(self, frame: Coordinates, k: int) -> Coordinates:
        """The coordinates in which released second moments are even, up to noise."""
        objective, n = self._objective, self._objective.n_samples
        sums = self._solver.sums(objective, frame, gradient=0.0)
        query = sums.at(np.zeros(objective.shape))
        released = self._ask(query, f"moments {k}")
        # Without predictions every record has the largest curvature.
        moments = query.read(released.value).curvature / objective.loss.smoothness
        noise = sums.noise(released.deviation)[1] / objective.loss.smoothness
        edge = edge_of(noise, objective.n_columns)
        eigenvalues, basis = _spectrum_of(moments)
        raised = np.maximum(eigenvalues, max(edge, 1e-300))
        squares = float(np.sum(np.maximum(eigenvalues, 0.0) / raised))
        matrix = frame.weights @ (basis * np.sqrt(n / raised))
        gains = objective.data_norm * np.linalg.norm(matrix, axis=0)
        matrix = matrix * np.minimum(1.0, _MOST_GAIN / np.maximum(gains, 1e-300))
        matrix = np.clip(np.nan_to_num(matrix), -_LARGEST, _LARGEST)
        wide = min(_WIDER**k, _WIDEST)
        return Coordinates.of(matrix, math.sqrt(wide * max(squares, _LEAST_SQUARES)))

    def _widened(self, frame: Coordinates) -> Coordinates:
        """The frame with the norm beyond which rows weigh less in Newton steps."""
        solver, objective = self._solver, self._objective
        wide = min(_WIDER ** (solver.moment_steps - 1), _WIDEST)
        unit = frame.norm / math.sqrt(wide)
        if not isinstance(solver.reach, str):
            return Coordinates(frame.matrix, unit * math.sqrt(solver.reach))
        n = objective.n_samples
        query = LengthCounts(n, objective.data_norm, frame.matrix, unit * _ROOTS)
        counted = self._ask(query, "lengths")
        beyond = np.cumsum(counted.value[::-1])[::-1] / n
        noise = counted.deviation * np.sqrt(np.arange(len(beyond), 0, -1)) / n
        # If so few rows weigh less, coefficients move by less than their errors.
        few = beyond - noise <= 1 / np.sqrt(_REACHES * objective.n_columns * n)
        chosen = int(np.argmax(few)) if few.any() else len(_REACHES) - 1
        allowed = np.flatnonzero(_REACHES <= self._most_reach(frame))
        chosen = min(chosen, int(allowed[-1]) if len(allowed) else 0)
        self._far = 0.0 if few[chosen] else float(beyond[chosen])
        return Coordinates(frame.matrix, unit * math.sqrt(_REACHES[chosen]))

    def _most_reach(self, frame: Coordinates) -> float:
        """The reach up to which the last step has clear directions, of even rows."""
        solver, objective = self._solver, self._objective
        sums = solver.sums(objective, frame, squares=solver.squares_weight)
        line = self._lines[f"step {solver.n_steps - 1}"]
        deviation = self._answers.expected(sums.at(self._weights), line).deviation
        edge = edge_of(sums.noise(deviation)[1], objective.n_columns)
        bend = 1.0
        if isinstance(objective.loss, LogisticLoss):
            raw = objective.intercept_value * float(self._weights[-1, 0])
            bend = expit(raw) * expit(-raw)
        total = objective.n_samples * bend / objective.n_columns
        return total / (_MARGIN * _CLEAR * edge) if edge > 0 else math.inf

    def _log_odds(self) -> float:
        """Weight of the intercept at which predictions have the base rate."""
        query = self._solver.scalar(self._objective, self._weights)
        assert query is not None
        released, n = self._ask(query, "scalar"), self._objective.n_samples
        share = 0.5 + float(released.value[0]) / n
        rate = base_rate(share, released.deviation / n, 2)
        rate = min(max(rate, 1 / (n + 1)), n / (n + 1))
        return math.log(rate / (1 - rate)) / self._objective.intercept_value

    def _with_clip(self, objective: LinearObjective) -> LinearObjective:
        """The objective with residuals clipped by their released mean error."""
        query, loss = self._solver.scalar(objective, self._weights), objective.loss
        assert query is not None
        assert isinstance(loss, SquaredLoss)
        released = self._ask(query, "scalar")
        # The noise is added, so that noise alone clips few residuals.
        mean = (max(float(released.value[0]), 0.0) + released.deviation) / (
            objective.n_samples
        )
        clip = self._solver.residual_reach * _ROOT_OF_MEAN * mean
        clip = min(max(clip, _LEAST_CLIP * loss.residual_bound), loss.residual_bound)
        return objective.with_loss(replace(loss, residual_bound=clip))

    def _stepped(self, sums: NewtonSums, k: int) -> NewtonStep:
        """Take one step."""
        objective = self._objective
        query = sums.at(self._weights)
        step = self._step(query, self._ask(query, f"step {k}"))
        moved = np.nan_to_num(step.end)
        self._weights = projected_onto_box(moved, box_radius(objective))[:, None]
        return step

    def _step(self, query: NewtonSum, released: Released) -> NewtonStep:
        objective = query.of.objective
        gradient_noise, curvature_noise = query.of.noise(released.deviation)
        return NewtonStep(
            start=query.weights[:, 0],
            frame=query.of.frame.weights,
            sums=query.read(released.value),
            gradient_noise=gradient_noise,
            curvature_noise=curvature_noise,
            penalty=min(objective.n_samples * objective.alpha, _LARGEST),
            n_samples=objective.n_samples,
            lift=self._solver.lift,
        )
