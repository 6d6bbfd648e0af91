"""`DPGridSearchCV` and `DPRandomizedSearchCV`: one event for a whole search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._base import PrivateEstimator, public_of_tables
from skdp._checks import check_count, check_n_jobs, check_real
from skdp._fit import PlannedFit, PrivateSolver, Progress, fit, shown
from skdp._input import check_indexable
from skdp._quiet import warn
from skdp.exceptions import PublicLabelsWarning, TuningCostWarning
from skdp.io._external import TableSource
from skdp.io._scores import default_score
from skdp.io._session import NO_POSITIONS
from skdp.io._table import Table
from skdp.model_selection._candidates import (
    Candidate,
    Prepared,
    SearchJob,
    SearchRecords,
    accept,
    check_tunable,
    name_of,
    silenced,
    sized,
)
from skdp.model_selection._methods import (
    Choice,
    ChosenMethod,
    Method,
    MethodName,
    SearchFacts,
    choose_method,
)
from skdp.model_selection._results import (
    SearchReport,
    as_released,
    close_candidates,
    results_table,
    warn_of_search_noise,
)
from skdp.model_selection._scorer_sums import PrivateScoring
from skdp.model_selection._scorers import resolve_scoring
from skdp.pipeline._report import warn_of_clipped_rows
from skdp.pipeline._walk import walk
from skdp.privacy.accounting._calibrate import Budget, calibrate
from skdp.privacy.accounting._relations import (
    Relation,
    RowRelation,
    TableUnit,
    scored_relation,
)
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._door import Door, owners_now
from skdp.privacy.release._plan import Plan
from skdp.privacy.release._record import PrivacyRecord
from skdp.sums._record_sums import MOST_RECORDS, MOST_USERS

# ----------------------------------------------- PrivateSearch: plan, commit, run, keep


_Method = TypeVar("_Method", bound=Callable[..., Any])
# Above this share of the score's range, noise hides differences between candidates.
_NOISY_SCORES = 0.01


@dataclass(frozen=True)
class _Plan:
    """The public facts of a search, all fixed before it is paid for.

    `stand_ins` are fitted models of the candidates whose private outputs are constants.
    """

    facts: SearchFacts
    chosen: ChosenMethod
    noise_multiplier: float
    candidates: tuple[Candidate, ...]
    stand_ins: list[Any]
    assumed_public: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Searching(PrivateSolver[SearchFacts, Choice]):
    """Fits and scores candidates by a method, all within one event.

    Parameters
    ----------
    method : Method
    job : SearchJob
        The records. Fits read them through doors within their allowances.
    candidates : tuple of Candidate
    """

    mechanism: ClassVar[str] = "noise calibrated to one event for all fits and scores"

    method: Method
    job: SearchJob
    candidates: tuple[Candidate, ...]

    @property
    def named(self) -> str:
        return self.method.key

    @property
    def params(self) -> dict[str, Any]:
        return asdict(self.method)

    def plan(self, facts: SearchFacts, /) -> Plan:
        return self.method.plan(facts)

    def sensitivity(self, facts: SearchFacts, /) -> None:
        """None: each score and each fit has a separate sensitivity."""

    def noise_scale(
        self, released: Choice, answers: Answers, facts: SearchFacts, /
    ) -> None:
        """None: each score and each fit has separate noise."""

    def run(
        self, answers: Answers, facts: SearchFacts, progress: Progress, /
    ) -> Choice:
        return self.method.run(self.job, answers, self.candidates, facts)

    def rehearse(self, answers: Answers, facts: SearchFacts, /) -> Choice:
        return Choice(0, None, facts.scorer.lowest)


def _if_best_has(name: str) -> Callable[[_Method], _Method]:
    """A method that exists if the best estimator, or the one to tune, has it."""

    def check(search: PrivateSearch) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return cast(Callable[[_Method], _Method], available_if(check))


def _checked_size(records: SearchRecords) -> int:
    """Number of records, public: enough to split, few enough for exact sums."""
    n_samples = records.n_samples
    most = MOST_RECORDS if records.users is None else MOST_USERS
    if n_samples > most:
        raise ValueError(f"A search must have at most {most} records. Got {n_samples}.")
    if records.users is not None and n_samples < 2:
        raise ValueError(
            "A search needs at least two users, one to fit on and one to score on. Got "
            f"{n_samples}."
        )
    if n_samples < 2:
        got = "1 sample" if n_samples == 1 else "0 samples"
        raise ValueError(
            "A search needs at least two records, one to fit on and one to score on. "
            f"Got {got}."
        )
    return n_samples


class PrivateSearch(MetaEstimatorMixin, PrivateEstimator):
    """A private search over the candidates that a subclass lists."""

    is_search: ClassVar[bool] = True
    method: str

    def _relation(self) -> Relation:
        return scored_relation(self.adjacency, self.privacy_unit)

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Choose among the candidates and fit the best, within one budget.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            Rows that `estimator` accepts. A source of records must have a fixed order,
            since they are divided by position; users are divided by their ids. Cells of
            up to `memory` bytes are kept from the first fit to the end of the search.
        y : array-like of shape (n_samples,)
            Left out with a source, which has its target.
        groups : array-like of shape (n_samples,) or None, default=None
            Ids of users, with ``privacy_unit="user"`` and only then; every private step
            inside `estimator` gets them. Private. Left out with a source, which names
            the column of ids.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter, a candidate or an input out of range. Nothing was spent,
            and the search is as it was before.
        UnaccountedStepError
            If a step reads data without accounting. Nothing was spent.
        BudgetExceeded
            If the ledger's cap does not allow this search. Nothing was read or spent.
        SourceError
            If a source could not be read to the end. Everything committed stays
            committed.

        Warns
        -----
        ClippedRowsWarning
            If the steps before a private step declare rows longer than its `data_norm`,
            in any candidate; the message names the one to use.
        CloseCandidatesWarning
            If scores are released, and the best candidate leads the next by less than
            two standard errors of the difference.
        """
        with self._all_or_nothing():
            table, n_jobs = Table.of(X, y, groups), self.n_jobs
            if table.holds_rows:
                X, y = check_indexable(X, y)
                table = replace(table, X=X, y=y)
            else:
                table.refuse_targets()
                self._check_source(X)
                n_jobs = 1
            table.during(lambda: self._fit(table, n_jobs))
        return self._warned_of_release()

    def _is_constant(self) -> bool:
        last = [*walk(self.best_estimator_)][-1].step
        is_known = isinstance(last, PrivateEstimator) and hasattr(last, "privacy_")
        return self.has_model_ and is_known and last._is_constant()

    def _release_warnings(self) -> list[tuple[str, type[Warning], str]]:
        close = close_candidates(self.cv_results_, self.best_index_)
        return super()._release_warnings() + close

    def _check_source(self, X: TableSource) -> None:
        check_n_jobs(self.n_jobs)
        if self.n_jobs not in (None, 1):
            raise ValueError(
                "The 'n_jobs' parameter must be None or 1 with a source, which is read "
                f"by one fit at a time. Got {self.n_jobs!r}."
            )
        is_divisible = X.has_fixed_order or X.is_permutable
        if self.privacy_unit == "record" and X.groups is None and not is_divisible:
            raise ValueError(NO_POSITIONS)

    def _fit(self, table: Table, n_jobs: int | None) -> Self:
        # Parameters are checked before a seed is taken.
        budget = self._check_privacy_params()
        users = table.users_of_release(self, budget)
        table.keep_cells()
        records = SearchRecords(table.X, table.y, users)
        door = self._door(budget)
        plan = self._plan(records, door)
        method, facts = plan.chosen.method, plan.facts
        job = SearchJob(
            records=records,
            adjacency=facts.adjacency,
            scorer=facts.scorer,
            draws=door.draws,
            seed=self.random_state,
            n_jobs=n_jobs,
            verbose=shown(self.verbose, facts.adjacency),
            # Several owners must know the order by which records are divided.
            order_seed=None if owners_now() is None else door.public_seed(),
            names=tuple(name_of(candidate.params) for candidate in plan.candidates),
        )
        planned = PlannedFit(
            problem=facts,
            solver=Searching(method=method, job=job, candidates=plan.candidates),
            reason=plan.chosen.reason,
            assumed_public=plan.assumed_public,
            label=f"{type(self).__name__}(method={method.key!r}, "
            f"{len(plan.candidates)} candidates)",
        )
        choice = fit(self, planned, job, door, notes=plan.notes)
        # A random name that is common to the parts of one release.
        words = "".join(f"{int(word):08x}" for word in door.draws.integers(2**32, 4))
        release = f"{type(self).__name__} {words}"
        self._keep(choice, plan, replace(self.privacy_, release=release))
        return self

    def _plan(self, records: SearchRecords, door: Door) -> _Plan:
        """Check everything, rehearse every candidate, divide the budget."""
        budget, relation = self._check_privacy_params(), self._relation()
        self._check_search_params(budget)
        grid = self._list_candidates()
        n_samples = _checked_size(records)
        seed = door.public_seed(2**31)
        models = [
            silenced(self.estimator, params, relation, budget.delta, seed)
            for params in grid
        ]
        stand_ins, takes_labels = accept(models, records, relation)
        scorers = [self._scorer(x) for x in stand_ins]
        records.check_scored(scorers[0])
        facts = SearchFacts(
            n_samples=n_samples,
            n_candidates=len(grid),
            budget=budget,
            adjacency=relation,
            scorer=scorers[0],
            validation_fraction=self.validation_fraction,
            has_ledger=self.ledger is not None,
            n_features=int(getattr(stand_ins[0], "n_features_in_", 0)),
        )
        chosen = self._method(facts)
        multiplier = calibrate(partial(chosen.method.event, facts=facts), budget)
        needs = chosen.method.needs(multiplier, facts)
        records.check_parts(min(need.rows for need in needs))
        candidates = tuple(
            Candidate(params, self._prepared(model, records, chosen, multiplier, facts))
            for params, model in zip(grid, models, strict=True)
        )
        notes = self._warn_of_cost(chosen, multiplier, facts)
        # By public facts of the stand-ins, such as their numbers of columns.
        notes += warn_of_clipped_rows(
            leaf for model in stand_ins for leaf in walk(model)
        )
        notes += warn_of_search_noise(candidates, stand_ins, needs)
        assumed = (*public_of_tables(relation), *facts.scorer.assumed_public)
        assumed += records.table.assumed_public
        if takes_labels:
            assumed += (self._warn_of_labels(),)
        return _Plan(facts, chosen, multiplier, candidates, stand_ins, assumed, notes)

    def _scorer(self, sample_row: Any) -> PrivateScoring:
        """The scorer, with public facts of one of the models."""
        return resolve_scoring(self.scoring, sample_row)

    def _method(self, facts: SearchFacts) -> ChosenMethod:
        return choose_method(self.method, self.method_params, facts)

    def _warn_of_labels(self) -> str:
        warn(
            "The set of labels was taken from y and is assumed to be public. "
            "Pass classes=[...] to the estimator to declare it.",
            PublicLabelsWarning,
        )
        return "set of labels (taken from y)"

    @abstractmethod
    def _list_candidates(self) -> list[dict[str, Any]]:
        """The sets of parameters to choose from; public."""

    def _check_search_params(self, budget: Budget) -> None:
        if not budget.is_finite:
            raise ValueError(
                "The 'epsilon' parameter of a private search must be finite. Got inf. "
                "Use scikit-learn's search with estimators at epsilon=inf."
            )
        if self.refit is not True:
            raise ValueError(
                "The 'refit' parameter must be True: the final model is a part of the "
                f"search and of its budget. Got {self.refit!r}."
            )
        check_n_jobs(self.n_jobs)
        if self.validation_fraction is not None:
            check_real(
                "validation_fraction",
                self.validation_fraction,
                low=0.0,
                high=1.0,
                low_open=True,
                high_open=True,
                remedy="Use None for the method's own rule.",
            )

    def _warn_of_cost(
        self, chosen: ChosenMethod, multiplier: float, facts: SearchFacts
    ) -> tuple[str, ...]:
        """Warn if scores will be too noisy for a choice; from public facts."""
        deviation = chosen.method.score_deviation(multiplier, facts)
        is_choice = self.method == "auto" and facts.n_candidates > 1
        if not is_choice or deviation <= _NOISY_SCORES:
            return ()
        text = (
            f"the noise of a candidate's score has a standard deviation of "
            f"{deviation:.2g} of the score's range, and candidates that differ by less "
            "cannot be told apart"
        )
        warn(
            f"At this budget {text}. Consider the untuned default with the whole "
            "budget, or fewer candidates.",
            TuningCostWarning,
        )
        return (text,)

    def _prepared(
        self,
        model: Any,
        records: SearchRecords,
        chosen: ChosenMethod,
        multiplier: float,
        facts: SearchFacts,
    ) -> tuple[Prepared, ...]:
        """The candidate, rehearsed at the size and the budget of each kind of fit."""
        return tuple(
            sized(
                model,
                need.strength,
                records.part(need.rows),
                facts.budget.delta,
                facts.adjacency,
            )
            for need in chosen.method.needs(multiplier, facts)
        )

    def _keep(self, choice: Choice, plan: _Plan, record: PrivacyRecord) -> None:
        grid = [candidate.params for candidate in plan.candidates]
        self.best_index_ = choice.index
        self.best_params_ = grid[choice.index]
        self.best_score_ = choice.score
        self.cv_results_ = results_table(grid, choice.scores, choice.errors)
        self.scoring_ = plan.facts.scorer.name
        self.has_model_ = choice.estimator is not None
        # Without a model, a fixed one replaces it, which refuses bad input too.
        sample_row = plan.stand_ins[choice.index]
        model = choice.estimator if self.has_model_ else sample_row
        self.best_estimator_ = as_released(model, record, self.ledger)
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            self.__dict__.pop(name, None)
            if hasattr(sample_row, name):
                setattr(self, name, getattr(sample_row, name))

    def report(self) -> SearchReport:
        """One page on the finished search: ``report().to_html("search.html")``.

        Post-processing of the release.
        """
        check_is_fitted(self)
        scores = self.cv_results_.get("mean_test_score")
        return SearchReport(
            privacy=self.privacy_,
            best_index=self.best_index_,
            best_score=self.best_score_,
            scoring=self.scoring_,
            has_model=self.has_model_,
            candidates=tuple(self.cv_results_["params"]),
            scores=None if scores is None else tuple(map(float, scores)),
        )

    def _adds_in_squares(self) -> bool:
        return self.delta > 0 and self.method == "composition"

    def _use_composable_noise(self) -> None:
        if self.method == "auto" and self.delta > 0:
            self.method = "composition"

    @_if_best_has("predict")
    def predict(self, X: Any) -> np.ndarray:
        """Predictions of the best estimator. Post-processing."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @_if_best_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the best estimator. Post-processing."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_proba(X))

    @_if_best_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of the best estimator. Post-processing."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_log_proba(X))

    @_if_best_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions of the best estimator. Post-processing."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))

    @_if_best_has("score")
    def score(self, X: Any, y: Any = None) -> float:
        """The named score of the best estimator on raw data: **not** private.

        If `scoring` is None, it is the estimator's default score. For a score that may
        be released use `skdp.private_score`. With a source leave out y, and only the
        default score can be computed.
        """
        check_is_fitted(self)
        table = Table.of(X, y)
        if not table.holds_rows:
            table.refuse_targets()
            own = default_score(self.best_estimator_)
            if self.scoring is None or self.scoring_ == own:
                return float(self.best_estimator_.score(X))
            raise ValueError(
                "The 'scoring' parameter must be None or the estimator's own score for "
                f"score() of a source: 'accuracy' or 'r2'. Got "
                f"{self.scoring_!r}. Use skdp.private_score, or score a table in "
                "memory."
            )
        if self.scoring is None:
            return float(self.best_estimator_.score(X, y))
        scoring = resolve_scoring(self.scoring, self.best_estimator_)
        return scoring.of_raw_data(self.best_estimator_, X, y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.pairwise = inner.input_tags.pairwise
        return tags


# ---------------------------------------------- DPGridSearchCV and DPRandomizedSearchCV


_MOST_CANDIDATES = 10_000


class DPGridSearchCV(PrivateSearch):
    """Private search over a grid of parameters, within one budget.

    Every fit, every score, the choice and the final model together are (epsilon,
    delta)-differentially private. The search divides its budget among the private steps
    of its candidates, so these steps keep their default epsilon and delta. Unlike in
    `GridSearchCV` there are no folds: each further fit would have to be paid for.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records, the grid and the set of labels public; with
    ``privacy_unit="user"`` for all rows of one user, with the number of users public
    and the number of rows private. Released are the choice, the model and the scores in
    ``cv_results_``; see ``privacy_``, ``docs/guide/scores.md`` and
    ``docs/proofs/accounting.md``. One event is on the ledger before the data are
    read; inner fits charge nothing. ``score(X, y)`` reads raw data and is **not**
    private. The running time may reveal the number of trials and is outside the
    guarantee (see ``fixed_duration``).

    Parameters
    ----------
    estimator : estimator
        A private estimator, or a pipeline of private steps and declared rules. Steps
        that read data without accounting for it are refused.
    param_grid : dict or list of dicts
        As in scikit-learn; public. It must not contain epsilon, delta, adjacency,
        privacy_unit, data_norm, classes, bounds, target_bounds, random_state or ledger.
    scoring : str or None, default=None
        ``"accuracy"``, ``"neg_log_loss"``, ``"neg_mean_squared_error"`` or another key
        of `skdp.model_selection.SCORINGS`. None: accuracy, or the negative squared
        error for a regressor; regressors of quantiles, counts or amounts are scored by
        minus their loss.
    epsilon : float in [1e-6, 1e8], default=1.0
        Privacy loss of the whole search.
    delta : 0 or float in [1e-50, 1), default=1e-6
        Delta of the whole search; far below ``1 / n_samples``. 0 asks for pure epsilon.
    adjacency : {"replace_one", "zero_out", "rating_value"}, default="replace_one"
        %(adjacency)s
        For `DPMatrixFactorization` "rating_value": the value of one rating is changed.
        Holds for every step.
    privacy_unit : {"record", "user"}, default="record"
        What neighbouring data sets differ in: one record, or all rows of one user,
        whose ids are then passed as ``fit(X, y, groups=ids)``, or are in the column
        that a source names. Users are divided with all of their rows, and each counts
        once in fits and scores (``docs/guide/several_rows.md``). Holds for every step.
    method : {"auto", "composition", "random_stopping", "disjoint_splits"}, \
