"""Private linear models that select few of many features."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import clip_entries, columns_at
from skdp._base import Signal, relaxed
from skdp._checks import check_alpha, check_count, check_data_norm, check_real
from skdp._export import Step, step
from skdp.linear_model._base import DPEstimator
from skdp.linear_model._classifiers import LogisticModel
from skdp.linear_model._regressors import LinearRegressor
from skdp.losses._base import Loss
from skdp.losses._objective import LinearObjective
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.solvers._default_rules import TYPICAL_DELTA
from skdp.solvers._registry import SOLVERS, SolverName
from skdp.tables._columns import Columns

# ------------------------------------------------ SparseModel: models with few features


def default_n_nonzero(objective: LinearObjective, budget: Budget) -> int:
    """Number of features that can be distinguished from noise; public facts only.

    If k features matter equally, each has 1 / sqrt(k) of the signal. If rows have m or
    more entries, where m follows from the bounds on rows and entries, each entry has 1
    / sqrt(m) of a record's part of the sensitivity. The signal of a feature over the
    noise has to exceed the largest noise in d features about five times, to allow for
    all steps and all clipping. If entries have no bound, m is 1, and the other limit
    applies: all k features together have to stand out from the noise.
    """
    n, d = objective.n_samples, objective.n_features
    mu = gaussian_mu(budget.epsilon, budget.delta or TYPICAL_DELTA)
    entries = min(objective.full_entries, d)
    level = 2 * math.log(d + 1)
    wanted = min((n * mu / 5) ** 2 / (entries * level), 6 * n * mu / level, d)
    return max(1, math.floor(wanted))


class SparseModel(DPEstimator):
    """A linear model with few nonzero coefficients.

    A subclass has the parameters alpha, feature_bound and n_nonzero_coefs.
    """

    _can_centre = False

    def _objective(
        self,
        loss: Loss,
        n_samples: int,
        n_features: int,
        alpha: float,
        budget: Budget,
    ) -> LinearObjective:
        objective = super()._objective(loss, n_samples, n_features, alpha, budget)
        bound = self._checked_bound()
        if self.columns is not None:
            bound = min(bound, float(self.encoder_.entry_bound_))
        most = self.n_nonzero_coefs
        if most is None:
            stated = replace(objective, data_norm=self.data_norm, feature_bound=bound)
            most = default_n_nonzero(stated, budget)
        remedy = "There are no more features. Use None for the default rule."
        most = check_count("n_nonzero_coefs", most, high=n_features, remedy=remedy)
        if not budget.is_finite:
            bound = math.inf
        return replace(objective, feature_bound=bound, n_nonzero=most)

    def _signal_of(self, objective: LinearObjective, budget: Budget) -> Signal:
        if self.n_nonzero_coefs is None:
            # With less noise the rule takes more features, whether they matter or not.
            # The forecast therefore requires only that one feature stands out.
            objective = replace(objective, n_nonzero=1)
        return super()._signal_of(objective, budget)

    def _remedies(self, budget: Budget) -> tuple[str, ...]:
        fewer = "a smaller n_nonzero_coefs"
        return ("a larger epsilon", "fewer columns", fewer, *relaxed(budget))

    def _products(self, X: Any, coef: np.ndarray) -> np.ndarray:
        record: Any = self.privacy_  # the bounds of a sparse model are no None
        if record.solver in SOLVERS and SOLVERS[record.solver].clips_selected:
            chosen = self.get_support(indices=True)
            X, coef = columns_at(X, chosen), coef[chosen]
        if record.feature_bound < record.data_norm:
            X = clip_entries(X, record.feature_bound)
        return super()._products(X, coef)

    def _product_steps(self, coef: np.ndarray) -> tuple[list[Step], np.ndarray]:
        record, steps = self.privacy_, []
        if record.solver in SOLVERS and SOLVERS[record.solver].clips_selected:
            # A model without features has one with a weight of 0.
            chosen = self.get_support(indices=True) if np.any(coef) else np.array([0])
            steps.append(step("select", indices=chosen))
            coef = coef[chosen]
        # Sparse models have both bounds.
        bound, norm = cast(
            tuple[float, float], (record.feature_bound, record.data_norm)
        )
        if bound < norm:
            steps.append(step("limit", bound=bound))
        others, coef = super()._product_steps(coef)
        return steps + others, coef

    def _checked_bound(self) -> float:
        if self.feature_bound is None:
            return math.inf
        return check_real("feature_bound", self.feature_bound, low=1e-100, high=1e100)

    @property
    def n_nonzero_coefs_(self) -> int:
        """Largest number of features with a nonzero coefficient, as used by `fit`."""
        return cast(int, self.privacy_.n_nonzero_coefs)

    def _adds_in_squares(self) -> bool:
        return self.solver != "auto" and super()._adds_in_squares()

    def _use_composable_noise(self) -> None:
        if self.solver == "auto" and self.delta > 0 and not self._may_select():
            self.solver = "iht"

    def _may_select(self) -> bool:
        """Whether "auto" may use private selections for some number of features.

        The costs of selections do not add up in squares, but where selections are
        better, they gain far more than this costs.
        """
        fewest = check_count("n_nonzero_coefs", self.n_nonzero_coefs or 1)
        norm = check_data_norm(self.data_norm)
        return norm >= math.sqrt(2 * fewest) * self._checked_bound()

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Features with a nonzero coefficient; post-processing of ``coef_``.

        Parameters
        ----------
        indices : bool, default=False
            Whether to return the indices of the features instead of a mask.

        Returns
        -------
        ndarray of bool of shape (n_features,), or of int of shape (n_selected,)
            A mask, or the indices of the features in increasing order.
        """
        check_is_fitted(self)
        mask = np.any(np.atleast_2d(self.coef_) != 0, axis=0)
        return np.flatnonzero(mask) if indices else mask


