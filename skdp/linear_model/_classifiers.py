"""Private linear classifiers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import in_dtype
from skdp._checks import check_bool, check_choice, check_count, check_real
from skdp._effects import units_of_classes
from skdp._input import (
    declared_labels,
    expected_labels,
    label_weights,
    largest_weight,
    unweighted,
    weighted_by,
)
from skdp.io._table import ScoresSources, Table
from skdp.linear_model._base import (
    STREAMS,
    DPEstimator,
    FirstPart,
    HasEstimates,
    n_units,
    takes_parts,
)
from skdp.linear_model._rows import (
    LinearRows,
    public_facts,
    rows_to_fit,
    rows_to_predict,
)
from skdp.losses._base import Loss
from skdp.losses._classification import (
    CauchyLoss,
    HuberHingeLoss,
    LogisticLoss,
    SigmoidLoss,
    SoftmaxLoss,
    weighted,
)
from skdp.losses._objective import LinearObjective
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.solvers._base import Solution
from skdp.solvers._registry import SolverName
from skdp.tables._columns import Columns

# --------------------------------------------- LinearClassifier: labels, fit, decisions


class LinearClassifier(ScoresSources, ClassifierMixin, DPEstimator):
    """A linear model that minimises ``C * sum_i v_i loss(y_i, x_i W) + ||W||^2 / 2``.

    ``v_i`` is the declared weight of the record's label, 1 without `class_weight`.

    A subclass documents the parameters and defines the loss.
    """

    _label_weights: tuple[float, ...]
    # What raw predictions are, for pictures.
    _raw_name: ClassVar[str] = "score"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        C: float | None = None,
        fit_intercept: bool = True,
        solver: SolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        classes: Any = None,
        class_weight: Any = None,
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
        self.C = C
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_params = solver_params
        self.init = init
        self.classes = classes
        self.class_weight = class_weight
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    # scikit-learn has no types.
    # scikit-learn's decorator has no types.
    @available_if(takes_parts)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, groups: Any = None
    ) -> Self:
        """Begin a stream with its first part, or continue it with one more part.

        Only with ``solver="ftrl"``. The first part charges the ledger for the whole
        stream, at the declared epsilon and delta. Later parts cost nothing more; they
        are recorded in the ledger too. The model is released after each part. No record
        may be in two parts, and with ``privacy_unit="user"`` no user may be. This is
        assumed and not checked: if a part is repeated, its records pay for it once
        more. The state of the stream is private. No attribute, copy, clone or pickle of
        this object contains it, and none of them can continue the stream.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            A part may not have more records, or users, than the first part. Their
            number is public.
        y : array-like of shape (n_samples,)
            Leave it out with a source, which includes the target.
        classes : array-like or None, default=None
            All labels of the stream, needed with the first part if `classes` was not
            given to the constructor.
        groups : array-like of shape (n_samples,) or None, default=None
            Id of each row's user with ``privacy_unit="user"``, as in `fit`. Leave it
            out with a source, which names the column of ids.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If a parameter or an input is out of range. Nothing was spent or read, and
            the stream can be continued.
        StreamOverError
            If all parts have been given, if this object is a copy, or if an earlier
            part was interrupted.
        SourceError
            If a source could not be read to the end. This ends the stream, because a
            part of the data has been used.
        BudgetExceeded
            If the ledger's cap does not allow the stream; raised at the first part.
            Nothing was read or spent.
        """
        stream = STREAMS[self.solver]
        with stream.one_part(self), self._all_or_nothing(), self._labelled(classes):
            table = Table.of(X, y, groups)
            table.fitted(self, partial(stream.next_part, self))
        return self._warned_of_release()

    def _begin(self, table: Table, part: FirstPart) -> None:
        if self.classes is None:
            raise ValueError(
                "The 'classes' parameter must be declared for a stream: a later part "
                "may have labels that the first part lacks. Got None. Pass all labels."
            )
        self._fit(table, part)

    def _targets_of_part(self, table: Table, rows: LinearRows) -> Any:
        given = self.classes
        if not (given is None or np.array_equal(declared_labels(given), self.classes_)):
            raise ValueError(
                "The labels of a stream must be those declared with its first part, "
                f"{self.classes_.tolist()}. Got other labels in 'classes'. Leave out "
                "'classes'. Nothing was read."
            )
        with self._labelled(self.classes_):
            return self._encode_labels(table, rows)[1]

    @contextmanager
    def _labelled(self, classes: Any) -> Iterator[None]:
        """Set `classes` to these labels within the context if it is None."""
        own = self.classes
        self.classes = classes if own is None else own
        try:
            yield
        finally:
            self.classes = own

    def _fit(self, table: Table, part: FirstPart | None = None) -> Self:
        budget = self._check_privacy_params()
        check_bool("fit_intercept", self.fit_intercept)
        self._check_strength()
        users = table.users(self, budget)
        is_centred = self._will_centre()
        n_parts = 1 if part is None else part.n_parts
        rows = rows_to_fit(
            self,
            table,
            budget,
            users,
            n_parts,
            is_centred=is_centred,
            has_lines=self._has_lines(),
        )
        classes, codes = self._encode_labels(table, rows)
        self._given(classes)  # refuses a model of other labels
        weights = label_weights(self.class_weight, classes)
        loss = weighted(self._loss(len(classes)), weights)
        alpha = self._alpha(n_units(rows, users, n_parts), budget)
        alpha /= largest_weight(self.class_weight, classes)
        labels = "taken from y" if self.classes is None else "declared"
        assumed = (*public_facts(self.columns, users), f"set of labels ({labels})")
        if weights:
            assumed += ("weights of labels (declared)",)
        source = table.source(rows.X, codes, users, is_private=budget.is_finite)
        solution, objective = self._solve(
            source, rows, loss, alpha, budget, assumed, part
        )
        self._keep_weights(solution, objective, rows.X.dtype)
        self.classes_, self._label_weights = classes, weights
        return self

    def _keep_weights(
        self, solution: Solution, objective: LinearObjective, dtype: Any
    ) -> None:
        coef, intercept = solution.unpack(objective)
        self.coef_ = in_dtype(coef, dtype)
        self.intercept_ = in_dtype(intercept, dtype)
        self._keep_path(solution.unpack_path(objective), dtype)

    def _check_strength(self) -> None:
        """Refuse a regularisation out of range."""
        if self.C is not None:
            remedy = "Use None for the default rule."
            check_real("C", self.C, low=1e-100, high=1e100, remedy=remedy)

    def _alpha(self, n_samples: int, budget: Budget) -> float:
        """L2 regularisation of the mean loss."""
        strength = self.C
        if strength is None and not (budget.is_finite or self._will_centre()):
            strength = 1.0
        return 0.0 if strength is None else 1 / (n_samples * float(strength))

    def _planned_objective(
        self, n_samples: int, n_features: int, budget: Budget
    ) -> LinearObjective:
        self._check_strength()
        labels = expected_labels(self.classes, self.class_weight)
        loss = weighted(
            self._loss(len(labels)), label_weights(self.class_weight, labels)
        )
        # The count must be at least one before `_alpha` divides by it.
        alpha = self._alpha(check_count("n_samples", n_samples), budget)
        alpha /= largest_weight(self.class_weight, labels)
        return self._objective(loss, n_samples, n_features, alpha, budget)

    @abstractmethod
    def _loss(self, n_classes: int) -> Loss:
        """The loss for this number of classes; two classes have one output."""

    def _encode_labels(self, table: Table, rows: LinearRows) -> tuple[np.ndarray, Any]:
        """The public labels, sorted, and the index of each record's label."""
        return table.labels(self, rows.X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions for the rows, which are clipped as in `fit`.

        The result is ``X @ coef_.T + intercept_`` for rows with a norm of at most
        ``privacy_.data_norm``, and for all rows if epsilon is inf. Longer rows are
        clipped to this norm first, each row separately. If the model has `center_`,
        rows are then centred, scaled and clipped to ``row_norm_``.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        raw = self._raw(X)
        return raw[:, 0] if len(self.classes_) == 2 else raw

    @property
    def _effect_units(self) -> tuple[str, ...]:
        return units_of_classes(self._raw_name, self.classes_)

    def _raw_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = rows_to_predict(self, X)
        raw: np.ndarray = self._products(X, self.coef_.T) + self.intercept_
        return raw

    def _outputs(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist()}

    def predict(self, X: Any) -> np.ndarray:
        """Labels with the highest raw predictions, of shape (n_samples,)."""
        raw = self.decision_function(X)
        codes = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # On the tiny data of scikit-learn's checks, noise makes the scores poor.
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags


# ---------------------------------------------------- DPLogisticRegression and its base


class LogisticModel(LinearClassifier):
    """A classifier with the logistic loss, or the softmax loss for several classes."""

    correct_prior: bool
    _raw_name: ClassVar[str] = "log-odds"

    def _loss(self, n_classes: int) -> Loss:
        return LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)

    def _fit(self, table: Table, part: FirstPart | None = None) -> Self:
        check_bool("correct_prior", self.correct_prior)
        return super()._fit(table, part)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels, of shape (n_samples, n_classes).

        With `class_weight`, the effect of the weights is removed from the
        probabilities, so that the most likely label may differ from `predict`; see
        `correct_prior`.
        """
        raw = self.decision_function(X)
        if self.correct_prior:
            raw = unweighted(raw, self._label_weights)
        if raw.ndim == 1:
            return np.column_stack([expit(-raw), expit(raw)])
        return np.asarray(softmax(raw, axis=1))

    def _outputs(self) -> dict[str, Any]:
        weights = self._label_weights if self.correct_prior else ()
        return super()._outputs() | {"label_shift": weighted_by(weights).tolist()}

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.asarray(np.log(self.predict_proba(X)))


class DPLogisticRegression(HasEstimates, LogisticModel):
    r"""Logistic regression with differential privacy.

    The model minimises ``C * sum_i log-loss(y_i, x_i W) + ||W||^2 / 2`` privately. For
    two classes it uses the binary loss; for more, the multinomial (softmax) loss, whose
    coefficients are fitted as one joint vector. Rows are clipped to `data_norm`. The
    intercept is the weight of one more column with the constant value `data_norm`, so
    it is regularised and gets noise as the other weights do. With a finite epsilon,
    `predict`, `predict_proba` and `decision_function` clip rows as `fit` does; for rows
    that this leaves unchanged, `decision_function` is ``X @ coef_.T + intercept_``.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. ``coef_`` and
    ``intercept_`` are released; see ``privacy_``, and
    ``docs/guide/before_you_sign.md`` also for what is not covered. Predictions are
    post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped, and the model is scikit-learn's optimum, with a
        regularised intercept (as in liblinear).
    %(columns, delta, adjacency, privacy_unit, data_norm, C, fit_intercept, solver)s
    %(solver_params, init, classes, class_weight, correct_prior, random_state, ledger)s
    %(verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output, with the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output. Zeros if there is no intercept, which are public.
    %(classes_, center_, row_norm_, coef_path_)s
    estimates_ : Estimates
        Coefficients with standard errors, of two classes: `values`, `covariance`,
        `conf_int()`; see `summary`. Private output. Only of ``solver="noisy_newton"``.
    %(privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The estimator without privacy.

    Notes
    -----
    ``fit`` has no ``sample_weight``, because unbounded weights would invalidate the
    sensitivity.

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
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        C: float | None = None,
        fit_intercept: bool = True,
        solver: SolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        classes: Any = None,
        class_weight: Any = None,
        correct_prior: bool = True,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
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
            init=init,
            classes=classes,
            class_weight=class_weight,
            random_state=random_state,
            ledger=ledger,
            verbose=verbose,
        )
        self.correct_prior = correct_prior


# -------------------------------------------------------------------------- DPLinearSVC


class DPLinearSVC(LinearClassifier):
    r"""Linear support vector classification with differential privacy.

    The model minimises ``C * sum_i hinge(y_i, x_i W) + ||W||^2 / 2`` privately. Private
    solvers need a smooth loss, so the corner of the hinge is rounded within a distance
    `h` (Huber hinge, `HuberHingeLoss`). With more than two classes, each class is
    fitted against the rest, and the coefficients of all classes form one joint vector
    with one sensitivity. Rows are clipped to `data_norm`. The intercept is the weight
    of one more column with the constant value `data_norm`, so it is regularised and
    gets noise as the other weights do. With a finite epsilon, `predict` and
    `decision_function` clip rows as `fit` does; for rows that this leaves unchanged,
    `decision_function` is ``X @ coef_.T + intercept_``.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. ``coef_`` and
    ``intercept_`` are released; see ``privacy_``, and
    ``docs/guide/before_you_sign.md`` also for what is not covered. Predictions are
    post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped, and the intercept is regularised (as in
        liblinear).
    %(columns, delta, adjacency, privacy_unit, data_norm, C, fit_intercept, solver)s
    %(solver_params, init, classes, class_weight, random_state, ledger, verbose)s
    h : float in [1e-3, 1e3], default=0.5
        Half the width of the rounded corner, in units of `decision_function`. Public. A
        smaller `h` gives a loss of larger curvature: steps are shorter, and strong
        convexity helps less.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output, with the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output. Zeros if there is no intercept, which are public.
    %(classes_, center_, row_norm_, coef_path_, privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.svm.LinearSVC : The estimator without privacy, with a sharp corner.
    DPLogisticRegression : A classifier with probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import BoundedScaler, DPLinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(
    ...     BoundedScaler(bounds=(0, 8)),  # centimetres, known without looking
    ...     DPLinearSVC(epsilon=1.0, delta=1e-6, classes=[0, 1, 2]),
    ... ).fit(X, y)
    >>> model[-1].decision_function(X).shape, model[-1].privacy_.epsilon
    ((150, 3), 1.0)
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
        C: float | None = None,
        fit_intercept: bool = True,
        solver: SolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        classes: Any = None,
        class_weight: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
        h: float = 0.5,
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
            init=init,
            classes=classes,
            class_weight=class_weight,
            random_state=random_state,
            ledger=ledger,
            verbose=verbose,
        )
        self.h = h

    def _loss(self, n_classes: int) -> Loss:
        return HuberHingeLoss(self.h, 1 if n_classes == 2 else n_classes)


# ------------------------------------------------------------------- DPRobustClassifier
# The losses bound the effect of one wrong label.


LOSSES: dict[str, Callable[[int], Loss]] = {
    "cauchy": lambda n_outputs: CauchyLoss(n_outputs=n_outputs),
    "sigmoid": lambda n_outputs: SigmoidLoss(n_outputs=n_outputs),
}


class DPRobustClassifier(LinearClassifier):
    r"""Linear classification that is robust to wrong labels, with differential privacy.

    The model minimises ``C * sum_i loss(y_i, x_i W) + ||W||^2 / 2`` privately for a
    smooth loss that is not convex, so that a record far on the wrong side of the
    decision boundary hardly changes the model. With more than two classes, each class
    is fitted against the rest, and the coefficients of all classes form one joint
    vector with one sensitivity. Rows are clipped to `data_norm`. The intercept is the
    weight of one more column with the constant value `data_norm`, so it is regularised
    and gets noise as the other weights do. With a finite epsilon, `predict` clips rows
    as `fit` does.

    The result depends on the path of the solver, and it need not be a global minimum,
    even with ``epsilon=inf``. These losses are flat far from the decision boundary, and
    a descent that starts at 0 may end where every record gets the most frequent label.
    Therefore ``"auto"`` first follows a convex loss of the same labels.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. It does not
    depend on convexity. ``coef_`` and ``intercept_`` are released; see ``privacy_``,
    and ``docs/guide/before_you_sign.md`` also for what is not covered. Predictions are
    post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped, the intercept is regularised, and the model is a
        local minimum.
    loss : {"cauchy", "sigmoid"}, default="cauchy"
        ``"cauchy"`` fits the signs of the labels by regression, with a loss that grows
        only slowly for large errors: the residual of an output is at most 1/2.
        ``"sigmoid"`` counts wrong predictions with a smooth step: the residual is at
        most 1/4. It is more accurate if few labels are wrong, but if one label is much
        more frequent and many labels are wrong, it may end at the constant model.
    %(columns, delta, adjacency, privacy_unit, data_norm, C, fit_intercept, solver)s
        Solvers whose guarantee or rules need convexity raise an error.
    %(solver_params, init, classes, class_weight, random_state, ledger, verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output, with the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output. Zeros if there is no intercept, which are public.
    %(classes_, center_, row_norm_, coef_path_, privacy_)s
        Only its ``noise_scale`` is not public, but post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPLogisticRegression : A classifier with probabilities and a convex loss.
    DPLinearSVC : A classifier with a convex loss, without probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import BoundedScaler, DPRobustClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(
    ...     BoundedScaler(bounds=(0, 8)),  # centimetres, known without looking
    ...     DPRobustClassifier(epsilon=8.0, delta=1e-6, classes=[0, 1, 2]),
    ... ).fit(X, y)
    >>> model[-1].decision_function(X).shape, model[-1].privacy_.solver
    ((150, 3), 'centred_descent')
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        loss: Literal["cauchy", "sigmoid"] = "cauchy",
        columns: Columns | TableEncoder | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        C: float | None = None,
        fit_intercept: bool = True,
        solver: SolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        classes: Any = None,
        class_weight: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
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
            init=init,
            classes=classes,
            class_weight=class_weight,
            random_state=random_state,
            ledger=ledger,
            verbose=verbose,
        )
        self.loss = loss

    def _loss(self, n_classes: int) -> Loss:
        check_choice("loss", self.loss, list(LOSSES))
        return LOSSES[self.loss](1 if n_classes == 2 else n_classes)
