"""Private regression of quantiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from skdp._validation import check_real
from skdp.linear_model._regressor import LinearRegressor, Units
from skdp.losses import QuantileLoss
from skdp.losses._base import Loss
from skdp.privacy import Budget


class DPQuantileRegressor(LinearRegressor):
    r"""Linear quantile regression with differential privacy.

    Minimises ``mean_i pinball(y_i - x_i w - b) + alpha / 2 * ||w, b||^2`` privately:
    below the predictions is the share `quantile` of the targets. The kink of the
    pinball loss is rounded within `h` of it (`QuantileLoss`), because private solvers
    need a smooth loss; its gradient is bounded as it is, whatever the targets.
    scikit-learn's `QuantileRegressor` has an L1 penalty, and a sharp kink. Targets are
    clipped to `target_bounds`, rows to `data_norm`. The intercept is the weight of one
    more column that holds the constant `data_norm`; what is penalised is its distance
    from the middle of `target_bounds`, where it starts. `predict` clips rows as `fit`
    does, at finite epsilon; without the clip it would be ``X @ coef_ + intercept_``,
    which it is for rows within `data_norm`.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are ``coef_`` and
    ``intercept_``; see ``privacy_``, ``docs/privacy_guarantee.md`` and, for what is not
    covered, ``docs/known_weaknesses.md``. `predict` is post-processing;
    ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf, default=1.0
        Privacy loss. inf fits without noise and without clipping rows.
    columns : mapping, sequence, Range, TableEncoder or None, default=None
        Declarations of `skdp.columns`: then X is a table, and `fit` and `predict`
        encode it as `TableEncoder` does, at a fineness that follows from n_samples,
        epsilon and delta. Rows then have norm at most 1, and `data_norm` stays 1.0.
        A TableEncoder says how columns are encoded.
    delta : 0 or float in [1e-50, 1), default=1e-6
        Probability with which the guarantee may fail; far below ``1 / n_samples``.
        0 asks for pure epsilon.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What neighbouring data sets are: one record exchanged for any other, or for
        the null record, which contributes nothing.
    privacy_unit : {"record", "user"}, default="record"
        What neighbours differ in: one row, or all rows of one user, whose ids come by
        ``fit(X, y, groups=ids)``. Then each user counts as one record, with the mean
        over the own rows, and `adjacency` is of users (``docs/users.md``).
    data_norm : float in [1e-100, 1e100], default=1.0
        L2 norm to which rows are clipped, in units of the features. `BoundedScaler`
        and `RowNormClipper` produce rows of norm at most 1.
    quantile : float in [0.01, 0.99], default=0.5
        Below which share of the targets predictions are.
    alpha : float in [0, 1e100] or None, default=None
        L2 regularisation of the mean loss, in units of the target. None: no penalty
        beyond what the solver chooses by its data-independent rule or from what it
        released.
    fit_intercept : bool, default=True
    target_bounds : pair of floats in [-1e100, 1e100]
        Lowest and highest target, in its units, known without looking at the data.
        Required; the default None raises.
    solver : str, default="auto"
        ``"auto"`` chooses from public facts and says why in ``privacy_``; or a key of
        ``skdp.solvers.SOLVERS`` that does not refuse the loss.
    solver_params : mapping or None, default=None
        Hyper-parameters of a named solver, for example ``{"n_steps": 100}``. Nothing
        in it can change noise scale, sensitivity or randomness.
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that every fit is charged to before it reads the data.
    verbose : bool or int, default=False
        Print the solver's progress: step counts, nothing from the data.
    h : float in [1e-3, 1], default=0.05
        Half the width of the rounded kink, in halves of the width of `target_bounds`.
        Public. A sharper kink bends more: steps are shorter; a wider one moves outer
        quantiles outwards.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private output. Of the dtype of X.
    intercept_ : float
        Private output (0.0 without an intercept, public).
    center_, scale_ : ndarray of shape (n_features,) or (n_encoded_features,)
        What rows are centred on, and multiplied by before they are clipped. The centre
        is a private output, the scale is public. Only of ``"auto"``
        (``docs/default_solver.md``).
    row_norm_ : float
        Norm to which such rows are clipped. Private output.
    coef_path_ : ndarray of shape (n_steps, n_features)
    intercept_path_ : ndarray of shape (n_steps,)
        Coefficients and intercepts after each step, of which the model is an average or
        the last. Private output, paid for with the rest. Only of a descent with
        ``solver_params={"keeps_path": True}``.
    privacy_ : PrivacyRecord
        Public facts, and post-processing of released iterates (``noise_scale``).
    encoder_ : TableEncoder
        What encoded the rows; public. Only if `columns` is given.
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    See Also
    --------
    DPGradientBoostingRegressor : Boosted trees, with ``loss="quantile"``.
    sklearn.linear_model.QuantileRegressor : The estimator without privacy.

    Notes
    -----
    Inside, targets are shifted and scaled by `target_bounds` to [-1, 1] (without an
    intercept only scaled, since 0 must stay 0). ``fit`` has no ``sample_weight``:
    unbounded weights would void the sensitivity.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20_000, 3))
    >>> y = X[:, 0] + rng.exponential(size=20_000)
    >>> model = DPQuantileRegressor(
    ...     epsilon=2.0, quantile=0.9, target_bounds=(-1, 9)
    ... ).fit(X, y)
    >>> bool(0.85 < (y <= model.predict(X)).mean() < 0.95)
    True
    """

    _always_clips = True
    # What rates it where no score is named.
    _scored_by: ClassVar[str] = "neg_mean_pinball_loss"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Any = None,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        data_norm: float = 1.0,
        quantile: float = 0.5,
        alpha: float | None = None,
        fit_intercept: bool = True,
        target_bounds: Any = None,
        solver: str = "auto",
        solver_params: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int = False,
        h: float = 0.05,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.data_norm = data_norm
        self.quantile = quantile
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.target_bounds = target_bounds
        self.solver = solver
        self.solver_params = solver_params
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose
        self.h = h

    def _loss(self, budget: Budget) -> Loss:
        level = check_real("quantile", self.quantile, low=0.01, high=0.99)
        return QuantileLoss(level, check_real("h", self.h, low=1e-3, high=1.0))

    def _units(self) -> Units:
        units = super()._units()
        return replace(units, per_alpha=units.scale)