# ----------------------------------------------------------- DPSparseLogisticRegression


class DPSparseLogisticRegression(SparseModel, LogisticModel):
    r"""Logistic regression on few of many features, with differential privacy.

    The model minimises ``mean_i log-loss(y_i, x_i W) + alpha / 2 * ||W||^2`` privately
    over weights with at most `n_nonzero_coefs` nonzero features. The noise per feature
    grows with the number of selected features, and only with the logarithm of the
    number of all features. With more than two classes a feature is nonzero for all of
    them or for none. Entries are clipped to `feature_bound` and rows to `data_norm`.
    With a finite epsilon, predictions clip X as `fit` does; for rows within both
    bounds, `decision_function` is ``X @ coef_.T + intercept_``. The solvers ``peeling``
    and ``two_stage``, which fit after the selection, clip only the selected part of a
    row. X may be CSR and is not converted to a dense array.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. ``coef_`` is
    released, which includes the choice of features, and ``intercept_``; see
    ``privacy_``, and ``docs/guide/before_you_sign.md`` also for what is not covered.
    Predictions and `get_support` are post-processing; ``score(X, y)`` reads raw data
    and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf nothing is clipped, and the solver is hard thresholding pursuit.
    %(columns, delta, adjacency, privacy_unit, data_norm, feature_bound)s
    %(n_nonzero_coefs)s
    alpha : float in [0, 1e100] or None, default=None
        L2 regularisation of the mean loss. None: no penalty.
    %(fit_intercept)s
        The intercept has noise too, and does not count as a feature.
    %(solver)s
        Only solvers that select features can fit this model.
    %(solver_params, classes, class_weight, correct_prior, random_state, ledger)s
    %(verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output; at most `n_nonzero_coefs` nonzero columns. Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output. Zeros if there is no intercept, which are public.
    %(classes_, n_nonzero_coefs_, privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.linear_model.LogisticRegression : With an L1 penalty, not private.
    DPLogisticRegression : Uses all features; more accurate if there are few.

    Notes
    -----
    ``fit`` has no ``sample_weight``, because unbounded weights would invalidate the
    sensitivity.

    In `SelectFromModel` use ``threshold=1e-10``. Its default threshold is the mean of
    the coefficients, which not all selected features exceed.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPSparseLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 200))
    >>> y = X[:, 7] - X[:, 90] + rng.normal(scale=0.1, size=5000) > 0
    >>> model = DPSparseLogisticRegression(
    ...     epsilon=2.0, data_norm=9.0, feature_bound=1.0, n_nonzero_coefs=2,
    ...     classes=[False, True],
    ... ).fit(X, y)
    >>> model.get_support(indices=True)
    array([ 7, 90])
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        feature_bound: float | None = None,
        n_nonzero_coefs: int | None = None,
        alpha: float | None = None,
        fit_intercept: bool = True,
        solver: SolverName = "auto",
        solver_params: Any = None,
        classes: Any = None,
        class_weight: Any = None,
        correct_prior: bool = True,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.data_norm = data_norm
        self.feature_bound = feature_bound
        self.n_nonzero_coefs = n_nonzero_coefs
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_params = solver_params
        self.classes = classes
        self.class_weight = class_weight
        self.correct_prior = correct_prior
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _check_strength(self) -> None:
        check_alpha(self.alpha)

    def _alpha(self, n_samples: int, budget: Budget) -> float:
        return check_alpha(self.alpha)


# ------------------------------------------------------------- DPSparseLinearRegression


class DPSparseLinearRegression(SparseModel, LinearRegressor):
    r"""Linear regression on few of many features, with differential privacy.

    The model minimises ``mean_i (y_i - x_i w - b)^2 / 2 + alpha / 2 * ||w, b||^2``
    privately over weights of which at most `n_nonzero_coefs` are not zero. The noise
    per feature grows with the number of selected features, and only with the logarithm
    of the number of all features. Targets are clipped to `target_bounds`, entries to
    `feature_bound` and rows to `data_norm`. With a finite epsilon, `predict` clips
    entries and rows as `fit` does; for rows within both bounds it returns
    ``X @ coef_ + intercept_``. The solvers ``peeling`` and ``two_stage``, which fit
    after the selection, clip only the selected part of a row. X may be CSR and is not
    converted to a dense array.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. ``coef_`` is released, which
    includes the choice of features, and ``intercept_``; see ``privacy_``, and
    ``docs/guide/before_you_sign.md`` also for what is not covered. `predict` and
    `get_support` are post-processing; ``score(X, y)`` reads raw data and is **not**
    private.

    Parameters
    ----------
    %(epsilon)s
        With inf nothing is clipped, and the solver is hard thresholding pursuit.
    %(columns, delta, adjacency, privacy_unit, data_norm, feature_bound)s
    %(n_nonzero_coefs)s
    alpha : float in [0, 1e100] or None, default=None
        L2 regularisation of the mean loss. None: no penalty.
    %(fit_intercept)s
        The intercept has noise too, and does not count as a feature.
    %(target_bounds, solver)s
        Only solvers that select features can fit this model.
    %(solver_params, random_state, ledger, verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private output; at most `n_nonzero_coefs` nonzero entries. Of the dtype of X.
    intercept_ : float
        Private output. 0.0 if there is no intercept, which is public.
    %(n_nonzero_coefs_, privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.linear_model.OrthogonalMatchingPursuit : Few features without privacy.
    DPLinearRegression : Uses all features; more accurate if there are few.

    Notes
    -----
    Internally, targets are shifted and scaled from `target_bounds` to [-1, 1] (without
    an intercept they are only scaled, since 0 must stay 0). ``fit`` has no
    ``sample_weight``, because unbounded weights would invalidate the sensitivity.

    In `SelectFromModel` use ``threshold=1e-10``. Its default threshold is the mean of
    the coefficients, which not all selected features exceed.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPSparseLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 200))
    >>> y = 2 * X[:, 7] - X[:, 90] + rng.normal(scale=0.1, size=5000)
    >>> model = DPSparseLinearRegression(
    ...     epsilon=2.0, data_norm=9.0, feature_bound=1.0, n_nonzero_coefs=2,
    ...     target_bounds=(-3, 3),
    ... ).fit(X, y)
    >>> model.get_support(indices=True)
    array([ 7, 90])
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        feature_bound: float | None = None,
        n_nonzero_coefs: int | None = None,
        alpha: float | None = None,
        fit_intercept: bool = True,
        target_bounds: Any = None,
        solver: SolverName = "auto",
        solver_params: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.data_norm = data_norm
        self.feature_bound = feature_bound
        self.n_nonzero_coefs = n_nonzero_coefs
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.target_bounds = target_bounds
        self.solver = solver
        self.solver_params = solver_params
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose
