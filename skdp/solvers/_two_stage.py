r"""Two stages: select features privately, then fit them by any dense solver.

1. With an intercept: fit the constant model, so that features are judged by what they
   explain beyond it and not by their means.
2. Select `n_nonzero` features by the gradient at these weights: one after the other by
   the exponential mechanism, or the largest of one Gaussian release.
3. Fit the columns selected, by a registered solver, as if there were no others.

The stages are declared as one event and calibrated together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._floats import FloatArray
from skdp._validation import check_choice, check_real
from skdp.data import Block, ColumnsOf, ConstantColumn, MemorySource, Source, held
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._events import BoundedRangeEvent, ComposedEvent, Event, GaussianEvent
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu
from skdp.privacy._laws import LAWS
from skdp.privacy._noise import NoiseSource
from skdp.queries._gradient_sum import GradientSum, rounding_slack
from skdp.solvers._base import Progress, Solution, Solver
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._configured import Checks
from skdp.solvers._dense_part import (
    Params,
    check_dense_key,
    check_params,
    dense_solver,
    resolved_dense,
)
from skdp.solvers._feature_selection import favours_selection
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._thresholding import largest_rows

# Share of the budget, mu^2 or epsilon, of the constant model: one number per output.
_CONSTANT_SHARE = 0.05
_CONSTANT_STEPS = 4
_LEAST_EPSILON = 1e-6


class Levels(NamedTuple):
    """Noise of the stages in units of one release for the whole budget."""

    constant: float
    selection: float
    refit: float


def _check_levels(name: str, value: Any) -> Levels:
    if not isinstance(value, (tuple, list)) or len(value) != len(Levels._fields):
        raise TypeError(
            f"The {name!r} parameter must be None or three numbers. Got {value!r}."
        )
    return Levels(*(check_real(name, x, low=1e-8, high=1e8) for x in value))


@dataclass(frozen=True, kw_only=True)
class TwoStage(Solver):
    r"""Private selection of features, then any solver on the columns selected.

    Privacy
    -------
    Adaptive composition of three parts, each with its own event: four releases of the
    constant model's gradient, if there is an intercept; one release of the gradient, or
    `n_nonzero` selections of bounded range by it; and the refit's event. They are
    calibrated together. Both adjacencies: ``docs/proofs/two_stage.md`` and the refit's
    page. Unit of privacy: one record.

    Utility
    -------
    A feature is found if its row of the gradient at the constant model stands out by
    about ``S sqrt(2 log d) / (sqrt(share) mu)``, or with peeling by
    ``B sqrt(s / share) log(d) / mu``: S and B are a row's norm and its largest entry
    times the residual, share is ``selection_share``. What shows only beside other
    features is not found. The refit errs like its solver does in s dimensions.

    Parameters
    ----------
    selection : {"auto", "gaussian", "peeling"}, default="auto"
        ``"gaussian"``: Gaussian noise on the gradient, of which the largest rows are
        taken. ``"peeling"``: features one by one, by the exponential mechanism.
        ``"auto"``: peeling if delta is 0 or
        ``(data_norm / feature_bound)^2 >= s max(2, log d)``, else gaussian.
    selection_share : float in [1e-3, 0.999], default=0.5
        Share of the budget for the selection: of mu^2, or of epsilon if delta is 0.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which every record's residual is clipped for the selection. None: the
        loss's `noisy_clip`.
    refit : str or None, default=None
        Key of a solver in `skdp.solvers.SOLVERS` that gives every feature a weight.
        None: what ``solver="auto"`` takes for the columns selected.
    refit_params : mapping or None, default=None
        Its hyper-parameters, as ``solver_params`` of that solver.
    levels : three floats in [1e-8, 1e8] or None, default=None
        Noise of the constant model, of the selection and of the refit, in units of what
        one release for the whole budget would get. None: from the shares.

    References
    ----------
    .. [1] Kifer, Smith and Thakurta (2012). Private convex empirical risk minimization
       and high-dimensional regression. COLT.
    .. [2] Smith and Thakurta (2013). Differentially private feature selection via
       stability arguments, and the robustness of the Lasso. COLT.

    Deviations: one selection by the gradient in place of votes of the Lasso on parts of
    the data; any refit in place of objective perturbation; exact composition.
    """

    key: ClassVar[str] = "two_stage"
    is_pure: ClassVar[bool] = True  # if the refit is, which refuses for itself
    is_sparse: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "selection": partial(check_choice, allowed=("auto", "gaussian", "peeling")),
        "selection_share": partial(check_real, low=1e-3, high=0.999),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "refit": check_dense_key,
        "refit_params": check_params,
        "levels": _check_levels,
    }

    selection: Literal["auto", "gaussian", "peeling"] = "auto"
    selection_share: float = 0.5
    residual_clip: float | None = None
    refit: str | None = None
    refit_params: Params | None = None
    levels: Levels | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._named_refit  # refuses parameters that the refit has not

    @cached_property
    def _named_refit(self) -> Solver | None:
        return dense_solver(self.refit, self.refit_params)

    @property
    def _resolved_refit(self) -> Solver:
        assert self._named_refit is not None, "resolve() fills in the refit"
        return self._named_refit

    @property
    def is_gaussian(self) -> bool:
        refit = self._named_refit
        is_gaussian = refit is not None and refit.is_gaussian
        return is_gaussian and self.selection == "gaussian"

    def refusal(self, objective: LinearObjective, budget: Budget) -> str:
        reason = super().refusal(objective, budget)
        if reason:
            return reason
        if budget.delta == 0 and self.selection == "gaussian":
            return (
                f"solver={self.key!r} cannot do delta=0 with selection='gaussian'. "
                "Use selection='auto'."
            )
        try:
            resolved = self.resolve(objective, budget)
        except ValueError as refused:
            return f"solver={self.key!r} needs another refit. {refused}"
        if not objective.fit_intercept:
            return ""
        constant = resolved._constant_model(objective)
        share = _part(budget, _CONSTANT_SHARE)
        return constant.refusal(_of_constant(objective), share)

    def resolve(self, objective: LinearObjective, budget: Budget) -> Self:
        selection, clip = self.selection, self.residual_clip
        if selection == "auto":
            peels = budget.delta == 0 or favours_selection(objective)
            selection = "peeling" if peels else "gaussian"
        constant = _CONSTANT_SHARE if objective.fit_intercept else 0.0
        left = _part(budget, (1 - constant) * (1 - self.selection_share))
        key, params = resolved_dense(
            self.refit, self.refit_params, _of_refit(objective), left
        )
        found = replace(
            self,
            selection=selection,
            residual_clip=objective.loss.noisy_clip if clip is None else clip,
            refit=key,
            refit_params=params,
        )
        if found.levels is not None:
            return found
        return replace(found, levels=found._levels(objective, budget, left))

    def _levels(
        self, objective: LinearObjective, budget: Budget, left: Budget
    ) -> Levels:
        """Noise with which each stage alone would cost its share of the budget."""
        share = self.selection_share
        if objective.fit_intercept:
            share *= 1 - _CONSTANT_SHARE
        refit = self._resolved_refit
        declare = partial(refit.event, objective=_of_refit(objective))
        whole = _cost(budget)
        if budget.delta == 0:
            # s selections of range e cost s e, with e as in `_range`.
            selection = 2 * math.sqrt(objective.most_features) / share
            return Levels(
                1 / _CONSTANT_SHARE, selection, calibrate(declare, left) * whole
            )
        return Levels(
            1 / math.sqrt(_CONSTANT_SHARE),
            1 / math.sqrt(share),
            calibrate(declare, left) * whole,
        )

    @property
    def _multiples(self) -> Levels:
        assert self.levels is not None, "resolve() fills in the levels"
        return self.levels

    @property
    def mechanism(self) -> str:
        how = {
            "gaussian": "Gaussian noise on the gradient that selects features",
            "peeling": "features selected by the exponential mechanism",
        }[self.selection]
        return f"{how}; {self._resolved_refit.mechanism}"

    def _constant_model(self, objective: LinearObjective) -> Nesterov:
        """What fits the constant model: steps that its curvature is known for."""
        largest = objective.loss.smoothness * objective.data_norm**2
        is_pure = self._resolved_refit.is_pure and not self._resolved_refit.is_gaussian
        return Nesterov(
            n_steps=_CONSTANT_STEPS,
            step_size=1 / largest,
            strong_convexity=largest / 4,
            residual_clip=math.inf,
            intercept_weight=1.0,
            law="spherical" if is_pure else "gaussian",
            batch_size=objective.n_samples,
        )

    def _range(self, noise_multiplier: float, objective: LinearObjective) -> float:
        """Epsilon of each selection: together about 1 / noise_multiplier^2 of mu^2.

        A selection of range e has a privacy loss of variance at most e^2 / 4.
        """
        return 2 / (noise_multiplier * math.sqrt(objective.most_features))

    def event(self, noise_multiplier: float, objective: LinearObjective) -> Event:
        constant, selection, refit = (noise_multiplier * x for x in self._multiples)
        parts: list[Event] = []
        if objective.fit_intercept:
            model = self._constant_model(objective)
            parts.append(model.event(constant, _of_constant(objective)))
        if self.selection == "peeling":
            epsilon = self._range(selection, objective)
            parts.append(BoundedRangeEvent(epsilon, objective.most_features))
        else:
            parts.append(GaussianEvent(selection))
        parts.append(self._resolved_refit.event(refit, _of_refit(objective)))
        return ComposedEvent(tuple(parts))

    def sensitivity(self, objective: LinearObjective) -> float:
        """The largest of the stages'."""
        assert self.residual_clip is not None, "resolve() fills in the clip"
        found = [self._resolved_refit.sensitivity(_of_refit(objective))]
        found.append(_of_gradient(objective, self.residual_clip, math.inf))
        if objective.fit_intercept:
            model = self._constant_model(objective)
            found.append(model.sensitivity(_of_constant(objective)))
        return max(found)

    def run(
        self,
        source: Source,
        objective: LinearObjective,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        constant, selection, refit = (noise_multiplier * x for x in self._multiples)
        weights = np.zeros((objective.n_columns, objective.loss.n_outputs))
        quiet, scale = Progress(), 0.0
        if objective.fit_intercept:
            ones = ConstantColumn(source, objective.data_norm)
            found = self._constant_model(objective).run(
                _in_memory(ones),
                _of_constant(objective),
                constant,
                noise,
                quiet,
            )
            # A row of the one column is (data_norm), as in the intercept's column.
            weights[-1], scale = found.weights[0], found.noise_scale
        columns, own = self._selected(source, objective, weights, selection, noise)
        progress.step(1, 2)
        part = _of_refit(objective)
        refitted = self._resolved_refit.run(
            _in_memory(ColumnsOf(source, columns)),
            part,
            refit,
            noise,
            quiet,
        )
        progress.step(2, 2)
        released = np.zeros_like(weights)
        released[columns] = refitted.weights[: len(columns)]
        if objective.fit_intercept:
            # The weight of another constant, for the same intercept.
            ratio = part.intercept_value / objective.intercept_value
            released[-1] = ratio * refitted.weights[-1]
        released = boxed(released, farthest_weight(objective))
        return Solution(released, max(scale, own, refitted.noise_scale))

    def _selected(
        self,
        source: Source,
        objective: LinearObjective,
        weights: FloatArray,
        noise_multiplier: float,
        noise: NoiseSource,
    ) -> tuple[NDArray[np.int64], float]:
        """Features of large gradients at released weights; Gaussian noise had, or 0."""
        assert self.residual_clip is not None, "resolve() fills in the clip"
        k, clip = objective.most_features, self.residual_clip
        if self.selection == "peeling":
            select = FeatureSelection(source, objective, noise, residual_clip=clip)
            epsilon = self._range(noise_multiplier, objective)
            return select(weights, k, epsilon=epsilon), 0.0
        d, length = objective.n_features, float(np.linalg.norm(weights))
        query = GradientSum(source, objective, clip)(weights)[:d]
        prediction = prediction_bound(objective, weights)
        sensitivity = _of_gradient(objective, clip, prediction)
        sensitivity += rounding_slack(objective, source.largest_block, length)
        law = LAWS["gaussian"]
        released = law.release(noise, query, sensitivity, noise_multiplier)
        scale = law.scale(sensitivity, noise_multiplier, query.size)
        return largest_rows(released, k), scale.sigma


def _of_constant(objective: LinearObjective) -> LinearObjective:
    """The problem of the constant model: one feature, which is the same in all rows."""
    return replace(
        objective,
        n_features=1,
        n_nonzero=None,
        fit_intercept=False,
        feature_bound=math.inf,
        alpha=0.0,
    )


def _of_refit(objective: LinearObjective) -> LinearObjective:
    """The problem of the columns selected, whichever they are."""
    k = objective.most_features
    norm = min(objective.data_norm, math.sqrt(k) * objective.entry_bound)
    return replace(objective, n_features=k, data_norm=norm, n_nonzero=None)


def _of_gradient(
    objective: LinearObjective, residual_clip: float, prediction: float
) -> float:
    """L2 sensitivity of the features' rows of the gradient sum, but for rounding.

    The intercept moves all predictions by the same number, so that opposite rows may
    have residuals alike: two records count twice (proof page, Lemma 2).
    """
    one_record = min(objective.loss.zero_out_bound(prediction), residual_clip)
    times = {"zero_out": 1, "replace_one": 2}[objective.adjacency]
    return times * one_record * objective.data_norm


def _cost(budget: Budget) -> float:
    """Of a Gaussian budget mu, of a pure one epsilon."""
    if budget.delta == 0:
        return budget.epsilon
    return gaussian_mu(budget.epsilon, budget.delta)


def _part(budget: Budget, share: float) -> Budget:
    """A share of mu^2 at the same delta, or of epsilon."""
    if budget.delta == 0:
        return Budget(max(share * budget.epsilon, _LEAST_EPSILON), 0.0)
    epsilon = gaussian_epsilon(math.sqrt(share) * _cost(budget), budget.delta)
    return Budget(max(epsilon, _LEAST_EPSILON), budget.delta)


def _in_memory(view: Source) -> MemorySource:
    """A copy of what a view shows, so that passes over it need not make it anew."""
    block: Block = held(view)
    X = block.X if issparse(block.X) else np.ascontiguousarray(block.X)
    return MemorySource(X, block.y, block.present)
