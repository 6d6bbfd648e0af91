"""What a private fit can be expected to give, before any data are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from skdp._forecast import Forecast, Signal
from skdp._validation import check_count, check_real
from skdp.exceptions import Refused
from skdp.linear_model._rows import (
    centred_knots,
    encoded_unseen,
    knots_within,
    states_of,
)
from skdp.linear_model._signal import half_at, signal_of, signal_of_centred
from skdp.losses import LogisticLoss
from skdp.losses._base import Loss
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._adjacency import Adjacency
from skdp.solvers._auto import Chosen, constant_model, planned_solver
from skdp.solvers._centred_descent import CentredDescent
from skdp.solvers._constant import ConstantModel
from skdp.solvers._named import Named
from skdp.solvers._registry import named_solver


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
    r"""Tell noise and solver of a private linear model from the shape of the data.

    No data are read and no budget is spent. The solver and its parameters are those
    that `fit` takes. The noise of the default is 600 over the
    records times mu, halved under replace_one, in units of a coefficient
    (``docs/default_solver.md``). That of named solvers is of an estimate which spends
    the whole budget on one sum of gradients,
    ``S deviation / (n h)``, with S the sensitivity, ``deviation = 1 / mu`` for
    Gaussian noise and about ``sqrt(size) / epsilon`` for delta = 0, and h the average
    curvature ``curvature_trace / n_outputs * data_norm^2 / n_features`` of rows that
    spread evenly. Solvers stop short of coefficients that would drown in it, so this
    tells what can be learned, not the error of what is released. A rule of thumb, for
    models in which every feature has a weight. Estimators, sparse ones and
    factorisations among them, have a method `forecast` of their own, which knows their
    parameters; `fit` warns by it (`NoiseDominatesWarning`).

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
    return forecast_of(objective, budget, chosen, signal)


def constant_if_dominated(
    named: Named | None, objective: LinearObjective, budget: Budget, signal: Signal
) -> Chosen | None:
    """The constant model where noise dominates and nobody named a solver; or None."""
    is_open = named is None and objective.fit_intercept and objective.n_nonzero is None
    if not (is_open and signal.noise_dominates):
        return None
    try:
        return constant_model(objective, budget)
    except Refused:  # the choice among all solvers says what can be done
        return None


def forecast_of(
    objective: LinearObjective, budget: Budget, chosen: Chosen, signal: Signal
) -> Forecast:
    """What a fit would use, and its noise against its signal; nothing is spent."""
    solver = chosen.solver
    event = partial(solver.plan(objective).event, relation=objective.adjacency)
    noise_multiplier = calibrate(event, budget)
    is_default = budget.delta > 0 and isinstance(solver, CentredDescent | ConstantModel)
    return Forecast(
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=objective.adjacency,
        solver=solver.named,
        why_solver=chosen.reason,
        solver_params=solver.params,
        noise_multiplier=noise_multiplier,
        notes=solver.foretold(objective, noise_multiplier),
        half_at=half_at(signal) if is_default else None,
        **vars(signal),
    )
