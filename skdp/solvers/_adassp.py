"""Least squares from noisy second moments, with standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import SquaredLoss
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Line, Plan
from skdp.solvers._base import ChosenLaw, Solution
from skdp.sums._moments import Moments, MomentSums, MomentWeights

# ------------------------------------------- Least squares from released second moments
# For rows x with a constant, targets y, M = sum x x' and h = sum x y, this section
# solves the released ``M + N`` and ``h + N_h`` for theta:
#
#     (M + N) (theta - beta) = sum x e + N_h - N beta
#
# for true weights beta and errors e. The variance of the right hand side is known up to
# the variance of the errors, which follows from the released squares of the targets.
# Everything here is post-processing (``docs/proofs/moments.md``, Standard errors).


# Above this eigenvalue of the centred moments, in units of the edge of the noise's
# spectrum, a direction is clear: noise changes the inverse little
# (benchmarks/intervals.py).
_CLEAR = 3.0
# A coefficient whose bias by directions that are not clear may be more than this part
# of its error has no error.
_MOST_BIASED = 0.3


@dataclass(frozen=True, kw_only=True)
class EstimatedSolution(Solution):
    """Weights, and least squares without a ridge with its covariance.

    Parameters
    ----------
    estimate : ndarray of shape (n_features,) or (n_features + 1,)
        Least squares without a ridge, for ``x @ coef + intercept``, the intercept
        last. Private output; NaN for coefficients that noise hides.
    covariance : ndarray of shape (n_features, n_features), or one more of each
        Covariance of `estimate`, due to the noise and to the records' errors. Private
        output; inf for hidden coefficients.
    far : float, default=0.0
        Proportion of the records that weigh less because they lie far from the others,
        if it may matter. Private output.
    """

    estimate: FloatArray
    covariance: FloatArray
    far: float = 0.0


def with_bias(covariance: FloatArray, hidden: FloatArray) -> FloatArray:
    """A covariance that includes the bias by directions that noise hides.

    Parameters
    ----------
    covariance : ndarray of shape (n_columns, n_columns)
        Of the coefficients, due to all other errors.
    hidden : ndarray of shape (n_columns, n_directions)
        Change of the coefficients by a usual error in each hidden direction.

    Returns
    -------
    ndarray of shape (n_columns, n_columns)
        inf for coefficients whose bias may be large.
    """
    bias = np.linalg.norm(hidden, axis=1)
    is_unknown = ~(bias <= _MOST_BIASED * np.sqrt(np.diag(covariance)))
    found = np.asarray(covariance + hidden @ hidden.T)
    found[is_unknown], found[:, is_unknown] = np.inf, np.inf
    return found


def estimated(
    moments: Moments, weights: MomentWeights, n_samples: int, sigma: float
) -> tuple[FloatArray, FloatArray]:
    """Least squares of unit rows and targets, and its covariance.

    Parameters
    ----------
    moments : Moments
        Released, with the squares of the targets.
    weights : MomentWeights
        Of the query.
    n_samples : int
    sigma : float
        Standard deviation of the noise in a number of the query.

    Returns
    -------
    estimate : ndarray of shape (n_features,) or (n_features + 1,)
    covariance : ndarray of shape (n_features, n_features), or one more of each
    """
    vector = moments.rows_targets
    if weights.intercept:
        vector = np.append(vector, moments.targets)
    size = len(vector)
    mean = moments.rows / n_samples * (weights.intercept > 0)
    centred = moments.rows_rows - n_samples * np.outer(mean, mean)
    eigenvalues, basis = np.linalg.eigh(np.nan_to_num(centred))
    edge = sigma * math.sqrt(2 * len(centred))
    clear = eigenvalues > max(_CLEAR * edge, 0.0)
    # With most directions hidden, the clear ones say nothing about the others.
    if 2 * clear.sum() < len(clear):
        return np.full(size, np.nan), np.full((size, size), np.inf)
    # Directions of all coefficients: the intercept follows from the slopes.
    directions = basis if size == len(basis) else np.vstack([basis, -mean @ basis])
    own = directions[:, clear]
    inverse = (own / eigenvalues[clear]) @ own.T
    if size > len(basis):
        inverse[-1, -1] += 1 / n_samples
    estimate = inverse @ vector
    of_noise = _noise_covariance(estimate, moments, weights, sigma)
    # Least squares fits part of the noise, so the residual sum is too small by this
    # trace.
    left = moments.squares - float(vector @ estimate) + np.sum(inverse * of_noise)
    variance = max(left, 0.0) / max(n_samples - size, 1)
    covariance = variance * inverse + inverse @ of_noise @ inverse
    # A hidden direction is taken to have the usual slope of a clear one.
    slopes = basis[:, clear].T @ estimate[: len(basis)]
    usual = math.sqrt(np.mean(slopes**2))
    covariance = with_bias(covariance, usual * directions[:, ~clear])
    estimate[~np.isfinite(np.diag(covariance))] = np.nan
    return estimate, covariance


def _noise_covariance(
    estimate: FloatArray, moments: Moments, weights: MomentWeights, sigma: float
) -> FloatArray:
    """Covariance of the noise in ``h - M theta``, from the noise of each entry.

    An entry of M off the diagonal has variance sigma^2 / 2, an entry on the diagonal
    sigma^2, and an entry of the sum of rows sigma^2 / (2 t^2).
    """
    t, k, d = weights.intercept, weights.target, len(moments.rows_targets)
    slopes = estimate[:d]
    size = float(slopes @ slopes)
    found = np.eye(d) * (1 / k**2 + size / 2) + np.outer(slopes, slopes) / 2
    if t:
        constant = estimate[-1]
        found += np.eye(d) * constant**2 / (2 * t**2)
        cross = (constant * slopes / (2 * t**2))[:, None]
        alone = 1 / (k * t) ** 2 + size / (2 * t**2)
        found = np.block([[found, cross], [cross.T, np.array([[alone]])]])
    return np.asarray(sigma**2 * found)


# --------------------------------------- Least squares from noisy sufficient statistics
# Algorithm: with unit rows u_i and targets v_i in [-1, 1] (`MomentSums`),
#
#     q = sum_i (svec(u_i u_i'), sqrt(2) t u_i, k u_i v_i, k t v_i) + N,
#
# is released once. Everything after the release is post-processing: the public count
# eliminates the intercept, and a ridge, chosen from the released numbers and the public
# scale of N, regularises the remaining equations.


_INTERCEPT_WEIGHT, _TARGET_WEIGHT = 0.5, 1.0
_MOST_FEATURES = 3000  # about 4.5 million numbers in the query
# Released weights are kept in a box of this half side, in units of the bounds.
_FARTHEST = 1e50
# Chosen once on diabetes, wine, ccpp, protein and two synthetic tables (split seeds
# from 100 up, which no reported figure uses) and flat around their optimum: candidate
# ridges, in units of the edge of the noise matrix's spectrum, the
# largest factor on a ridge solution, and prior variances of the means.
_RIDGES = np.geomspace(0.25, 100, 40)
_LARGEST_SCALE = 3.0
_MEAN_SPREAD, _MIDDLE_SPREAD = 0.25, 0.1


def _check_ridge(name: str, value: Any) -> float | str:
    if isinstance(value, str) and value == "adaptive":
        return value
    return check_real(name, value, low=0.0, high=1e6, remedy="Or use 'adaptive'.")


@dataclass(frozen=True, kw_only=True)
class AdaSSP(ChosenLaw):
    """Least squares from noisy second moments, with a ridge that follows the noise.

    Use it for the squared loss with ``delta=0`` and at most 6 features, where
    ``solver="auto"`` takes it, for one pass over a table, or for standard errors. With
    a delta above 0 `noisy_gd` was at least as accurate on every table that was
    measured, because it clips residuals.

    Parameters
    ----------
    law : {"gaussian", "spherical"} or None, default=None
        Law of the noise. None: Gaussian, or spherical if delta is 0.
    intercept_weight : float in [1e-6, 1], default=0.5
        Constant in the intercept's column, in units of `data_norm`: the budget fraction
        of the means.
    target_weight : float in [1e-6, 1e6], default=1.0
        Factor on the products of rows and targets, undone after the noise.
    squares_weight : float in [0, 1e6], default=0.0
        Factor on the squares of the targets, which only standard errors need; 0.5 costs
        2 % more noise under replace_one and 4 % under zero_out.
    ridge : float in [0, 1e6] or "adaptive", default="adaptive"
        Added to the eigenvalues of the centred moments, in standard deviations of the
        noise of one entry. "adaptive": Stein's estimate of the risk chooses, which
        stayed near the constant model or above it on all tables tried.

    Notes
    -----
    Released is one joint vector of second moments, exactly (1/z)-GDP or pure (1/z)-DP
    for the noise multiplier z. Unit of privacy: one record, or all rows of a user.
    Sensitivities under both adjacencies: ``docs/proofs/moments.md``, Theorem 1.

    With ``squares_weight=0.5`` and a delta, `estimates_` and ``summary()`` have
    estimates without ridge. In 400 fits their 95 % intervals held 94.3 to 95.6 %.
    Errors of unlike variance need `noisy_newton`.

    References
    ----------
    .. [1] Wang (2018). Revisiting differentially private linear regression. UAI.
       https://arxiv.org/abs/1803.02596 (Algorithm 2, with three releases)
    .. [2] Dong, Roth and Su (2022). Gaussian differential privacy, Theorem 2.7.
       https://arxiv.org/abs/1905.02383
    """

    key: ClassVar[str] = "adassp"
    takes_users: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
        "target_weight": partial(check_real, low=1e-6, high=1e6),
        "squares_weight": partial(check_real, low=0.0, high=1e6),
        "ridge": _check_ridge,
    }

    intercept_weight: float = _INTERCEPT_WEIGHT
    target_weight: float = _TARGET_WEIGHT
    squares_weight: float = 0.0
    ridge: float | str = "adaptive"

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        me = f"solver={cls.key!r}"
        bound = _target_bound(objective, me)
        if not math.isfinite(bound):
            raise Refused(f"{me} needs a finite bound on the targets.")
        if objective.n_features > _MOST_FEATURES:
            raise Refused(
                f"{me} releases a number for every pair of features and takes at most "
                f"{_MOST_FEATURES} features. Use solver='noisy_gd'."
            )
        cls.check(objective, budget)
        law = cls.law_for(given, budget)
        if given.get("squares_weight", 0.0) and (law != "gaussian" or objective.alpha):
            raise Refused(
                f"{me} gives standard errors of Gaussian noise without a penalty. Got "
                f"law={law!r} and alpha={objective.alpha:g} with a 'squares_weight'. "
                "Use a delta above 0 and alpha=None."
            )
        solver = cls(**{**given, "law": law})
        (size,) = solver.moments(objective).shape
        cls.check_noise(law, budget, size)
        return solver

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise, calibrated exactly"

    def moments(self, objective: LinearObjective) -> MomentSums:
        """The query for the second moments."""
        t = self.intercept_weight if objective.fit_intercept else 0.0
        return MomentSums(
            MomentWeights(t, self.target_weight, self.squares_weight),
            n_samples=objective.n_samples,
            n_features=objective.n_features,
            data_norm=objective.data_norm,
            target_bound=_target_bound(objective, f"solver={self.key!r}"),
        )

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan((Line(law=self.noise_law),))

    def sensitivity(self, objective: LinearObjective) -> float:
        return self.moments(objective).bound().under(objective.adjacency)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        query = self.moments(objective)
        released = answers.ask(query)
        progress.step(1, 1)
        moments, sigma = query.read(released.value), released.deviation
        unit = _solved(moments, objective, query.weights, sigma, self.ridge)
        unit = np.clip(np.nan_to_num(unit), -_FARTHEST, _FARTHEST)
        weights = (unit * (query.target_bound / objective.data_norm))[:, None]
        if not self.squares_weight:
            return Solution(weights, sigma)
        estimate, covariance = self._estimated(moments, query, sigma)
        return EstimatedSolution(
            weights=weights,
            noise_scale=sigma,
            estimate=estimate,
            covariance=covariance,
        )

    def _estimated(
        self, moments: Moments, query: MomentSums, sigma: float
    ) -> tuple[FloatArray, FloatArray]:
        """Least squares without a ridge, and its covariance, in units of the rows."""
        found, covariance = estimated(moments, query.weights, query.n_samples, sigma)
        unit = np.full(len(found), query.target_bound)
        unit[: query.n_features] /= query.data_norm
        return found * unit, covariance * np.outer(unit, unit)


def _target_bound(objective: LinearObjective, me: str) -> float:
    if not isinstance(objective.loss, SquaredLoss):
        raise Refused(
            f"{me} needs the squared loss: only its optimum follows from second "
            "moments. Use another solver."
        )
    return objective.loss.target_bound


def _solved(
    moments: Moments,
    objective: LinearObjective,
    weights: MomentWeights,
    sigma: float,
    ridge: float | str,
) -> FloatArray:
    """Weights in units of the bounds, the intercept's last; post-processing only."""
    n, t, k = objective.n_samples, weights.intercept, weights.target
    penalty = n * min(objective.alpha / objective.data_norm**2, 1e200)
    count = n + penalty
    means, middle = moments.rows / count, moments.targets / count
    # Variance of the noise in an entry of the vector, and in an entry of the matrix.
    in_vector, in_matrix = (sigma / k) ** 2, sigma**2 / 2
    if t > 0 and isinstance(ridge, str):
        means, middle = _shrunken_means(means, middle, weights, sigma / n)
    if t > 0:  # what the estimated means add
        spread, mean = min(1.0, float(means @ means)), min(1.0, middle**2)
        in_vector += sigma**2 * (mean / (2 * t**2) + spread / len(means) / (k * t) ** 2)
        in_matrix += sigma**2 * spread / (2 * t**2)
    # Eliminate the intercept; without one this subtracts 0.
    matrix = moments.rows_rows - count * np.outer(means, means)
    vector = moments.rows_targets - count * means * middle
    eigenvalues, basis = np.linalg.eigh(matrix)
    eigenvalues, along = np.maximum(eigenvalues, 0.0) + penalty, basis.T @ vector
    if isinstance(ridge, str):
        slopes = basis @ _least_risk(eigenvalues, along, in_vector, in_matrix)
    else:
        lifted = eigenvalues + ridge * sigma
        filtered = np.divide(along, lifted, out=np.zeros_like(along), where=lifted > 0)
        slopes = basis @ filtered
    if not objective.fit_intercept:
        return slopes
    return np.append(slopes, middle - means @ slopes)


