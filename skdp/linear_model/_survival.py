"""Private survival analysis: proportional hazards in discrete time."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray, IntArray, count_rows
from skdp._checks import check_count, check_real
from skdp._export import Step
from skdp._fit import PlannedFit
from skdp._input import without_data
from skdp._show import Display, draw_each
from skdp.exceptions import Refused
from skdp.io._table import Table
from skdp.linear_model._base import DPEstimator, planned_fit
from skdp.linear_model._rows import (
    public_facts,
    rows_to_fit,
    rows_to_predict,
    states_of,
)
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.solvers._default_rules import signal_of_centred
from skdp.solvers._exact import ExactFit
from skdp.solvers._hazard_effects import HazardSolution
from skdp.solvers._hazards import (
    HazardDescent,
    HazardLoss,
    HazardObjective,
)
from skdp.solvers._life_table import HazardBase
from skdp.tables._columns import Columns

# ------------------------------------------------------------- Durations and events


# Further intervals would hold few events each, and noise in each.
_MOST_INTERVALS = 100
# Limits of bands are 0 and 1 from this factor on, in logarithms.
_FARTHEST = 50.0
_BAD_TARGETS = (
    "The y argument must have two columns for each row of X: event, which is true or "
    "false (or 1 or 0), and duration, a finite number. Got something else. Pass a "
    "structured array (event, time), as scikit-survival does, or a data frame with the "
    "columns 'event' and 'duration', or one column of finite durations with a minus "
    "sign where persons are censored."
)


def _event_and_duration(y: Any, n_rows: int) -> tuple[Any, Any]:
    """Checked columns; any other y raises some error."""
    frame = y if isinstance(y, pd.DataFrame) else pd.DataFrame(np.asarray(y))
    if len(frame.columns) == 1:
        signed = frame.iloc[:, 0].to_numpy(np.float64)
        frame = pd.DataFrame({"event": signed > 0, "duration": np.abs(signed)})
    first, second = frame.columns
    if second == "event":
        first, second = second, first
    event, duration = frame[first].to_numpy(), frame[second].to_numpy(np.float64)
    is_known = ((event == 0) | (event == 1)) & np.isfinite(duration)
    if len(frame) != n_rows or not is_known.all():
        raise ValueError
    return event == 1, duration


def _coded(
    horizon: float, n_intervals: int, event: NDArray[Any], duration: FloatArray
) -> FloatArray:
    """The interval of each event, from 1, or minus the time until censoring.

    Times are counted in intervals and clipped to the horizon.
    """
    passed = np.clip(duration / horizon, 0.0, 1.0) * n_intervals
    is_event = event & (duration <= horizon)
    found = np.where(is_event, np.maximum(np.ceil(passed), 1.0), -passed)
    return np.asarray(found, dtype=np.float64)


def _coded_signed(horizon: float, n_intervals: int, signed: FloatArray) -> FloatArray:
    """The same of durations with a minus sign where persons are censored."""
    return _coded(horizon, n_intervals, signed > 0, np.abs(signed))


# -------------------------------------------------------------- DPDiscreteTimeSurvival


class DPDiscreteTimeSurvival(DPEstimator):
    r"""Proportional hazards in discrete time, with differential privacy.

    The time until `horizon` is divided into intervals of equal length. A person who is
    at risk at the beginning of interval j survives it with probability
    ``exp(-exp(b_j + f(x)))``, where ``b_j`` belongs to the interval and f is a sum of
    effects of the declared columns: the model of Cox for grouped times [1]_, whose
    effects are logarithms of hazard ratios. A first histogram of events and censored
    persons gives a life table; from its hazards a noisy descent learns the effects and
    the intervals together, and effects shrink by what may be noise. A person counts
    with all intervals at risk as one record, until the model expects one event of the
    person; this bounds what a person can change, and leaves the estimate consistent.
    Nobody is watched beyond the horizon.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. The life table, ``coef_`` and
    ``intercept_`` are released; see ``privacy_``, ``docs/proofs/survival.md``, and
    ``docs/guide/before_you_sign.md`` also for what is not covered. Predictions and
    bands are post-processing; `private_score` scores them.

    Parameters
    ----------
    %(epsilon)s
    horizon : float in [1e-100, 1e100]
        Time until which persons are watched, in units of the durations, known without
        looking at the data. Longer durations are cut off there, and shorter ones than 0
        count as 0. Required: `fit` refuses the default None.
    n_intervals : int in [1, 100], default=10
        Number of intervals. Public. With durations in whole months, take one interval
        for each month, or one for several.
    %(columns)s
        Required: `fit` refuses None.
    delta : float in [1e-50, 1), default=1e-6
        %(delta)s
        With 0 `fit` raises an error, because the noise is Gaussian.
    %(adjacency, privacy_unit, random_state, ledger, verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_encoded_features)
        Private output.
    intercept_ : ndarray of shape (n_intervals,)
        Logarithms of cumulated hazards, one an interval, for a row of zeros. Private
        output.
    times_ : ndarray of shape (n_intervals,)
        Ends of the intervals. Public.
    life_table_ : DataFrame
        The life table of all persons: ``time``, noisy counts of persons ``at_risk`` and
        of ``events`` in the interval that ends there, ``survival`` to its end, which is
        estimated from the counts, and its 95 % limits ``lower`` and ``upper``, which
        count the sample and the noise. Private output.
    center_, scale_ : ndarray of shape (n_encoded_features,)
        Each row is centred on `center_` and multiplied by `scale_`. The centre is a
        private output, the scale is public.
    row_norm_ : float
        Centred rows that are longer count less in `fit`, by the ratio of both; they
        are not clipped in predictions. Private output.
    %(privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    private_score : ``"concordance_index"`` and ``"neg_integrated_brier_score"``.
    DPLogisticRegression : For an event within one fixed time, without censoring.

    Notes
    -----
    A covariate has one value a row. With ``privacy_unit="user"`` a person may have
    several rows, for example one a hospital stay, and counts with their mean. A person
    who is censored within an interval is at risk in the part that has passed. Effects
    of numbers are curves; ``columns=TableEncoder(columns, numeric="linear")`` makes
    them straight lines, as in Cox's model, with less noise and narrower bands. The y of
    `fit` has the columns event and duration, or is one column of durations with a minus
    sign where persons are censored; a source has one column as its target.

    References
    ----------
    .. [1] Prentice and Gloeckler (1978). Regression analysis of grouped survival data
       with application to breast cancer data. Biometrics 34.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPDiscreteTimeSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> time, lost = rng.exponential(np.exp(-X[:, 0])), rng.exponential(3, 20_000)
    >>> y = np.column_stack([time <= lost, np.minimum(time, lost)])
    >>> model = DPDiscreteTimeSurvival(horizon=2.0, columns=(-1, 1)).fit(X, y)
    >>> model.predict_survival_function(X[:5]).shape, model.privacy_.epsilon
    ((5, 10), 1.0)
    """

    solver, solver_params, data_norm, fit_intercept = "auto", None, 1.0, True
    _may_be_constant = False
    _effect_units = ("log-hazard",)

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        horizon: float | None = None,
        n_intervals: int = 10,
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.horizon = horizon
        self.n_intervals = n_intervals
        self.columns = columns
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _check_privacy_params(self) -> Budget:
        remedy = "Pass the time until which persons are watched, known without looking."
        check_real("horizon", self.horizon, low=1e-100, high=1e100, remedy=remedy)
        check_count("n_intervals", self.n_intervals, high=_MOST_INTERVALS)
        if self.columns is None:
            raise ValueError(
                "The 'columns' parameter must declare the columns of X for a survival "
                "model. Got None. Pass a mapping from names to ranges and categories; "
                "skdp.columns.template(X) makes a draft."
            )
        return super()._check_privacy_params()

    def _fit(self, table: Table) -> Self:
        budget = self._check_privacy_params()
        users = table.users(self, budget)
        rows = rows_to_fit(self, table, budget, users, is_centred=True)
        assert self.horizon is not None  # checked before
        if table.holds_rows:
            y: Any = self._targets(table.y, rows.n_rows)
        else:
            signed = partial(_coded_signed, self.horizon, self.n_intervals)
            y = table.numbers(self, rows, signed)
        source = table.source(rows.X, y, users, is_private=budget.is_finite)
        facts = (*public_facts(self.columns, users), "horizon and n_intervals")
        found, objective = self._solve(source, rows, HazardLoss(), 0.0, budget, facts)
        self.coef_, self.intercept_ = found.unpack(objective)
        self.times_ = np.linspace(0.0, self.horizon, self.n_intervals + 1)[1:]
        if isinstance(found, HazardSolution):  # not in a rehearsal
            self._middle, self._middle_constant = found.middle, found.middle_constant
            self._of_weights, self._common = found.of_weights, found.common
            self._between_knots = found.between_knots
            assert isinstance(found.found.noise.base, HazardBase)
            shown = found.found.noise.base.table.shown()
            self.life_table_ = pd.DataFrame({"time": self.times_} | shown)
        return self

    def _targets(self, y: Any, n_rows: int) -> FloatArray:
        """What `_coded` makes of targets in memory."""
        event, duration = without_data(
            lambda: _event_and_duration(y, n_rows), _BAD_TARGETS
        )
        assert self.horizon is not None  # checked before
        return _coded(self.horizon, self.n_intervals, event, duration)

    def _exits(self, X: Any, y: Any) -> IntArray:
        """Interval of each event, from 0; or `n_intervals` and the intervals survived.

        For scores, whose y must be one column.
        """
        if not Table.of(X, y).holds_rows:
            raise Refused(
                "The X argument must be in memory for a score of a survival model. Got "
                "a source. Read the table into memory."
            )
        y = self._targets(y, count_rows(X))
        exits = np.where(y > 0, y - 1, self.n_intervals + np.floor(-y))
        return np.asarray(exits.astype(np.int64))

    def _objective(self, *facts: Any) -> HazardObjective:
        plain = vars(super()._objective(*facts)) | {"data_norm": 1.0}
        return HazardObjective(**plain, n_intervals=self.n_intervals)

    def _planned_objective(
        self, n_samples: int, n_features: int, budget: Budget
    ) -> HazardObjective:
        return self._objective(HazardLoss(), n_samples, n_features, 0.0, budget)

    def _planned(
        self, objective: Any, budget: Budget, rows: Any
    ) -> PlannedFit[Any, Any]:
        solver: Any = HazardDescent.planned({"rows": rows}, objective, budget)
        if not budget.is_finite:
            return planned_fit(objective, budget, ExactFit(inner=solver), "no noise")
        signal = signal_of_centred(objective, budget)
        why = "a descent on hazards, from a life table"
        return planned_fit(objective, budget, solver, why, signal)

    def _products(self, X: Any, coef: FloatArray) -> FloatArray:
        # Rows longer than `row_norm_` count less in `fit`, and are not clipped here.
        return np.asarray(X @ coef)

    def _product_steps(self, coef: FloatArray) -> tuple[list[Step], FloatArray]:
        return [], coef

    def _raw_rows(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        products = self._products(rows_to_predict(self, X), self.coef_.T)
        return np.asarray(products + self.intercept_)

    def predict(self, X: Any) -> FloatArray:
        """Risk scores, the sums of effects: logarithms of hazard ratios to a constant.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            The event is expected earlier where the score is higher.
        """
        return np.asarray(self._raw(X)[:, 0] - self.intercept_[0])

    def predict_hazard(self, X: Any) -> FloatArray:
        """Probability of the event in each interval, for persons at risk there.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_intervals)
        """
        return np.asarray(-np.expm1(-np.exp(self._raw(X))))

    def predict_survival_function(self, X: Any) -> FloatArray:
        """Probability of survival to each time in ``times_``.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_intervals)
        """
        return np.asarray(np.exp(-np.cumsum(np.exp(self._raw(X)), axis=1)))

    def survival_bands(
        self, X: Any, level: float = 0.95
    ) -> tuple[FloatArray, FloatArray]:
        """Pointwise limits of `predict_survival_function`.

        They count the sample, the privacy noise, and bends of curves that the descent
        has not learned, whose size is estimated from those of all curves. If the
        encoder makes lines of all numbers, there are no bends to count. Columns are
        taken to be independent. Slopes, categories, heaps and missing cells are not
        shrunk in the middle of a band, so that where little is learned the predicted
        curve may be outside. ``docs/guide/survival.md`` has the measured coverage, and
        ``docs/proofs/survival.md`` the formulas.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        level : float in [0, 1), default=0.95

        Returns
        -------
        lower, upper : ndarray of shape (n_samples, n_intervals)
        """
        level = check_real("level", level, low=0.0, high=1.0, high_open=True)
        encoding = self.encoder_._encoding
        rows = states_of(encoding).rows(encoding.states(self.encoder_._cells(X)))
        to_features = self.scale_ / self.row_norm_

        def products(inner: Any) -> FloatArray:
            weights = csr_array(inner) * to_features[:, None]
            found = rows.states @ (rows.basis @ weights)
            return np.asarray(found.toarray() - self.center_ @ weights)

        effects = products(self._middle)[:, 0]
        each = [np.sum(products(part) ** 2, axis=1) for part in self._of_weights]
        common = self._common
        # The error of the common size takes the place of that of single weights.
        shared, moved = products(common.with_weights), products(common.effects)
        variance = np.sum(each, axis=0)[:, None] + self._between_knots + common.of_times
        variance += moved * (moved * common.of_size + 2 * (common.with_times - shared))
        variance = np.maximum(variance, 0.0)
        effects = np.clip(effects, -_FARTHEST, _FARTHEST)[:, None]
        total = np.cumsum(np.exp(effects + self._middle_constant), axis=1)
        reach = ndtri((1 + level) / 2) * np.sqrt(variance)
        factor = np.exp(np.minimum(reach, _FARTHEST))
        return np.exp(-total * factor), np.exp(-total / factor)

    def plot_survival(self, X: Any, *, level: float = 0.95, ax: Any = None) -> Display:
        """Draw the survival curve of each row with its bands; needs matplotlib.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A few rows.
        level : float in [0, 1), default=0.95
            Of the pointwise bands (`survival_bands`).
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display
            With `axes_` and `figure_`.
        """
        found = self.predict_survival_function(X), *self.survival_bands(X, level)
        curves = [np.insert(each, 0, 1.0, axis=1) for each in found]
        at = [0.0, *self.times_]

        def draw(_: None, ax: Any) -> None:
            for curve, low, high in zip(*curves, strict=True):
                ax.plot(at, curve)
                ax.fill_between(at, low, high, alpha=0.25, linewidth=0)
            ax.set(xlabel="time", ylabel="survival", ylim=(0, 1))

        instead = "predict_survival_function()"
        return draw_each(draw, [None], ax, n_cols=1, what="figures", instead=instead)

    def _risks(self) -> tuple[float, float]:
        """Mean and deviation of the risks of all records, by the released shares."""
        tables = self.effects().values() if self.coef_.any() else ()
        variance = sum(float(t["share"] @ t["effect"] ** 2) for t in tables)
        return float(self.coef_[0] @ self.center_), max(math.sqrt(variance), 1e-3)
