"""`private_score`: the score of a fitted estimator, released with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtr, ndtri
from sklearn.utils import get_tags
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from skdp._arrays import FloatArray
from skdp._base import (
    DeclaredEstimator,
    PrivateEstimator,
    PrivateRelease,
    public_of_tables,
)
from skdp._checks import check_real, explained
from skdp._fit import PlannedFit, Progress, Question, ReleasedT, Statistics, fit
from skdp._input import check_rows, check_targets, kind_of_labels, without_data
from skdp._shared_docs import fill_docs
from skdp._show import card, wrapped
from skdp._users import Users, UsersToFit
from skdp.io._passes import shown_to
from skdp.io._scores import SourceScores, scores_of
from skdp.io._table import Table
from skdp.model_selection._candidates import ScoredTable
from skdp.model_selection._scorer_sums import PrivateScoring, log_odds_grid
from skdp.model_selection._scorers import resolve_scoring
from skdp.model_selection._survival_scores import survival_scoring
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import (
    Relation,
    RowRelation,
    TableUnit,
    scored_relation,
    table_relation,
)
from skdp.privacy.noise._laws import budget_of, law_for
from skdp.privacy.release._answers import Answers, ExactAnswers, Released
from skdp.privacy.release._record import PrivacyRecord
from skdp.sums._record_sums import MOST_RECORDS, MOST_USERS, Scores

# ------------------------------------------------------------------------ private_score


# Records that are scored.
Scored = ScoredTable | SourceScores
HOW_TO_PASS_USERS = "Pass groups=ids."


@dataclass(frozen=True)
class PrivateScore:
    """A released score.

    Parameters
    ----------
    value : float
        The score, greater is better. Private output.
    standard_error : float
        Standard error of the score of these records, in units of the score, without the
        sampling of records: noise, and for "roc_auc" the order of records within
        intervals. At most the range of the score. Public if the score is a mean over
        the records; otherwise post-processing of the release.
    scoring : str
        scikit-learn's name. Public.
    privacy : PrivacyRecord
        The release and its cost.
    """

    value: float
    standard_error: float
    scoring: str
    privacy: PrivacyRecord

    def __float__(self) -> float:
        return self.value

    def _headline(self) -> str:
        error = f"standard error: {self.standard_error:.2g}"
        if 2 * self.standard_error > abs(self.value):
            error += "; noise hides this score: score more records, use a larger "
            error += "epsilon, or clip errors with PrivateScoring"
        return f"{self.scoring} = {self.value:.6g} ({error})"

    def __repr__(self) -> str:
        return f"{self._headline()}\n{wrapped(self.privacy.statement())}"

    def _repr_html_(self) -> str:
        return card(self._headline(), below=[self.privacy._repr_html_()])


_HOW_TO_CALL = (
    "Write private_score(model, X, y, epsilon=0.5): epsilon is what the score may cost."
)


@fill_docs
@partial(explained, when_missing=_HOW_TO_CALL)
def private_score(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    scoring: Any = None,
    epsilon: float,
    delta: float = 1e-6,
    adjacency: RowRelation = "replace_one",
    privacy_unit: TableUnit = "record",
    classes: Any = None,
    target_bounds: Any = None,
    random_state: int | None = None,
    ledger: Any = None,
) -> PrivateScore:
    r"""Score a fitted estimator with differential privacy for the scored records.

    **Privacy.** (epsilon, delta)-differential privacy for one record of (X, y), under
    `adjacency`, with the number of records public. Released is the score. The estimator
    and everything that follows from it count as public: use an estimator that was
    fitted privately, or on other records. On the records that it was fitted to, the
    costs of fit and score add up; a `ledger` adds them. ``docs/proofs/scores.md``
    derives how much one record can change. The estimator's prediction for a row must
    follow from that row alone; a row on which it raises an error counts as the worst
    prediction. With ``privacy_unit="user"`` the guarantee is for all rows of one user,
    and for their number, with the number of users public: a user counts once, with the
    mean over the user's rows (``docs/proofs/adder.md``).

    Parameters
    ----------
    estimator : fitted estimator
        A classifier or regressor, or a pipeline that ends in one.
    X : array-like, CSR or source of shape (n_samples, n_features)
        Checked as the estimator checks it, if the estimator is not a pipeline, or if
        its first step is of skdp and takes numbers or declared columns. Otherwise only
        the length is checked.
    y : array-like of shape (n_samples,)
        Labels, or finite targets. Left out with a source, which has its target.
    groups : array-like of shape (n_samples,) or None, default=None
        Ids of users, with ``privacy_unit="user"`` and only then; left out with a
        source, which names its column of ids. Private.
    scoring : str, PrivateScoring or None, default=None
        "accuracy", "balanced_accuracy", "f1", "f1_macro", "neg_log_loss", "roc_auc",
        "neg_mean_absolute_error", "neg_mean_squared_error", "neg_mean_pinball_loss",
        "neg_mean_poisson_deviance", "neg_mean_gamma_deviance" or "r2". None: "accuracy"
        for classifiers, "neg_mean_squared_error" for regressors; regressors of skdp for
        quantiles, counts or amounts are scored by their loss.
    epsilon : float in [1e-6, 1e8] or inf
        %(epsilon)s
        With inf the score is scikit-learn's.
    delta : 0 or float in [1e-50, 1), default=1e-6
        Probability with which the guarantee may fail. Without a ledger, it is used only
        if Gaussian noise is smaller than noise of pure epsilon, which is rare. With a
        ledger, a delta above 0 asks for Gaussian noise, which is larger but costs less
        in a ledger with Gaussian fits; 0 asks for pure epsilon.
    adjacency : {"replace_one", "zero_out", "rating_value"}, default="replace_one"
        %(adjacency)s
        For `DPMatrixFactorization` "rating_value": the value of one rating is changed.
    privacy_unit : {"record", "user"}, default="record"
        What neighbouring data sets differ in: one record, or all rows of one user.
    classes : array-like of labels or None, default=None
        Public. None: the estimator's.
    target_bounds : pair of floats or None, default=None
        Lowest and highest target, known without looking at the data; targets and
        predictions are clipped to them. None: the estimator's.
    %(random_state, ledger)s

    Returns
    -------
    PrivateScore
        ``float()`` of it is the score, clipped to the range of possible scores.

    Raises
    ------
    ValueError, TypeError
        For a parameter or input out of range, or a score that one record can change
        without a bound. Nothing was spent.
    BudgetExceeded
        If the ledger's cap does not allow this score. Nothing was read or spent.

    See Also
    --------
    private_evaluation : Curves, confusion matrices and comparisons, at one cost.
    sklearn.metrics.get_scorer : The scores without privacy.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import BoundedScaler, DPLogisticRegression, private_score
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(
    ...     BoundedScaler(bounds=(0, 8)),  # centimetres, known without looking
    ...     DPLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1, 2]),
    ... ).fit(X[::2], y[::2])
    >>> score = private_score(model, X[1::2], y[1::2], epsilon=1.0)
    >>> 0 <= float(score) <= 1, score.privacy.epsilon
    (True, 1.0)
    """
    release = ScoreRelease(
        epsilon, delta, adjacency, random_state, ledger, privacy_unit
    )
    budget = release._check_privacy_params()
    check_is_fitted(estimator)
    table = Table.of(X, y, groups)
    users = table.users_of_release(release, budget, HOW_TO_PASS_USERS)
    params = None
    if isinstance(scoring, str) and scoring == "roc_auc":
        params = {"thresholds": grid_of(table, users, epsilon)}
    if hasattr(estimator, "_exits"):
        found: PrivateScoring = survival_scoring(scoring, estimator)
        table = Table.of(X, estimator._exits(X, y), groups)
    else:
        found = resolve_scoring(
            scoring,
            estimator,
            classes=classes,
            target_bounds=target_bounds,
            params=params,
        )
    gaussian = _why_gaussian(table, has_ledger=ledger is not None)
    solver, why = _settled(ScoreValue, estimator, found, budget, adjacency, gaussian)
    scored = _accepted(estimator, found, table, users, budget)
    return table.during(lambda: release.score(solver, why, scored))


def grid_of(table: Table, users: Any, epsilon: float) -> tuple[float, ...]:
    """The default intervals of probabilities for a table; from public facts."""
    return log_odds_grid(count_of(table, users), epsilon)


def count_of(table: Table, users: Any) -> int:
    """Number of scored records or users, before they are accepted; public."""
    n_rows = len(table.y) if hasattr(table.y, "__len__") else 0
    return table.count(n_rows) if users is None else int(users.n_users)


@dataclass(frozen=True, kw_only=True)
class ScoreStatistic(Statistics[ReleasedT]):
    """The statistic of a score, whose noise is for the norm of its law."""

    scoring: PrivateScoring
    query: Scores

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.scoring.params)

    @property
    def mechanism(self) -> str:
        law = self.law
        return f"{law.name} noise for an L{law.norm} sensitivity" if law else ""

    def run(self, answers: Answers, problem: Question, progress: Progress, /) -> Any:
        return answers.ask(self.query)


class ScoreValue(ScoreStatistic[tuple[float, float]]):
    """The score and its error, from its statistic; without noise scikit-learn's."""

    def run(
        self, answers: Answers, problem: Question, progress: Progress, /
    ) -> tuple[float, float]:
        if isinstance(answers, ExactAnswers):
            (estimator,), table = self.query.models, answers.records
            assert isinstance(table, ScoredTable)  # others need a finite epsilon
            return self.scoring.of_raw_data(estimator, table.X, table.y), 0.0
        released = super().run(answers, problem, progress)
        n_samples, deviation = problem.n_samples, released.deviation
        return (
            self.scoring.score(released.value, n_samples),
            self.scoring.error(released.value, deviation, n_samples),
        )

    def rehearse(self, answers: Answers, problem: Question, /) -> tuple[float, float]:
        return self.scoring.lowest, 0.0