default="auto"
        How to choose. "auto" decides from public facts and says why in ``privacy_``.
    method_params : mapping or None, default=None
        Public choices of a named method, for example ``{"fixed_duration": True}``; see
        `Composition`, `RandomStopping` and `skdp.papers.DisjointSplits`.
    validation_fraction : float in (0, 1) or None, default=None
        Share of the records, or users, on which candidates are scored, chosen at random
        without regard to labels. None: 0.3 with "composition", 0.1 with
        "random_stopping", and an equal part with "disjoint_splits".
    refit : True
        Only True: the final model is a part of the search.
    n_jobs : int or None, default=None
        Number of fits at the same time, as in scikit-learn. Each fit draws its noise
        independently.
    verbose : bool, int or None, default=None
        Show each fitted candidate where the number of fits is public; if there are
        many, some of them. None: lines on the standard error from the tenth second on,
        with the time left, in a search of records. 0: nothing.
    %(random_state, ledger)s
        The search is charged once.

    Attributes
    ----------
    best_estimator_ : estimator
        Private output: fitted on all records ("composition"), or the selected fit. If
        there was no trial, a fixed model that used no data. The model's private steps
        have the search's ledger.
    has_model_ : bool
        Private output: whether a model was fitted. False only if the secret number of
        trials of "random_stopping" was 0.
    best_params_ : dict
        Private output.
    best_index_ : int
        Private output: position in ``cv_results_["params"]``.
    best_score_ : float
        Private output: noisy score of the chosen candidate while tuning; nan with
        "disjoint_splits", which releases no score.
    cv_results_ : dict
        Public: the candidates. With "composition" also, as private outputs,
        ``mean_test_score``, ``rank_test_score`` and ``error_test_score``, the standard
        error of the score by noise (as ``standard_error`` of `private_score`).
    scoring_ : str
        Public.
    %(privacy_)s
        The joint statement for everything above.
    classes_ : ndarray of shape (n_classes,)
        Public, or assumed to be; classifiers only.
    %(n_features_in_, feature_names_in_)s

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
        adjacency: RowRelation = "replace_one",
        privacy_unit: TableUnit = "record",
        method: MethodName = "auto",
        method_params: Any = None,
        validation_fraction: float | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        verbose: bool | int | None = None,
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
    """Private search over randomly drawn parameters, within one budget.

    As `DPGridSearchCV`, with `n_iter` candidates that are drawn from public
    distributions before anything is read.

    Parameters
    ----------
    estimator : estimator
        See `DPGridSearchCV`, as for all parameters that are not described here.
    param_distributions : dict or list of dicts
        As in scikit-learn: lists, or objects with ``rvs``; public.
    n_iter : int in [1, 10000], default=10
        Number of candidates.
    scoring, epsilon, delta, adjacency, privacy_unit, method, method_params
        See `DPGridSearchCV`.
    validation_fraction, refit, n_jobs, verbose
        See `DPGridSearchCV`.
    %(random_state)s
        The candidates are drawn from it, too.
    %(ledger)s
        The search is charged once.

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
        adjacency: RowRelation = "replace_one",
        privacy_unit: TableUnit = "record",
        method: MethodName = "auto",
        method_params: Any = None,
        validation_fraction: float | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        verbose: bool | int | None = None,
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
