"""Newton's method with noisy sums and standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp._base import rounded
from skdp._checks import check_count, check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._base import Loss
from skdp.losses._classification import LogisticLoss, typical_curvature
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import SquaredLoss
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._plan import Line, Plan
from skdp.solvers._adassp import EstimatedSolution
from skdp.solvers._base import Solution, Solver, box_radius, projected_onto_box
from skdp.sums._moments import NewtonAnswer, NewtonSum, NewtonSums, NewtonWeights

# ---------------------------------------- Newton step from released sums, and its error
# For rows u, residuals r, curvatures c and weights v, with noise N_g and N in the
# released ``g = sum r u`` and ``H = sum c u u'``, and a penalty ``K = n alpha``, let v*
# have gradient 0 in the population. The step d from v satisfies
#
#     (H + N + K) (v + d - v*) = - sum r* u - K v* - N_g - N d + terms of second order.
#
# The variance of the right hand side is known up to the variance of the records, which
# follows from the released squares. Everything here is post-processing
# (``docs/proofs/moments.md``, Standard errors).


# _CLEAR: above this least eigenvalue of the curvatures, in units of the edge of the
# noise's spectrum, noise changes the inverse little. _MOST_BENT: limit on terms of
# second order, in units of the errors (benchmarks/intervals.py). Below four edges the
# fits that pass are fits whose noise added curvature: at three, 6 % of the fits of a
# table with 2 % positives passed, and their 95 % intervals held 86 %.
_CLEAR, _MOST_BENT = 4.0, 1.0


def edge_of(curvature_noise: float, n_columns: int) -> float:
    """Edge of the spectrum of the noise in the curvatures."""
    return curvature_noise * math.sqrt(2 * n_columns)


def least_told(edge: float, lift: float) -> float:
    """Least eigenvalue of the curvatures above which standard errors are given."""
    return max(_CLEAR, lift) * edge


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """One step, in weights of the query's rows u.

    Parameters
    ----------
    start : ndarray of shape (n_columns,)
        Released weights at which the sums were queried.
    sums : NewtonAnswer
        Released sums.
    gradient_noise, curvature_noise : float
        Standard deviation of the noise in an entry of the gradient, and in a diagonal
        entry of the curvatures; other entries have it over the root of 2. Public.
    penalty : ndarray of shape (n_columns,)
        Added to the diagonal of the curvatures. Public.
    n_samples : int
    lift : float
        Smaller eigenvalues of the curvatures are raised to this multiple of the edge.
    """

    start: FloatArray
    sums: NewtonAnswer
    gradient_noise: float
    curvature_noise: float
    penalty: FloatArray
    n_samples: int
    lift: float

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        return np.linalg.eigh(self.sums.curvature + np.diag(self.penalty))

    @property
    def _edge(self) -> float:
        return edge_of(self.curvature_noise, len(self.start))

    @cached_property
    def _inverse(self) -> FloatArray:
        """Inverse of the curvatures, with eigenvalues raised to the noise's edge."""
        eigenvalues, basis = self._spectrum
        lifted = np.maximum(eigenvalues, self.lift * self._edge)
        inverse = np.divide(1.0, lifted, out=np.zeros_like(lifted), where=lifted > 0)
        return np.asarray((basis * inverse) @ basis.T)

    @cached_property
    def length(self) -> FloatArray:
        """Change of the weights."""
        pulled = self.penalty * self.start
        return np.asarray(-self._inverse @ (self.sums.gradient + pulled))

    def covariance(self, bend: float) -> FloatArray:
        """Covariance of the weights after the step; inf where it is unknown.

        Parameters
        ----------
        bend : float
            Half of the largest relative change of a curvature per unit of the raw
            prediction.
        """
        unknown = np.full(self.sums.curvature.shape, np.inf)
        if self._spectrum[0][0] <= least_told(self._edge, self.lift):
            return unknown
        variance = self._variance()
        found = self._inverse @ variance @ self._inverse
        if not np.isfinite(found).all() or self._left(variance, bend) > _MOST_BENT:
            return unknown
        return np.asarray(found)

    def _variance(self) -> FloatArray:
        """Variance of the right hand side: records, and the noise ``N_g + N d``."""
        # At the optimum the sum of the records' gradients balances the penalty.
        pulled = self.penalty * self.start
        squares = self.sums.squares - np.outer(pulled, pulled) / self.n_samples
        if not np.isfinite(squares).all():
            return np.full_like(squares, np.inf)
        eigenvalues, basis = np.linalg.eigh(squares)
        of_records = (basis * np.maximum(eigenvalues, 0.0)) @ basis.T
        d = self.length
        of_gradient = self.gradient_noise**2 * np.eye(len(d))
        of_curvature = (float(d @ d) * np.eye(len(d)) + np.outer(d, d)) / 2
        return np.asarray(
            of_records + of_gradient + self.curvature_noise**2 * of_curvature
        )

    def _left(self, variance: FloatArray, bend: float) -> float:
        """Approximate upper bound on terms of second order, over the errors."""
        eigenvalues, basis = self._spectrum
        moved = eigenvalues * (basis.T @ self.length)
        # Mean square change of the raw predictions of rows of norm 1.
        change = float(self.length @ basis @ moved) / float(eigenvalues.sum())
        spread, axes = np.linalg.eigh(variance)
        along = axes.T @ (basis @ moved)
        size = np.divide(along**2, spread, out=np.zeros_like(along), where=spread > 0)
        return bend * math.sqrt(max(change, 0.0) * float(size.sum()))


