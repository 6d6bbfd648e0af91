"""What a private linear fit can be expected to give, from public facts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skdp._base import Forecast, Signal
from skdp._checks import check_count, check_real
from skdp._fit import PlannedFit, PrivateSolver
from skdp.exceptions import Refused
from skdp.linear_model._rows import (
    centred_knots,
    encoded_unseen,
    knots_within,
    states_of,
)
from skdp.losses._base import Loss
from skdp.losses._classification import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import SquaredLoss
from skdp.losses._weighted import typical_curvature
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Adjacency
from skdp.privacy.noise._laws import LAWS, deviation_once
from skdp.solvers._base import Named, Solution
from skdp.solvers._centred_descent import CentredDescent
from skdp.solvers._constant import ConstantModel
from skdp.solvers._default_rules import (
    least_signal_to_noise,
    pure_signal_to_noise,
    signal_to_noise_of,
)
from skdp.solvers._registry import (
    FEW_MOMENTS,
    Chosen,
    constant_model,
    named_solver,
    planned_solver,
)
from skdp.sums._gradient import ClippedGradient

# ----------------------------------------------------------------- Noise against signal
# The forecast assumes that rows spread evenly over all directions and that targets are
# explained well, so that it never calls a useful model hopeless.


# Ratios above which noise leaves a constant model (benchmarks/dominating_noise.py).
# Noise hides which features matter sooner than it hides their coefficients. For delta =
# 0 solvers stop no sooner where noise is large: benchmarks/hard_edges.py.
_DENSE, _PURE, _SPARSE = 10.0, 4.0, 3.0
# The same for squared errors with delta = 0, by second moments and by one minimisation:
# on ccpp, protein_casp and wine_quality_white (declared columns, 300 to 10,000 records)
# models were better than the constant below 1.1 and 0.6, and worse above 3.2 and 1.7
# (benchmarks/hard_edges.py squares).
_PURE_MOMENTS, _PURE_SQUARES = 2.0, 0.6
# Ratio at which noise counts as much as signal: at 2,000, where by this number there is
# little noise, tables of declared columns come close to models without privacy.
_ALIKE = 600.0
# A model reaches half of the gain without privacy at a ratio this many times the ratio
# below which the constant is taken: 140 with one output. Settled on the six tables of
# the default (benchmarks/forecast_score.py): with 100 or 200 the mean error of a score
# is .120 or .130, with 140 .116. A second constant, an exponent, lowers it to .114; the
# number of columns does not.
_HALF = 2.8


def signal_of(objective: LinearObjective, budget: Budget) -> Signal:
    """Noise and scale of a coefficient, for a finite epsilon."""
    if objective.n_nonzero is None:
        return _dense(objective, budget)
    return _sparse(objective, objective.n_nonzero, budget)


def signal_of_centred(objective: LinearObjective, budget: Budget) -> Signal:
    """The same for the default with declared columns: only its ratio has a meaning."""
    unit = objective.loss.prediction_unit
    signal_to_noise = signal_to_noise_of(
        objective.effective_n, budget, objective.adjacency
    )
    return Signal(
        coefficient_noise=unit * _ALIKE / signal_to_noise,
        coefficient_scale=unit,
        n_records=objective.n_samples,
        constant_from=_ALIKE / least_signal_to_noise(objective.loss),
    )


def half_at(signal: Signal) -> float:
    """Noise over scale at which the default reaches half of the gain."""
    return signal.constant_from / _HALF


def _dense(objective: LinearObjective, budget: Budget) -> Signal:
    loss, data_norm = objective.loss, objective.data_norm
    size = objective.n_columns * loss.n_outputs
    law = LAWS["spherical" if budget.delta == 0 else "gaussian"]
    deviation = deviation_once(law, budget, size)
    curvature = typical_curvature(loss) * data_norm**2 / objective.n_features
    noise = _sensitivity(objective) * deviation / (objective.n_samples * curvature)
    scale = loss.prediction_unit / data_norm
    line = _DENSE if budget.delta > 0 else _PURE
    if budget.delta == 0 and isinstance(loss, SquaredLoss):
        is_few = objective.n_features <= FEW_MOMENTS
        line = _PURE_MOMENTS if is_few else _PURE_SQUARES
    if budget.delta == 0:
        # A count has noise too, even if there are few columns.
        few = least_signal_to_noise(loss) / pure_signal_to_noise(objective, budget)
        noise = max(noise, line * few * scale)
    return Signal(
        coefficient_noise=noise,
        coefficient_scale=scale,
        n_records=objective.n_samples,
        constant_from=line,
    )


def _sparse(objective: LinearObjective, k: int, budget: Budget) -> Signal:
    r"""The largest noise in d features against k of them that matter alike.

    With entries of size e in every row, ``w = unit / (e sqrt(k))`` for each of them,
    and its gradient is ``n h w e^2``. The noise of one query is that of an entry times
    sqrt(k) for k selections, or of a row of m entries: sqrt(m) times as much.
    """
    loss, d = objective.loss, objective.n_features
    is_pure = budget.delta == 0
    level = 2 * math.log(d + 1)
    if is_pure:  # selections add up, and share epsilon with the values
        spread, deviation = k * level, 1 / budget.epsilon
    else:
        entries = min(objective.full_entries, d)
        spread = math.sqrt(min(entries, k) * level)
        deviation = deviation_once(LAWS["gaussian"], budget, 1)
    entry = objective.entry_bound
    record = _sensitivity(objective) / objective.data_norm
    curvature = typical_curvature(loss)
    noise = record * deviation * spread / (objective.n_samples * curvature)
    return Signal(
        coefficient_noise=noise / entry,
        coefficient_scale=loss.prediction_unit / (entry * math.sqrt(k)),
        n_records=objective.n_samples,
        constant_from=_SPARSE,
    )


def _sensitivity(objective: LinearObjective) -> float:
    """Sensitivity of one sum of gradients, with residuals clipped as noise demands.

    Squared residuals count with their bound: solvers clip them further, but lose as
    much of large targets as they save in noise.
    """
    loss = objective.loss
    clip = math.inf if isinstance(loss, SquaredLoss) else loss.noisy_clip
    bound = ClippedGradient(objective, clip).real_bound(math.inf).with_user_bounds()
    return bound.under(objective.adjacency)


# --------------------------------------------------------------- Forecasts without data


def forecast(
    n_samples: int,
    n_features: int | None = None,
    epsilon: float = 1.0,
    *,
    columns: Any = None,
    delta: float = 1e-6,
    adjacency: Adjacency = "replace_one",
    loss: Loss | None = None,
    data_norm: float = 1.0,
    alpha: float = 0.0,
    fit_intercept: bool = True,
    solver: str = "auto",
    solver_params: Mapping[str, Any] | None = None,
) -> Forecast:
    r"""Forecast the noise and solver of a private linear model from the data's shape.

    No data are read and no budget is spent. The solver and its parameters are those
    that `fit` takes. The noise of the default, in units of a coefficient, is 600 over
    the number of records times mu, where mu is halved under replace_one
    (``docs/default_solver.md``). The noise of a named solver is that of an estimate
    which spends the whole budget on one sum of gradients: ``S deviation / (n h)``, with
    S the sensitivity, ``deviation = 1 / mu`` for Gaussian noise and about ``sqrt(size)
    / epsilon`` for delta = 0, and h the average curvature ``curvature_trace / n_outputs
    * data_norm^2 / n_features`` of rows that spread evenly. Solvers stop short of
    coefficients that would drown in it, so the forecast says what can be learned, not
    the error of the release. It is a rule of thumb for models in which every feature
    has a weight. Estimators, sparse ones and factorisations among them, have a method
    `forecast` of their own, which knows their parameters; `fit` warns by it
    (`NoiseDominatesWarning`).

    Parameters
    ----------
    n_samples : int
        Number of rows.
    n_features : int or None, default=None
        Number of columns. None will do where `columns` declares each column.
    epsilon : float in [1e-6, 1e8], default=1.0
    columns : mapping, sequence, Range, `TableEncoder` or None, default=None
        As in the estimators; `data_norm` must be 1.0 then.
    delta : 0 or float in [1e-50, 1), default=1e-6
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
    loss : loss of `skdp.losses` or None, default=None
        None: the logistic loss of two classes. ``SoftmaxLoss(10)`` for ten,
        ``HuberHingeLoss()`` for `DPLinearSVC`, ``SquaredLoss(2.0, 1.0)`` for
        `DPLinearRegression`.
    data_norm : float in (0, inf), default=1.0
        Norm to which rows are clipped.
    alpha : float in [0, inf), default=0.0
        L2 regularisation of the mean loss: ``1 / (C n_samples)`` of a classifier.
    fit_intercept : bool, default=True
    solver, solver_params
        As in the estimators.

    Returns
    -------
    Forecast

    Raises
    ------
    ValueError, TypeError
        For an argument out of range, or if the solver refuses the job.

    Examples
    --------
    >>> from skdp import forecast
    >>> small = forecast(500, 30, epsilon=1.0)
    >>> large = forecast(50_000, 30, epsilon=1.0)
    >>> round(small.noise_to_signal, 1), round(large.noise_to_signal, 3)
    (10.1, 0.101)
    >>> small.solver
    'centred_descent'
    >>> declared = {"age": (17, 90), "sex": ["Female", "Male"]}
    >>> round(forecast(50_000, columns=declared).epsilon_for(0.9), 2)
    0.19
    """
    used: Loss = LogisticLoss() if loss is None else loss
    if isinstance(loss, (str, type)):
        raise TypeError(
            "The 'loss' parameter must be None or a loss of skdp.losses. "
            f"Got {loss!r}. Use an object such as HuberHingeLoss()."
        )
    check_real("epsilon", epsilon, low=1e-6, high=1e8)
    check_real("data_norm", data_norm, low=1e-100, high=1e100)
    budget = Budget(epsilon, delta)
    named = named_solver(solver, solver_params)
    takes_default = named is None and fit_intercept and delta > 0
    encoding = None
    if columns is not None:
        remedy = "Rows of declared columns are encoded so that none is longer."
        check_real("data_norm", data_norm, low=1.0, high=1.0, remedy=remedy)
        knots = centred_knots if takes_default else knots_within(budget, adjacency)
        encoding = encoded_unseen(columns, n_samples, n_features, knots, budget)[1]
        n_features = encoding.basis.shape[1]
    remedy = "Pass the number of columns, or declare each in 'columns'."
    objective = LinearObjective(
        loss=used,
        n_samples=n_samples,
        n_features=check_count("n_features", n_features, remedy=remedy),
        data_norm=data_norm,
        adjacency=adjacency,
        alpha=alpha,
        fit_intercept=fit_intercept,
    )
    rows, lines = None, objective
    if encoding is not None:
        rows = states_of(encoding) if takes_default else None
        lines = replace(objective, n_features=encoding.n_lines)
    signal = (signal_of_centred if takes_default else signal_of)(lines, budget)
    chosen = constant_if_dominated(named, objective, budget, signal)
    chosen = chosen or planned_solver(named, objective, budget, rows)
    fit = planned_fit(objective, budget, chosen.solver, chosen.reason, signal)
    return fit.forecast(budget)


def constant_if_dominated(
    named: Named | None, objective: LinearObjective, budget: Budget, signal: Signal
) -> Chosen | None:
    """The constant model if noise dominates and the user named no solver; else None."""
    is_open = named is None and objective.fit_intercept and objective.n_nonzero is None
    if not (is_open and signal.noise_dominates):
        return None
    try:
        return constant_model(objective, budget)
    except Refused:  # the choice among all solvers says what can be done
        return None


def planned_fit(
    objective: LinearObjective,
    budget: Budget,
    solver: PrivateSolver[LinearObjective, Solution],
    reason: str,
    signal: Signal | None = None,
) -> PlannedFit[LinearObjective, Solution]:
    """The fit of a solver to an objective; public facts only."""
    is_default = isinstance(solver, CentredDescent | ConstantModel)
    half = half_at(signal) if signal and is_default and budget.delta > 0 else None
    return PlannedFit(
        problem=objective,
        solver=solver,
        reason=reason,
        n_samples=objective.n_samples,
        n_features=objective.n_features,
        data_norm=objective.data_norm,
        feature_bound=None if objective.n_nonzero is None else objective.entry_bound,
        n_nonzero_coefs=objective.n_nonzero,
        signal=signal,
        half_at=half,
    )
