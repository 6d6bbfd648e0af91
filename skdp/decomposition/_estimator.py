"""`DPMatrixFactorization`: the estimator and the checks of its input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self, cast

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import TransformerTags
from sklearn.utils.validation import check_is_fitted

from skdp._base import Forecast
from skdp._checks import (
    check_alpha,
    check_bool,
    check_choice,
    check_count,
    check_n_jobs,
    check_target_bounds,
    explained,
)
from skdp._fit import NamedKind, PlannedFit, PrivateModel, PrivateSolver, fit
from skdp._input import check_targets
from skdp._quiet import warn
from skdp.decomposition._factorize import Factorizer, PrivateFactorizer
from skdp.decomposition._ratings import (
    FROM_TABLE,
    Factors,
    Ids,
    Pattern,
    Ratings,
    RatingSource,
    Task,
    check_pairs,
    declared_ids,
    found_ids,
)
from skdp.decomposition._recommender import (
    LocalUsers,
    Recommender,
    UserPrior,
    solve_users,
)
from skdp.decomposition._registry import (
    FactorizerName,
    named_factorizer,
    planned_task,
    signal_of,
)
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import UNITS, Relation, Unit

# ------------------------------------------------------ Checked input and planned tasks
# Nothing is spent and nothing is released yet. Pairs and ratings are checked in one
# pass. Rules of public facts decide the parameters that the user left open.


_MOST_COMPONENTS = 4096
_Partition = Literal["strata_balanced", "strata", "color", "color_balanced", "hogwild"]


@dataclass(frozen=True)
class FactorizationTerms:
    """The promise of a fit, and the ratings that it is about.

    `bounds` are the bounds of the ratings.
    """

    unit: Unit
    budget: Budget
    bounds: tuple[float, float] | None

    @property
    def protects_users(self) -> bool:
        """Whether the pairs of users and items are private."""
        return self.unit == "user" and self.budget.is_finite


@dataclass(frozen=True)
class CheckedRatings:
    """Pairs and ratings, as codes of known ids."""

    users: Ids
    items: Ids
    ratings: Ratings


def accepted(
    model: DPMatrixFactorization, X: Any, y: Any, terms: FactorizationTerms
) -> CheckedRatings:
    """Checked pairs and ratings.

    Raises `ValueError` or `TypeError` if they cannot be factorised, or if a public fact
    is not declared.
    """
    user_column, item_column = check_pairs(model, X, reset=True)
    values = check_targets(model, user_column, y)
    users, user_codes = found_ids(user_column, "users")
    if model.item_ids is None:
        _require(terms, "item_ids", "all items of the catalogue")
        items, item_codes = found_ids(item_column, "items")
    else:
        items = declared_ids("item_ids", model.item_ids, "items")
        item_codes = items.codes(item_column)
    if (item_codes < 0).any():
        raise ValueError(
            "The items in X must be among 'item_ids'. Got others. Declare the "
            "whole catalogue, or leave such ratings out."
        )
    n_users = _checked_n_users(model, len(users), terms)
    if min(n_users, len(items)) < 2:
        raise ValueError(
            "A factorisation needs at least two users and two items. Got one of "
            "them. Use the mean of its ratings."
        )
    pattern = Pattern(user_codes, item_codes, n_users, len(items))
    check_once(pattern)
    if terms.bounds is not None:
        values = _clipped(values, terms.bounds, tell=not terms.budget.is_finite)
    if not terms.budget.is_finite and np.asarray(y).dtype != np.float64:
        values = values.astype(np.float32)
    return CheckedRatings(users, items, Ratings(pattern, values))


def _require(terms: FactorizationTerms, name: str, what: str) -> None:
    if terms.protects_users:
        raise ValueError(
            f"The {name!r} parameter must be declared with privacy_unit='user': "
            f"{what}, known without looking at the data. Got None. Declare it, or set "
            "privacy_unit='rating_value', under which who rated what is public."
        )


def _checked_n_users(
    model: DPMatrixFactorization, found: int, terms: FactorizationTerms
) -> int:
    if model.n_users is None:
        _require(terms, "n_users", "how many users there are")
        return found
    n_users = check_count("n_users", model.n_users)
    if found > n_users:
        raise ValueError(
            "The 'n_users' parameter must be the number of all users. Got ratings "
            "of more users than that. Declare all of them."
        )
    return n_users


def check_once(pattern: Pattern) -> None:
    """Raise if a pair of a user and an item occurs twice."""
    places = pattern.users.astype(np.int64) * pattern.n_items + pattern.items
    places.sort()
    if (places[1:] == places[:-1]).any():
        raise ValueError(
            "Each pair of a user and an item must be in X once. Got one twice. Keep "
            "one rating of each pair, or their mean."
        )


def _clipped(
    values: np.ndarray, bounds: tuple[float, float], *, tell: bool
) -> np.ndarray:
    """Ratings clipped to bounds; without privacy a warning counts the clipped ones."""
    clipped = np.asarray(np.clip(values, *bounds))
    outside = int(np.count_nonzero(clipped != values)) if tell else 0
    if outside:
        warn(
            f"{outside} ratings were outside of rating_bounds={bounds} and have been "
            "clipped."
        )
    return clipped


def open_task(
    model: DPMatrixFactorization, ratings: Ratings, terms: FactorizationTerms
) -> Task:
    """The task, before rules of the solver set the missing parameters."""
    pattern = ratings.pattern
    return Task(
        n_users=pattern.n_users,
        n_items=pattern.n_items,
        n_components=0,
        alpha=0.0,
        biases=check_bool("biases", model.biases),
        unit=terms.unit if terms.budget.is_finite else None,
        rating_bounds=terms.bounds,
        max_ratings=checked_max_ratings(model, terms.protects_users),
        pattern=None if terms.protects_users else pattern,
        n_jobs=model.n_jobs,
    )


def checked_max_ratings(
    model: DPMatrixFactorization, protects_users: bool
) -> int | None:
    """`max_ratings`, which is allowed only if users are protected."""
    if model.max_ratings is None:
        return None
    if not protects_users:
        raise ValueError(
            "The 'max_ratings' parameter must be None unless privacy_unit='user' "
            f"and epsilon is finite. Got {model.max_ratings!r}. All ratings are "
            "used."
        )
    return check_count("max_ratings", model.max_ratings)


def planned(
    model: DPMatrixFactorization,
    named: NamedKind[Factorizer | PrivateFactorizer],
    task: Task,
    budget: Budget,
) -> PlannedFit[Task, Factors]:
    """The fit to a task with all missing parameters decided by rules.

    Raises `ValueError` or `TypeError` if a parameter is wrong, or the solver refuses
    the job.
    """
    kind, given = named.kind, named.given
    k, alpha = model.n_components, model.alpha
    if k is not None:
        k = check_count("n_components", k, low=0, high=_MOST_COMPONENTS)
    solver: PrivateSolver[Task, Factors]
    signal, of_alpha = None, {}
    if issubclass(kind, PrivateFactorizer):
        if alpha is not None:
            raise ValueError(
                "The 'alpha' parameter must be None in a private fit, which weighs "
                f"what it releases by its known noise. Got {alpha!r}."
            )
        if k is None:
            k = kind.default_components(given, task, budget)
        task = replace(task, n_components=k)
        solver = kind.planned(given, task, budget)
        signal = signal_of(solver, task, budget)
    else:
        task = replace(task, n_components=kind.components if k is None else k)
        if alpha is None:
            alpha = kind.default_alpha(task)
        elif not kind.uses_alpha:
            raise ValueError(
                f"The 'alpha' parameter must be None with solver={kind.key!r}, which "
                f"learns its penalties. Got {alpha!r}. Use solver='sgd' or 'als'."
            )
        task = replace(task, alpha=check_alpha(alpha))
        solver = kind.planned(given, task)
        of_alpha = {"alpha": task.alpha} if kind.uses_alpha else {}
    return PlannedFit(
        problem=task,
        solver=solver,
        reason=named.reason,
        of_problem={"n_components": task.n_components, **of_alpha},
        verbose=model.verbose,
        signal=signal,
        remedies=("a larger epsilon", "fewer items"),
    )


# ---------------------------------------------------------------- DPMatrixFactorization


class DPMatrixFactorization(RegressorMixin, PrivateModel):
    """Matrix factorisation of ratings, with differential privacy or without.

    Predicts ``mean + b_u + c_i + p_u q_i`` for a user u and an item i. Without privacy
    (``epsilon=inf``) one of several solvers, such as HAMSI [1]_, minimises the mean
    over ratings of ``((r - prediction)^2 + alpha (b_u^2 + c_i^2 + |p_u|^2 +
    |q_i|^2)) / 2``; none of them is private by itself. The default is an average over
    the posterior by variational Bayes. With a finite epsilon the private form of a
    solver is used, which `privacy_` names.

    X has two columns, the ids of users and of items, and y holds the ratings: one row
    for each rating. scikit-learn's cross-validation and searches can split the rows;
    with ``privacy_unit="user"`` use `UserKFold` only, since the number of rows depends
    on the data. `pairs_from_sparse` makes X and y from a table of users by items. For
    an id that `fit` has not seen, predictions fall back to the means.

    **Privacy.** (epsilon, delta)-differential privacy under one of two adjacencies of
    ratings, which differ from those of the other estimators. With
    ``privacy_unit="user"`` all ratings of one user are replaced, items and values; the
    number of users and the catalogue of items are public. The release then holds items
    only: a user's predictions come from `fold_in` with the user's ratings, and are
    outside of the guarantee if anybody else sees them. With
    ``privacy_unit="rating_value"`` the value of one rating changes; the pairs, that is,
    **which user rated which item, are public**. It is the weaker promise, so it is not
    the default. `predict` is post-processing; ``score(X, y)`` reads raw data and is
    **not** private.

    Parameters
    ----------
    %(epsilon)s
        Here `privacy_unit` says which data sets are neighbours.
    delta : float in [1e-50, 1), default=1e-6
        %(delta)s
        Here n_samples is the number of ratings, or of users.
    privacy_unit : {"user", "rating_value"}, default="user"
        How neighbouring data sets differ: in all ratings of one user, or in the value
        of one rating, with **who rated what public**.
    rating_bounds : pair of floats in [-1e100, 1e100] or None, default=None
        Lowest and highest rating, known without looking at the data. Ratings and
        predictions are clipped to them. Required for a finite epsilon.
    n_components : int in [0, 4096] or None, default=None
        Number of factors; 0 for biases alone. None: the solver's rule.
    alpha : float in [0, 1e100] or None, default=None
        Penalty of each rating, in units in which `rating_bounds`, or the range of the
        ratings, has a width of 4, so that results do not depend on the unit of the
        ratings. None: the solver's rule. It must be None with ``"vb"``, which learns
        its penalties, and in private fits, which weigh their releases by the known
        noise.
    biases : bool, default=True
        Whether to subtract the mean and to fit a bias of each user and item.
    solver : {"auto", "als", "hamsi", "lbfgs", "sgd", "vb"}, default="auto"
        How to factorise. Only ``"als"`` has private forms. Without privacy ``"auto"``
        is ``"vb"``, variational Bayes, which learns its penalties and uses the pattern
        of rated pairs, or ``"sgd"`` if `alpha` is given. The other solvers minimise
        the objective above.
    solver_params : mapping or None, default=None
        Hyper-parameters of a named solver, for example ``{"n_steps": 20}``.
    n_users : int or None, default=None
        Number of users, public. Required with ``privacy_unit="user"``.
    item_ids : array-like of ids or None, default=None
        The catalogue: all items, with ratings or without. None: those in X. Required
        with ``privacy_unit="user"``.
    max_ratings : int or None, default=None
        Most ratings of one user that are used with ``privacy_unit="user"``, picked by a
        rule that does not look at them. None: all of them. The guarantee is the same.
    partition : {"strata_balanced", "strata", "color", "color_balanced", "hogwild"} or \
