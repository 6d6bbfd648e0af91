"""Private logistic regression with few features."""

from __future__ import annotations

from typing import Any

from skdp._validation import check_alpha
from skdp.linear_model._logistic import LogisticModel
from skdp.linear_model._sparse import SparseModel
from skdp.privacy import Budget


class DPSparseLogisticRegression(SparseModel, LogisticModel):
    r"""Logistic regression on few of many features, with differential privacy.

    Minimises ``mean_i log-loss(y_i, x_i W) + alpha / 2 * ||W||^2`` privately over
    weights in which at most `n_nonzero_coefs` features take part. The noise that a
    feature costs grows with the number selected and only with the logarithm of the
    number there are. With more than two classes a feature takes part in all of them or
    in none. Entries are clipped to `feature_bound`, rows to `data_norm`. `predict` and
    its kin clip as `fit` does, at finite epsilon; without the clip `decision_function`
    would be ``X @ coef_.T + intercept_``, which it is for rows within the bounds. With
    ``peeling`` and ``two_stage``, which fit after they have selected, it is the
    selected part of a row that is clipped. X may be CSR and stays so.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. Released are
    ``coef_``, which features it is nonzero for included, and ``intercept_``; see
    ``privacy_``,
    ``docs/privacy_guarantee.md`` and, for what is not covered,
    ``docs/known_weaknesses.md``. `predict` and its kin and
    `get_support` are post-processing;
    ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf, default=1.0
        Privacy loss. inf fits without noise and without clipping, by hard thresholding
        pursuit.
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
        L2 norm to which rows are clipped, in units of the features.
    feature_bound : float in [1e-100, 1e100] or None, default=None
        Magnitude to which entries are clipped before rows are, in units of the
        features. Where it is far below `data_norm`, features can be selected with much
        less noise. None: `data_norm`, which bounds entries already; with `columns` what
        the encoding says of entries.
    n_nonzero_coefs : int in [1, n_features] or None, default=None
        Most features with a nonzero coefficient. None: as many as the noise lets be
        told from the rest, from the shape of the data and the budget.
    alpha : float in [0, 1e100] or None, default=None
        L2 regularisation of the mean loss. None: no penalty.
    fit_intercept : bool, default=True
        The intercept has noise like the rest and is none of the features counted.
    solver : str, default="auto"
        ``"auto"`` chooses from public facts and says why in ``privacy_``; or a key of
        ``skdp.solvers.SOLVERS`` that selects features.
    solver_params : mapping or None, default=None
        Hyper-parameters of a named solver, for example ``{"n_steps": 3}``. Nothing
        in it can change noise scale, sensitivity or randomness.
    classes : array-like of shape (n_classes,) or None, default=None
        The labels that may occur. None takes them from `y`, which assumes that they
        are public and warns with `PublicLabelsWarning`.
    class_weight : mapping of labels to floats in [1e-6, 1e6], or None, default=None
        By how much records of a label count in the loss, and so in `predict` and
        `decision_function`; labels left out count once. Known without looking at the
        data: "balanced" is refused. Noise is made for the largest weight.
    correct_prior : bool, default=True
        Whether `predict_proba` is of the records as they are; False: of records that
        occur as often as `class_weight` says.
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that every fit is charged to before it reads the data.
    verbose : bool or int, default=False
        Print the solver's progress: step counts, nothing from the data.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output; at most `n_nonzero_coefs` nonzero columns. Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output (zeros without an intercept, public).
    classes_ : ndarray of shape (n_classes,)
        Public, or assumed to be (see `classes`).
    n_nonzero_coefs_ : int
        Public: `n_nonzero_coefs`, or what its rule gave.
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
    sklearn.linear_model.LogisticRegression : With an L1 penalty, not private.
    DPLogisticRegression : All features, with less error where there are few.

    Notes
    -----
    ``fit`` has no ``sample_weight``: unbounded weights would void the sensitivity.

    In `SelectFromModel` use ``threshold=1e-10``: its default is a mean, above which not
    all selected features are.

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
        columns: Any = None,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        data_norm: float = 1.0,
        feature_bound: float | None = None,
        n_nonzero_coefs: int | None = None,
        alpha: float | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        solver_params: Any = None,
        classes: Any = None,
        class_weight: Any = None,
        correct_prior: bool = True,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int = False,
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
