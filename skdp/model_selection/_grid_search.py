"""`DPGridSearchCV` and `DPRandomizedSearchCV`: tune, and know the total."""

from __future__ import annotations

from typing import Any

from sklearn.model_selection import ParameterGrid, ParameterSampler

from skdp._validation import check_count
from skdp.model_selection._candidates import check_tunable
from skdp.model_selection._search import PrivateSearch

_MOST_CANDIDATES = 10_000


class DPGridSearchCV(PrivateSearch):
    """Private search over a grid of parameters, with one budget for all of it.

    Every fit, every score, the choice and the final model together are
    (epsilon, delta)-differentially private. The search divides its budget among the
    private steps of its candidates, so those keep their default epsilon and delta.
    Unlike in `GridSearchCV` there are no folds: each further fit would have to be paid
    for.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records, the grid and the set of labels public; with
    ``privacy_unit="user"`` for all rows of one user, with the number of users public
    and that of rows not.
    Released are the choice, the model and such scores as ``cv_results_`` has; see
    ``privacy_``, ``docs/model_selection.md`` and ``docs/proofs/random_stopping.md``.
    One event is on the ledger before the data are read; inner fits charge nothing.
    ``score(X, y)`` reads raw data and is **not** private. The running time may tell how
    many trials there were and is outside the guarantee (see ``fixed_duration``).

    Parameters
    ----------
    estimator : estimator
        A private estimator, or a pipeline of private steps and declared rules. Steps
        that read data without accounting for it are refused.
    param_grid : dict or list of dicts
        As in scikit-learn; public. Not over epsilon, delta, adjacency, privacy_unit,
        data_norm, classes, bounds, target_bounds, random_state or ledger.
    scoring : str or None, default=None
        ``"accuracy"``, ``"neg_log_loss"``, ``"neg_mean_squared_error"`` or another key
        of `skdp.model_selection.SCORINGS`. None: accuracy, or the negative squared
        error of a regressor, but for those that fit quantiles, counts or amounts:
        minus their own loss.
    epsilon : float in [1e-6, 1e8], default=1.0
        Privacy loss of the whole search.
    delta : 0 or float in [1e-50, 1), default=1e-6
        Of the whole search; far below ``1 / n_samples``. 0 asks for pure epsilon.
    adjacency : {"replace_one", "zero_out", "rating_value"}, default="replace_one"
        What neighbouring data sets are: one record exchanged for any other, or for
        the null record, which contributes nothing; for `DPMatrixFactorization` the
        value of one rating changed. Holds for every step.
    privacy_unit : {"record", "user"}, default="record"
        What neighbouring data sets differ in: one record, or all rows of one user,
        whose ids are then passed as ``fit(X, y, groups=ids)``, or are in the column
        that a source names. Users are divided with all of their rows, and each counts
        once in fits and scores (``docs/users.md``). Holds for every step.
    method : {"auto", "composition", "random_stopping", "disjoint_splits"}, \
default="auto"
        How to choose. "auto" decides from public facts and says why in ``privacy_``.
    method_params : mapping or None, default=None
        Public choices of a named method, for example ``{"fixed_duration": True}``; see
        `Composition`, `RandomStopping` and `skdp.papers.DisjointSplits`.
    validation_fraction : float in (0, 1) or None, default=None
        Share of the records, or users, that candidates are scored on, chosen at random
        without regard to labels. None: 0.3 with "composition", 0.1 with
        "random_stopping", and an equal part with "disjoint_splits".
    refit : True
        Only True: the final model is a part of the search.
    n_jobs : int or None, default=None
        Fits at a time, as in scikit-learn. Each draws noise of its own.
    verbose : bool or int, default=False
        Show progress where the number of fits is public.
    random_state : int or None, default=None
        None: private noise. An integer makes the search reproducible and **not
        private**.
    ledger : BudgetLedger or None, default=None
        Books that the search is charged to, once, before it reads the data.

    Attributes
    ----------
    best_estimator_ : estimator
        Private output: fitted on all records ("composition"), or the selected fit. If
        there was no trial, a fixed model that learned nothing. Its private steps have
        the search's ledger.
    has_model_ : bool
        Private output: whether a model was fitted. False only if the secret number of
        trials of "random_stopping" was 0.
    best_params_ : dict
        Private output.
    best_index_ : int
        Private output: position in ``cv_results_["params"]``.
    best_score_ : float
        Private output: noisy score of the chosen candidate while tuning; nan with
        "disjoint_splits", which releases none.
    cv_results_ : dict
        Public: the candidates. Private outputs: ``mean_test_score`` and
        ``rank_test_score``, with "composition" only.
    scoring_ : str
        Public.
    privacy_ : PrivacyRecord
        Public facts: the statement to sign, for everything above together.
    classes_ : ndarray of shape (n_classes,)
        Public, or assumed to be; classifiers only.
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    See Also
    --------
    DPRandomizedSearchCV : Candidates drawn from distributions.
    sklearn.model_selection.GridSearchCV : Works with private estimators too, but its
        scores and its choice are not private.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPGridSearchCV, DPLogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> search = DPGridSearchCV(
    ...     DPLogisticRegression(data_norm=80.0, classes=range(10)),
    ...     {"C": [1e-5, 1e-4, 1e-3]},
    ...     epsilon=2.0,
    ...     delta=1e-6,
    ... ).fit(X, y)
    >>> sorted(search.best_params_), search.privacy_.epsilon
    (['C'], 2.0)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: str | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        method: str = "auto",
        method_params: Any = None,
        validation_fraction: float | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.method = method
        self.method_params = method_params
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.ledger = ledger

    def _list_candidates(self) -> list[dict[str, Any]]:
        return _checked(ParameterGrid(self.param_grid))


class DPRandomizedSearchCV(PrivateSearch):
    """Private search over parameters drawn from distributions, with one budget.

    As `DPGridSearchCV`, with `n_iter` candidates that are drawn from public
    distributions before anything is read.

    Parameters
    ----------
    estimator : estimator
        See `DPGridSearchCV`, as for all parameters that are not here.
    param_distributions : dict or list of dicts
        As in scikit-learn: lists, or objects with ``rvs``; public.
    n_iter : int in [1, 10000], default=10
        Number of candidates.
    scoring, epsilon, delta, adjacency, privacy_unit, method, method_params
        See `DPGridSearchCV`.
    validation_fraction, refit, n_jobs, verbose, ledger
        See `DPGridSearchCV`.
    random_state : int or None, default=None
        None: private noise. An integer makes candidates and noise reproducible, and the
        search **not private**.

    Attributes
    ----------
    best_estimator_, has_model_, best_params_, best_index_, best_score_, cv_results_
        Private outputs, see `DPGridSearchCV`.
    scoring_, privacy_, classes_, n_features_in_, feature_names_in_
        Public facts, see `DPGridSearchCV`.

    See Also
    --------
    DPGridSearchCV : Private search over a grid.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPLogisticRegression, DPRandomizedSearchCV
    >>> X, y = load_digits(return_X_y=True)
    >>> search = DPRandomizedSearchCV(
    ...     DPLogisticRegression(data_norm=80.0, classes=range(10)),
    ...     {"C": loguniform(1e-6, 1e-2)},
    ...     n_iter=5,
    ...     epsilon=2.0,
    ... ).fit(X, y)
    >>> len(search.cv_results_["params"]), search.privacy_.epsilon
    (5, 2.0)
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        scoring: str | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        method: str = "auto",
        method_params: Any = None,
        validation_fraction: float | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.scoring = scoring
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.method = method
        self.method_params = method_params
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.ledger = ledger

    def _list_candidates(self) -> list[dict[str, Any]]:
        n_iter = check_count("n_iter", self.n_iter, high=_MOST_CANDIDATES)
        sampler = ParameterSampler(
            self.param_distributions, n_iter, random_state=self.random_state
        )
        return _checked(sampler)


def _checked(grid: ParameterGrid | ParameterSampler) -> list[dict[str, Any]]:
    """The candidates as a list, if they are not too many and of the right kind."""
    if 1 <= len(grid) <= _MOST_CANDIDATES:
        candidates = list(grid)
        check_tunable(name for candidate in candidates for name in candidate)
        return candidates
    raise ValueError(
        f"A search must have 1 to {_MOST_CANDIDATES} candidates. Got {len(grid)}. Use "
        "a smaller grid, or DPRandomizedSearchCV."
    )