None, default=None
        How ``solver="hamsi"`` divides the ratings into subsets of blocks that can be
        worked on at the same time. None: ``"strata_balanced"``.
    schedule : {"deterministic", "stochastic"} or None, default=None
        The order in which HAMSI visits subsets. None: ``"deterministic"``.
    n_subsets, n_corrections : int or None, default=None
        Parameters of HAMSI. None: the solver's rule.
    n_jobs : int or None, default=None
        Threads. Results do not depend on it, except with ``partition="hogwild"``.
    %(random_state)s
        With None the start is drawn anew, too.
    %(ledger)s
        Its ``adjacency`` is the `privacy_unit`, its ``unit`` "rating" or "user".
    verbose : bool, int or None, default=None
        Print progress: step counts, and the training error if there is no privacy.
        None: lines on the standard error from the tenth second of a fit on, with the
        time left; nothing with ``privacy_unit="user"`` or secret samples. 0: nothing.

    Attributes
    ----------
    mean_ : float
        Private output. 0.0 without biases.
    item_factors_ : ndarray of shape (n_items, n_components)
        Private output.
    item_biases_ : ndarray of shape (n_items,)
        Private output.
    user_factors_ : ndarray of shape (n_users, n_components)
        Private output. Not with ``privacy_unit="user"``.
    user_biases_ : ndarray of shape (n_users,)
        Private output. Not with ``privacy_unit="user"``.
    user_ids_ : ndarray of shape (n_users,)
        Public. Not with ``privacy_unit="user"``.
    item_ids_ : ndarray of shape (n_items,)
        Public.
    n_iter_ : int
        Passes over the ratings. Without privacy only.
    %(privacy_)s
    n_features_in_ : int
        Public: 2.
    feature_names_in_ : ndarray of shape (2,)
        Public; only if X has column names that are strings.

    See Also
    --------
    pairs_from_sparse : Pairs and ratings of a table of users by items.
    skdp.model_selection.RatingKFold : Leaves out ratings of every user.
    skdp.model_selection.UserKFold : Leaves out users.

    Notes
    -----
    Ratings in float64 are factorised in float64, all others in float32. Memory is
    linear in the number of ratings plus that of factors. An interrupt (Ctrl-C) ends
    a fit without privacy early and keeps the model so far; a private fit is lost, and
    its cost stays in the ledger.

    References
    ----------
    .. [1] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabanci University, chapter 3.

    Examples
    --------
    >>> from skdp import DPMatrixFactorization
    >>> X = [["ann", "heat"], ["ann", "alien"], ["bob", "heat"], ["bob", "brazil"]]
    >>> y = [5.0, 4.0, 2.0, 1.0]
    >>> films = ["alien", "brazil", "heat"]
    >>> model = DPMatrixFactorization(
    ...     epsilon=10.0, rating_bounds=(1, 5), n_users=2, item_ids=films
    ... ).fit(X, y)
    >>> ann = model.fold_in(X[:2], y[:2])  # on Ann's device
    >>> ann.recommend("ann").tolist(), model.privacy_.adjacency
    (['brazil'], 'user')
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        privacy_unit: Unit = "user",
        rating_bounds: Any = None,
        n_components: int | None = None,
        alpha: float | None = None,
        biases: bool = True,
        solver: FactorizerName = "auto",
        solver_params: Any = None,
        n_users: int | None = None,
        item_ids: Any = None,
        max_ratings: int | None = None,
        partition: _Partition | None = None,
        schedule: Literal["deterministic", "stochastic"] | None = None,
        n_subsets: int | None = None,
        n_corrections: int | None = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        ledger: Any = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.rating_bounds = rating_bounds
        self.n_components = n_components
        self.alpha = alpha
        self.biases = biases
        self.solver = solver
        self.solver_params = solver_params
        self.n_users = n_users
        self.item_ids = item_ids
        self.max_ratings = max_ratings
        self.partition = partition
        self.schedule = schedule
        self.n_subsets = n_subsets
        self.n_corrections = n_corrections
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    @partial(explained, when_missing=FROM_TABLE)
    def fit(self, X: Any, y: Any) -> Self:
        """Factorise the ratings, privately unless ``epsilon=inf``.

        Parameters
        ----------
        X : array-like or data frame of shape (n_ratings, 2)
            Ids of users and of items: any hashable values, but no floats of 2**53 and
            more, which may be rounded integers. Each pair once.
        y : array-like of shape (n_ratings,)
            Finite ratings.

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

    def forecast(self, n_users: int, n_items: int, n_ratings: int) -> Forecast:
        """Forecast the solver and the noise of a fit to this many ratings.

        Nothing is read and nothing spent. The forecast is a rule of thumb
        (``docs/guide/linear_models.md``), which also decides whether `fit` warns. With
        ``privacy_unit="user"`` the number of ratings is private, so `fit` assumes that
        each user has `max_ratings` of them, or 100.

        Parameters
        ----------
        n_users, n_items, n_ratings : int
            Numbers of known users, of known items, and of ratings.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError, TypeError
            For a parameter out of range, if epsilon is inf, or if the solver refuses
            the job.
        """
        return self._forecast(n_users, n_items, n_ratings)

    def _foreseen(
        self, budget: Budget, n_users: int, n_items: int, n_ratings: int
    ) -> PlannedFit[Task, Factors]:
        unit = cast(Unit, self._relation())
        task = Task(
            n_users=check_count("n_users", n_users, low=2),
            n_items=check_count("n_items", n_items, low=2),
            n_components=0,
            alpha=0.0,
            biases=check_bool("biases", self.biases),
            unit=unit,
            rating_bounds=self._checked_bounds(budget),
            max_ratings=checked_max_ratings(self, unit == "user"),
        )
        task = planned_task(task, check_count("n_ratings", n_ratings))
        return planned(self, self._named(unit, budget), task, budget)

    def _shape(self, n_samples: int) -> tuple[int, int, int]:
        known = self._recommender
        return len(known.users), len(known.items), n_samples

    def predict(self, X: Any) -> np.ndarray:
        """Predicted ratings, within `rating_bounds` if declared. Post-processing.

        Parameters
        ----------
        X : array-like or data frame of shape (n_pairs, 2)
            Ids of users and of items. An unknown id falls back to the means. With
            ``privacy_unit="user"`` every user is unknown here, so that `score` and
            cross-validation rate the predictions for the mean user; see `fold_in`.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        check_is_fitted(self)
        users, items = check_pairs(self, X, reset=False)
        return self._recommender.predict_pairs(users, items)

    def transform(self, users: Any) -> np.ndarray:
        """Factors of users, zeros for unknown users. Post-processing.

        Parameters
        ----------
        users : array-like of ids of shape (n_users,)

        Returns
        -------
        ndarray of shape (n_users, n_components)
        """
        self._check_has_users("transform")
        return self._recommender.rows_of(users)

    def recommend(
        self, user: Any, k: int = 10, *, exclude_rated: bool = True
    ) -> np.ndarray:
        """Ids of the `k` items with the largest predictions, best first.

        Post-processing. An unknown user gets the mean user's recommendations, as all
        users do with ``privacy_unit="user"``; see `fold_in`.

        Parameters
        ----------
        user : id
        k : int, default=10
            Fewer are returned if there are no more.
        exclude_rated : bool, default=True
            Leave out what the user rated in `fit`, which is public.

        Returns
        -------
        ndarray of shape (k,)
        """
        check_is_fitted(self)
        return self._recommender.best_items(user, k, exclude_rated=exclude_rated)

    def fold_in(self, X: Any, y: Any) -> LocalUsers:
        """Compute users' factors from their ratings, with the items held fixed.

        For users who came after `fit`, and for all users with ``privacy_unit="user"``.
        The model does not change. With a private model the result is meant for the user
        alone: it depends on the user's raw ratings, is **outside of the guarantee** if
        shown to others, and cannot be pickled.

        Parameters
        ----------
        X : array-like or data frame of shape (n_ratings, 2)
            Ids of users and of items. Ratings of unknown items are left out.
        y : array-like of shape (n_ratings,)

        Returns
        -------
        LocalUsers
            With `predict`, `transform` and `recommend` for these users.
        """
        check_is_fitted(self)
        user_column, item_column = check_pairs(self, X, reset=False)
        values = check_targets(self, user_column, y)
        known = self._recommender
        users, user_codes = found_ids(user_column, "users")
        codes = known.items.codes(item_column)
        keep = codes >= 0
        pattern = Pattern(user_codes[keep], codes[keep], len(users), len(known.items))
        check_once(pattern)
        values = values[keep]
        if known.bounds is not None:
            values = np.clip(values, *known.bounds)
        prior = None  # the penalty of the task
        if known.factors.task.unit == "rating_value":
            prior = UserPrior.of_released(known.factors)
        rows = solve_users(known.factors, Ratings(pattern, values), prior)
        task = replace(known.factors.task, n_users=len(users))
        flat = np.concatenate([rows.ravel(), known.factors.items.ravel()])
        local = replace(
            known,
            users=users,
            factors=replace(known.factors, flat=flat, task=task),
            rated=pattern,
        )
        return LocalUsers(local, math.isfinite(self.privacy_.epsilon))

    @property
    def mean_(self) -> float:
        """The prediction for an unknown user and an unknown item. Private output."""
        return float(self._recommender.factors.mean)

    @property
    def item_factors_(self) -> np.ndarray:
        """Factors of items, of shape (n_items, n_components). Private output."""
        factors = self._recommender.factors
        return factors.items[:, : factors.task.n_components]

    @property
    def item_biases_(self) -> np.ndarray:
        """Biases of items, of shape (n_items,). Private output."""
        factors = self._recommender.factors
        if not factors.task.biases:
            return np.zeros(len(factors.items), factors.flat.dtype)
        return factors.items[:, factors.task.n_components + 1]

    @property
    def user_factors_(self) -> np.ndarray:
        """Factors of users, of shape (n_users, n_components). Private output."""
        self._check_has_users("user_factors_")
        factors = self._recommender.factors
        return factors.users[:, : factors.task.n_components]

    @property
    def user_biases_(self) -> np.ndarray:
        """Biases of users, of shape (n_users,). Private output."""
        self._check_has_users("user_biases_")
        factors = self._recommender.factors
        if not factors.task.biases:
            return np.zeros(len(factors.users), factors.flat.dtype)
        return factors.users[:, factors.task.n_components]

    @property
    def user_ids_(self) -> np.ndarray:
        """Ids of users, in the order of their factors. Public."""
        self._check_has_users("user_ids_")
        return self._recommender.users.values

    @property
    def item_ids_(self) -> np.ndarray:
        """Ids of items, in the order of their factors. Public."""
        return self._recommender.items.values

    @property
    def target_bounds(self) -> Any:
        """`rating_bounds`, by the name that private scores ask for."""
        return self.rating_bounds

    def _fit(self, X: Any, y: Any) -> Self:
        budget = self._check_privacy_params()
        unit = cast(Unit, self._relation())
        check_n_jobs(self.n_jobs)
        bounds = self._checked_bounds(budget)
        named = self._named(unit, budget)
        terms = FactorizationTerms(unit, budget, bounds)
        given = accepted(self, X, y, terms)
        door = self._door(budget)
        # Public, and not from NumPy's generator: its state would reveal other trials of
        # a search.
        task = replace(open_task(self, given.ratings, terms), seed=door.public_seed())
        fitted = planned(self, named, task, budget)
        task = fitted.problem
        fitted = replace(fitted, assumed_public=_assumed_public(unit, task))
        source = RatingSource(given.ratings, task.n_samples)
        self._keep(given, task, fit(self, fitted, source, door), bounds)
        if unit == "user" and self.n_users is not None:
            # Without privacy the task counts ratings.
            self.privacy_ = replace(self.privacy_, n_samples=self.n_users)
        return self

    def _named(
        self, unit: Unit, budget: Budget
    ) -> NamedKind[Factorizer | PrivateFactorizer]:
        return named_factorizer(
            self.solver,
            self._solver_params(),
            unit,
            budget,
            has_alpha=self.alpha is not None,
        )

    def _checked_bounds(self, budget: Budget) -> tuple[float, float] | None:
        if self.rating_bounds is None and not budget.is_finite:
            return None
        return check_target_bounds(self.rating_bounds, name="rating_bounds")

    def _solver_params(self) -> Mapping[str, Any] | None:
        """`solver_params` with the parameters that the estimator has itself."""
        own = ("partition", "schedule", "n_subsets", "n_corrections")
        given = {name: getattr(self, name) for name in own}
        given = {name: value for name, value in given.items() if value is not None}
        if not given or not isinstance(self.solver_params, (Mapping, type(None))):
            return cast(Mapping[str, Any], self.solver_params)
        twice = sorted(set(given) & set(self.solver_params or {}))
        if twice:
            raise ValueError(
                "The 'solver_params' must not repeat parameters of the estimator. Got "
                f"{twice} in both. Set each in one place."
            )
        return {**(self.solver_params or {}), **given}

    def _keep(
        self,
        given: CheckedRatings,
        task: Task,
        factors: Factors,
        bounds: tuple[float, float] | None,
    ) -> None:
        """Set fitted attributes; those of users only if they are released."""
        users = given.users
        self.__dict__.pop("n_iter_", None)
        if task.unit is None:
            self.n_iter_ = factors.n_passes
        if task.pattern is None:
            users = Ids("users", np.empty(0, dtype=object))
            factors = _mean_user(factors)
        self._recommender = Recommender(
            users, given.items, factors, bounds, task.pattern
        )

    def _check_has_users(self, name: str) -> None:
        check_is_fitted(self)
        if not len(self._recommender.users):
            raise AttributeError(
                f"{name} needs users' factors, and a model with privacy_unit='user' "
                "holds none. Use fold_in(X, y) with the users' ratings."
            )

    def _relation(self) -> Relation:
        return cast(Unit, check_choice("privacy_unit", self.privacy_unit, UNITS))

    def _set_relation(self, relation: Relation) -> None:
        # A search must not weaken the promise of a model.
        if {relation, self.privacy_unit} != {"rating_value"}:
            raise ValueError(
                "The 'adjacency' parameter of a search over DPMatrixFactorization, and "
                "the model's 'privacy_unit', must be 'rating_value'. Got "
                f"{relation!r} and {self.privacy_unit!r}. Set both, if who rated what "
                "may be public."
            )

    def _has_relation(self, relation: Relation) -> bool:
        return True  # `_set_relation` decides

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.regressor_tags.poor_score = self.epsilon != math.inf
        return tags


def _assumed_public(unit: Unit, task: Task) -> tuple[str, ...]:
    """What the claim takes as public, with the values that the claim depends on."""
    facts = ["names and types of the columns of X"]
    if unit == "rating_value":
        facts.append("who rated what: all pairs of ids, and their number")
    facts += [f"number of users: {task.n_users}", f"catalogue of {task.n_items} items"]
    if task.rating_bounds is not None:
        facts.append(
            f"rating_bounds {task.rating_bounds}, to which ratings are clipped"
        )
    if unit == "user":
        most = (
            "all of them" if task.max_ratings is None else f"at most {task.max_ratings}"
        )
        facts.append(f"ratings used of a user: {most} (max_ratings)")
    return tuple(facts)


def _mean_user(factors: Factors) -> Factors:
    """Factors with one row of users, the mean user's."""
    flat = np.concatenate([factors.users[0], factors.items.ravel()])
    return replace(factors, flat=flat, task=replace(factors.task, n_users=1))
