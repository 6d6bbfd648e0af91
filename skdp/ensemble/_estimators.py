"""Private gradient boosting: the estimators."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import get_tags

from skdp._base import (
    Forecast,
    Signal,
    public_of_declared,
    relaxed,
)
from skdp._checks import (
    check_bool,
    check_choice,
    check_count,
    check_target_bounds,
)
from skdp._configured import GAUSSIAN_PARAMS, asks_for_gaussian
from skdp._effects import units_of_classes
from skdp._export import Step, step
from skdp._fit import ContinuesModel, NamedKind, PlannedFit, fit
from skdp._input import (
    expected_labels,
    label_weights,
    unweighted,
    weighted_by,
)
from skdp._users import UsersToFit
from skdp.ensemble._boosting import (
    BoostedTrees,
    BoosterName,
    NewtonBoosting,
    named_booster,
)
from skdp.ensemble._inspection import FittedTrees
from skdp.ensemble._losses import (
    BoostingTask,
    Init,
    half_and_middle,
    means_of,
    regression_loss,
    scored_by,
)
from skdp.ensemble._shapes import constrained, directions_of, groups_of
from skdp.ensemble._trees import MIX, Bins, TableReader, bins_of, read_to_fit, reader_of
from skdp.io._table import ScoresSources, Table, scaling
from skdp.losses._base import Loss
from skdp.losses._classification import (
    LogisticLoss,
    SoftmaxLoss,
    typical_curvature,
    weighted,
)
from skdp.losses._regression import Means
from skdp.preprocessing._cells import declared_of
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import (
    Adjacency,
    TableUnit,
    relation_for,
)
from skdp.privacy.noise._laws import LAWS, deviation_once
from skdp.tables._columns import Columns, as_declared
from skdp.tables._memory import in_memory
from skdp.tables._source import Source

# ----------------------------------------------------------------- Noise against signal


# Leaves of the coarsest tree that can learn anything.
_LEAVES = 8
# Columns that may share the trees without a visible loss. More columns divide the
# trees, and noise counts with the root of their number over this one. With 23 and 40
# columns, and ratios of 0.78 and 0.58 without that factor, models had no skill.
_COLUMNS = 8
# Ratio below which models are close to models without privacy, and ratio above which
# noise leaves a constant model (docs/guide/boosting.md).
_LITTLE_TO, _CONSTANT_FROM = 0.01, 1.0


def signal_of(solver: NewtonBoosting, task: BoostingTask, budget: Budget) -> Signal:
    """Noise in a leaf of a tree that has the whole budget, for a finite epsilon."""
    deviation = deviation_once(LAWS["gaussian"], budget, 1)
    curvature = typical_curvature(task.loss)
    noise = solver.terms(task).bound().under(task.adjacency) * deviation
    noise *= math.sqrt(max(1.0, len(task.columns.n_bins) / _COLUMNS))
    return Signal(
        coefficient_noise=noise * _LEAVES / (task.n_samples * curvature),
        coefficient_scale=1 / 3 if task.is_regression else 1.0,
        n_records=task.n_samples,
        little_to=_LITTLE_TO,
        constant_from=_CONSTANT_FROM,
    )


# ------------------------------------ GradientBoosting: table, solver, record, forecast


_INTERACTIONS: dict[Any, Sequence[int | None]] = {
    "mix": MIX,
    1: (1,),
    2: (1, 2),
    None: (None,),
}
# After a linear model, which already has the curves. With trees of two columns and of
# all columns in turn log-loss is .006 and .014 higher on covertype at epsilon 1 and 4,
# and R2 of protein_casp .003 and .020 lower; log-loss on adult is .002 lower at 4
# (`python -m benchmarks boosting_trees`).
_INTERACTIONS_AFTER = {**_INTERACTIONS, "mix": (None,), 2: (2,)}
_Order = Literal["mix", 1, 2]
_Groups = Literal["pairwise", "no_interactions"] | list[Any] | tuple[Any, ...]
_SEED = "the seed that trees were drawn from"


class GradientBoosting(FittedTrees, ContinuesModel):
    """Trees from declared columns and public randomness, leaves from noisy sums.

    A subclass's ``fit`` validates its input, states the loss, calls `_boost`, and keeps
    the model.
    """

    # Parameters that the solver has too; None leaves one to the solver's rule.
    _own: ClassVar[tuple[str, ...]] = ("n_estimators", "learning_rate", "max_depth")

    columns: Any
    solver: str
    solver_params: Any

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss that follows from the declared parameters."""

    def _adds_up(self) -> bool:
        return asks_for_gaussian(self.solver_params) or super()._adds_up()

    def _adds_in_squares(self) -> bool:
        named = self._named().given.get("law")
        # With a number of trees the model is no constant.
        adds = self._adds_up() or bool(self.n_estimators)
        return named != "laplace" and adds and super()._adds_in_squares()

    def _use_composable_noise(self) -> None:
        if "law" not in self._named().given:
            self.solver_params = {**(self.solver_params or {}), **GAUSSIAN_PARAMS}

    def _named(self) -> NamedKind[NewtonBoosting]:
        own = {name: getattr(self, name) for name in self._own}
        return named_booster(self.solver, self.solver_params, own)

    def _interactions(
        self, known: dict[Any, Sequence[int | None]]
    ) -> Sequence[int | None]:
        """Numbers of columns of trees in turn, from a dict by `max_interaction`."""
        given = self.max_interaction
        is_key = given is None or isinstance(given, (str, Integral))
        if not is_key or isinstance(given, bool) or given not in known:
            raise ValueError(
                "The 'max_interaction' parameter must be 'mix', 1, 2 or None. Got "
                f"{given!r}. Use 1 or 2 for a model whose shapes can be looked at, "
                "None for trees of all columns, 'mix' for all three in turn."
            )
        return known[given]

    def _init(self) -> Init:
        """Start of the trees; without noise a linear model's share falls to 0."""
        if not isinstance(self.init, ContinuesModel):
            check_choice("init", self.init, ["constant", "linear"])
        is_linear = self.init != "constant" and math.isfinite(self.epsilon)
        return "linear" if is_linear else "constant"

    def _task(
        self, loss: Loss, n_samples: int, n_features: int, bins: Bins
    ) -> BoostingTask:
        """The public facts of a fit as a task."""
        given, before = self._given(), None
        if given is not None:
            before = given._model.boosted
            if before.curves is None:
                raise ValueError(
                    "The 'init' model must have a linear model before its trees, as "
                    "with init='linear'. Got one without. Leave out 'init'."
                )
        return BoostingTask(
            before=before,
            loss=loss,
            n_samples=n_samples,
            n_features=n_features,
            columns=bins,
            adjacency=relation_for(self.adjacency, self.privacy_unit),
            interactions=self._interactions(_INTERACTIONS),
            interactions_after=self._interactions(_INTERACTIONS_AFTER),
            init=self._init(),
        )

    def _constraints(self, loss: Loss) -> tuple[dict[int, int], Any]:
        """Directions of columns of codes, and groups that may share a tree."""
        declared = self.encoder_._names
        names = getattr(self, "feature_names_in_", None)
        names = declared if names is None else tuple(map(str, names))
        args = self.bins_, declared, names
        directions = directions_of(self.monotonic_cst, *args)
        if directions and loss.n_outputs > 1:
            raise ValueError(
                "The 'monotonic_cst' parameter must be None with more than two "
                "classes: a rise of one is a fall of others. Got directions. Leave it "
                "out."
            )
        return directions, groups_of(self.interaction_cst, *args, directions)

    def _boost(
        self,
        source: Source,
        loss: Loss,
        budget: Budget,
        assumed_public: tuple[str, ...],
    ) -> None:
        """Fit to codes and targets; sets ``privacy_`` and the model."""
        door, n_samples = self._door(budget), source.n_samples
        directions, groups = self._constraints(loss)
        n_features = len(self.encoder_._names)
        task = self._task(loss, n_samples, n_features, self.bins_)
        task = replace(task, groups=groups)
        table = public_of_declared(task.adjacency)
        planned = replace(
            self._planned(task, budget), assumed_public=(*table, *assumed_public)
        )
        seed = None
        if planned.solver.params["n_estimators"]:
            # Public: trees hide nothing, and are independent of the noise.
            seed = door.public_seed()
            planned = replace(
                planned,
                problem=replace(task, seed=seed),
                assumed_public=(*table, _SEED, *assumed_public),
            )
        boosted = fit(self, planned, in_memory(source), door)
        found = {"tree_seed_": seed, "shrinkage_": boosted.shrinkage}
        for name, value in found.items():
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)
        self._model = constrained(self.bins_, boosted, directions)

    def _is_constant(self) -> bool:
        return self._model.is_constant

    def _planned(
        self, task: BoostingTask, budget: Budget
    ) -> PlannedFit[BoostingTask, BoostedTrees]:
        """The fit to a task, every parameter decided by public facts."""
        named = self._named()
        solver = named.kind.planned(named.given, task, budget)
        return PlannedFit(
            problem=task,
            solver=solver,
            reason=named.reason,
            signal=signal_of(solver, task, budget) if budget.is_finite else None,
            remedies=("a larger epsilon", *relaxed(budget)),
            verbose=self.verbose,
        )

    # ------------------------------------------------------------ before there are data

    def forecast(self, n_samples: int, n_features: int = 1) -> Forecast:
        """Solver, and noise against signal, of a fit to a table of this shape.

        Nothing is read and nothing spent. A classifier without `classes` is assumed to
        have two. The forecast is a rule of thumb (``docs/guide/boosting.md``), which
        also decides whether `fit` warns.

        Parameters
        ----------
        n_samples : int
            Number of records, or of users.
        n_features : int, default=1
            Number of columns, if one Range is declared for all of them.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError, TypeError
            For a parameter out of range, if epsilon is inf, or if the solver refuses
            the job.
        """
        return self._forecast(n_samples, n_features)

    def _foreseen(
        self, budget: Budget, n_samples: int, n_features: int
    ) -> PlannedFit[BoostingTask, BoostedTrees]:
        bins = self._planned_bins(check_count("n_features", n_features))
        known = check_count("n_samples", n_samples)
        return self._planned(self._task(self._loss(), known, n_features, bins), budget)

    def _shape(self, n_samples: int) -> tuple[int, int]:
        return n_samples, self.n_features_in_

    def _planned_bins(self, n_features: int) -> Bins:
        declared = as_declared(reader_of(self.columns).columns)
        names = tuple(declared) if isinstance(declared, dict) else ()
        if isinstance(declared, tuple):
            n_features = len(declared)
        names = names or tuple(f"x{i}" for i in range(n_features))
        return bins_of(names, declared_of(names, declared))

    def _read_to_fit(self, table: Table) -> tuple[Budget, UsersToFit | None, Any]:
        """Checked parameters, users and codes; nothing is spent."""
        budget = self._check_privacy_params()
        self._named()
        self._interactions(_INTERACTIONS)
        users = table.users(self, budget)
        return budget, users, read_to_fit(self, table)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(TableReader()).input_tags
        return tags


