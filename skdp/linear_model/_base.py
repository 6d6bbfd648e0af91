"""Base classes of linear models: the fit, streams, and estimates with errors."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from scipy.special import ndtr, ndtri
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray, clip_rows, in_dtype
from skdp._base import Forecast, Signal, relaxed
from skdp._checks import check_count, check_data_norm, check_real
from skdp._configured import GAUSSIAN_PARAMS, Registry, asks_for_gaussian
from skdp._effects import Picture, PlotsEffects, pictures_of
from skdp._export import Exported, Step, step
from skdp._fit import ContinuesModel, PlannedFit, PrivateSolver, fit
from skdp._users import UsersToFit
from skdp.exceptions import CoefficientErrorsWarning
from skdp.io._table import Table, TakesSources
from skdp.linear_model._rows import (
    LinearRows,
    encoded_unseen,
    encoder_of,
    knots_for,
    states_of,
    step_to_predict,
    warn_of_rereading,
)
from skdp.losses._base import Loss
from skdp.losses._objective import LinearObjective
from skdp.preprocessing._cells import declared_of
from skdp.preprocessing._encoder import by_output
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import relation_for
from skdp.solvers._adassp import EstimatedSolution
from skdp.solvers._base import Solution
from skdp.solvers._centred_descent import CentredDescent, CentredSolution
from skdp.solvers._centred_rows import EffectsOfStates, States
from skdp.solvers._constant import ConstantModel
from skdp.solvers._default_rules import half_at, signal_of, signal_of_centred
from skdp.solvers._exact import ExactFit
from skdp.solvers._registry import (
    SOLVERS,
    Chosen,
    choose_solver,
    constant_if_dominated,
    named_solver,
)
from skdp.sums._grid_rows import clipped_products
from skdp.tables._centred import Centring
from skdp.tables._source import Source
from skdp.tables._views import EntriesClipped

# ---------------------------------------------------------------- The plan of one fit


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
    bounds: dict[str, Any] = {"data_norm": objective.data_norm}
    if objective.n_nonzero is not None:
        bounds["feature_bound"] = objective.entry_bound
        bounds["n_nonzero_coefs"] = objective.n_nonzero
    return PlannedFit(
        problem=objective,
        solver=solver,
        reason=reason,
        bounds=bounds,
        signal=signal,
        half_at=half,
    )


# ---------------------------------------------------- Streams: solvers with partial_fit


class FirstPart(Protocol):
    """The first part of a stream; its fit commits the whole stream."""

    @property
    def n_parts(self) -> int:
        """Number of parts of the stream."""
        ...

    def begins(
        self, planned: PlannedFit[LinearObjective, Solution], first: Source
    ) -> tuple[PlannedFit[LinearObjective, Solution], Any]:
        """The fit that commits the stream, and the source of all parts."""
        ...


class Streams(Protocol):
    """How a model with a certain solver continues a stream."""

    @staticmethod
    def one_part(model: Any) -> AbstractContextManager[None]:
        """Allow one part at a time; if its release is lost, the stream ends."""
        ...

    @staticmethod
    def next_part(model: Any, part: Table) -> None:
        """Begin a stream, or continue it with one more part."""
        ...


STREAMS: Registry[Streams] = Registry("skdp.streams", {})


def takes_parts(model: Any) -> bool:
    """True if the model's solver supports `partial_fit`; otherwise AttributeError."""
    if model.solver in STREAMS:
        return True
    raise AttributeError(
        f"{type(model).__name__} has partial_fit with solver="
        f"{' or '.join(map(repr, STREAMS))} only. Got solver={model.solver!r}. With "
        "other solvers, each fit is a separate release: use fit."
    )


# ----------------------------------------------------------------- DPEstimator: one fit


_EXACT = "epsilon=inf: the optimum itself"

# Attributes with all iterates, if the solver was asked to keep them.
_PATHS = ("coef_path_", "intercept_path_")