StatisticT = TypeVar("StatisticT", bound=ScoreStatistic[Any])


def _why_gaussian(table: Table, *, has_ledger: bool) -> str:
    if table.is_shared:
        return "the noise that several owners can share"
    return "adds up in squares with the ledger's Gaussian fits" if has_ledger else ""


def _settled(
    kind: type[StatisticT],
    estimator: Any,
    scoring: PrivateScoring,
    budget: Budget,
    adjacency: Any,
    gaussian: str,
) -> tuple[StatisticT, str]:
    """The release with its law, and the reason for the law; from public facts.

    `gaussian` is the reason for Gaussian noise, if delta allows it.
    """
    if not budget.is_finite:
        query = Scores(scoring, (estimator,), norm=1)
        return kind(law=None, scoring=scoring, query=query), "epsilon=inf"
    covering = table_relation(adjacency)
    norms = {norm: scoring.sensitivity(covering, norm) for norm in (1, 2)}
    law = law_for(budget, scoring.size, norms, adds_up=bool(gaussian))
    why = gaussian if gaussian and not law.is_pure else "the least noise"
    query = Scores(scoring, (estimator,), law.norm)
    return kind(law=law, scoring=scoring, query=query), why


@dataclass(frozen=True, eq=False)
class ReleasedStatistic:
    """A released statistic, the deviation of its noise, and its cost."""

    value: FloatArray
    deviation: float
    record: PrivacyRecord


