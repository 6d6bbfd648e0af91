"""Private networks: the estimators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from skdp._arrays import FloatArray
from skdp._checks import check_bool, check_choice, check_target_bounds
from skdp._input import (
    expected_labels,
    label_weights,
    unweighted,
    weighted_by,
)
from skdp.io._table import ScoresSources, Table, scaling
from skdp.linear_model._rows import public_facts, rows_to_fit
from skdp.losses._base import Loss
from skdp.losses._classification import (
    CauchyLoss,
    LogisticLoss,
    SigmoidLoss,
    SoftmaxLoss,
    weighted,
)
from skdp.losses._regression import SquaredLoss
from skdp.neural_network._network import PrivateNetwork
from skdp.neural_network._solvers import NetworkSolverName
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.tables._columns import Columns

# ---------------------------------------------------------------------- DPMLPClassifier


def _outputs(n_classes: int) -> int:
    return 1 if n_classes == 2 else n_classes


_Activation = Literal["tanh", "logistic", "relu", "identity"]
LOSSES: dict[str, Callable[[int], Loss]] = {
    "cauchy": lambda n: CauchyLoss(n_outputs=_outputs(n)),
    "log_loss": lambda n: LogisticLoss() if n == 2 else SoftmaxLoss(n),
    "sigmoid": lambda n: SigmoidLoss(n_outputs=_outputs(n)),
}


class DPMLPClassifier(ScoresSources, ClassifierMixin, PrivateNetwork):
    r"""Multi-layer perceptron classifier with differential privacy.

    Minimises the mean log-loss (with more than two classes the softmax loss), or a loss
    that is not convex, along noisy sums of per-record gradients. The joint gradient of
    all layers, biases included, is clipped to one norm. On tables
    `DPGradientBoostingClassifier` has been better in every comparison so far; use a
    network where all columns are of one kind, such as pixels or declared features of
    pixels (``docs/guide/networks.md``).

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the set of labels public. Released are
    ``coefs_`` and ``intercepts_``; the weights of every step could be released too. See
    ``privacy_``, ``docs/proofs/networks.md`` and, also for what is not covered,
    ``docs/guide/before_you_sign.md``. Predictions and probabilities are
    post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf nothing is clipped, and each step uses all records.
    %(columns, classes)s
    delta : float in [1e-50, 1), default=1e-6
        %(delta)s
    %(adjacency, privacy_unit, data_norm)s
        The first layer gets rows of norm at most 6, whatever their units.
    %(hidden_layer_sizes, convolutions, image_shape, activation)s
    loss : {"log_loss", "cauchy", "sigmoid"}, default="log_loss"
        The loss. "cauchy" and "sigmoid" are the losses of `DPRobustClassifier`: smooth,
        not convex, and bounded or nearly so for a wrong label; they have no
        probabilities.
    alpha : float in [0, 1e100] or None, default=None
        L2 regularisation of the mean loss, biases included, with `class_weight` in
        units of its largest. None: 0.
    solver : str, default="auto"
        ``"auto"`` or a key of ``skdp.neural_network.NETWORK_SOLVERS``: ``"noisy_sgd"``,
        ``"noisy_gd"`` or ``"noisy_adam"``.
    %(solver_params, init, class_weight, correct_prior, random_state, ledger, verbose)s

    Attributes
    ----------
    coefs_ : list of ndarray of shape (n_inputs, n_units)
        Weights of each layer, for rows in units of the features. In a convolution the
        inputs are a patch, row by row, and the units are filters. Private output, of
        the dtype of X.
    intercepts_ : list of ndarray of shape (n_units,)
        Private output.
    %(classes_, init_seed_, privacy_, encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.neural_network.MLPClassifier : Networks without privacy.
    DPGradientBoostingClassifier : The first choice for tables.

    Notes
    -----
    ``fit`` has no ``sample_weight``: unbounded weights would void the sensitivity.
    There is no early stopping: the time to stop would need a further release.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPMLPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DPMLPClassifier(
    ...     epsilon=1.0,
    ...     data_norm=80.0,  # of 64 pixels from 0 to 16, of which half are empty
    ...     classes=list(range(10)),
    ...     solver="noisy_gd",
    ...     solver_params={"n_steps": 10},
    ... ).fit(X, y)
    >>> [coef.shape for coef in model.coefs_], model.privacy_.epsilon
    ([(64, 32), (32, 10)], 1.0)
    """

    _label_weights: tuple[float, ...]

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        classes: Any = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        hidden_layer_sizes: Any = (32,),
        convolutions: Any = (),
        image_shape: Any = None,
        activation: _Activation = "tanh",
        loss: Literal["log_loss", "cauchy", "sigmoid"] = "log_loss",
        alpha: float | None = None,
        solver: NetworkSolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        class_weight: Any = None,
        correct_prior: bool = True,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.classes = classes
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.data_norm = data_norm
        self.hidden_layer_sizes = hidden_layer_sizes
        self.convolutions = convolutions
        self.image_shape = image_shape
        self.activation = activation
        self.loss = loss
        self.alpha = alpha
        self.solver = solver
        self.solver_params = solver_params
        self.init = init
        self.class_weight = class_weight
        self.correct_prior = correct_prior
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            Finite numbers. float32 stays float32; CSR stays CSR. With `columns` a table
            of the declared columns. A source of `skdp.io` is read in place, once for
            every step.
        y : array-like of shape (n_samples,)
            Labels. Left out with a source, which has its target; then `classes` must
            be declared.
        %(groups)s

        Returns
        -------
        self

        Raises
        ------
        %(ValueError, BudgetExceeded)s
        """
        with self._all_or_nothing():
            return Table.of(X, y, groups).fitted(self, self._fit)

    def _fit(self, table: Table) -> Self:
        budget = self._check_privacy_params()
        check_bool("correct_prior", self.correct_prior)
        self._named()
        users = table.users(self, budget)
        rows = rows_to_fit(self, table, budget, users)
        classes, codes = table.labels(self, rows.X)
        self._given(classes)  # refuses a model of other labels
        labels = "taken from y" if self.classes is None else "declared"
        assumed = (*public_facts(self.columns, users), f"set of labels ({labels})")
        weights = label_weights(self.class_weight, classes)
        if weights:
            assumed += ("weights of labels (declared)",)
        source = table.source(rows.X, codes, users, is_private=budget.is_finite)
        self._train(source, rows, self._loss_of(classes), budget, assumed)
        self.classes_, self._label_weights = classes, weights
        return self

    def _expected_loss(self) -> Loss:
        return self._loss_of(expected_labels(self.classes, self.class_weight))

    def _loss_of(self, labels: Any) -> Loss:
        check_choice("loss", self.loss, list(LOSSES))
        loss = LOSSES[self.loss](len(labels))
        return weighted(loss, label_weights(self.class_weight, labels))

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions of the rows, clipped as in `fit`.

        Logits of the second class, or of each class if there are more than two.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        raw = self._raw(X)
        return np.asarray(raw[:, 0] if raw.shape[1] == 1 else raw)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels, of shape (n_samples, n_classes).

        With `class_weight` they are probabilities without the weights, so that the most
        likely label may differ from `predict`; see `correct_prior`.
        """
        raw = self._corrected(X)
        if raw.ndim == 1:
            return np.column_stack([expit(-raw), expit(raw)])
        return np.asarray(softmax(raw, axis=1))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        raw = self._corrected(X)
        if raw.ndim == 1:
            return np.column_stack([log_expit(-raw), log_expit(raw)])
        return np.asarray(log_softmax(raw, axis=1))

    def _corrected(self, X: Any) -> np.ndarray:
        """Log-odds, without the weights of labels if these are asked for."""
        raw = self.decision_function(X)
        return unweighted(raw, self._label_weights) if self.correct_prior else raw

    def _outputs(self) -> dict[str, Any]:
        weights = self._label_weights if self.correct_prior else ()
        shift = weighted_by(weights).tolist() if _is_probable(self) else None
        return {"classes": self.classes_.tolist(), "label_shift": shift}

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


def _is_probable(model: DPMLPClassifier) -> bool:
    """Whether raw predictions are log-odds."""
    return bool(model.loss == "log_loss")


# After the class is made: methods take sources only then, and descriptors would not.
for _own in (DPMLPClassifier.predict_proba, DPMLPClassifier.predict_log_proba):
    setattr(DPMLPClassifier, _own.__name__, available_if(_is_probable)(_own))


# ----------------------------------------------------------------------- DPMLPRegressor


# Targets are scaled to [-1, 1]; a prediction in this range is at most 2 from a target.
_RESIDUAL_BOUND = 2.0


class DPMLPRegressor(ScoresSources, RegressorMixin, PrivateNetwork):
    r"""Multi-layer perceptron regressor with differential privacy.

    Minimises half the mean squared error along noisy sums of per-record gradients; the
    joint gradient of all layers, biases included, is clipped to one norm, which is
    found without forming it. Targets are clipped to `target_bounds`, rows to
    `data_norm`. On tables try `DPGradientBoostingRegressor` first
    (``docs/guide/networks.md``).

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are ``coefs_`` and
    ``intercepts_``; the weights of every step could be released too. See ``privacy_``,
    ``docs/proofs/networks.md`` and, also for what is not covered,
    ``docs/guide/before_you_sign.md``. `predict` is post-processing; ``score(X, y)``
    reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf nothing is clipped, and each step uses all records.
    %(columns, target_bounds)s
    delta : float in [1e-50, 1), default=1e-6
        %(delta)s
    %(adjacency, privacy_unit, data_norm)s
        The first layer gets rows of norm at most 6, whatever their units.
    %(hidden_layer_sizes, convolutions, image_shape, activation)s
    alpha : float in [0, 1e100] or None, default=None
        L2 regularisation of the mean loss, biases included. None: 0.
    solver : str, default="auto"
        ``"auto"`` or a key of ``skdp.neural_network.NETWORK_SOLVERS``: ``"noisy_sgd"``,
        ``"noisy_gd"`` or ``"noisy_adam"``.
    %(solver_params, init, random_state, ledger, verbose)s

    Attributes
    ----------
    coefs_ : list of ndarray of shape (n_inputs, n_units)
        Weights of each layer, for rows in units of the features and predictions in
        units of the target. In a convolution the inputs are a patch, row by row, and
        the units are filters. Private output, of the dtype of X.
    intercepts_ : list of ndarray of shape (n_units,)
        Private output.
    %(init_seed_, privacy_, encoder_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.neural_network.MLPRegressor : Networks without privacy.
    DPGradientBoostingRegressor : The first choice for tables.

    Notes
    -----
    Inside, targets are shifted and scaled by `target_bounds` to [-1, 1], and errors
    are clipped to 2 there. ``fit`` has no ``sample_weight``: unbounded weights would
    void the sensitivity.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import BoundedScaler, DPMLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(
    ...     BoundedScaler(bounds=(-0.2, 0.2)),
    ...     DPMLPRegressor(epsilon=3.0, hidden_layer_sizes=8, target_bounds=(0, 350)),
    ... ).fit(X, y)
    >>> [coef.shape for coef in model[-1].coefs_], model[-1].privacy_.epsilon
    ([(10, 8), (8, 1)], 3.0)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        target_bounds: Any = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        data_norm: float = 1.0,
        hidden_layer_sizes: Any = (32,),
        convolutions: Any = (),
        image_shape: Any = None,
        activation: _Activation = "tanh",
        alpha: float | None = None,
        solver: NetworkSolverName = "auto",
        solver_params: Any = None,
        init: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.target_bounds = target_bounds
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.data_norm = data_norm
        self.hidden_layer_sizes = hidden_layer_sizes
        self.convolutions = convolutions
        self.image_shape = image_shape
        self.activation = activation
        self.alpha = alpha
        self.solver = solver
        self.solver_params = solver_params
        self.init = init
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            Finite numbers. float32 stays float32; CSR stays CSR. With `columns` a table
            of the declared columns. A source of `skdp.io` is read in place, once for
            every step.
        y : array-like of shape (n_samples,)
            Finite targets. Left out with a source, which has its target.
        %(groups)s

        Returns
        -------
        self

        Raises
        ------
        %(ValueError, BudgetExceeded)s
        """
        with self._all_or_nothing():
            return Table.of(X, y, groups).fitted(self, self._fit)

    def _fit(self, table: Table) -> Self:
        budget = self._check_privacy_params()
        self._named()
        low, high = check_target_bounds(self.target_bounds)
        users = table.users(self, budget)
        rows = rows_to_fit(self, table, budget, users)
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        loss = self._expected_loss() if budget.is_finite else SquaredLoss(math.inf)

        clip = (low, high) if budget.is_finite else (-math.inf, math.inf)
        scaled = scaling(*clip, middle, half)
        targets = table.numbers(self, rows.X, scaled)
        facts = public_facts(self.columns, users)
        source = table.source(rows.X, targets, users, is_private=budget.is_finite)
        self._train(source, rows, loss, budget, facts)
        return self

    def _in_units(self, layer: FloatArray) -> FloatArray:
        low, high = check_target_bounds(self.target_bounds)
        # In double precision, before anything is rounded to the dtype of the rows.
        layer = (high / 2 - low / 2) * layer
        layer[-1] += low / 2 + high / 2
        return layer

    def _expected_loss(self) -> Loss:
        return SquaredLoss(_RESIDUAL_BOUND, target_bound=1.0)

    def predict(self, X: Any) -> np.ndarray:
        """Predictions for the rows, clipped as in `fit`, in units of the target.

        They may be beyond `target_bounds`: clip predictions that make no sense, which
        costs nothing.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._raw(X)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise, not the method, spoils the scores on tiny data.
        tags.regressor_tags.poor_score = self.epsilon != float("inf")
        return tags
