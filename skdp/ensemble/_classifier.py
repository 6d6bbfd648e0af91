"""Private boosting of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin

from skdp._label_weights import expected_labels, label_weights, unweighted
from skdp._labels import encode_labels
from skdp._validation import check_bool
from skdp.ensemble._gradient_boosting import GradientBoosting
from skdp.io._rows import records
from skdp.io._takes import fit_through
from skdp.queries._loss_facts import PLAIN, LeafLoss, LossFacts


class DPGradientBoostingClassifier(ClassifierMixin, GradientBoosting):
    """Gradient boosting of trees with differential privacy.

    Trees are drawn from public randomness, the declared `columns` and, for a small part
    of the budget, noisy counts of where each column's values lie. The values of their
    leaves are Newton steps of the log-loss from noisy sums of residuals and curvatures,
    one Gaussian release a tree. They continue a private additive linear model (`init`).
    Missing values have a bin of their own. With ``max_interaction`` 1 or 2 the model is
    exactly a sum of curves, and tables of pairs, that one can look at.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records, the declarations and the set of labels
    public. Released are these counts, the linear model's gradients, what it and the
    trees are worth, and the values of all leaves; see ``privacy_``,
    ``docs/privacy_guarantee.md`` and, for what is not covered,
    ``docs/known_weaknesses.md``. Predictions, shapes, importances and constraints are
    post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf, default=1.0
        Privacy loss. inf fits without noise, by the rules at their limit.
    columns : mapping, sequence, Range or TableEncoder
        Declarations of `skdp.columns`, known without looking at the data. Required; the
        default None raises. Ranges are cut into 32 intervals of equal width; a
        TableEncoder says otherwise by its `n_knots`, and what becomes of columns and
        categories that are not declared.
    classes : list of labels or None, default=None
        All labels that may occur. None takes them from y, which is then assumed public.
    delta : float in [1e-50, 1), default=1e-6
        Probability with which the guarantee may fail; far below ``1 / n_samples``.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What neighbouring data sets are: one record exchanged for any other, or for
        the null record, which contributes nothing.
    privacy_unit : {"record", "user"}, default="record"
        What neighbours differ in: one row, or all rows of one user, whose ids come by
        ``fit(X, y, groups=ids)``. Then each user counts as one record, with the mean
        over the own rows, and `adjacency` is of users (``docs/users.md``).
    solver : str, default="auto"
        ``"auto"`` or a key of ``skdp.ensemble.BOOSTERS``: ``"newton_boosting"``.
    solver_params : mapping or None, default=None
        Further hyper-parameters of a named solver, for example ``{"residual_clip":
        0.5}``. Nothing in it can change noise scale, sensitivity or randomness.
    init : {"linear", "constant"}, default="linear"
        What trees continue: a private additive linear model of the codes, in the same
        event, or a constant. With little data the linear model is all there is. Without
        noise its share is 0, and trees start at a constant.
    n_estimators : int or None, default=None
        Number of trees. Public. None: the solver's rule by n_samples, epsilon, delta,
        which may be 0.
    learning_rate : float in (0, 1] or None, default=None
        None: the solver's rule.
    max_depth : int or None, default=None
        None: the solver's rule; depth does little harm, since leaves that drown in
        noise are shrunk to 0.
    max_interaction : {"mix", 1, 2, None}, default="mix"
        How many columns a tree may cut: 1, at most 2, or any number; "mix" is all three
        in turn. 1 and 2 give `shape_functions_`.
    interaction_cst : {"pairwise", "no_interactions"}, list of groups, or None, \