def released_statistic(
    release: ScoreRelease,
    scoring: PrivateScoring,
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
) -> ReleasedStatistic:
    """The statistic of a score; the ledger calls it a private evaluation.

    Parameters
    ----------
    release : ScoreRelease
    estimator : estimator, or tuple of estimators that are compared
        Fitted.
    groups : array-like or None
        Ids of users, if users are protected.
    """
    budget = release._check_privacy_params()
    table = Table.of(X, y, groups)
    users = table.users_of_release(release, budget, HOW_TO_PASS_USERS)
    gaussian = _why_gaussian(table, has_ledger=release.ledger is not None)
    settled = _settled(
        ScoreStatistic, estimator, scoring, budget, release.adjacency, gaussian
    )
    scored = _accepted(estimator, scoring, table, users, budget)
    return table.during(lambda: release.statistic(*settled, scored))


class ScoreRelease(PrivateRelease):
    """Budget, ledger and noise of one score."""

    def _relation(self) -> Relation:
        return scored_relation(self.adjacency, self.privacy_unit)

    def score(self, solver: ScoreValue, why: str, table: Scored) -> PrivateScore:
        """The score of a table, released and stated."""
        value, error = self._fit(solver, why, table, "private_score")
        return PrivateScore(value, error, solver.scoring.name, self.privacy_)

    def statistic(
        self, solver: ScoreStatistic[Released], why: str, table: Scored
    ) -> ReleasedStatistic:
        """The statistic of a table, released and stated; without a score."""
        released = self._fit(solver, why, table, "private_evaluation")
        return ReleasedStatistic(released.value, released.deviation, self.privacy_)

    def _fit(
        self, solver: ScoreStatistic[ReleasedT], why: str, table: Scored, what: str
    ) -> ReleasedT:
        """Release; sets ``privacy_``. `what` is the name of the release."""
        planned, budget = self._planned(solver, why, table, what)
        return fit(self, planned, table, self._door(budget))

    def _planned(
        self, solver: ScoreStatistic[ReleasedT], why: str, table: Scored, what: str
    ) -> tuple[PlannedFit[Question, ReleasedT], Budget]:
        """The release before its commit, and the budget that its law uses."""
        relation, shape = self._relation(), table.X.shape
        n_features = shape[1] if len(shape) > 1 else 1
        planned = PlannedFit(
            problem=Question(solver.query, relation, table.n_samples, n_features),
            solver=solver,
            reason=why,
            assumed_public=(
                *public_of_tables(relation),
                "the estimator, which predicts each row by that row alone",
                *solver.scoring.assumed_public,
                *getattr(table.X, "assumed_public", ()),
            ),
            estimator=f"{what}({solver.scoring.name})",
            label=f"{what}(scoring={solver.scoring.name!r})",
        )
        budget = Budget(self.epsilon, self.delta)
        if solver.law is not None:
            budget = budget_of(solver.law, budget)
        return planned, budget


