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
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse

from skdp._configured import Checks, Given
from skdp._floats import FloatArray, IntArray
from skdp._validation import check_choice, check_real
from skdp.data._held import held
from skdp.data._memory import MemorySource
from skdp.data._source import Block, Source, holds_users
from skdp.data._users import UserSource
from skdp.data._views import ColumnsOf, ConstantColumn
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.papers._budget_parts import cost_of, part_of
from skdp.papers._dense_part import (
    check_dense_key,
    check_params,
    named_part,
    needs_another,
    planned_part,
    shown,
)
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._answers import Answers
from skdp.privacy._laws import Choices
from skdp.privacy._plan import Line, Part, Plan
from skdp.queries._features import BoundedFeatures, Scores, rows_bound
from skdp.queries._split_gradient import SplitGradients
from skdp.solvers._base import Solution, Solver
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._feature_selection import favours_selection
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._progress import Progress
from skdp.solvers._thresholding import largest_rows

# Share of the budget, mu^2 or epsilon, of the constant model: one number per output.
_CONSTANT_SHARE = 0.05
_CONSTANT_STEPS = 4


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
    page. Unit of privacy: one record, or all rows of a user if the refit's may be.

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
    takes_users: ClassVar[bool] = True  # if its part does, which refuses for itself
    needs_rows: ClassVar[bool] = True
    is_pure: ClassVar[bool] = True  # if the refit is, which refuses for itself
    is_sparse: ClassVar[bool] = True
    clips_selected: ClassVar[bool] = True
    # For study: what "auto" takes is more accurate on all data compared
    # (docs/sparse.md).
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "selection": partial(check_choice, allowed=("gaussian", "peeling")),
        "selection_share": partial(check_real, low=1e-3, high=0.999),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "levels": _check_levels,
    }
    given_checks: ClassVar[Checks] = {
        "selection": partial(check_choice, allowed=("auto", "gaussian", "peeling")),
        "refit": check_dense_key,
        "refit_params": check_params,
    }

    selection: Literal["gaussian", "peeling"]
    selection_share: float = 0.5
    residual_clip: float
    refit: Solver
    levels: Levels

    @classmethod
    def check_given(cls, given: Given) -> None:
        named_part("refit", given)

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        refit = named_part("refit", given)
        is_gaussian = refit is not None and refit.adds_in_squares
        return is_gaussian and given.get("selection") == "gaussian"

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        selection = cls._selection_for(given, objective, budget)
        share = given.get("selection_share", cls.selection_share)
        refit, levels = cls._refit_for(given, share, objective, budget)
        solver = cls(
            selection=selection,
            selection_share=share,
            residual_clip=given.get("residual_clip", objective.loss.noisy_clip),
            refit=refit,
            levels=levels,
        )
        if objective.fit_intercept:
            model, part = solver._constant_model(objective), _of_constant(objective)
            model.planned(model.params, part, part_of(budget, _CONSTANT_SHARE))
        return solver

    @classmethod
    def _refit_for(
        cls, given: Given, share: float, objective: LinearObjective, budget: Budget
    ) -> tuple[Solver, Levels]:
        """The refit, and the levels of all stages."""
        constant = _CONSTANT_SHARE if objective.fit_intercept else 0.0
        part, left = _of_refit(objective), part_of(budget, (1 - constant) * (1 - share))
        try:
            named = named_part("refit", given)
            refit = planned_part(named, part, left)
            if "levels" in given:
                return refit, given["levels"]
            return refit, _levels(share, refit, objective, budget, left)
        except ValueError as refused:
            raise needs_another(cls, "refit", refused, part, left) from None

    @classmethod
    def _selection_for(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> Literal["gaussian", "peeling"]:
        selection: Literal["auto", "gaussian", "peeling"]
        selection = given.get("selection", "auto")
        if budget.delta == 0 and selection == "gaussian":
            raise Refused(
                f"solver={cls.key!r} cannot do delta=0 with selection='gaussian'. "
                "Use selection='auto'."
            )
        if selection == "auto":
            peels = budget.delta == 0 or favours_selection(objective)
            return "peeling" if peels else "gaussian"
        return selection

    @property
    def params(self) -> dict[str, Any]:
        return shown(super().params, "refit")

    @property
    def mechanism(self) -> str:
        how = {
            "gaussian": "Gaussian noise on the gradient that selects features",
            "peeling": "features selected by the exponential mechanism",
        }[self.selection]
        return f"{how}; {self.refit.mechanism}"

    def _constant_model(self, objective: LinearObjective) -> Nesterov:
        """What fits the constant model: steps that its curvature is known for."""
        largest = objective.loss.smoothness * objective.data_norm**2
        refit = self.refit
        # What is not Gaussian need not be pure: objective perturbation is neither.
        is_pure = isinstance(refit, ChosenLaw) and refit.law == "spherical"
        return Nesterov(
            n_steps=_CONSTANT_STEPS,
            step_size=1 / largest,
            strong_convexity=largest / 4,
            residual_clip=math.inf,
            intercept_weight=1.0,
            law="spherical" if is_pure else "gaussian",
            batch_size=objective.n_samples,
        )

    def _selection_plan(self, objective: LinearObjective) -> Plan:
        if self.selection == "gaussian":
            return Plan((Line(),))
        # Each of range e: a privacy loss of variance at most e^2 / 4, so that together
        # they are about 1 / z^2 of mu^2 at a noise multiplier z.
        k = objective.most_features
        return Plan((Line(k, multiple=math.sqrt(k), law=Choices(2.0)),))

    def plan(self, objective: LinearObjective) -> Plan:
        selection = Part(self._selection_plan(objective), self.levels.selection)
        refit = Part(self.refit.plan(_of_refit(objective)), self.levels.refit)
        if not objective.fit_intercept:
            return Plan((selection, refit))
        constant = self._constant_model(objective).plan(_of_constant(objective))
        return Plan((Part(constant, self.levels.constant), selection, refit))

    def sensitivity(self, objective: LinearObjective) -> float:
        """The largest of the stages'."""
        found = [self.refit.sensitivity(_of_refit(objective))]
        of_gradient = rows_bound(objective, self.residual_clip, math.inf)
        found.append(of_gradient.under(objective.adjacency))
        if objective.fit_intercept:
            model = self._constant_model(objective)
            found.append(model.sensitivity(_of_constant(objective)))
        return max(found)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        selection = int(objective.fit_intercept)  # what is before it in the plan
        start = Solution(np.zeros(objective.shape), 0.0)
        if objective.fit_intercept:
            view = partial(_constant_alone, value=objective.data_norm)
            start = self._constant(answers.part(0, view), objective)
        columns, own = self._selected(answers.part(selection), objective, start.weights)
        progress.step(1, 2)
        view = partial(_columns_alone, columns=columns)
        refitted = self._refitted(answers.part(selection + 1, view), columns, objective)
        progress.step(2, 2)
        scale = max(start.noise_scale, own, refitted.noise_scale)
        return Solution(refitted.weights, scale)

    def _constant(self, answers: Answers, objective: LinearObjective) -> Solution:
        """The constant model."""
        model, weights = self._constant_model(objective), np.zeros(objective.shape)
        found = model.run(answers, _of_constant(objective), Progress())
        # A row of the one column is (data_norm), as in the intercept's column.
        weights[-1] = found.weights[0]
        return Solution(weights, found.noise_scale)

    def _selected(
        self, answers: Answers, objective: LinearObjective, weights: FloatArray
    ) -> tuple[IntArray, float]:
        """Features of large gradients at released weights; Gaussian noise had, or 0."""
        k, clip = objective.most_features, self.residual_clip
        if self.selection == "peeling":
            scores = Scores(objective, residual_clip=clip).at(weights)
            return scores.read(answers.choose(scores, k, line=0)), 0.0
        query = BoundedFeatures(SplitGradients(objective, clip), weights)
        released = answers.ask(query)
        return largest_rows(released.value, k), released.sigma

    def _refitted(
        self, answers: Answers, columns: IntArray, objective: LinearObjective
    ) -> Solution:
        """The columns selected, fitted as if there were no others."""
        part, released = _of_refit(objective), np.zeros(objective.shape)
        refitted = self.refit.run(answers, part, Progress())
        released[columns] = refitted.weights[: len(columns)]
        if objective.fit_intercept:
            # The weight of another constant, for the same intercept.
            ratio = part.intercept_value / objective.intercept_value
            released[-1] = ratio * refitted.weights[-1]
        released = boxed(released, farthest_weight(objective))
        return Solution(released, refitted.noise_scale)


def _levels(
    share: float,
    refit: Solver,
    objective: LinearObjective,
    budget: Budget,
    left: Budget,
) -> Levels:
    """Noise with which each stage alone would cost its share of the budget."""
    if objective.fit_intercept:
        share *= 1 - _CONSTANT_SHARE
    plan, whole = refit.plan(_of_refit(objective)), cost_of(budget)
    declare = partial(plan.event, relation=objective.adjacency)
    of_refit = calibrate(declare, left) * whole
    if budget.delta == 0:
        # s selections of range e cost s e, with e as in the plan.
        selection = 2 * math.sqrt(objective.most_features) / share
        return Levels(1 / _CONSTANT_SHARE, selection, of_refit)
    return Levels(1 / math.sqrt(_CONSTANT_SHARE), 1 / math.sqrt(share), of_refit)


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


def _constant_alone(source: Source, value: float) -> MemorySource:
    return _in_memory(ConstantColumn(source, value))


def _columns_alone(source: Source, columns: IntArray) -> MemorySource:
    return _in_memory(ColumnsOf(source, columns))


def _in_memory(view: Source) -> MemorySource:
    """A copy of what a view shows, so that passes over it need not make it anew."""
    if holds_users(view):
        return UserSource.copied(view)
    block: Block = held(view)
    X = block.X if issparse(block.X) else np.ascontiguousarray(block.X)
    return MemorySource(X, block.y, block.present)