def n_units(rows: LinearRows, users: UsersToFit | None, n_parts: int = 1) -> int:
    """Number of records or users in all parts of a stream together; public."""
    return (rows.n_rows if users is None else users.n_users) * n_parts


class DPEstimator(PlotsEffects, TakesSources, Exported, ContinuesModel):
    """Solver and privacy record of a private model.

    A subclass's ``_fit`` validates its input, states the loss and the regularisation,
    calls `_solve`, and copies the solution to fitted attributes. `_products` clips rows
    by the norm in ``privacy_``, since parameters may have changed after the fit.
    """

    solver: str
    solver_params: Any
    columns: Any
    center_: np.ndarray
    scale_: np.ndarray
    row_norm_: float
    coef_: np.ndarray
    # Released shares of declared states and the noise in their effects, if there are.
    _states: EffectsOfStates | None = None
    # What a later fit continues, in the units of the loss; only of the default solver.
    _released: CentredSolution | None = None
    init: Any = None  # a sparse model has no such parameter
    # Whether the default centres rows; models with few features do not.
    _can_centre: ClassVar[bool] = True
    # Whether the default is a constant where noise dominates.
    _may_be_constant: ClassVar[bool] = True

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            Finite numbers; float32 stays float32, and CSR stays CSR. With `columns` a
            table with the declared columns. A source of `skdp.io` is read in place.
        y : array-like of shape (n_samples,)
            Labels of a classifier, finite targets of a regressor. Leave it out with a
            source, which includes the target; a classifier then needs `classes`.
        %(groups)s

        Returns
        -------
        self

        Raises
        ------
        %(ValueError, BudgetExceeded)s
        """
        with self._all_or_nothing():
            Table.of(X, y, groups).fitted(self, self._fit)
        return self._warned_of_release()

    @abstractmethod
    def _fit(self, table: Table) -> Self:
        """Fit; if this fails, the caller restores the estimator."""

    def _check_privacy_params(self) -> Budget:
        norm = check_data_norm(self.data_norm)
        if self.columns is not None and norm != 1.0:
            raise ValueError(
                "The 'data_norm' parameter must be 1.0 with 'columns'. Got "
                f"{self.data_norm!r}. Leave it out: rows of declared columns are "
                "encoded so that none is longer than 1."
            )
        return super()._check_privacy_params()

    def effects(self) -> dict[str, pd.DataFrame]:
        """What each declared column adds to a prediction, as a curve or table.

        The effects of a classifier are parts of the raw prediction
        (`decision_function`); those of a regressor are in units of the target, or of
        the logarithm of the mean. If rows are centred, the effects hold for rows within
        ``row_norm_``; for a longer row they are scaled down as the row is, other than
        in survival models, which clip no rows. Post-processing of private outputs.

        Returns
        -------
        dict of str to DataFrame
            One row for each value: ``at`` a knot (a curve is linear in between), or
            ``value``; a row without a value is for missing values. Of a Range with
            heaps, ``heap`` says whether a row is one. Then

            ``effect``
                What is added, less the mean over the records by their released
                proportions. With ``intercept_ + coef_ @ center_`` the effects add up to
                the raw prediction. A solver that releases no proportions has no
                `center_`; the mean is then over all values alike.
            ``noise``
                Standard deviation that the privacy noise alone gives the effect. It
                is known for the default solver, as an estimate that takes columns to be
                independent and the gate's answer as given, and is 0 where no noise can
                move the effect: if epsilon is inf, or all weights are 0. NaN for other
                solvers.
            ``share``
                Released proportion of the records with this value, or near this knot;
                NaN if none was released.

            With several outputs ``effect_0``, ``noise_0`` and so on.

        Raises
        ------
        ValueError
            If the model was fitted without `columns`.
        """
        check_is_fitted(self)
        if not hasattr(self, "encoder_"):
            raise ValueError(
                "The model must be fitted with declared columns to have effects. Got "
                "a model that was fitted with columns=None. Declare columns, or use "
                "coef_."
            )
        encoding = self.encoder_._encoding
        values = encoding.basis @ np.atleast_2d(self.coef_).astype(np.float64).T
        # Neither the weights nor the shares of a model without noise can move.
        is_still = math.isinf(self.privacy_.epsilon) or not values.any()
        noise = np.full(values.shape, 0.0 if is_still else math.nan)
        shares = np.full(len(values), math.nan)
        states = self._states
        if states is not None:
            shares = states.shares
        ends = np.cumsum(encoding.parts)[:-1]
        for part in np.split(np.arange(len(values)), ends):
            own = values[part]
            if states is None:
                values[part] -= own.mean(axis=0)
                continue
            values[part] -= shares[part] @ own
            of_centre = states.share_deviation * np.linalg.norm(
                own - own.mean(axis=0), axis=0
            )
            noise[part] = np.hypot(states.deviations[part][:, None], of_centre)
        numbers = by_output("effect", values) | by_output("noise", noise)
        found: dict[str, pd.DataFrame] = self.encoder_._by_column(
            numbers | {"share": shares}
        )
        return found

    def _pictures(self, output: int) -> list[Picture]:
        tables = self.effects()
        each = declared_of(tuple(tables), self.encoder_.columns_)
        named = zip(tables, each, strict=True)
        logs = {name for name, declared in named if getattr(declared, "log", False)}
        return list(pictures_of(tables, logs, output))

    def _is_constant(self) -> bool:
        return not np.any(self.coef_)

    def _remedies_of_constant(self) -> tuple[str, ...]:
        declared = ("declared columns (columns=)",) if self.columns is None else ()
        return ("fewer columns", *declared)

    def _adds_up(self) -> bool:
        return asks_for_gaussian(self.solver_params) or super()._adds_up()

    def _adds_in_squares(self) -> bool:
        named = named_solver(self.solver, self.solver_params)
        # With a delta above 0, only a constant that "auto" chooses has other noise.
        by_default = self._adds_up() or not self._may_be_constant
        adds = by_default if named is None else named.adds_in_squares
        return bool(self.delta > 0 and adds)

    def _use_composable_noise(self) -> None:
        if self.solver == "auto" and self.delta > 0 and self._may_be_constant:
            self.solver_params = dict(GAUSSIAN_PARAMS)

    def _has_lines(self) -> bool:
        """Whether declared numbers are lines, since the solver states their errors."""
        # An unknown key is refused later, with the keys that this model takes.
        is_known = self.solver in list(SOLVERS)  # also if it is not a text
        return is_known and SOLVERS[self.solver].is_for_errors

    def _will_centre(self) -> bool:
        """Whether ``"auto"`` fits centred rows; depends on the parameters only."""
        is_exact = math.isinf(self.epsilon)
        # Without noise, rows of numbers are fitted to the optimum without centring.
        can = self.columns is not None if is_exact else self.delta > 0
        is_open = self.solver == "auto" and self._can_centre
        return bool(is_open and can and self.fit_intercept)

    def _products(self, X: Any, coef: np.ndarray) -> np.ndarray:
        """Products of the fitted weights and the rows, clipped as in `fit`."""
        norm = cast(float, self.privacy_.data_norm)  # linear models have one
        if hasattr(self, "center_"):
            centring = Centring(self.center_, self.scale_, self.row_norm_)
            dtype = np.result_type(X, coef)
            if not hasattr(self, "encoder_"):  # which makes rows of norm at most 1
                X = clip_rows(X, norm)
            return centring.products(X, coef).astype(dtype, copy=False)
        return clipped_products(X, coef, norm)

    def _steps(self) -> list[Step]:
        bias = np.atleast_1d(self.intercept_)
        clips, coef = self._product_steps(np.atleast_2d(self.coef_).T)
        return [step_to_predict(self), *clips, step("layer", weights=coef, bias=bias)]

    def _product_steps(self, coef: np.ndarray) -> tuple[list[Step], np.ndarray]:
        """The clips of `_products` as steps, and the weights of what they return."""
        norm = cast(float, self.privacy_.data_norm)  # linear models have one
        steps = []
        if math.isfinite(norm) and not hasattr(self, "encoder_"):
            steps.append(step("clip", norm=norm))
        if hasattr(self, "center_"):
            centring = Centring(self.center_, self.scale_, self.row_norm_)
            steps.append(step("centre", **centring.facts))
        return steps, coef

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        is_declared = self.columns is not None
        if is_declared:
            tags.input_tags = get_tags(encoder_of(self.columns)).input_tags
        tags.input_tags.sparse = not is_declared
        return tags

    def _objective(
        self,
        loss: Loss,
        n_samples: int,
        n_features: int,
        alpha: float,
        budget: Budget,
    ) -> LinearObjective:
        """The public facts of a fit as an objective."""
        return LinearObjective(
            loss=loss,
            n_samples=n_samples,
            n_features=n_features,
            data_norm=float(self.data_norm) if budget.is_finite else math.inf,
            adjacency=relation_for(self.adjacency, self.privacy_unit),
            alpha=alpha,
            fit_intercept=self.fit_intercept,
        )

    @abstractmethod
    def _planned_objective(
        self, n_samples: int, n_features: int, budget: Budget
    ) -> LinearObjective:
        """The objective of a fit to a table of which only the shape is known."""

    def forecast(self, n_samples: int, n_features: int | None = None) -> Forecast:
        """Forecast the solver, and noise against signal, of a fit to this many rows.

        The solver and its parameters are those that `fit` would use. Nothing is read
        and nothing is spent. A classifier without `classes` is assumed to have two
        classes. What to expect of the fit is a rule of thumb
        (``docs/guide/linear_models.md``); `fit` warns by the same rule.

        Parameters
        ----------
        n_samples : int
            Number of rows; with ``privacy_unit="user"`` the number of users.
        n_features : int or None, default=None
            Number of columns of X. It may be None if `columns` declares each column.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, epsilon is inf, or the solver cannot fit
            this model.
        """
        return self._forecast(n_samples, n_features)

    def _foreseen(
        self, budget: Budget, n_samples: int, n_features: int | None
    ) -> PlannedFit[LinearObjective, Solution]:
        named_solver(self.solver, self.solver_params)  # raises if there is none
        if self.columns is None:
            remedy = "Pass the number of columns of X."
            n_features = check_count("n_features", n_features, remedy=remedy)
            objective = self._planned_objective(n_samples, n_features, budget)
            return self._planned(objective, budget, None)
        is_centred = self._will_centre()
        knots = knots_for(self, budget)
        own = clone(self)
        own.encoder_, encoding = encoded_unseen(
            self.columns,
            n_samples,
            n_features,
            knots,
            budget,
            has_lines=self._has_lines(),
        )
        objective = own._planned_objective(n_samples, encoding.basis.shape[1], budget)
        rows = states_of(encoding) if is_centred else None
        return cast(Self, own)._planned(objective, budget, rows)

    def _shape(self, n_samples: int) -> tuple[int, int]:
        return n_samples, self.n_features_in_

    def _planned(
        self, objective: LinearObjective, budget: Budget, rows: States | None
    ) -> PlannedFit[LinearObjective, Solution]:
        """The fit to an objective, with all parameters decided from public facts."""
        key, params, chosen, signal = self.solver, self.solver_params, None, None
        given = self._given()
        if budget.is_finite:
            signal = self._signal_of(objective, budget)
            if key == "auto" and given is None:
                named = named_solver(key, params)  # raises if parameters are wrong
                chosen = constant_if_dominated(named, objective, budget, signal)
        chosen = chosen or choose_solver(key, params, objective, budget, rows)
        if given is not None and chosen is not None and signal is not None:
            descent, before = chosen.solver, given._released
            if before is None or not isinstance(descent, CentredDescent):
                raise ValueError(
                    "A fit with 'init', and the fit of that model, must be descents on "
                    "centred rows: by solver='auto' with an intercept and a delta "
                    "above 0. Got another solver. Leave out 'init'."
                )
            descent = descent.after(before, objective)
            chosen = Chosen(descent, "a descent from the weights of 'init'")
            noise = math.sqrt(descent.learned_share) * signal.coefficient_noise
            signal = replace(signal, coefficient_noise=noise)
        if chosen is not None and budget.is_finite:
            return planned_fit(objective, budget, chosen.solver, chosen.reason, signal)
        solver = ExactFit(inner=None if chosen is None else chosen.solver)
        return planned_fit(objective, budget, solver, _EXACT)

    def _signal_of(self, objective: LinearObjective, budget: Budget) -> Signal:
        """Noise against signal, for a finite epsilon."""
        if self._is_default(budget) and objective.n_nonzero is None:
            return signal_of_centred(objective, budget)
        if hasattr(self, "encoder_") and objective.n_nonzero is None:
            # The noise decides how finely a curve is fitted; at the coarsest it is a
            # line.
            n_lines = self.encoder_._encoding.n_lines
            objective = replace(objective, n_features=n_lines)
        return signal_of(objective, budget)

    def _is_default(self, budget: Budget) -> bool:
        """Whether the fit is one on centred rows, or a constant, if not sparse."""
        return self.solver == "auto" and self.fit_intercept and budget.delta > 0

    def _remedies(self, budget: Budget) -> tuple[str, ...]:
        """What to change if noise dominates."""
        # The default takes the constant by the number of records and the budget alone.
        fewer = () if self._is_default(budget) else ("fewer columns",)
        return ("a larger epsilon", *fewer, *relaxed(budget))

    def _solve(
        self,
        source: Source,
        rows: LinearRows,
        loss: Loss,
        alpha: float,
        budget: Budget,
        assumed_public: tuple[str, ...],
        part: FirstPart | None = None,
    ) -> tuple[Solution, LinearObjective]:
        """Fit to a source of checked rows; set ``privacy_`` and some fitted attributes.

        If `part` is given, the source is the first part of a stream; with None it is
        the whole table.
        """
        facts = source.facts
        n_samples = facts.n_samples * (1 if part is None else part.n_parts)
        objective = replace(
            self._objective(loss, n_samples, rows.n_features, alpha, budget),
            holds_rows=facts.holds_rows,
            # Parts of a stream come in their order, with users or without.
            is_ordered=facts.is_ordered or part is not None,
            is_permutable=facts.is_permutable,
        )
        planned = self._planned(objective, budget, rows.states)
        is_text = self.columns is None and issparse(rows.X)
        if is_text and objective.n_nonzero is None and planned.signal and self.delta:
            # Rows of many short entries do not spread evenly over all features. On
            # hashed texts (2^16 features, 800 to 25,000 rows, epsilon 0.1 to 1) named
            # solvers stop being useful where the default does.
            planned = replace(planned, signal=signal_of_centred(objective, budget))
        planned = replace(
            planned,
            assumed_public=assumed_public,
            remedies=self._remedies(budget),
            verbose=self.verbose,
        )
        if objective.feature_bound < objective.data_norm:
            source = EntriesClipped(source, objective.feature_bound)
        warn_of_rereading(source, planned)
        if part is not None:
            planned, source = part.begins(planned, source)
        solution = fit(self, planned, source, self._door(budget))
        self._keep_released(solution)
        return solution, objective

    def _begin(self, table: Table, part: FirstPart) -> None:
        """Fit to the first part of a stream."""
        raise NotImplementedError  # a sparse model has no solver that takes parts

    def _targets_of_part(self, table: Table, rows: LinearRows) -> Any:
        """Targets of a later part, in the units of the loss."""
        raise NotImplementedError

    def _keep_weights(
        self, solution: Solution, objective: LinearObjective, dtype: Any
    ) -> None:
        """Set fitted attributes from a solution."""
        raise NotImplementedError

    def _keep_released(self, solution: Solution) -> None:
        released = ("center_", "scale_", "row_norm_", "_released", "_states")
        for name in (*released, *_PATHS):
            self.__dict__.pop(name, None)
        if isinstance(solution, CentredSolution):
            self._released, centring = solution, solution.centring
            self.center_, self.scale_ = centring.centre, centring.scale
            self.row_norm_ = centring.norm
            if (states := solution.states) is not None:
                noise = self._raw_unit * states.deviations
                self._states = states._replace(deviations=noise)

    @property
    def _raw_unit(self) -> float:
        """The unit of a solver's raw predictions, in units of the model's."""
        return 1.0

    def _keep_path(self, path: list[tuple[FloatArray, FloatArray]], dtype: Any) -> None:
        """Set coefficients after each step as attributes, if the solver kept them."""
        if path:
            for name, found in zip(_PATHS, zip(*path, strict=True), strict=True):
                setattr(self, name, in_dtype(np.stack(found), dtype))


# ----------------------------------------- Estimates: coefficients with standard errors
# Post-processing of private outputs, in tables of the form that statsmodels prints.


@dataclass(frozen=True, eq=False)
class Estimates:
    """Coefficients without shrinkage, and their covariance.

    Parameters
    ----------
    names : tuple of str
        Names of the features, and ``"intercept"`` last if there is one.
    values : ndarray of shape (n_names,)
        Private output. NaN for coefficients that noise hides: of columns that are
        nearly alike, or that vary too little.
    covariance : ndarray of shape (n_names, n_names)
        Private output. inf for hidden coefficients.
    far : float, default=0.0
        Proportion of the records that weigh less because they lie far from the others,
        if that may change the values. Private output.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    far: float = 0.0

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the coefficients that noise hides."""
        return tuple(np.array(self.names)[~np.isfinite(np.diag(self.covariance))])

    @property
    def errors(self) -> pd.Series:
        """Standard errors by name."""
        return pd.Series(np.sqrt(np.diag(self.covariance)), self.names)

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Confidence intervals by name, with columns ``"lower"`` and ``"upper"``.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Proportion of intervals that contain their coefficient.

        Returns
        -------
        DataFrame of shape (n_names, 2)
        """
        level = check_real(
            "level", level, low=0.0, high=1.0, low_open=True, high_open=True
        )
        reach = float(ndtri((1 + level) / 2)) * self.errors.to_numpy()
        ends = {"lower": self.values - reach, "upper": self.values + reach}
        return pd.DataFrame(ends, index=list(self.names))

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """Estimate, standard error, z, p-value and interval by name.

        Parameters
        ----------
        level : float in (0, 1), default=0.95

        Returns
        -------
        DataFrame of shape (n_names, 6)
            The columns are named as statsmodels names them.
        """
        ends, errors = self.conf_int(level), self.errors.to_numpy()
        z = self.values / errors
        low, high = (1 - level) / 2, (1 + level) / 2
        return pd.DataFrame(
            {
                "coef": self.values,
                "std err": errors,
                "z": z,
                "P>|z|": 2 * ndtr(-np.abs(z)),
                f"[{low:.4g}": ends["lower"].to_numpy(),
                f"{high:.4g}]": ends["upper"].to_numpy(),
            },
            index=list(self.names),
        )


