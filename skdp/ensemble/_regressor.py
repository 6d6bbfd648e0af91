"""Private boosting of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from skdp._floats import FloatArray
from skdp._input import refuse_several_targets
from skdp._targets import targets_of
from skdp._validation import check_target_bounds
from skdp.ensemble._gradient_boosting import GradientBoosting
from skdp.ensemble._regression_losses import (
    facts_of,
    half_and_middle,
    named_loss,
    scored_by,
)
from skdp.io._rows import records
from skdp.io._takes import fit_through
from skdp.queries._loss_facts import LeafLoss, LossFacts


class DPGradientBoostingRegressor(RegressorMixin, GradientBoosting):
    """Gradient boosting of trees with differential privacy, for regression.

    Trees are drawn from public randomness, the declared `columns` and, for a small part
    of the budget, noisy counts of where each column's values lie. The values of their
    leaves follow from noisy sums of bounded residuals and noisy counts, one Gaussian
    release a tree. They continue a private additive linear model (`init`). Targets are
    clipped to `target_bounds`. Missing values have a bin of their own. With
    ``max_interaction`` 1 or 2 the model is exactly a sum of curves, and tables of
    pairs, that one can look at.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records and the declarations public. Released are
    these counts, a histogram of the targets, the linear model's gradients, what it and
    the trees are worth, and the values of all leaves; see ``privacy_``,
    ``docs/privacy_guarantee.md`` and, for what is not covered,
    ``docs/known_weaknesses.md``. Predictions, shapes, importances and constraints are
    post-processing; ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf, default=1.0
        Privacy loss. inf fits without noise, by the rules at their limit; targets stay
        within `target_bounds`.
    columns : mapping, sequence, Range or TableEncoder
        Declarations of `skdp.columns`, known without looking at the data. Required; the
        default None raises. Ranges are cut into 32 intervals of equal width; a
        TableEncoder says otherwise by its `n_knots`, and what becomes of columns and
        categories that are not declared.
    target_bounds : pair of floats in [-1e100, 1e100]
        Lowest and highest target, in its units, known without looking at the data.
        Required; the default None raises. Of at least 0 with ``loss="poisson"``.
    loss : {"squared_error", "poisson", "quantile"}, default="squared_error"
        What is predicted: means; means of counts or of amounts, by their logarithms, so
        that effects multiply; or quantiles.
    quantile : float in [0.01, 0.99] or None, default=None
        With ``loss="quantile"``: below which share of the targets predictions are.
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
        noise its share is 0, and trees start at a constant; so they do with other
        losses than squared errors.
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
        rise (-1) with it, all else the same; of columns with an order. Free: released
        curves are made monotone. Such columns share a tree with one other at most.
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that every fit is charged to before it reads the data.
    verbose : bool or int, default=False
        Print the solver's progress: step counts, nothing from the data.

    Attributes
    ----------
    shape_functions_ : ShapeFunctions
        The model as a sum of curves and tables, in units of the target; of its
        logarithm with ``loss="poisson"``. Private output. Only if no tree cuts more
        than two columns.
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
    sklearn.ensemble.HistGradientBoostingRegressor : Boosting without privacy.
    DPLinearRegression : Linear models, of `columns` too.

    Notes
    -----
    Inside, targets are shifted and scaled by `target_bounds` to [-1, 1]. ``fit`` has no
    ``sample_weight``: unbounded weights would void the sensitivity.

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

    Counts, whose effects multiply, and what nine of ten are below:

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
        columns: Any = None,
        target_bounds: Any = None,
        loss: str = "squared_error",
        quantile: float | None = None,
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
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int = False,
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
            A table of what is declared. Of a source of `skdp.io` a byte a column is
            held.
        y : array-like of shape (n_samples,)
            Finite targets. Left out with a source, which has its target.
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
        low, high = check_target_bounds(self.target_bounds)
        (loss, _), facts = self._loss(), self._loss_facts()
        budget, users, codes = self._read_to_fit(X, groups)
        refuse_several_targets(y, "MultiOutputRegressor")
        half, middle = half_and_middle(self.target_bounds)

        def scaled(y: FloatArray) -> FloatArray:
            return np.clip((np.clip(y, low, high) - middle) / half, -1, 1)

        targets = targets_of(self, codes, y, scaled)
        self._half, self._middle, self._is_log = half, middle, loss == "poisson"
        self._boost(records(codes, targets, users=users), loss, 1, budget, (), facts)
        return self

    @property
    def _units(self) -> tuple[float, float]:
        if self._is_log:
            return 1.0, math.log(self._half)
        return self._half, self._middle

    @property
    def _has_linear_loss(self) -> bool:
        return named_loss(self.loss) == "squared"

    def _loss(self) -> tuple[LeafLoss, int]:
        return named_loss(self.loss), 1

    @property
    def _scored_by(self) -> str:
        """What rates it where no score is named."""
        return scored_by(self.loss)

    def _loss_facts(self) -> LossFacts:
        return facts_of(self.loss, self.quantile, self.target_bounds)

    def _facts(self) -> dict[str, Any]:
        ends = [self._middle - self._half, self._middle + self._half]
        return {"target_bounds": ends, "link": "log" if self._is_log else "identity"}

    def _predicted(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions in units of the target."""
        if not self._is_log:
            return raw[:, 0]
        # No farther than where the loss was taken.
        return np.asarray(np.minimum(np.exp(raw[:, 0]), self._middle + self._half))

    def predict(self, X: Any) -> np.ndarray:
        """Predictions for the rows, in units of the target.

        They may be beyond `target_bounds`: clip them where others make no sense, which
        costs nothing.

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
