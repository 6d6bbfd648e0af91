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

from skdp._validation import check_choice, check_real
from skdp.data import Block, ColumnsOf, ConstantColumn, MemorySource, Source, held
from skdp.losses import Loss
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._events import BoundedRangeEvent, ComposedEvent, Event, GaussianEvent
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu
from skdp.privacy._laws import LAWS
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import (
    FloatArray,
    Problem,
    Progress,
    Solution,
    Solver,
)
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._configured import Checks
from skdp.solvers._dense_part import (
    Params,
    check_dense_key,
    check_params,
    dense_solver,
    resolved_dense,
)
from skdp.solvers._feature_selection import (
    FeatureSelection,
    favours_selection,
    prediction_bound,
)
from skdp.solvers._gradient import GradientSum, rounding_slack
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._noisy_gradient import boxed, farthest_weight
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

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        reason = super().refusal(loss, problem, budget)
        if reason:
            return reason
        if budget.delta == 0 and self.selection == "gaussian":
            return (
                f"solver={self.key!r} cannot do delta=0 with selection='gaussian'. "
                "Use selection='auto'."
            )
        try:
            resolved = self.resolve(loss, problem, budget)
        except ValueError as refused:
            return f"solver={self.key!r} needs another refit. {refused}"
        if not problem.fit_intercept:
            return ""
        constant = resolved._constant_model(loss, problem)
        share = _part(budget, _CONSTANT_SHARE)
        return constant.refusal(loss, _of_constant(problem), share)

    def resolve(self, loss: Loss, problem: Problem, budget: Budget) -> Self:
        selection, clip = self.selection, self.residual_clip
        if selection == "auto":
            peels = budget.delta == 0 or favours_selection(problem)
            selection = "peeling" if peels else "gaussian"
        constant = _CONSTANT_SHARE if problem.fit_intercept else 0.0
        left = _part(budget, (1 - constant) * (1 - self.selection_share))
        key, params = resolved_dense(
            self.refit, self.refit_params, loss, _of_refit(problem), left
        )
        found = replace(
            self,
            selection=selection,
            residual_clip=loss.noisy_clip if clip is None else clip,
            refit=key,
            refit_params=params,
        )
        if found.levels is not None:
            return found
        return replace(found, levels=found._levels(loss, problem, budget, left))

    def _levels(
        self, loss: Loss, problem: Problem, budget: Budget, left: Budget
    ) -> Levels:
        """Noise with which each stage alone would cost its share of the budget."""
        share = self.selection_share
        if problem.fit_intercept:
            share *= 1 - _CONSTANT_SHARE
        refit = self._resolved_refit
        declare = partial(refit.event, loss=loss, problem=_of_refit(problem))
        whole = _cost(budget)
        if budget.delta == 0:
            # s selections of range e cost s e, with e as in `_range`.
            selection = 2 * math.sqrt(problem.most_features) / share
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

    def _constant_model(self, loss: Loss, problem: Problem) -> Nesterov:
        """What fits the constant model: steps that its curvature is known for."""
        largest = loss.smoothness * problem.data_norm**2
        refit = self._resolved_refit
        # What is not Gaussian need not be pure: objective perturbation is neither.
        is_pure = isinstance(refit, ChosenLaw) and refit.law == "spherical"
        return Nesterov(
            n_steps=_CONSTANT_STEPS,
            step_size=1 / largest,
            strong_convexity=largest / 4,
            residual_clip=math.inf,
            intercept_weight=1.0,
            law="spherical" if is_pure else "gaussian",
            batch_size=problem.n_samples,
        )

    def _range(self, noise_multiplier: float, problem: Problem) -> float:
        """Epsilon of each selection: together about 1 / noise_multiplier^2 of mu^2.

        A selection of range e has a privacy loss of variance at most e^2 / 4.
        """
        return 2 / (noise_multiplier * math.sqrt(problem.most_features))

    def event(self, noise_multiplier: float, loss: Loss, problem: Problem) -> Event:
        constant, selection, refit = (noise_multiplier * x for x in self._multiples)
        parts: list[Event] = []
        if problem.fit_intercept:
            model = self._constant_model(loss, problem)
            parts.append(model.event(constant, loss, _of_constant(problem)))
        if self.selection == "peeling":
            epsilon = self._range(selection, problem)
            parts.append(BoundedRangeEvent(epsilon, problem.most_features))
        else:
            parts.append(GaussianEvent(selection))
        parts.append(self._resolved_refit.event(refit, loss, _of_refit(problem)))
        return ComposedEvent(tuple(parts))

    def sensitivity(self, loss: Loss, problem: Problem) -> float:
        """The largest of the stages'."""
        assert self.residual_clip is not None, "resolve() fills in the clip"
        found = [self._resolved_refit.sensitivity(loss, _of_refit(problem))]
        found.append(_of_gradient(loss, problem, self.residual_clip, math.inf))
        if problem.fit_intercept:
            model = self._constant_model(loss, problem)
            found.append(model.sensitivity(loss, _of_constant(problem)))
        return max(found)

    def run(
        self,
        source: Source,
        loss: Loss,
        problem: Problem,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        constant, selection, refit = (noise_multiplier * x for x in self._multiples)
        weights = np.zeros((problem.n_columns, loss.n_outputs))
        quiet, scale = Progress(), 0.0
        if problem.fit_intercept:
            ones = ConstantColumn(source, problem.data_norm)
            found = self._constant_model(loss, problem).run(
                _in_memory(ones), loss, _of_constant(problem), constant, noise, quiet
            )
            # A row of the one column is (data_norm), as in the intercept's column.
            weights[-1], scale = found.weights[0], found.noise_scale
        columns, own = self._selected(source, loss, problem, weights, selection, noise)
        progress.step(1, 2)
        part = _of_refit(problem)
        refitted = self._resolved_refit.run(
            _in_memory(ColumnsOf(source, columns)), loss, part, refit, noise, quiet
        )
        progress.step(2, 2)
        released = np.zeros_like(weights)
        released[columns] = refitted.weights[: len(columns)]
        if problem.fit_intercept:
            # The weight of another constant, for the same intercept.
            ratio = part.intercept_value / problem.intercept_value
            released[-1] = ratio * refitted.weights[-1]
        released = boxed(released, farthest_weight(problem))
        return Solution(released, max(scale, own, refitted.noise_scale))

    def _selected(
        self,
        source: Source,
        loss: Loss,
        problem: Problem,
        weights: FloatArray,
        noise_multiplier: float,
        noise: NoiseSource,
    ) -> tuple[NDArray[np.int64], float]:
        """Features of large gradients at released weights; Gaussian noise had, or 0."""
        assert self.residual_clip is not None, "resolve() fills in the clip"
        k, clip = problem.most_features, self.residual_clip
        if self.selection == "peeling":
            select = FeatureSelection(source, loss, problem, noise, residual_clip=clip)
            epsilon = self._range(noise_multiplier, problem)
            return select(weights, k, epsilon=epsilon), 0.0
        d, length = problem.n_features, float(np.linalg.norm(weights))
        query = GradientSum(source, loss, problem, clip)(weights)[:d]
        prediction = prediction_bound(problem, weights)
        sensitivity = _of_gradient(loss, problem, clip, prediction)
        sensitivity += rounding_slack(loss, problem, source.largest_block, length)
        law = LAWS["gaussian"]
        released = law.release(noise, query, sensitivity, noise_multiplier)
        scale = law.scale(sensitivity, noise_multiplier, query.size)
        return largest_rows(released, k), scale.sigma


def _of_constant(problem: Problem) -> Problem:
    """The problem of the constant model: one feature, which is the same in all rows."""
    return replace(
        problem,
        n_features=1,
        n_nonzero=None,
        fit_intercept=False,
        feature_bound=math.inf,
        alpha=0.0,
    )


def _of_refit(problem: Problem) -> Problem:
    """The problem of the columns selected, whichever they are."""
    k = problem.most_features
    norm = min(problem.data_norm, math.sqrt(k) * problem.entry_bound)
    return replace(problem, n_features=k, data_norm=norm, n_nonzero=None)


def _of_gradient(
    loss: Loss, problem: Problem, residual_clip: float, prediction: float
) -> float:
    """L2 sensitivity of the features' rows of the gradient sum, but for rounding.

    The intercept moves all predictions by the same number, so that opposite rows may
    have residuals alike: two records count twice (proof page, Lemma 2).
    """
    one_record = min(loss.zero_out_bound(prediction), residual_clip)
    times = {"zero_out": 1, "replace_one": 2}[problem.adjacency]
    return times * one_record * problem.data_norm


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
