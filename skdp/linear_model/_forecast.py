"""What a private fit can be expected to give, before any data are at hand."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from skdp._validation import check_real
from skdp.losses import LogisticLoss, Loss
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._adjacency import Adjacency
from skdp.privacy._laws import LAWS, deviation_once
from skdp.queries._gradient_sum import query_sensitivity
from skdp.solvers import named_solver
from skdp.solvers._registry import planned_solver

# Noise over scale up to which models came out close to those without privacy, and from
# which on they were hardly better than a constant one (docs/how_to_choose.md).
_LITTLE, _MUCH = 0.3, 10.0


@dataclass(frozen=True)
class Forecast:
    """Noise against signal for a problem of some shape; public facts only.

    Attributes
    ----------
    epsilon, delta : float
    adjacency : {"replace_one", "zero_out"}
        The guarantee that all the rest is for.
    solver : str
        Key of the solver that a fit would use.
    why_solver : str
    solver_params : mapping
        Its hyper-parameters, every rule filled in.
    noise_multiplier : float
        Of that solver: scale of its noise over the sensitivity of its query.
    coefficient_noise : float
        Standard deviation of the privacy noise in a coefficient that is learned to
        the end, in a direction of average curvature.
    coefficient_scale : float
        Size of the coefficients of a model whose raw predictions vary by one unit of
        decision: one logit, half a hinge, a third of the target bound.
    records_for_little_noise : int
        Number of records from which on the noise would be below 0.3 of the scale.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    solver: str
    why_solver: str
    solver_params: Mapping[str, Any]
    noise_multiplier: float
    coefficient_noise: float
    coefficient_scale: float
    records_for_little_noise: int

    @property
    def noise_to_signal(self) -> float:
        """`coefficient_noise` over `coefficient_scale`; below 0.3 is little noise."""
        return self.coefficient_noise / self.coefficient_scale

    @property
    def verdict(self) -> str:
        """What to expect of a fit, in words."""
        if self.noise_to_signal <= _LITTLE:
            return "expect a model close to the one without privacy"
        if self.noise_to_signal >= _MUCH:
            return "expect hardly more than a constant model"
        return "expect a model that is worse for its privacy, but useful"

    def __str__(self) -> str:
        return (
            f"({self.epsilon:g}, {self.delta:g}) under {self.adjacency}: "
            f"solver={self.solver!r} ({self.why_solver}). Noise in a coefficient: "
            f"{self.noise_to_signal:.2g} times its scale; {self.verdict}. Little noise "
            f"from {self.records_for_little_noise:,} records on."
        )

    def _repr_html_(self) -> str:
        told = {
            "guarantee": f"({self.epsilon:g}, {self.delta:g}), {self.adjacency}",
            "solver": f"{self.solver}: {self.why_solver}",
            "noise in a coefficient": f"{self.noise_to_signal:.2g} times its scale",
            "little noise from": f"{self.records_for_little_noise:,} records on",
        }
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in told.items()
        )
        color = "#b42318" if self.noise_to_signal >= _MUCH else "#1a7f37"
        return (
            f"<div><p style='border-left:4px solid {color};padding-left:8px'><b>"
            f"{self.verdict.capitalize()}</b></p><table>{rows}</table></div>"
        )


def forecast(
    n_samples: int,
    n_features: int,
    epsilon: float = 1.0,
    *,
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

    No data are read and no budget is spent. The noise is that of an estimate which
    spends the whole budget on one sum of gradients,
    ``S deviation / (n h)``, with S the sensitivity, ``deviation = 1 / mu`` for
    Gaussian noise and about ``sqrt(size) / epsilon`` for delta = 0, and h the average
    curvature ``curvature_trace / n_outputs * data_norm^2 / n_features`` of rows that
    spread evenly. Solvers stop short of coefficients that would drown in it, so this
    tells what can be learned, not the error of what is released. A rule of thumb, for
    models in which every feature has a weight; not for sparse ones.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of the table.
    epsilon : float in [1e-6, 1e8], default=1.0
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
    (2.9, 0.029)
    >>> small.solver
    'nesterov'
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
    objective = LinearObjective(
        loss=used,
        n_samples=n_samples,
        n_features=n_features,
        data_norm=data_norm,
        adjacency=adjacency,
        alpha=alpha,
        fit_intercept=fit_intercept,
    )
    chosen = planned_solver(named_solver(solver, solver_params), objective, budget)
    noise = _coefficient_noise(objective, budget)
    scale = objective.loss.raw_unit / data_norm
    return Forecast(
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=objective.adjacency,
        solver=chosen.solver.key,
        why_solver=chosen.reason,
        solver_params=chosen.solver.params,
        noise_multiplier=calibrate(
            partial(chosen.solver.plan(objective).event, relation=objective.adjacency),
            budget,
        ),
        coefficient_noise=noise,
        coefficient_scale=scale,
        records_for_little_noise=math.ceil(n_samples * noise / scale / _LITTLE),
    )


def _coefficient_noise(objective: LinearObjective, budget: Budget) -> float:
    size = objective.n_columns * objective.loss.n_outputs
    law = LAWS["spherical" if budget.delta == 0 else "gaussian"]
    deviation = deviation_once(law, budget, size)
    spread = objective.data_norm**2 / objective.n_features
    curvature = objective.loss.curvature_trace / objective.loss.n_outputs * spread
    sensitivity = query_sensitivity(objective, objective.loss.noisy_clip)
    return sensitivity * deviation / (objective.n_samples * curvature)