def _accepted(
    estimator: Any,
    scoring: PrivateScoring,
    table: Table,
    users: UsersToFit | None,
    budget: Budget,
) -> Scored:
    """The records to be scored, or an error; nothing else is learned from them."""
    if table.holds_rows:
        return _accepted_rows(estimator, scoring, table.X, table.y, users)
    # Accepted by the names and kinds of columns.
    table.refuse_targets()
    scored = scores_of(table.X, scoring, estimator, is_private=budget.is_finite)
    for each in _each(estimator):
        _check_first_step(each, shown_to(each, table.X))
    return scored


def _accepted_rows(
    estimator: Any, scoring: PrivateScoring, X: Any, y: Any, users: UsersToFit | None
) -> ScoredTable:
    if y is None:
        raise ValueError(
            "A score requires y to be passed, but the target y is None. Pass the true "
            "values."
        )
    if issparse(X) or not hasattr(X, "shape"):
        # As objects: one entry must not decide the type of all.
        to_rows = X.tocsr if issparse(X) else partial(np.array, X, dtype=object)
        X = without_data(to_rows, "The X argument must be a table. Got something else.")
    for each in _each(estimator):
        _check_first_step(each, X)
    if scoring.task == "regression":
        y = check_targets(estimator, X, y)
    else:
        y = without_data(
            lambda: _labels(X, y),
            "The y argument must be a column of labels, one for each row of X. Got "
            "something else.",
        )
        for each in _each(estimator):
            _check_kinds(each, y)
    if users is not None:
        assert isinstance(users, Users)  # of a table in memory
        if users.n_users > MOST_USERS:
            raise ValueError(
                f"The groups argument must have at most {MOST_USERS} users. Got "
                f"{users.n_users}."
            )
        return ScoredTable(X, y, users)
    if not 1 <= len(y) <= MOST_RECORDS:
        raise ValueError(
            f"The X argument must have 1 to {MOST_RECORDS} rows. Got {len(y)}."
        )
    return ScoredTable(X, y)