# Names in a warning.
_MOST_NAMES = 10


def _estimate_warnings(estimates: Estimates) -> Iterator[str]:
    """What the released numbers cannot say."""
    hidden, n_names = estimates.hidden, len(estimates.names)
    if len(hidden) == n_names:
        yield (
            "Noise hides all coefficients, which have no standard errors. Use more "
            "records, a larger epsilon, fewer columns, or narrower ranges of columns."
        )
    elif hidden:
        shown = ", ".join(hidden[:_MOST_NAMES])
        more = len(hidden) - _MOST_NAMES
        shown += f" and {more} more" if more > 0 else ""
        yield (
            f"Noise hides the coefficients of {shown}, which have no standard errors: "
            "a combination of these columns is nearly the same for all records. The "
            f"other {n_names - len(hidden)} coefficients have them. Use more "
            "records, a larger epsilon or narrower ranges, or leave out one of these "
            "columns."
        )
    if estimates.far > 0 and len(hidden) < n_names:
        yield (
            f"About {100 * estimates.far:.2g} % of the records lie far from the "
            "others and weigh less in the estimates, which may differ from those of "
            "equal weights by more than the standard errors. Use more records, a "
            "larger epsilon or narrower ranges of the columns."
        )


class HasEstimates(DPEstimator):
    """A model with the standard errors that some solvers compute.

    Among the bases of a class it must come before the one that has `_keep_weights`.
    """

    estimates_: Estimates

    def _keep_weights(
        self, solution: Solution, objective: LinearObjective, dtype: Any
    ) -> None:
        super()._keep_weights(solution, objective, dtype)
        self.__dict__.pop("estimates_", None)
        if not isinstance(solution, EstimatedSolution):
            return
        middle, scale = self._target_units()
        values = scale * solution.estimate
        names = getattr(self, "feature_names_in_", None)
        if hasattr(self, "encoder_"):
            names = self.encoder_.get_feature_names_out()
        if names is None:
            names = [f"x{j}" for j in range(objective.n_features)]
        if objective.fit_intercept:
            names, values[-1] = [*names, "intercept"], values[-1] + middle
        covariance = scale**2 * solution.covariance
        self.estimates_ = Estimates(tuple(names), values, covariance, solution.far)

    def _release_warnings(self) -> list[tuple[str, type[Warning], str]]:
        found = super()._release_warnings()
        if hasattr(self, "estimates_"):
            texts = _estimate_warnings(self.estimates_)
            found += [(text, CoefficientErrorsWarning, text) for text in texts]
        return found

    def _target_units(self) -> tuple[float, float]:
        """The target that the loss represents as 0, and the size of the loss's unit."""
        return 0.0, 1.0

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """Estimates, standard errors, z, p-values and intervals; post-processing.

        The table has the form of statsmodels' tables. It describes the coefficients
        that minimise the objective over the population, with rows clipped to
        `data_norm` and with the penalty if one was given; for adassp, the coefficients
        of least squares without shrinkage. The standard errors include the privacy
        noise and the sampling of records. adassp assumes that all residuals have the
        same variance; with users, the standard errors allow any dependence among the
        rows of one user. With noisy_newton, records far from the others weigh less.
        Entries are NaN and inf for coefficients that noise hides; `fit` names them.
        Columns that add up to a constant are always hidden, as the columns of declared
        categories are.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Proportion of intervals that contain their coefficient.

        Returns
        -------
        DataFrame of shape (n_features + 1, 6)
            The last row, of the intercept, is missing if there is no intercept.

        Raises
        ------
        ValueError
            If the solver of the fit computed no standard errors.
        """
        check_is_fitted(self)
        if not hasattr(self, "estimates_"):
            raise ValueError(
                "The model must be fitted with standard errors to have a summary. Got "
                f"solver={self.privacy_.solver!r}, which released none. Fit "
                "with solver='noisy_newton' and a finite epsilon; a regression may "
                "also use solver='adassp', solver_params={'squares_weight': 0.5}."
            )
        return self.estimates_.summary(level)