def _shrunken_means(
    means: FloatArray, middle: float, weights: MomentWeights, noise: float
) -> tuple[FloatArray, float]:
    """Released means, projected onto the range of bounded means and shrunk.

    `noise` is the standard deviation of the release divided by the number of records.
    """
    t, k = weights.intercept, weights.target
    means = means / max(1.0, float(np.linalg.norm(means)))
    noise_of_means = len(means) * noise**2 / (2 * t**2)
    means = means / (1 + noise_of_means / _MEAN_SPREAD)
    middle = min(max(middle, -1.0), 1.0) / (1 + (noise / (k * t)) ** 2 / _MIDDLE_SPREAD)
    return means, middle


def _least_risk(
    eigenvalues: FloatArray, along: FloatArray, in_vector: float, in_matrix: float
) -> FloatArray:
    """Weights in the eigenbasis whose estimated risk is the least.

    Candidates are c (G + ridge)^{-1} g over ridges and scales c, among them 0. The
    estimate is unbiased for the risk under the exact moments (Stein's identity,
    ``docs/proofs/moments.md``), so that the choice does not fit the noise.
    """
    best, least = np.zeros_like(along), 0.0
    edge = 2 * math.sqrt(len(along) * in_matrix)  # of the noise matrix's spectrum
    for ridge in edge * _RIDGES:
        inverse = 1 / (eigenvalues + ridge)
        trial = inverse * along
        size, trace = float(trial @ trial), float(inverse.sum())
        gain = float(along @ trial) - in_vector * trace
        cost = float((eigenvalues * trial) @ trial)
        cost += 2 * in_matrix * (trace * size + float((inverse * trial) @ trial))
        if not (gain > 0 and cost > 0):
            continue
        scale = min(gain / cost, _LARGEST_SCALE)
        risk = scale * (scale * cost - 2 * gain)
        if risk < least:
            best, least = scale * trial, risk
    return best
