"""Private logistic regression, binary and multinomial."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from skdp._base import DPEstimator
from skdp._input import check_rows, without_data
from skdp._validation import check_bool, check_real
from skdp.exceptions import PublicLabelsWarning
from skdp.losses import LogisticLoss, SoftmaxLoss


class DPLogisticRegression(ClassifierMixin, DPEstimator):
    r"""Logistic regression with differential privacy.

    Minimises ``C * sum_i log-loss(y_i, x_i W) + ||W||^2 / 2`` privately. Two classes
    use the binary loss, more the multinomial (softmax) loss as one joint vector. Rows
    are clipped to `data_norm`; the intercept is the weight of one more column that
    holds the constant `data_norm`, so it is regularised and noised like the rest.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. Released are
    ``coef_`` and ``intercept_``; see ``privacy_``, ``docs/privacy_guarantee.md`` and,
    for what is not covered, ``docs/known_weaknesses.md``. `predict` and its kin are
    post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf, default=1.0
        Privacy loss. inf fits without noise and without clipping: scikit-learn's
        optimum, with the intercept regularised like the rest (as liblinear does).
    delta : 0 or float in [1e-50, 1), default=1e-6
        Probability with which the guarantee may fail; far below ``1 / n_samples``.
        0 asks for pure epsilon, which no solver offers yet.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What neighbouring data sets are: one record exchanged for any other, or for
        the null record, which contributes nothing (about half the sensitivity).
    data_norm : float in [1e-100, 1e100], default=1.0
        L2 norm to which rows are clipped, in units of the features. `BoundedScaler`
        and `RowNormClipper` produce rows of norm at most 1.
    C : float in [1e-100, 1e100] or None, default=None
        Inverse regularisation strength, as in scikit-learn. None: no penalty, the
        solver's data-independent training length regularises; 1.0 if epsilon is inf.
    fit_intercept : bool, default=True
    solver : {"auto", "noisy_gd"}, default="auto"
        ``"auto"`` chooses from public facts and says why in ``privacy_``.
    solver_params : mapping or None, default=None
        Hyper-parameters of a named solver, for example ``{"n_steps": 100}``. Nothing
        in it can change noise scale, sensitivity or randomness.
    classes : array-like of shape (n_classes,) or None, default=None
        The labels that may occur. None takes them from `y`, which assumes that they
        are public and warns with `PublicLabelsWarning`.
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that every fit is charged to before it reads the data.
    verbose : bool or int, default=False
        Print the solver's progress: step counts, nothing from the data.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output. Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output (zeros without an intercept, public).
    classes_ : ndarray of shape (n_classes,)
        Public, or assumed to be (see `classes`).
    privacy_ : PrivacyRecord
        Public facts, and post-processing of released iterates (``noise_scale``).
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The estimator without privacy.

    Notes
    -----
    ``fit`` has neither ``sample_weight`` nor ``class_weight``: unbounded weights would
    void the sensitivity, and balanced ones would be computed from the data.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import BoundedScaler, DPLogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(
    ...     BoundedScaler(bounds=(0, 8)),  # centimetres, known without looking
    ...     DPLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1, 2]),
    ... ).fit(X, y)
    >>> model[-1].coef_.shape, model[-1].privacy_.epsilon
    ((3, 4), 1.0)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        data_norm: float = 1.0,
        C: float | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        solver_params: Any = None,
        classes: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.C = C
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_params = solver_params
        self.classes = classes
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Finite numbers. float32 stays float32; CSR stays CSR.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or input out of range. Nothing was spent, and the estimator
            is as it was before.
        BudgetExceeded
            If the ledger's cap does not allow this fit. Nothing was read or spent.
        """
        with self._all_or_nothing():
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> Self:
        budget = self._check_privacy_params()
        check_bool("fit_intercept", self.fit_intercept)
        if self.C is not None:
            remedy = "Use None for the default rule."
            check_real("C", self.C, low=1e-100, high=1e100, remedy=remedy)
        X = check_rows(self, X, reset=True, accept_sparse=True)
        classes, codes = self._encode_labels(X, y)
        loss = LogisticLoss() if len(classes) == 2 else SoftmaxLoss(len(classes))
        strength = self.C
        if strength is None and not budget.is_finite:
            strength = 1.0
        alpha = 0.0 if strength is None else 1 / (X.shape[0] * float(strength))
        labels = "taken from y" if self.classes is None else "declared"
        assumed = (
            "number of records",
            "number and names of features",
            f"set of labels ({labels})",
        )
        outcome, problem, record = self._solve(X, codes, loss, alpha, budget, assumed)
        coef, intercept = outcome.solution.unpack(problem)
        self.coef_ = _cast(coef, X.dtype)
        self.intercept_ = _cast(intercept, X.dtype)
        self.classes_ = classes
        self.privacy_ = record
        return self

    def _encode_labels(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The public labels, sorted, and the index of each record's label."""
        if y is None:
            raise ValueError(
                "DPLogisticRegression requires y to be passed, but the target y is "
                "None. Pass the labels."
            )
        declared = self.classes is not None
        # Which labels occur is private if they are declared: then nothing of
        # scikit-learn's opinion on y, which it may put in a warning, is asked for.
        y = without_data(
            lambda: _label_column(X, y, ask_for_kind=not declared),
            "The y argument must be a column of labels. Got something else.",
        )
        classes = _declared_labels(self.classes) if declared else np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                "DPLogisticRegression needs at least two classes. Got 1 class. "
                "Declare all labels that may occur with classes=[...]."
            )
        codes = without_data(
            lambda: _codes(classes, y),
            "The labels in y must be among those declared in 'classes'. Got others. "
            "Declare every label that may occur, of the same kind: 1 is not '1'.",
        )
        if not declared:
            warnings.warn(
                "The set of labels was taken from y and is assumed to be public. "
                "Pass classes=[...] to declare it.",
                PublicLabelsWarning,
                stacklevel=4,
            )
        return classes, codes.astype(np.float64)

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions ``X @ coef_.T + intercept_``; nothing is clipped.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=True)
        raw = np.asarray(X @ self.coef_.T) + self.intercept_
        return raw[:, 0] if len(self.classes_) == 2 else raw

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each row, of shape (n_samples,)."""
        raw = self.decision_function(X)
        codes = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels, of shape (n_samples, n_classes)."""
        raw = self.decision_function(X)
        if raw.ndim == 1:
            return np.column_stack([expit(-raw), expit(raw)])
        return softmax(raw, axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Noise, not the method, spoils the scores on tiny data.
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags


def _declared_labels(classes: Any) -> np.ndarray:
    """The labels a user declared, sorted; public, so a message may quote them."""
    try:
        labels = np.asarray(classes)
        if labels.ndim == 1 and len(labels):
            return np.unique(labels)
    except (TypeError, ValueError):
        pass
    raise ValueError(
        "The 'classes' parameter must be None or a list of labels of one kind, at "
        f"least two classes. Got {classes!r}."
    )


def _codes(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Position of each record's label among the classes."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if not np.array_equal(classes[codes], y):
        raise ValueError
    return codes


def _label_column(X: Any, y: Any, *, ask_for_kind: bool) -> np.ndarray:
    """`y` as one column, as long as X has rows."""
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    if ask_for_kind:
        check_classification_targets(y)
    return y


def _cast(released: np.ndarray, dtype: Any) -> np.ndarray:
    """Released numbers in the dtype of X, its largest in place of an overflow."""
    largest = np.finfo(dtype).max
    return np.clip(released, -largest, largest).astype(dtype, copy=False)