# --------------------------------------------------------- DPGradientBoostingClassifier


class DPGradientBoostingClassifier(ScoresSources, ClassifierMixin, GradientBoosting):
    """Gradient-boosted trees with differential privacy, for classification.

    The fit starts from a private linear model (`init`). With enough records it adds a
    tenth of the trees on trial, and the other trees if a noisy query says that these
    reduce the loss; otherwise the model stays linear. The splits follow from public
    randomness, the declared `columns` and, for a small part of the budget, noisy counts
    of where each column's values lie. The values of the leaves are Newton steps of the
    log-loss from noisy sums of residuals and curvatures, one Gaussian release a tree.
    Missing values have a separate bin. With ``max_interaction`` 1 or 2 the model is
    exactly a sum of curves, and tables of pairs, that can be plotted and read.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records, the declarations and the set of labels
    public. Released are these counts, the linear model's gradients, the gains of the
    linear model and of the trees, and the values of all leaves; see ``privacy_``, and
    ``docs/guide/before_you_sign.md`` also for what is not covered. Predictions, shapes,
    importances and constraints are post-processing; ``score(X, y)`` reads raw data and
    is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf the model follows the rules at their limit.
    columns : mapping, sequence, Range or TableEncoder
        Declarations of `skdp.columns`, known without looking at the data. Required; the
        default None raises. Ranges are cut into 128 intervals of equal width; a
        TableEncoder with `n_knots` cuts them into one interval fewer than that number,
        and says how undeclared columns and categories are treated.
    %(classes)s
    delta : float in [1e-50, 1), default=1e-6
        %(delta)s
    %(adjacency, privacy_unit)s
    solver : str, default="auto"
        ``"auto"`` or a key of ``skdp.ensemble.BOOSTERS``: ``"newton_boosting"``.
    %(solver_params)s
        Boosting has for example ``{"residual_clip": 0.5}``.
    init : {"linear", "constant"} or fitted model, default="linear"
        %(init_of_trees)s
    %(n_estimators, learning_rate, max_depth, max_interaction, interaction_cst)s
    monotonic_cst : mapping or sequence of {-1, 0, 1}, or None, default=None
        By name, or for each column of X: 1 if predictions must not fall as the column
        rises, all else equal; -1 if they must not rise. For two classes, and columns
        with an order. It costs no budget: released curves are made monotone. A
        constrained column shares a tree with at most one other column.
    %(class_weight, correct_prior, random_state, ledger, verbose)s

    Attributes
    ----------
    %(classes_)s
    shape_functions_ : ShapeFunctions
        The model as a sum of curves and tables. Private output. Only if no tree cuts
        more than two columns.
    %(feature_importances_, bins_, encoder_, tree_seed_, shrinkage_, privacy_)s
        Its ``noise_scale`` is not a public fact, but post-processing of the release.
    %(n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.ensemble.HistGradientBoostingClassifier : Boosting without privacy.
    DPLogisticRegression : Linear models, of `columns` too.

    Notes
    -----
    ``fit`` has no ``sample_weight``: unbounded weights would void the sensitivity. The
    noise is scaled to the largest declared `class_weight`, so that labels of smaller
    weight get more noise relative to their signal.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPGradientBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(17, 90, 20_000)})
    >>> X["job"] = rng.choice(["office", "field"], 20_000)
    >>> y = (X["age"] > 50) ^ (X["job"] == "field")
    >>> model = DPGradientBoostingClassifier(
    ...     epsilon=1.0,
    ...     columns={"age": (17, 90), "job": ["office", "field"]},
    ...     classes=[False, True],
    ...     max_interaction=2,
    ... ).fit(X, y)
    >>> model.shape_functions_.names, model.privacy_.epsilon
    (['age', 'job', 'age x job'], 1.0)

    A rare label that counts nine times, and probabilities without the weight:

    >>> rare = np.random.default_rng(1).uniform(0, 400, 20_000) < X["age"]
    >>> model = DPGradientBoostingClassifier(
    ...     epsilon=1.0,
    ...     columns={"age": (17, 90), "job": ["office", "field"]},
    ...     classes=[False, True],
    ...     class_weight={True: 9},
    ... ).fit(X, rare)
    >>> bool(model.predict_proba(X)[:, 1].mean() < 0.3)
    True
    """

    classes_: np.ndarray
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
        solver: BoosterName = "auto",
        solver_params: Any = None,
        init: Literal["linear", "constant"] | DPGradientBoostingClassifier = "linear",
        n_estimators: int | None = None,
        learning_rate: float | None = None,
        max_depth: int | None = None,
        max_interaction: _Order | None = "mix",
        interaction_cst: _Groups | None = None,
        monotonic_cst: Any = None,
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
            A table of the declared columns. Of a source of `skdp.io`, one byte for
            each cell is held in memory.
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
            Table.of(X, y, groups).fitted(self, self._fit)
        return self._warned_of_release()

    def _fit(self, table: Table) -> Self:
        budget, users, codes = self._read_to_fit(table)
        classes, targets = table.labels(self, codes)
        labels = "taken from y" if self.classes is None else "declared"
        self._given(classes)  # refuses a model of other labels
        weights = label_weights(self.class_weight, classes)
        check_bool("correct_prior", self.correct_prior)
        public = [f"set of labels ({labels})"]
        if weights:
            public.append("weights of labels (declared)")
        self._boost(
            table.source(codes, targets, users),
            _loss_of(len(classes), weights),
            budget,
            tuple(public),
        )
        self.classes_, self._label_weights = classes, weights
        return self

    @property
    def _effect_units(self) -> tuple[str, ...]:
        return units_of_classes("log-odds", self.classes_)

    @property
    def _units(self) -> tuple[float, float]:
        return 1.0, 0.0

    def _loss(self) -> Loss:
        labels = self._expected_labels()
        return _loss_of(len(labels), label_weights(self.class_weight, labels))

    def _expected_labels(self) -> Any:
        return expected_labels(self.classes, self.class_weight)

    def _outputs(self) -> dict[str, Any]:
        weights = self._label_weights if self.correct_prior else ()
        shift = weighted_by(weights).tolist()
        return {"classes": self.classes_.tolist(), "label_shift": shift}

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions: logits of the second class, or of each of several.

        With `class_weight` they are logits of the weighted records.

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

        With `class_weight` they are probabilities without the weights, so that the most
        likely label may differ from `predict`; see `correct_prior`.
        """
        return _probabilities(self._unweighted(self.decision_function(X)))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        raw = self._unweighted(self.decision_function(X))
        if raw.ndim == 1:
            return np.column_stack([log_expit(-raw), log_expit(raw)])
        return np.asarray(log_softmax(raw, axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row under `class_weight`: (n_samples,)."""
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
        """Raw predictions; corrected for the weights of labels if `correct_prior`."""
        return unweighted(raw, self._label_weights) if self.correct_prior else raw

    def _labelled(self, raw: np.ndarray) -> np.ndarray:
        codes = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise, not the method, spoils the scores on tiny data.
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags


