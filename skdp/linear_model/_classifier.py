"""What private linear classifiers share: labels, `fit`, decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._input import declared_labels
from skdp._label_weights import expected_labels, label_weights, largest_weight
from skdp._labels import encode_labels
from skdp._output import in_dtype
from skdp._users import users_to_fit
from skdp._validation import check_bool, check_count, check_real
from skdp.io._takes import fit_through
from skdp.linear_model._base import DPEstimator, n_units
from skdp.linear_model._rows import public_facts, rows_to_fit, rows_to_predict
from skdp.linear_model._streams import STREAMS, FirstPart, takes_parts
from skdp.losses._base import Loss
from skdp.losses._weighted import weighted
from skdp.objectives._linear import LinearObjective
from skdp.privacy import Budget
from skdp.solvers._base import Solution


class LinearClassifier(ClassifierMixin, DPEstimator):
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
    @available_if(takes_parts)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, groups: Any = None
    ) -> Self:
        """Go on with a stream by one part more, or begin one.

        With ``solver="ftrl"``. The first part books the whole stream, at the declared
        epsilon and delta; every later one is free, and is noted down in the ledger.
        The model after each part is released. No record may be in two parts, and with
        ``privacy_unit="user"`` no user: that is assumed, not checked, and a repeated
        part costs its records as much again.
        What the stream must remember is private: it is in no attribute, copy, clone or
        pickle of this object, and none of them can go on.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            The first part has as many records, or users, as any; their number is
            public.
        y : array-like of shape (n_samples,)
            Left out with a source, which has its target.
        classes : array-like or None, default=None
            All labels of the stream, at its first part, if `classes` was not given to
            the constructor.
        groups : array-like of shape (n_samples,) or None, default=None
            With ``privacy_unit="user"`` whose each row of the part is, as in `fit`.
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
            return fit_through(self, X, y, lambda: stream.next_part(self, X, y, groups))

    def _begin(self, X: Any, y: Any, groups: Any, part: FirstPart) -> None:
        if self.classes is None:
            raise ValueError(
                "The 'classes' parameter must be declared for a stream: a later part "
                "may have other labels than the first one. Got None. Pass all labels."
            )
        self._fit(X, y, groups=groups, part=part)

    def _targets_of_part(self, X: Any, y: Any) -> Any:
        given = self.classes
        if not (given is None or np.array_equal(declared_labels(given), self.classes_)):
            raise ValueError(
                "The labels of a stream must be those declared at its first part, "
                f"{self.classes_.tolist()}. Got others in 'classes'. Leave it out. "
                "Nothing was read."
            )
        with self._labelled(self.classes_):
            return self._encode_labels(X, y)[1]

    @contextmanager
    def _labelled(self, classes: Any) -> Iterator[None]:
        """Have these labels declared, if none are."""
        own = self.classes
        self.classes = classes if own is None else own
        try:
            yield
        finally:
            self.classes = own

    def _fit(
        self, X: Any, y: Any, *, groups: Any = None, part: FirstPart | None = None
    ) -> Self:
        budget = self._check_privacy_params()
        check_bool("fit_intercept", self.fit_intercept)
        self._check_strength()
        users = users_to_fit(self, X, groups, budget)
        is_centred = self._will_centre()
        n_parts = 1 if part is None else part.n_parts
        X = rows_to_fit(self, X, budget, users, n_parts, is_centred=is_centred)
        classes, codes = self._encode_labels(X, y)
        weights = label_weights(self.class_weight, classes)
        loss = weighted(self._loss(len(classes)), weights)
        alpha = self._alpha(n_units(X, users, n_parts), budget)
        alpha /= largest_weight(self.class_weight, classes)
        labels = "taken from y" if self.classes is None else "declared"
        assumed = (*public_facts(self.columns, users), f"set of labels ({labels})")
        if weights:
            assumed += ("weights of labels (declared)",)
        solution, objective, record = self._solve(
            X, codes, loss, alpha, budget, assumed, users, part
        )
        self._keep_weights(solution, objective, X.dtype)
        self.classes_, self._label_weights = classes, weights
        self.privacy_ = record
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
        # That the count is one, before it is divided by.
        alpha = self._alpha(check_count("n_samples", n_samples), budget)
        alpha /= largest_weight(self.class_weight, labels)
        return self._objective(loss, n_samples, n_features, alpha, budget)

    @abstractmethod
    def _loss(self, n_classes: int) -> Loss:
        """The loss for this number of classes, one output for two."""

    def _encode_labels(self, X: Any, y: Any) -> tuple[np.ndarray, Any]:
        """The public labels, sorted, and the index of each record's label."""
        return encode_labels(self, X, y)

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
        check_is_fitted(self)
        X = rows_to_predict(self, X)
        raw: np.ndarray = self._products(X, self.coef_.T) + self.intercept_
        return raw[:, 0] if len(self.classes_) == 2 else raw

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