default=None
        Columns, by name or by position in X, that may share a tree. Columns in none of
        the groups are one more group. To the two words a part of dates is a column.
    monotonic_cst : mapping or sequence of {-1, 0, 1}, or None, default=None
        By name, or for each column of X: whether predictions may not fall (1) or not
        rise (-1) with it, all else the same. For two classes, and columns with an
        order. Free: released curves are made monotone. Such columns share a tree with
        one other at most.
    class_weight : mapping of labels to floats in [1e-6, 1e6], or None, default=None
        By how much records of a label count in the loss, and so in `predict` and
        `decision_function`; labels left out count once. Known without looking at the
        data: "balanced" is refused.
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
    classes_ : ndarray of shape (n_classes,)
        Public, or assumed to be (see `classes`).
    shape_functions_ : ShapeFunctions
        The model as a sum of curves and tables. Private output. Only if no tree cuts
        more than two columns.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Private output.
    bins_ : Bins
        Codes of the declared columns. Public.
    encoder_ : TableEncoder
        What reads the table. Public.
    tree_seed_ : int
        From which the trees were drawn. Public.
    shrinkage_ : float in {0.0, 0.25, 0.5, 1.0}
        Share of the trees that was worth most; 0.0 leaves what they continue. Private
        output. Only where it was asked.
    privacy_ : PrivacyRecord
        Public facts, and post-processing of released values (``noise_scale``).
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    See Also
    --------
    sklearn.ensemble.HistGradientBoostingClassifier : Boosting without privacy.
    DPLogisticRegression : Linear models, of `columns` too.

    Notes
    -----
    ``fit`` has no ``sample_weight``: unbounded weights would void the sensitivity. The
    noise is made for the largest of the declared `class_weight`, so that labels of less
    weight are told of with more noise.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPGradientBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(17, 90, 4000)})
    >>> X["job"] = rng.choice(["office", "field"], 4000)
    >>> y = (X["age"] > 50) ^ (X["job"] == "field")
    >>> model = DPGradientBoostingClassifier(
    ...     epsilon=1.0,
    ...     columns={"age": (17, 90), "job": ["office", "field"]},
    ...     classes=[False, True],
    ...     max_interaction=2,
    ... ).fit(X, y)
    >>> model.shape_functions_.names, model.privacy_.epsilon
    (['age', 'job', 'age x job'], 1.0)

    A rare label that counts nine times, and probabilities as they are:

    >>> rare = np.random.default_rng(1).uniform(0, 400, 4000) < X["age"]
    >>> model = DPGradientBoostingClassifier(
    ...     epsilon=1.0,
    ...     columns={"age": (17, 90), "job": ["office", "field"]},
    ...     classes=[False, True],
    ...     class_weight={True: 9},
    ... ).fit(X, rare)
    >>> bool(model.predict_proba(X)[:, 1].mean() < 0.3)
    True
    """

    classes_: Any
    _label_weights: tuple[float, ...]

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Any = None,
        classes: Any = None,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        solver: str = "auto",
        solver_params: Any = None,
        init: str = "linear",
        n_estimators: int | None = None,
        learning_rate: float | None = None,
        max_depth: int | None = None,
        max_interaction: int | str | None = "mix",
        interaction_cst: Any = None,
        monotonic_cst: Any = None,
        class_weight: Any = None,
        correct_prior: bool = True,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.classes = classes
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.solver = solver
        self.solver_params = solver_params
        self.init = init
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_interaction = max_interaction
        self.interaction_cst = interaction_cst
        self.monotonic_cst = monotonic_cst
        self.class_weight = class_weight
        self.correct_prior = correct_prior
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : data frame, array-like or source of shape (n_samples, n_features)
            A table of what is declared. Of a source of `skdp.io` a byte a column is
            held.
        y : array-like of shape (n_samples,)
            Labels. Left out with a source, which has its target; then `classes` must
            be declared.
        groups : array-like of shape (n_samples,) or None, default=None
            With ``privacy_unit="user"`` whose each row is: integers or texts, none
            missing. A categorical declares users without rows as well. Left out with
            a source, which names the column of ids.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or input out of range, for ids without
            ``privacy_unit="user"``, and the other way round. Nothing was spent, and the
            estimator is as it was before.
        BudgetExceeded
            If the ledger's cap does not allow this fit. Nothing was read or spent.
        """
        with self._all_or_nothing():
            return fit_through(self, X, y, lambda: self._fit(X, y, groups))

    def _fit(self, X: Any, y: Any, groups: Any) -> Self:
        budget, users, codes = self._read_to_fit(X, groups)
        classes, targets = encode_labels(self, codes, y)
        labels = "taken from y" if self.classes is None else "declared"
        weights = label_weights(self.class_weight, classes)
        check_bool("correct_prior", self.correct_prior)
        public = [f"set of labels ({labels})"]
        if weights:
            public.append("weights of labels (declared)")
        self._boost(
            records(codes, targets, users=users),
            *_loss_of(len(classes)),
            budget,
            tuple(public),
            LossFacts(label_weights=weights),
        )
        self.classes_, self._label_weights = classes, weights
        return self

    @property
    def _units(self) -> tuple[float, float]:
        return 1.0, 0.0

    def _loss(self) -> tuple[LeafLoss, int]:
        return _loss_of(len(self._expected_labels()))

    def _loss_facts(self) -> LossFacts:
        if self.class_weight is None:
            return PLAIN
        labels = label_weights(self.class_weight, self._expected_labels())
        return LossFacts(label_weights=labels)

    def _expected_labels(self) -> Any:
        return expected_labels(self.classes, self.class_weight)

    def _facts(self) -> dict[str, Any]:
        facts = {"classes": self.classes_.tolist()}
        if self._label_weights:
            facts["class_weight"] = list(self._label_weights)
        return facts

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions: logits of the second class, or of each of several.

        With `class_weight` those of the weighted records.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return _squeezed(self._raw(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels, of shape (n_samples, n_classes).

        With `class_weight` those of the records as they are, whose most likely label
        may be another than `predict` has; see `correct_prior`.
        """
        return _probabilities(self._unweighted(self.decision_function(X)))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        raw = self._unweighted(self.decision_function(X))
        if raw.ndim == 1:
            return np.column_stack([log_expit(-raw), log_expit(raw)])
        return np.asarray(log_softmax(raw, axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row, as `class_weight` counts: (n_samples,)."""
        return self._labelled(self.decision_function(X))

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """`decision_function` after each tree; not with `monotonic_cst`."""
        return (_squeezed(raw) for raw in self._staged_raw(X))

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """`predict_proba` after each tree; not with `monotonic_cst`."""
        stages = self.staged_decision_function(X)
        return (_probabilities(self._unweighted(raw)) for raw in stages)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """`predict` after each tree; not with `monotonic_cst`."""
        return (self._labelled(raw) for raw in self.staged_decision_function(X))

    def _unweighted(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions of the records as they are, if these are asked for."""
        return unweighted(raw, self._label_weights) if self.correct_prior else raw

    def _labelled(self, raw: np.ndarray) -> np.ndarray:
        codes = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise, not the method, spoils the scores on tiny data.
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags


def _loss_of(n_classes: int) -> tuple[LeafLoss, int]:
    return ("logistic", 1) if n_classes == 2 else ("softmax", n_classes)


def _squeezed(raw: np.ndarray) -> np.ndarray:
    return raw[:, 0] if raw.shape[1] == 1 else raw


def _probabilities(raw: np.ndarray) -> np.ndarray:
    if raw.ndim == 1:
        return np.column_stack([expit(-raw), expit(raw)])
    return np.asarray(softmax(raw, axis=1))