def _loss_of(n_classes: int, weights: tuple[float, ...]) -> Loss:
    loss = LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)
    return weighted(loss, weights)


def _squeezed(raw: np.ndarray) -> np.ndarray:
    return raw[:, 0] if raw.shape[1] == 1 else raw


def _probabilities(raw: np.ndarray) -> np.ndarray:
    if raw.ndim == 1:
        return np.column_stack([expit(-raw), expit(raw)])
    return np.asarray(softmax(raw, axis=1))


# ---------------------------------------------------------- DPGradientBoostingRegressor


class DPGradientBoostingRegressor(ScoresSources, RegressorMixin, GradientBoosting):
    """Gradient-boosted trees with differential privacy, for regression.

    The fit starts from a private linear model (`init`). With enough records it adds a
    tenth of the trees on trial, and the other trees if a noisy query says that these
    reduce the loss; otherwise the model stays linear. The splits follow from public
    randomness, the declared `columns` and, for a small part of the budget, noisy counts
    of where each column's values lie. The values of the leaves follow from noisy sums
    of bounded residuals and noisy counts, one Gaussian release a tree. Targets are
    clipped to `target_bounds`. Missing values have a separate bin. With
    ``max_interaction`` 1 or 2 the model is exactly a sum of curves, and tables of
    pairs, that can be plotted and read.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the declarations public. Released are
    these counts, a histogram of the targets, the linear model's gradients, the gains of
    the linear model and of the trees, and the values of all leaves; see ``privacy_``,
    and ``docs/guide/before_you_sign.md`` also for what is not covered. Predictions,
    shapes, importances and constraints are post-processing; ``score(X, y)`` reads raw
    data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
        With inf the model follows the rules at their limit, and targets stay within
        `target_bounds`.
    columns : mapping, sequence, Range or TableEncoder
        Declarations of `skdp.columns`, known without looking at the data. Required; the
        default None raises. Ranges are cut into 128 intervals of equal width; a
        TableEncoder with `n_knots` cuts them into one interval fewer than that number,
        and says how undeclared columns and categories are treated.
    %(target_bounds)s
        At least 0 with ``loss="poisson"``; above 0, and at most 1e6 times apart, with
        ``loss="gamma"``.
    loss : {"squared_error", "poisson", "gamma", "quantile"}, default="squared_error"
        What is predicted: means; means of counts ("poisson") or of amounts above 0
        whose deviation grows with the mean ("gamma"), by their logarithms, so that
        effects multiply; or quantiles. With "gamma" a target counts as at most four
        times its mean.
    quantile : float in [0.01, 0.99] or None, default=None
        With ``loss="quantile"``: proportion of the targets that lie below the
        predictions.
    delta : float in [1e-50, 1), default=1e-6
        %(delta)s
    %(adjacency, privacy_unit)s
    solver : str, default="auto"
        ``"auto"`` or a key of ``skdp.ensemble.BOOSTERS``: ``"newton_boosting"``.
    %(solver_params)s
        Boosting has for example ``{"residual_clip": 0.5}``.
    init : {"linear", "constant"} or fitted model, default="linear"
        %(init_of_trees)s
    %(n_estimators, learning_rate, max_depth, max_interaction, interaction_cst)s
    monotonic_cst : mapping or sequence of {-1, 0, 1}, or None, default=None
        By name, or for each column of X: 1 if predictions must not fall as the column
        rises, all else equal; -1 if they must not rise. For columns with an order. It
        costs no budget: released curves are made monotone. A constrained column shares
        a tree with at most one other column.
    %(random_state, ledger, verbose)s

    Attributes
    ----------
    shape_functions_ : ShapeFunctions
        The model as a sum of curves and tables, in units of the target; of its
        logarithm with ``loss="poisson"`` or "gamma". Private output. Only if no tree
        cuts more than two columns.
    %(feature_importances_, bins_, encoder_, tree_seed_, shrinkage_, privacy_)s
        Its ``noise_scale`` is not a public fact, but post-processing of the release.
    %(n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.ensemble.HistGradientBoostingRegressor : Boosting without privacy.
    DPLinearRegression : Linear models, of `columns` too.

    Notes
    -----
    Inside, targets are scaled by `target_bounds`. ``fit`` has no ``sample_weight``:
    unbounded weights would void the sensitivity.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPGradientBoostingRegressor
    >>> X = np.random.default_rng(0).uniform(0, 1, (4000, 3))
    >>> y = 10 * np.sin(6 * X[:, 0]) * X[:, 1]
    >>> model = DPGradientBoostingRegressor(
    ...     epsilon=1.0, columns=(0, 1), target_bounds=(-10, 10)
    ... ).fit(X, y)
    >>> model.predict(X[:5]).shape, model.privacy_.solver
    ((5,), 'newton_boosting')

    Means of counts, whose effects multiply, and the 0.9 quantile:

    >>> counts = np.random.default_rng(1).poisson(np.exp(2 * X[:, 0]))
    >>> given = {"columns": (0, 1), "target_bounds": (0, 40)}
    >>> mean = DPGradientBoostingRegressor(1.0, loss="poisson", **given)
    >>> high = DPGradientBoostingRegressor(
    ...     1.0, loss="quantile", quantile=0.9, **given
    ... )
    >>> float(mean.fit(X, counts).predict(X).min()) > 0
    True
    >>> high.fit(X, counts).predict(X[:5]).shape
    (5,)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        target_bounds: Any = None,
        loss: Literal[
            "squared_error", "poisson", "gamma", "quantile"
        ] = "squared_error",
        quantile: float | None = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        solver: BoosterName = "auto",
        solver_params: Any = None,
        init: Literal["linear", "constant"] | DPGradientBoostingRegressor = "linear",
        n_estimators: int | None = None,
        learning_rate: float | None = None,
        max_depth: int | None = None,
        max_interaction: _Order | None = "mix",
        interaction_cst: _Groups | None = None,
        monotonic_cst: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.target_bounds = target_bounds
        self.loss = loss
        self.quantile = quantile
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
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : data frame, array-like or source of shape (n_samples, n_features)
            A table of the declared columns. Of a source of `skdp.io`, one byte for
            each cell is held in memory.
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
            Table.of(X, y, groups).fitted(self, self._fit)
        return self._warned_of_release()

    # Units of a loss of logarithms of means; public.
    _means: Means | None = None

    def _fit(self, table: Table) -> Self:
        low, high = check_target_bounds(self.target_bounds)
        loss = self._loss()
        budget, users, codes = self._read_to_fit(table)
        half, middle = half_and_middle(self.target_bounds)
        means = means_of(self.loss, self.target_bounds)

        units = (middle, half, 1.0) if means is None else (0.0, means.unit, math.inf)
        targets = table.numbers(self, codes, scaling(low, high, *units))
        self._half, self._middle, self._means = half, middle, means
        self._boost(table.source(codes, targets, users), loss, budget, ())
        return self

    @property
    def _effect_units(self) -> tuple[str, ...]:
        return ("units of the target" if self._means is None else "log of the mean",)

    @property
    def _units(self) -> tuple[float, float]:
        if self._means is not None:
            return 1.0, math.log(self._means.start)
        return self._half, self._middle

    def _loss(self) -> Loss:
        return regression_loss(self.loss, self.quantile, self.target_bounds)

    @property
    def _scored_by(self) -> str:
        """The score that rates the model if none is named."""
        return scored_by(self.loss)

    def _steps(self) -> list[Step]:
        steps = super()._steps()
        if self._means is not None:
            low, high = self._means.log_bounds
            steps.append(step("exponential", low=low, high=high))
        return steps

    def _predicted(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions in units of the target."""
        if self._means is None:
            return raw[:, 0]
        # No prediction is beyond the range on which the loss was fitted.
        return np.asarray(np.exp(np.clip(raw[:, 0], *self._means.log_bounds)))

    def predict(self, X: Any) -> np.ndarray:
        """Predictions for the rows, in units of the target.

        Means of ``loss="poisson"`` and "gamma" are within `target_bounds`. Other
        predictions may be beyond: clip predictions that make no sense, which costs
        nothing.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predicted(self._raw(X))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """`predict` after each tree; not with `monotonic_cst`."""
        return map(self._predicted, self._staged_raw(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise, not the method, spoils the scores on tiny data.
        tags.regressor_tags.poor_score = self.epsilon != float("inf")
        return tags
