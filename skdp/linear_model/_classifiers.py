"""Private linear classifiers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import in_dtype
from skdp._checks import check_bool, check_choice, check_count, check_real
from skdp._input import (
    declared_labels,
    expected_labels,
    label_weights,
    largest_weight,
    unweighted,
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
from skdp.privacy.accounting._calibrate import Budget
from skdp.solvers._base import Solution

# --------------------------------------------- LinearClassifier: labels, fit, decisions


class LinearClassifier(ScoresSources, ClassifierMixin, DPEstimator):
    """A linear model of ``C * sum_i v_i loss(y_i, x_i W) + ||W||^2 / 2``.

    The v are the declared weights of the records' labels, 1 if there are none.

    A subclass documents the parameters and names the loss.
    """

    _label_weights: tuple[float, ...]

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
        self.C = C
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_params = solver_params
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
        """Continue a stream with one more part, or begin a stream.

        With ``solver="ftrl"``. The first part books the whole stream, at the declared
        epsilon and delta; every later one is free, and is noted down in the ledger. The
        model after each part is released. No record may be in two parts, and with
        ``privacy_unit="user"`` no user: that is assumed, not checked, and a repeated
        part costs its records as much again. The state of the stream is private: it is
        in no attribute, copy, clone or pickle of this object, and none of these can
        continue the stream.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            No part has more records, or users, than the first part; their
            number is public.
        y : array-like of shape (n_samples,)
            Left out with a source, which has its target.
        classes : array-like or None, default=None
            All labels of the stream, at its first part, if `classes` was not given to
            the constructor.
        groups : array-like of shape (n_samples,) or None, default=None
            With ``privacy_unit="user"`` the user of each row of the part, as in `fit`.
            Left out with a source, which names the column of ids.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or input out of range. Nothing was spent or read, and the
            stream can go on.
        StreamOverError
            If all parts have been given, or this is a copy, or a part was cut short.
        SourceError
            If a source could not be read to the end. That ends the stream: what was
            read of the part has been used.
        BudgetExceeded
            From the ledger, at the first part. Nothing was read or spent.
        """
        stream = STREAMS[self.solver]
        with stream.one_part(self), self._all_or_nothing(), self._labelled(classes):
            table = Table.of(X, y, groups)
            return table.fitted(self, partial(stream.next_part, self))

    def _begin(self, table: Table, part: FirstPart) -> None:
        if self.classes is None:
            raise ValueError(
                "The 'classes' parameter must be declared for a stream: a later part "
                "may have other labels than the first one. Got None. Pass all labels."
            )
        self._fit(table, part)

    def _targets_of_part(self, table: Table, rows: LinearRows) -> Any:
        given = self.classes
        if not (given is None or np.array_equal(declared_labels(given), self.classes_)):
            raise ValueError(
                "The labels of a stream must be those declared at its first part, "
                f"{self.classes_.tolist()}. Got others in 'classes'. Leave it out. "
                "Nothing was read."
            )
        with self._labelled(self.classes_):
            return self._encode_labels(table, rows)[1]

    @contextmanager
    def _labelled(self, classes: Any) -> Iterator[None]:
        """Declare these labels for a while if none are declared."""
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
        rows = rows_to_fit(self, table, budget, users, n_parts, is_centred=is_centred)
        classes, codes = self._encode_labels(table, rows)
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
        """The loss for this number of classes, one output for two."""

    def _encode_labels(self, table: Table, rows: LinearRows) -> tuple[np.ndarray, Any]:
        """The public labels, sorted, and the index of each record's label."""
        return table.labels(self, rows.X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions of the rows, clipped as in `fit`.

        ``X @ coef_.T + intercept_`` for rows within the norm, and for all if epsilon is
        inf. Longer rows are clipped to ``privacy_.data_norm`` first, each by itself;
        with `center_` rows are centred and scaled, and clipped to ``row_norm_``.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        raw = self._raw(X)
        return raw[:, 0] if len(self.classes_) == 2 else raw

    def _raw_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = rows_to_predict(self, X)
        raw: np.ndarray = self._products(X, self.coef_.T) + self.intercept_
        return raw

    def predict(self, X: Any) -> np.ndarray:
        """The label of the highest raw prediction of each row: (n_samples,)."""
        raw = self.decision_function(X)
        codes = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise, not the method, spoils the scores on tiny data.
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags


# ---------------------------------------------------- DPLogisticRegression and its base


class LogisticModel(LinearClassifier):
    """A classifier by the logistic loss, or the softmax loss of several classes."""

    correct_prior: bool

    def _loss(self, n_classes: int) -> Loss:
        return LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)

    def _fit(self, table: Table, part: FirstPart | None = None) -> Self:
        check_bool("correct_prior", self.correct_prior)
        return super()._fit(table, part)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels, of shape (n_samples, n_classes).

        With `class_weight` they are probabilities without the weights, so that the most
        likely label may differ from `predict`; see `correct_prior`.
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
    ``coef_`` and ``intercept_``; see ``privacy_``, ``docs/guide/before_you_sign.md``
    and, for what is not covered, ``docs/guide/before_you_sign.md``. `predict` and its
    kin are post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped, and the model is scikit-learn's optimum, with the
        intercept regularised like the rest (as liblinear does).
    %(columns, delta, adjacency, privacy_unit, data_norm, C, fit_intercept, solver)s
    %(solver_params, classes, class_weight, correct_prior, random_state, ledger)s
    %(verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output. Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output (zeros without an intercept, public).
    %(classes_, center_, row_norm_, coef_path_)s
    estimates_ : Estimates
        Coefficients with standard errors, of two classes: `values`, `covariance`,
        `conf_int()`; see `summary`. Private output. Only of ``solver="noisy_newton"``.
    %(privacy_)s
        Its ``noise_scale`` is no public fact: it is post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

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


# -------------------------------------------------------------------------- DPLinearSVC


class DPLinearSVC(LinearClassifier):
    r"""Linear support vector classification with differential privacy.

    Minimises ``C * sum_i hinge(y_i, x_i W) + ||W||^2 / 2`` privately, where the corner
    of the hinge is rounded within `h` of it (Huber hinge, `HuberHingeLoss`), because
    private solvers need a smooth loss. More than two classes are fitted one against the
    rest, as one joint vector with one sensitivity. Rows are clipped to `data_norm`; the
    intercept is the weight of one more column that holds the constant `data_norm`, so
    it is regularised and noised like the rest. `predict` clips rows as `fit` does, at
    finite epsilon; without the clip `decision_function` would be
    ``X @ coef_.T + intercept_``, which it is for rows within `data_norm`.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. Released are
    ``coef_`` and ``intercept_``; see ``privacy_``, ``docs/guide/before_you_sign.md``
    and, for what is not covered, ``docs/guide/before_you_sign.md``. `predict` and
    `decision_function` are post-processing; ``score(X, y)`` reads raw data and is
    **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped, and the intercept is regularised like the rest
        (as liblinear does).
    %(columns, delta, adjacency, privacy_unit, data_norm, C, fit_intercept, solver)s
    %(solver_params, classes, class_weight, random_state, ledger, verbose)s
    h : float in [1e-3, 1e3], default=0.5
        Half the width of the rounded corner, in units of decisions. Public. A sharper
        corner bends more: steps are shorter, and strong convexity buys less.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output. Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output (zeros without an intercept, public).
    %(classes_, center_, row_norm_, coef_path_, privacy_)s
        Its ``noise_scale`` is no public fact: it is post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.svm.LinearSVC : The estimator without privacy, with a sharp corner.
    DPLogisticRegression : With probabilities.

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
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int = False,
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
# Its losses bound the effect of one wrong label.


LOSSES: dict[str, Callable[[int], Loss]] = {
    "cauchy": lambda n_outputs: CauchyLoss(n_outputs=n_outputs),
    "sigmoid": lambda n_outputs: SigmoidLoss(n_outputs=n_outputs),
}


class DPRobustClassifier(LinearClassifier):
    r"""Linear classification with wrong labels in mind, with differential privacy.

    Minimises ``C * sum_i loss(y_i, x_i W) + ||W||^2 / 2`` privately for a loss that is
    smooth and not convex: a record that is far on the wrong side hardly moves the
    model. More than two classes are fitted one against the rest, as one joint vector
    with one sensitivity. Rows are clipped to `data_norm`; the intercept is the weight
    of one more column that holds the constant `data_norm`, so it is regularised and
    noised like the rest. `predict` clips rows as `fit` does, at finite epsilon.

    What is found depends on the way there: ``"auto"`` follows a convex loss of the same
    labels first, since these losses are flat far from the boundary, and a descent from
    0 may end where every record has the frequent label. No global minimum is promised,
    also not at ``epsilon=inf``.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. It does not
    depend on convexity. Released are ``coef_`` and ``intercept_``; see ``privacy_``,
    ``docs/guide/before_you_sign.md`` and, for what is not covered,
    ``docs/guide/before_you_sign.md``. `predict` and `decision_function` are
    post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped, the intercept is regularised like the rest, and
        the model is a local minimum.
    loss : {"cauchy", "sigmoid"}, default="cauchy"
        ``"cauchy"`` is a regression of signs in which large errors stop counting:
        residuals are at most 1/2 in an output. ``"sigmoid"`` counts mistakes, with a
        rounded step: at most 1/4; more accurate where few labels are wrong, but with
        uneven labels of which many are wrong it may end at the constant model.
    %(columns, delta, adjacency, privacy_unit, data_norm, C, fit_intercept, solver)s
        Solvers whose guarantee or rules need convexity do so.
    %(solver_params, classes, class_weight, random_state, ledger, verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private output. Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private output (zeros without an intercept, public).
    %(classes_, center_, row_norm_, coef_path_, privacy_)s
        Its ``noise_scale`` is no public fact: it is post-processing of the release.
    %(encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPLogisticRegression : With probabilities, and a loss that is convex.
    DPLinearSVC : Convex too, without probabilities.

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
        loss: str = "cauchy",
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
        self.loss = loss

    def _loss(self, n_classes: int) -> Loss:
        check_choice("loss", self.loss, list(LOSSES))
        return LOSSES[self.loss](1 if n_classes == 2 else n_classes)
