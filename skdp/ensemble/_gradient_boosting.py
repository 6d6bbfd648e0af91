"""What boosted models share: table, solver, privacy record, shapes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skdp._base import PrivateEstimator
from skdp._floats import FloatArray
from skdp._forecast import Forecast, Signal, relaxed, warn_of_noise
from skdp._validation import check_count, check_real
from skdp.columns import as_declared
from skdp.ensemble._additive import Model, constrained
from skdp.ensemble._bins import Bins, bins_of
from skdp.ensemble._boost import Outcome, boost
from skdp.ensemble._constraints import directions_of, groups_of
from skdp.ensemble._display import ShapesDisplay
from skdp.ensemble._export import to_json
from skdp.ensemble._importances import importances
from skdp.ensemble._newton_boosting import NewtonBoosting
from skdp.ensemble._registry import NamedBooster, named_booster
from skdp.ensemble._shapes import ShapeFunctions
from skdp.ensemble._signal import signal_of
from skdp.ensemble._table import (
    TableReader,
    read_to_fit,
    read_to_predict,
    reader_of,
)
from skdp.ensemble._task import BoostingTask
from skdp.ensemble._trees import MIX
from skdp.preprocessing._table_columns import declared_of
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._record import PrivacyRecord
from skdp.queries._leaf_sums import LeafLoss
from skdp.solvers import Progress

_INTERACTIONS: dict[Any, Sequence[int | None]] = {
    "mix": MIX,
    1: (1,),
    2: (1, 2),
    None: (None,),
}
PUBLIC_OF_BOOSTING = (
    "number of records",
    "declared columns: names, kinds, ranges and categories",
    "that every cell is of the kind that is declared for its column",
    "the seed that trees were drawn from",
)


class GradientBoosting(PrivateEstimator):
    """Trees from declared columns and public randomness, leaves from noisy sums.

    A subclass's ``fit`` validates its input, states the loss, calls `_boost`, and keeps
    the model.
    """

    # Parameters that the solver has too; None is its rule.
    _own: ClassVar[tuple[str, ...]] = ("n_estimators", "learning_rate", "max_depth")

    columns: Any
    solver: str
    encoder_: Any
    bins_: Bins
    privacy_: PrivacyRecord
    _model: Model

    @property
    @abstractmethod
    def _units(self) -> tuple[float, float]:
        """By what raw predictions are multiplied, and what is added after."""

    @abstractmethod
    def _loss(self) -> tuple[LeafLoss, int]:
        """The loss and its number of outputs, as far as they are declared."""

    def _named(self) -> NamedBooster:
        own = {name: getattr(self, name) for name in self._own}
        return named_booster(self.solver, self.solver_params, own)

    def _interactions(self) -> Sequence[int | None]:
        given = self.max_interaction
        is_key = given is None or isinstance(given, (str, Integral))
        if not is_key or isinstance(given, bool) or given not in _INTERACTIONS:
            raise ValueError(
                "The 'max_interaction' parameter must be 'mix', 1, 2 or None. Got "
                f"{given!r}. Use 1 or 2 for a model whose shapes can be looked at, "
                "None for trees of all columns, 'mix' for all three in turn."
            )
        return _INTERACTIONS[given]

    def _task(
        self, loss: LeafLoss, n_outputs: int, n_samples: int, bins: Bins
    ) -> BoostingTask:
        """The public facts of a fit."""
        return BoostingTask(
            loss=loss,
            n_samples=n_samples,
            columns=bins,
            adjacency=self.adjacency,
            n_outputs=n_outputs,
            interactions=self._interactions(),
        )

    def _constraints(self, loss: LeafLoss) -> tuple[dict[int, int], Any]:
        """Directions of columns of codes, and groups that may share a tree."""
        declared = self.encoder_._names
        names = getattr(self, "feature_names_in_", None)
        names = declared if names is None else tuple(map(str, names))
        args = self.bins_, declared, names
        directions = directions_of(self.monotonic_cst, *args)
        if directions and loss == "softmax":
            raise ValueError(
                "The 'monotonic_cst' parameter must be None with more than two "
                "classes: a rise of one is a fall of others. Got directions. Leave it "
                "out."
            )
        return directions, groups_of(self.interaction_cst, *args, directions)

    def _boost(
        self,
        codes: NDArray[np.uint8],
        targets: FloatArray,
        loss: LeafLoss,
        n_outputs: int,
        budget: Budget,
        assumed_public: tuple[str, ...],
    ) -> None:
        """Plan, commit, ask: everything about privacy in one place."""
        named, n_samples = self._named(), len(codes)
        directions, groups = self._constraints(loss)
        task = self._task(loss, n_outputs, n_samples, self.bins_)
        task = replace(task, groups=groups)
        solver = named.kind.planned(named.given, task, budget)
        name, door = type(self).__name__, self._door(budget)
        notes = self._warn_of_public_facts(budget, n_samples, door)
        notes += self._warn_of_noise(solver, task, budget)
        outcome = boost(
            solver,
            codes,
            targets,
            task,
            door,
            is_private=budget.is_finite,
            label=f"{name}(solver={solver.key!r})",
            progress=Progress(name, bool(self.verbose)),
        )
        self.tree_seed_ = outcome.seed
        self._model = constrained(self.bins_, outcome.boosted, directions)
        facts = (*PUBLIC_OF_BOOSTING, *assumed_public)
        self.privacy_ = self._record(
            outcome, solver, task, budget, named.reason, facts, notes
        )

    def _record(
        self,
        outcome: Outcome,
        solver: NewtonBoosting,
        task: BoostingTask,
        budget: Budget,
        reason: str,
        assumed_public: tuple[str, ...],
        notes: tuple[str, ...],
    ) -> PrivacyRecord:
        return self._record_of(
            outcome.answers,
            budget,
            mechanism=solver.mechanism,
            solver=solver.key,
            solver_params=solver.params,
            why_solver=reason,
            sensitivity=solver.sensitivity(task),
            noise_scale=outcome.answers.noise_scale,
            n_samples=task.n_samples,
            n_features=len(self.encoder_._names),
            data_norm=None,
            assumed_public=assumed_public,
            warnings=notes,
        )

    # ------------------------------------------------------------ before there are data

    def _planned(
        self, n_samples: int, bins: Bins, budget: Budget
    ) -> tuple[NewtonBoosting, BoostingTask, str]:
        named = self._named()
        task = self._task(*self._loss(), check_count("n_samples", n_samples), bins)
        solver = named.kind.planned(named.given, task, budget)
        return solver, task, named.reason

    def forecast(self, n_samples: int, n_features: int = 1) -> Forecast:
        """Solver, and noise against signal, of a fit to a table of this shape.

        Nothing is read and nothing spent. A classifier without `classes` is taken to
        have two. A rule of thumb (``docs/boosting.md``), by which `fit` warns.

        Parameters
        ----------
        n_samples : int
        n_features : int, default=1
            Number of columns, where one Range is declared for all.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError, TypeError
            For a parameter out of range, if epsilon is inf, or if the solver refuses
            the job.
        """
        budget = self._check_privacy_params()
        check_real("epsilon", budget.epsilon, low=1e-6, high=1e8)
        bins = self._planned_bins(check_count("n_features", n_features))
        solver, task, reason = self._planned(n_samples, bins, budget)
        event = partial(solver.plan(task).event, relation=task.adjacency)
        return Forecast(
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=task.adjacency,
            solver=solver.key,
            why_solver=reason,
            solver_params=solver.params,
            noise_multiplier=calibrate(event, budget),
            **vars(signal_of(solver, task, budget)),
        )

    def _planned_bins(self, n_features: int) -> Bins:
        declared = as_declared(reader_of(self.columns).columns)
        names = tuple(declared) if isinstance(declared, dict) else ()
        if isinstance(declared, tuple):
            n_features = len(declared)
        names = names or tuple(f"x{i}" for i in range(n_features))
        return bins_of(names, declared_of(names, declared))

    def _signal(self, n_samples: int, rehearsed: Any) -> Signal:
        budget = Budget(self.epsilon, self.delta)
        solver, task, _ = self._planned(n_samples, rehearsed.bins_, budget)
        return signal_of(solver, task, budget)

    def _warn_of_noise(
        self, solver: NewtonBoosting, task: BoostingTask, budget: Budget
    ) -> tuple[str, ...]:
        """Warn before anything is spent; what stays on the record is returned."""
        if not budget.is_finite:
            return ()
        remedies = ("a larger epsilon", *relaxed(budget))
        return warn_of_noise(signal_of(solver, task, budget), remedies)

    # -------------------------------------------------------------------- after the fit

    def _raw(self, X: Any) -> FloatArray:
        """Raw predictions in units of what is predicted: (n_samples, n_outputs)."""
        check_is_fitted(self)
        factor, shift = self._units
        return factor * self._model.raw(read_to_predict(self, X)) + shift

    def _staged_raw(self, X: Any) -> Any:
        check_is_fitted(self)
        if self._model.tables is not None:
            raise ValueError(
                "Stages must be those of a model without monotonic_cst, which is met "
                "by the sum of all trees and not by the first of them. Got one with "
                "it. Fit without, or with fewer n_estimators."
            )
        factor, shift = self._units
        codes = read_to_predict(self, X)
        return (factor * raw + shift for raw in self._model.boosted.staged_raw(codes))

    @property
    def shape_functions_(self) -> ShapeFunctions:
        """The model as intercept, curves and tables, whose sum is its raw prediction.

        Private output, with the deviation of its noise. Only if no tree cuts more than
        two columns: with ``max_interaction`` 1 or 2.
        """
        check_is_fitted(self)
        if not self._model.is_additive:
            raise AttributeError(
                "shape_functions_ are those of trees of one or two columns. Got a "
                "model with trees of more. Fit with max_interaction=1 or 2."
            )
        return self._model.shapes.scaled(*self._units)

    @property
    def feature_importances_(self) -> FloatArray:
        """Each column's share of the variance of raw predictions: (n_features_in_,).

        Over codes that are drawn alike and independently, since how often they occur is
        private. Post-processing of the model; noise counts like signal.
        """
        check_is_fitted(self)
        n_declared = len(self.encoder_._names)
        found = importances(self._model.raw, self.bins_, n_declared)
        return self._by_column_of_X(found)

    def attributions(self, X: Any) -> FloatArray:
        r"""What each column adds to the prediction of each row.

        Shapley values, exact: with ``shape_functions_.intercept`` they add up to
        `decision_function`, or to `predict` of a regressor. What a pair adds is split
        in half. The mean that they are measured from is over codes that are drawn alike
        and independently, since how often they occur is private.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features_in_), or (n_samples, \
n_features_in_, n_classes) for more than two classes
            Of raw rows: as private as `X` and the model.

        Raises
        ------
        AttributeError
            If trees cut more than two columns.
        """
        functions = self.shape_functions_
        found = functions.attributions(read_to_predict(self, X))
        declared = np.zeros((len(self.encoder_._names), *found.shape[::2]))
        np.add.at(declared, list(self.bins_.sources), np.moveaxis(found, 1, 0))
        by_row = np.moveaxis(self._by_column_of_X(declared), 0, 1)
        return by_row[:, :, 0] if by_row.shape[2] == 1 else by_row

    def _by_column_of_X(self, found: FloatArray) -> FloatArray:
        """What is of declared columns, in the order of X; 0 for columns left out."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return found
        place = {name: i for i, name in enumerate(self.encoder_._names)}
        ordered = np.zeros((len(names), *found.shape[1:]))
        for i, name in enumerate(map(str, names)):
            if name in place:
                ordered[i] = found[place[name]]
        return ordered

    def effects(self) -> dict[str, pd.DataFrame]:
        """What each column adds to a prediction, as a curve or table.

        The curves of `shape_functions_`: of a classifier, what is added to
        `decision_function`; of a regressor, in units of the target.

        Returns
        -------
        dict of str to DataFrame

        Raises
        ------
        AttributeError
            If trees cut more than two columns.
        """
        functions = self.shape_functions_
        return {name: functions.curve(name) for name in functions.bins.names}

    def plot_shapes(
        self,
        names: Sequence[Any] | None = None,
        *,
        output: int = 0,
        deviations: float = 2.0,
        n_cols: int = 3,
        ax: Any = None,
    ) -> ShapesDisplay:
        """Draw shape functions, with bands of their noise; needs matplotlib.

        Parameters
        ----------
        names : sequence of str or pairs of str, or None, default=None
            Columns, and pairs of columns. None: the nine shapes that vary most.
        output : int, default=0
            Which class, where there are more than two.
        deviations : float, default=2.0
            Half the height of a band.
        n_cols : int, default=3
            Pictures in a row.
        ax : array of matplotlib Axes or None, default=None

        Returns
        -------
        ShapesDisplay
        """
        return ShapesDisplay.from_estimator(
            self, names, output=output, deviations=deviations, n_cols=n_cols, ax=ax
        )

    def to_json(self) -> str:
        """The whole model as JSON that needs no skdp to be read.

        Columns with the ends of their intervals, trees as nested questions, and the
        privacy record (``docs/boosting.md``).

        Returns
        -------
        str
        """
        check_is_fitted(self)
        factor, shift = self._units
        facts = {
            "estimator": type(self).__name__,
            "factor": factor,
            "shift": shift,
            **self._facts(),
            "privacy": self.privacy_.to_dict(),
        }
        model = self._model
        return to_json(
            facts, self.bins_, self.encoder_._names, model.boosted, model.tables
        )

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What else a stored model says, JSON-ready."""

    def _read_to_fit(self, X: Any) -> tuple[Budget, NDArray[np.uint8]]:
        """Checked parameters and codes; nothing is spent."""
        budget = self._check_privacy_params()
        self._named()
        self._interactions()
        return budget, read_to_fit(self, X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(TableReader()).input_tags
        return tags