def _each(estimator: Any) -> tuple[Any, ...]:
    return estimator if isinstance(estimator, tuple) else (estimator,)


def _labels(X: Any, y: Any) -> np.ndarray:
    if not hasattr(y, "dtype"):
        y = np.array(y, dtype=object)  # one label must not decide the kind of all
    check_consistent_length(X, y)
    return np.asarray(column_or_1d(y))


def _check_kinds(estimator: Any, y: np.ndarray) -> None:
    """Raise if no label of `y` can equal one of the model, as their dtypes say."""
    classes = getattr(estimator, "classes_", None)
    if not isinstance(classes, np.ndarray):
        return
    known, given = kind_of_labels(classes), kind_of_labels(y)
    if None not in (known, given) and known != given:
        raise TypeError(
            "The labels in y must be of the kind that the model predicts. Got "
            f"{given} in y, and {known} in classes_. Pass the labels in the form in "
            "which fit took them. Nothing was spent."
        )


def _check_first_step(estimator: Any, X: Any) -> None:
    """Refuse rows that the estimator is known to refuse."""
    first = estimator
    while hasattr(first, "steps") or hasattr(first, "best_estimator_"):
        is_search = hasattr(first, "best_estimator_")
        first = first.best_estimator_ if is_search else first.steps[0][1]
    is_own = isinstance(first, (DeclaredEstimator, PrivateEstimator))
    if first is not estimator and not is_own:
        return
    encoder = getattr(first, "encoder_", first)
    if isinstance(encoder, TableEncoder):
        encoder._cells(X)
        return
    takes = get_tags(first).input_tags
    if takes.allow_nan or takes.string or takes.categorical:
        return
    check_rows(first, X, reset=False, accept_sparse=takes.sparse or not is_own)


# -------------------------------- PrivateComparison: which of two classifiers is better


@dataclass(frozen=True)
class PrivateComparison:
    """A released comparison of two classifiers on the same records.

    With ``privacy_unit="user"`` a user counts once in both counts together. Standard
    errors, which assume that a record is in one count, are then upper bounds.

    Parameters
    ----------
    first_only, second_only : float
        Numbers of records that only the first, and only the second, classifier labels
        correctly. Private outputs.
    error : float
        Standard deviation of the noise in each number. Public.
    n_samples : int
        Public.
    privacy_ : PrivacyRecord
    """

    first_only: float
    second_only: float
    error: float
    n_samples: int
    privacy_: PrivacyRecord

    @property
    def difference(self) -> float:
        """Accuracy of the first classifier less that of the second."""
        apart = (self.first_only - self.second_only) / self.n_samples
        return float(np.clip(apart, -1.0, 1.0))

    @property
    def standard_error(self) -> float:
        """Joint standard error of the noise and of the sample."""
        differ = max(self.first_only + self.second_only, 0.0)
        sampled = max(differ - self.n_samples * self.difference**2, 0.0)
        return math.sqrt(sampled + 2 * self.error**2) / self.n_samples

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of the difference in the population, by the normal distribution.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
        """
        level = check_real(
            "level", level, low=0.0, high=1.0, low_open=True, high_open=True
        )
        wide = float(ndtri((1 + level) / 2)) * self.standard_error
        return self.difference - wide, self.difference + wide

    @property
    def p_value(self) -> float:
        """The p-value of McNemar's test of equal accuracy, with the noise included."""
        differ = max(self.first_only + self.second_only, 0.0)
        deviation = math.sqrt(differ + 2 * self.error**2)
        if deviation == 0:
            return 1.0
        return float(2 * ndtr(-abs(self.first_only - self.second_only) / deviation))

    def _headline(self) -> str:
        low, high = self.confidence_interval()
        return (
            f"accuracy of the first less that of the second: {self.difference:+.4f} "
            f"(95 % from {low:+.4f} to {high:+.4f}, p = {self.p_value:.2g})"
        )

    def __repr__(self) -> str:
        return f"{self._headline()}\n{wrapped(self.privacy_.statement())}"

    def _repr_html_(self) -> str:
        return card(self._headline(), below=[self.privacy_._repr_html_()])
