"""Newton's method with noisy sums, with standard errors."""

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
from skdp.exceptions import Refused
from skdp.losses._base import Loss
from skdp.losses._classification import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import SquaredLoss
from skdp.losses._weighted import typical_curvature
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._plan import Line, Plan
from skdp.solvers._adassp import EstimatedSolution
from skdp.solvers._base import (
    Progress,
    Solution,
    Solver,
    box_radius,
    projected_onto_box,
)
from skdp.sums._moments import NewtonAnswer, NewtonSum, NewtonSums, NewtonWeights

# ---------------------------- A Newton step from released sums, and how far it is off
# Of rows u, residuals r, curvatures c and weights v, with noise N_g and N in the
# released ``g = sum r u`` and ``H = sum c u u'``, and a penalty's ``K = n alpha``, the
# step d from v has, about v* with gradient 0 in the population,
#
#     (H + N + K) (v + d - v*) = - sum r* u - K v* - N_g - N d + terms of second order.
#
# The right hand side has a variance that is known but for that of the records, which
# follows from the released squares. All of it is post-processing
# (``docs/proofs/noisy_newton.md``, Standard errors).


# Least eigenvalue of the curvatures, in units of the edge of the noise's spectrum, from
# which on what the noise does to the inverse is small; and the most that terms of
# second order may be, in units of the errors (benchmarks/intervals.py). Below four
# edges the fits that pass are those whose noise added curvature: at three, 6 % of the
# fits of a table with 2 % positives passed, and their 95 % intervals held 86 %.
_CLEAR, _MOST_BENT = 4.0, 1.0


def edge_of(curvature_noise: float, n_columns: int) -> float:
    """Of the spectrum of the noise in the curvatures."""
    return curvature_noise * math.sqrt(2 * n_columns)


def least_told(edge: float, lift: float) -> float:
    """Least eigenvalue of the curvatures above which errors are told."""
    return max(_CLEAR, lift) * edge


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """One step, in weights of the query's rows u.

    Parameters
    ----------
    start : ndarray of shape (n_columns,)
        Released weights at which the sums were asked.
    sums : NewtonAnswer
        Released.
    gradient_noise, curvature_noise : float
        Standard deviations of the noise in a number of the gradient, and in one on the
        diagonal of the curvatures; off it, that over the root of 2. Public.
    penalty : ndarray of shape (n_columns,)
        What is added to the diagonal of the curvatures. Public.
    n_samples : int
    lift : float
        Least eigenvalue of the curvatures that is believed, in units of the edge.
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
        """Of the curvatures, none of which is taken to be below the noise."""
        eigenvalues, basis = self._spectrum
        lifted = np.maximum(eigenvalues, self.lift * self._edge)
        inverse = np.divide(1.0, lifted, out=np.zeros_like(lifted), where=lifted > 0)
        return np.asarray((basis * inverse) @ basis.T)

    @cached_property
    def length(self) -> FloatArray:
        """What is added to the weights."""
        pulled = self.penalty * self.start
        return np.asarray(-self._inverse @ (self.sums.gradient + pulled))

    def covariance(self, bend: float) -> FloatArray:
        """Of the weights after the step; inf where it is not known.

        Parameters
        ----------
        bend : float
            Half of the most that a curvature changes with the raw prediction, in
            units of itself.
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
        """Of the right hand side: the records', and that of ``N_g + N d``."""
        # At the optimum the mean of the records' gradients is the penalty's.
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
        """Terms of second order, over the errors: about, and rather too much."""
        eigenvalues, basis = self._spectrum
        moved = eigenvalues * (basis.T @ self.length)
        # Mean square change of raw predictions, of rows of norm 1.
        change = float(self.length @ basis @ moved) / float(eigenvalues.sum())
        spread, axes = np.linalg.eigh(variance)
        along = axes.T @ (basis @ moved)
        size = np.divide(along**2, spread, out=np.zeros_like(along), where=spread > 0)
        return bend * math.sqrt(max(change, 0.0) * float(size.sum()))


# ------------------------------------------------------------------------------------
# Newton's method with noisy gradients and curvatures, and standard errors
# Algorithm: with unit rows u and a constant t in the intercept's column (`NewtonSums`),
#
#     W_{k+1} = W_k - (H_k + N_H + n alpha)^{-1} (g_k + N_g + n alpha W_k),
#
# where g_k is the gradient sum and H_k the curvature sum at the released W_k, both of
# one Gaussian answer, and eigenvalues below the edge of the noise's spectrum are lifted
# to it. The last answer has the largest share of the budget, and the squared gradients
# too: how far it is off follows from what was released (`NewtonStep`).


_MOST_FEATURES = 1000  # about a million numbers in the last query
# Of mu squared, for an answer over that of the answer before.
_GROWTH = 2.0
# Half of the most that curvatures change with raw predictions, over themselves.
_BENDS: dict[type[Loss], float] = {LogisticLoss: 0.5, SquaredLoss: 0.0}
_LARGEST_PENALTY = 1e200


@dataclass(frozen=True, kw_only=True)
class NoisyNewton(Solver):
    r"""Noisy Newton steps, the last of which has standard errors.

    Privacy
    -------
    ``n_steps`` adaptive Gaussian releases, each twice as strong in mu squared as the
    one before: exactly (1/z)-GDP together. Sensitivities under both adjacencies, with
    the intercept, are derived in ``docs/proofs/noisy_newton.md``. Unit of privacy: one
    record.

    Utility
    -------
    The noise in an entry of the curvatures is sigma whatever n is: in a direction of
    curvature h the last step's error by noise falls like ``sigma / (n h)``. For few
    features and many records; directions with n h below the noise are not learned.

    Parameters
    ----------
    n_steps : int in [1, 50], default=6
        Number of answers, all of them taken. Public.
    intercept_weight : float in [1e-6, 1], default=0.5
        The constant in the intercept's column in units of `data_norm`, in the query.
    curvature_weight : float in [1e-6, 1e6], default=0.5
        Factor on the curvatures, in units of their bound, undone after the noise.
    squares_weight : float in [1e-6, 1e6], default=0.25
        Factor on the squared gradients, in units of their bound, in the last answer.
    lift : float in [0, 1e6], default=1.0
        Eigenvalues of the curvatures below so many edges of the noise's spectrum are
        taken to be there: what noise drowns makes no large step.

    References
    ----------
    .. [1] Ganesh, Haghifam, Steinke and Thakurta (2023). Faster differentially private
       convex optimization via second-order methods. NeurIPS.
       https://arxiv.org/abs/2305.13209 (noisy Newton steps)
    .. [2] Dong, Roth and Su (2022). Gaussian differential privacy, Corollary 3.3.
       https://arxiv.org/abs/1905.02383
    .. [3] White (1982). Maximum likelihood estimation of misspecified models.
       Econometrica 50(1). https://doi.org/10.2307/1912526 (the sandwich)

    Deviations: gradient and curvature in one answer with its joint sensitivity; shares
    of the budget that grow; no line search and no count of steps from the data.
    """

    key: ClassVar[str] = "noisy_newton"
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

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    def sums(self, objective: LinearObjective, *, is_last: bool) -> NewtonSums:
        """The queries."""
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

        Their curvature in a direction is a third of that of full rows, and noise takes
        an edge of its spectrum from the least one.
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
        # The intercept itself is the weight of a column of ones.
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
    """Weights of the objective over those of the query's rows."""
    return sums.constant / sums.objective.intercept_value
