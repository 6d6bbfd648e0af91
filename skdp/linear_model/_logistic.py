"""Private logistic regression, binary and multinomial."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax

from skdp._label_weights import unweighted
from skdp._validation import check_bool
from skdp.linear_model._classifier import LinearClassifier
from skdp.linear_model._estimates import HasEstimates
from skdp.linear_model._streams import FirstPart
from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._base import Loss


class LogisticModel(LinearClassifier):
    """A classifier by the logistic loss, or the softmax loss of several classes."""

    correct_prior: bool

    def _loss(self, n_classes: int) -> Loss:
        return LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)

    def _fit(
        self, X: Any, y: Any, *, groups: Any = None, part: FirstPart | None = None
    ) -> Self:
        check_bool("correct_prior", self.correct_prior)
        return super()._fit(X, y, groups=groups, part=part)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels, of shape (n_samples, n_classes).

        With `class_weight` those of the records as they are, whose most likely label
        may be another than `predict` has; see `correct_prior`.
        """
        raw = self.decision_function(X)
        if self.correct_prior:
            raw = unweighted(raw, self._label_weights)
        if raw.ndim == 1:
            return np.column_stack([expit(-raw), expit(raw)])
        return np.asarray(softmax(raw, axis=1))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.asarray(np.log(self.predict_proba(X)))


class DPLogisticRegression(HasEstimates, LogisticModel):
    r"""Logistic regression with differential privacy.

    Minimises ``C * sum_i log-loss(y_i, x_i W) + ||W||^2 / 2`` privately. Two classes
    use the binary loss, more the multinomial (softmax) loss as one joint vector. Rows
    are clipped to `data_norm`; the intercept is the weight of one more column that
    holds the constant `data_norm`, so it is regularised and noised like the rest.
    `predict` and its kin clip rows as `fit` does, at finite epsilon; without the clip
    `decision_function` would be ``X @ coef_.T + intercept_``, which it is for rows
    within `data_norm`.

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
        the null record, which contributes nothing (about half the sensitivity).
    privacy_unit : {"record", "user"}, default="record"
        What neighbours differ in: one row, or all rows of one user, whose ids come by
        ``fit(X, y, groups=ids)``. Then each user counts as one record, with the mean
        over the own rows, and `adjacency` is of users (``docs/users.md``).
    data_norm : float in [1e-100, 1e100], default=1.0
        L2 norm to which rows are clipped, in units of the features. `BoundedScaler`
        and `RowNormClipper` produce rows of norm at most 1.
    C : float in [1e-100, 1e100] or None, default=None
        Inverse regularisation strength, as in scikit-learn. None: what the solver
        chooses from public facts, as regularisation or as training length; 1.0 if
        epsilon is inf.
    fit_intercept : bool, default=True
    solver : str, default="auto"
        ``"auto"`` chooses from public facts and says why in ``privacy_``
        (``docs/how_to_choose.md``); or a key of ``skdp.solvers.SOLVERS`` that does not
        refuse the loss.
    solver_params : mapping or None, default=None
        Hyper-parameters of a named solver, for example ``{"n_steps": 100}``. Nothing
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
        Private output. Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output (zeros without an intercept, public).
    classes_ : ndarray of shape (n_classes,)
        Public, or assumed to be (see `classes`).
    center_, scale_ : ndarray of shape (n_features,) or (n_encoded_features,)
        What rows are centred on, and multiplied by before they are clipped. The centre
        is a private output, the scale is public. Only of ``"auto"``
        (``docs/default_solver.md``).
    row_norm_ : float
        Norm to which such rows are clipped. Private output.
    coef_path_ : ndarray of shape (n_steps, 1 or n_classes, n_features)
    intercept_path_ : ndarray of shape (n_steps, 1 or n_classes)
        Coefficients and intercepts after each step, of which the model is an average or
        the last. Private output, paid for with the rest. Only of a descent with
        ``solver_params={"keeps_path": True}``.
    estimates_ : Estimates
        Coefficients with standard errors, of two classes: `values`, `covariance`,
        `conf_int()`; see `summary`. Private output. Only of ``solver="noisy_newton"``.
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
    sklearn.linear_model.LogisticRegression : The estimator without privacy.

    Notes
    -----
    ``fit`` has no ``sample_weight``: unbounded weights would void the sensitivity.

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
        columns: Any = None,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        data_norm: float = 1.0,
        C: float | None = None,
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
        super().__init__(
            epsilon=epsilon,
            columns=columns,
            delta=delta,
            adjacency=adjacency,
            privacy_unit=privacy_unit,
            data_norm=data_norm,
            C=C,
            fit_intercept=fit_intercept,
            solver=solver,
            solver_params=solver_params,
            classes=classes,
            class_weight=class_weight,
            random_state=random_state,
            ledger=ledger,
            verbose=verbose,
        )
        self.correct_prior = correct_prior
