"""`forecast`: solver, noise and signal of a private linear fit, from public facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skdp._base import Forecast
from skdp._checks import check_count, check_real
from skdp.linear_model._base import planned_fit
from skdp.linear_model._rows import (
    encoded_unseen,
    knots_within,
    states_of,
)
from skdp.losses._base import Loss
from skdp.losses._classification import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Adjacency
from skdp.solvers._default_rules import signal_of, signal_of_centred
from skdp.solvers._registry import (
    SolverName,
    constant_if_dominated,
    named_solver,
    planned_solver,
)
from skdp.tables._columns import Columns


def forecast(
    n_samples: int,
    n_features: int | None = None,
    epsilon: float = 1.0,
    *,
    columns: Columns | TableEncoder | None = None,
    delta: float = 1e-6,
    adjacency: Adjacency = "replace_one",
    loss: Loss | None = None,
    data_norm: float = 1.0,
    alpha: float = 0.0,
    fit_intercept: bool = True,
    solver: SolverName = "auto",
    solver_params: Mapping[str, Any] | None = None,
) -> Forecast:
    r"""Forecast the noise and solver of a private linear model from the data's shape.

    No data are read and no budget is spent. The solver and its parameters are those
    that `fit` would use. The noise of the default solver, in units of a coefficient, is
    600 divided by the product of the number of records and mu, where mu is halved under
    replace_one (``docs/guide/linear_models.md``). For a named solver, the noise is that
    of an estimate which spends the whole budget on one sum of gradients: ``S deviation
    / (n h)``. Here S is the sensitivity, ``deviation`` is ``1 / mu`` for Gaussian noise
    and about ``sqrt(size) / epsilon`` for delta = 0, and h is the average curvature
    ``curvature_trace / n_outputs * data_norm^2 / n_features`` of rows that are spread
    evenly. Solvers avoid coefficients that would be mostly noise, so the forecast says
    what can be learned and is not the error of the release. It is a rule of thumb for
    models in which every feature has a weight. Estimators, including sparse models and
    factorisations, have a method `forecast` that uses their parameters; `fit` warns if
    this forecast says that noise dominates (`NoiseDominatesWarning`).

    Parameters
    ----------
    n_samples : int
        Number of rows.
    n_features : int or None, default=None
        Number of columns. It may be None if `columns` declares each column.
    epsilon : float in [1e-6, 1e8], default=1.0
    columns : mapping, sequence, Range, `TableEncoder` or None, default=None
        As in the estimators; with `columns`, `data_norm` must be 1.0.
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
        If an argument is out of range, or the solver cannot fit this model.

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
        remedy = "Encoded rows of declared columns have norm at most 1."
        check_real("data_norm", data_norm, low=1.0, high=1.0, remedy=remedy)
        knots = knots_within(budget, adjacency)
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