# ---------------------------------- Newton's method with noisy gradients and curvatures
# Algorithm: with unit rows u and a constant t in the intercept's column (`NewtonSums`),
#
#     W_{k+1} = W_k - (H_k + N_H + n alpha)^{-1} (g_k + N_g + n alpha W_k),
#
# where g_k is the gradient sum and H_k the curvature sum at the released W_k, both in
# one Gaussian answer. Eigenvalues below the edge of the noise's spectrum are raised to
# the edge. The last answer has the largest share of the budget, and contains the
# squared gradients too, from which the error follows (`NewtonStep`).


_MOST_FEATURES = 1000  # about a million numbers in the last query
# Ratio of the fractions of mu squared of an answer and of the answer before it.
_GROWTH = 2.0
# Half of the largest relative change of a curvature per unit of raw prediction.
_BENDS: dict[type[Loss], float] = {LogisticLoss: 0.5, SquaredLoss: 0.0}
_LARGEST_PENALTY = 1e200


@dataclass(frozen=True, kw_only=True)
class NoisyNewton(Solver):
    """Noisy Newton steps, the last of which has standard errors.

    Use it for intervals and p-values of `DPLogisticRegression` with two classes, or of
    `DPLinearRegression` with errors of unlike variance, on few features and many
    records. For predictions prefer the default. It refuses ``delta=0``, several
    classes, ``class_weight``, ``privacy_unit="user"`` and more than 1000 features.

    Parameters
    ----------
    n_steps : int in [1, 50], default=6
        Answers, each with twice the budget fraction of the one before.
    intercept_weight : float in [1e-6, 1], default=0.5
        Constant in the intercept's column of the query, in units of `data_norm`.
    curvature_weight : float in [1e-6, 1e6], default=0.5
        Factor on the curvatures, in units of their bound.
    squares_weight : float in [1e-6, 1e6], default=0.25
        Factor on the squared gradients, for the errors.
    lift : float in [0, 1e6], default=1.0
        Eigenvalues below so many edges of the noise's spectrum are raised to it.

    Notes
    -----
    Released are ``n_steps`` adaptive Gaussian answers, exactly (1/z)-GDP together. Unit
    of privacy: one record. Proof: ``docs/proofs/moments.md``, Theorem 2.

    `estimates_` and ``summary()`` are a sandwich: no logistic model has to be true. The
    interval is of the coefficients that the same clipped, penalised objective has in
    the population. In 200 fits of 10,000 records and 3 columns, 95 % intervals held
    94.0 to 95.5 %; at epsilon 1 under replace_one they are 1.33 times as wide as
    without privacy. Below four edges estimates are NaN with errors of inf: 5,000
    records of 3 columns had intervals in 95 % of fits at epsilon 1, 2,500 records
    never. Rare labels with base rate p need 1/(4p(1 - p)) times as many records.

    References
    ----------
    .. [1] Ganesh, Haghifam, Steinke and Thakurta (2023). Faster differentially private
       convex optimization via second-order methods. NeurIPS.
       https://arxiv.org/abs/2305.13209
    .. [2] White (1982). Maximum likelihood estimation of misspecified models.
       Econometrica 50(1). https://doi.org/10.2307/1912526
    """

    key: ClassVar[str] = "noisy_newton"
    mechanism: ClassVar[str] = "Gaussian noise, calibrated exactly"
    is_pure: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=50),
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
        "curvature_weight": partial(check_real, low=1e-6, high=1e6),
        "squares_weight": partial(check_real, low=1e-6, high=1e6),
        "lift": partial(check_real, low=0.0, high=1e6),
    }

    n_steps: int = 6
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
        return cls(**given)

    def sums(self, objective: LinearObjective, *, is_last: bool) -> NewtonSums:
        """The queries for gradient, curvature and, in the last step, squares."""
        squares = self.squares_weight if is_last else 0.0
        weights = NewtonWeights(self.intercept_weight, self.curvature_weight, squares)
        return NewtonSums(objective, weights)

    def plan(self, objective: LinearObjective) -> Plan:
        shares = _GROWTH ** np.arange(self.n_steps)
        return Plan(
            tuple(Line(mu_share=float(share)) for share in shares / shares.sum())
        )

    def sensitivity(self, objective: LinearObjective) -> float:
        return self.sums(objective, is_last=True).worst.under(objective.adjacency)

    def forecast_notes(
        self, objective: LinearObjective, noise_multiplier: float
    ) -> tuple[str, ...]:
        """From how many records on there are standard errors, of rows even in a box.

        In a direction, these rows have a third of the curvature of rows of full norm,
        and noise takes an edge of its spectrum from the least eigenvalue.
        """
        last = self.plan(objective).lines[-1]
        assert isinstance(last, Line)
        deviation = last.multiplier(noise_multiplier) * self.sensitivity(objective)
        _, noise = self.sums(objective, is_last=True).noise(deviation)
        edge = edge_of(noise, objective.n_columns)
        curvature = typical_curvature(objective.loss) / (3 * objective.n_features)
        each = curvature + objective.alpha / objective.data_norm**2
        enough = rounded((least_told(edge, self.lift) + edge) / each, 2)
        return (
            f"Standard errors of even rows are told from about {enough} records on",
        )

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        weights = np.zeros(objective.shape)
        for k in range(self.n_steps):
            sums = self.sums(objective, is_last=k == self.n_steps - 1)
            query = sums.at(weights)
            step = self._step(query, answers.ask(query, line=k))
            moved = np.nan_to_num(_unit(sums) * (step.start + step.length))
            weights = projected_onto_box(moved, box_radius(objective))[:, None]
            progress.step(k + 1, self.n_steps)
        # The intercept in the model is the weight of a column of ones.
        own = np.ones(objective.n_columns)
        own[objective.n_features :] = objective.intercept_value
        unit = own * _unit(sums)
        covariance = step.covariance(_BENDS[type(objective.loss)])
        is_known = np.isfinite(covariance).all()
        return EstimatedSolution(
            weights=weights,
            noise_scale=answers.noise_scale,
            estimate=own * weights[:, 0] if is_known else np.full(len(own), np.nan),
            covariance=covariance * np.outer(unit, unit),
        )

    def _step(self, query: NewtonSum, released: Released) -> NewtonStep:
        objective, unit = query.of.objective, _unit(query.of)
        gradient_noise, curvature_noise = query.of.noise(released.deviation)
        penalty = objective.n_samples * objective.alpha * unit**2
        return NewtonStep(
            start=query.weights[:, 0] / unit,
            sums=query.read(released.value),
            gradient_noise=gradient_noise,
            curvature_noise=curvature_noise,
            penalty=np.minimum(penalty, _LARGEST_PENALTY),
            n_samples=objective.n_samples,
            lift=self.lift,
        )


def _unit(sums: NewtonSums) -> FloatArray:
    """Factors from weights of the query's rows to weights of the objective."""
    return sums.constant / sums.objective.intercept_value
