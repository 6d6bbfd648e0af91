"""Scores and searches of users, each of whom counts once, with all of the own rows.

Scores are searched over neighbouring users; whole searches of real models are run on
pairs of tables in which one user has other rows, or none, and on the second are told
what was released on the first (`skdp.audit._exact`).
"""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectFromModel
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.random_projection import (
    GaussianRandomProjection,
    SparseRandomProjection,
)

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPCalibratedClassifier,
    DPGridSearchCV,
    DPLogisticRegression,
    DPRandomizedSearchCV,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    TableEncoder,
    privacy_report,
    private_evaluation,
    private_score,
)
from skdp import _fit as fit_module
from skdp._users import Users
from skdp.audit._exact import replayed, told_apart, verdict
from skdp.columns import Range
from skdp.exceptions import UnaccountedStepError
from skdp.model_selection import SCORINGS, UserKFold
from skdp.model_selection import _scorer_sums as scoring_base
from skdp.model_selection import _search as search_module
from skdp.model_selection._candidates import ScoredTable, SearchRecords
from skdp.model_selection._scorer_sums import DISAGREEMENTS
from skdp.model_selection._scorers import resolve_scoring
from skdp.privacy import calibrate
from skdp.privacy.release import _door
from skdp.privacy.release._answers import Layout
from skdp.sums import _record_sums as user_scores
from skdp.sums._record_sums import Scores
from tests.audit import tables
from tests.audit.tables import answered_by
from tests.model_selection.toys import NoisySum

RELATIONS = {"replace_one": "replace_user", "zero_out": "zero_out_user"}
ROUNDING = 1e-9
RAISES = 99.0

every_adjacency = pytest.mark.parametrize("adjacency", RELATIONS)
quiet = pytest.mark.filterwarnings("ignore")


class Says(tables.Says):
    """Predicts what stands in the first column, in a way that others may change."""

    def _said(self, X):
        return np.asarray(X)[:, 0]

    def predict(self, X):
        return self._said(X)

    def predict_proba(self, X):
        return np.column_stack([1 - self._said(X), self._said(X)])


class Refuses(Says):
    """Raises for one value."""

    def _said(self, X):
        if (np.asarray(X)[:, 0] == RAISES).any():
            raise ValueError("99")
        return super()._said(X)


FACTS = {"classes": [0, 1], "target_bounds": (0, 1)}
SCORERS = {name: resolve_scoring(name, Says(), **FACTS) for name in SCORINGS}
SCORERS["disagreements"] = DISAGREEMENTS


def model_for(name):
    return (Refuses(), Constant()) if name == "disagreements" else Refuses()


class Constant(ClassifierMixin, BaseEstimator):
    classes_ = np.array([0, 1])

    def predict(self, X):
        return np.ones(len(X))


def users_of(rng, scorer, n_users=6, most_rows=4):
    """Rows (said, true) of each user; some of nobody, some for which models raise."""
    said = [0.0, 1.0, 0.3, math.nan, RAISES]
    true = [0, 1] if scorer.task == "classification" else [0.0, 1.0, 0.4]
    return [
        [(rng.choice(said), rng.choice(true)) for _ in range(rng.integers(most_rows))]
        for _ in range(n_users)
    ]


def table_of(users):
    """As a table to be scored, of which users without rows are a part."""
    rows = [(u, *row) for u, own in enumerate(users) for row in own]
    codes = np.array([u for u, *_ in rows], dtype=np.int64)
    X = np.array([[said] for _, said, _ in rows], dtype=float).reshape(-1, 1)
    y = np.array([true for *_, true in rows])
    return ScoredTable(X, y, Users(len(users), codes))


def statistic(name, users):
    return table_of(users).statistic(SCORERS[name], model_for(name))


# -------------------------------------------------------------------------- statistics


@pytest.mark.parametrize("name", SCORERS)
def test_a_user_counts_once_with_the_mean_over_the_own_rows(name):
    rng, scorer, model = np.random.default_rng(1), SCORERS[name], model_for(name)
    users = users_of(rng, scorer, 12)
    means = [np.mean([statistic(name, [[r]]) for r in own], 0) for own in users if own]
    table = table_of(users)
    found = table.statistic(scorer, model)
    assert found == pytest.approx(sum(means), abs=1e-6)
    repeated = [own * 5 for own in users]
    assert statistic(name, repeated) == pytest.approx(sum(means), abs=1e-5)
    # In any order, and as records if each has one row: to the last bit.
    order = rng.permutation(len(table.y))
    codes = Users(12, table.users.codes[order])
    moved = ScoredTable(table.X[order], table.y[order], codes)
    assert np.array_equal(moved.statistic(scorer, model), found)
    alone = table_of([[(1.0, 1)], *(own[:1] for own in users if own)])
    plain = ScoredTable(alone.X, alone.y).statistic(scorer, model)
    assert np.array_equal(alone.statistic(scorer, model), plain)


def moved(name, adjacency, norm):
    """Largest change by one user over the bound, found over charged."""
    scorer, rng = SCORERS[name], np.random.default_rng(4)
    query = Scores(scorer, (None,), norm)
    slack = query.slack(Layout(6, rows_of_unit=1024))
    charged = query.bound().under(RELATIONS[adjacency]) + slack
    corners = [(said, true) for said in (0.0, 1.0) for true in (0, 1)]
    users = [[corner] * n for corner in corners for n in (1, 7)]
    users += [*users_of(rng, scorer, 6, 9), corners]
    added = np.array([statistic(name, [own]) for own in users])
    if adjacency == "replace_one":
        added = (added[:, None] - added).reshape(-1, added.shape[1])
    return np.linalg.norm(added, ord=norm, axis=1).max() / charged


@every_adjacency
@pytest.mark.parametrize("name", SCORERS)
def test_no_user_moves_a_statistic_by_more_than_is_charged(name, adjacency):
    for norm in (1, 2):
        # r2 is largest inside of the square.
        assert (0.85 if name == "r2" else 0.999) < moved(name, adjacency, norm) <= 1


def test_rounding_of_many_rows_is_what_is_charged():
    """The worst share: 1/k is half a unit from the grid for each of k rows."""
    most = 0.0
    for k in (955, 1013):
        found = statistic("accuracy", [[(1.0, 1)] * k])[0]
        most = max(most, abs(found - 1))
    slack = Scores(SCORERS["accuracy"], (None,), 1).slack(Layout(1, rows_of_unit=1024))
    assert 0.2 * slack < most < slack / 2
    assert Scores(SCORERS["accuracy"], (None,), 1).slack(Layout(1)) == 0
    own, more = [(1.0, 1)] * 1024, [(0.0, 1)] * 500  # of many rows the first count
    assert statistic("accuracy", [[], [*own, *more]]) == pytest.approx(1, abs=1e-5)


class Rounds(Says):
    """Stands for a matrix product: a prediction has last bits of place and length."""

    def _said(self, X):
        place = np.arange(len(X)) + len(X)
        return np.rint(super()._said(X) + 0.4 * (place % 3 == 0))


def test_nobody_s_rows_stand_where_others_put_them():
    """Of one user with more rows, or none, no other's predictions take notice."""
    rng = np.random.default_rng(5)
    users = [[(0.4 * rng.integers(2), 1)] * rng.integers(1, 4) for _ in range(400)]

    def apart(kind):
        found = []
        for other in ([], users[20] * 11):
            table = table_of([*users[:20], other, *users[21:]])
            found.append(kind(table).statistic(SCORERS["accuracy"], Rounds())[0])
        return abs(found[0] - found[1])

    assert apart(lambda table: table) <= 1 + 1e-4

    class InOrder(ScoredTable):
        """The twin asks about the rows of the table as they stand."""

        def statistic(self, scorer, model):
            return scorer.statistic(model, self.X, self.y, self.users.shares)

    assert apart(lambda t: InOrder(t.X, t.y, t.users)) > 2


def test_users_are_asked_about_in_blocks_of_one_length(monkeypatch):
    rng = np.random.default_rng(6)
    users = [*users_of(rng, SCORERS["roc_auc"], 22), [(1.0, 1)]]  # the last counts too
    whole = statistic("roc_auc", users)
    lengths = set()

    class Notes(Refuses):
        def _said(self, X):
            lengths.add(len(X))
            return super()._said(X)

    monkeypatch.setattr(user_scores, "ROWS_AT_ONCE", 5)
    found = table_of(users).statistic(SCORERS["roc_auc"], Notes())
    assert np.array_equal(found, whole)
    assert lengths == {5}


# ---------------------------------------------------- how often an estimator is asked


def test_a_model_that_only_raises_is_asked_twice_for_each_row_at_most(monkeypatch):
    asked = []

    class Fails(Says):
        def _said(self, X):
            asked.append(len(X))
            raise RuntimeError

    monkeypatch.setattr(scoring_base, "ROWS_ASKED", 16)
    n = 100
    scorer = SCORERS["neg_log_loss"]
    found = scorer.statistic(Fails(), np.zeros((n, 1)), np.zeros(n))
    assert found == -n
    # Seven blocks, the last of which has records of another; never all rows at once.
    assert set(asked) == {16}
    assert len(asked) <= 2 * 7 * 16


# ------------------------------------------------------------------- scores as released

RNG = np.random.default_rng(0)
N_USERS = 60
IDS = np.concatenate([np.arange(N_USERS), RNG.integers(0, N_USERS, 90)])
X = RNG.normal(size=(len(IDS), 3)) / 2
Y = (X[:, 0] + RNG.normal(size=len(IDS)) / 8 > 0).astype(int)
MODEL = DPLogisticRegression(classes=[0, 1], privacy_unit="user", random_state=0)
BY_USER = {"groups": IDS, "privacy_unit": "user"}
RELEASES = {
    "private_score": private_score,
    "private_evaluation": private_evaluation,
    "confusion matrix": partial(private_evaluation, response_method="predict"),
    "comparison": lambda model, *args, **facts: private_evaluation(
        (model, model), *args, **facts
    ),
}


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(MODEL).fit(X, Y, groups=IDS)


def record_of(released):
    return getattr(released, "privacy", None) or released.privacy_


@quiet
@pytest.mark.parametrize(
    ("kind", "adjacency"),
    [(kind, list(RELATIONS)[i % 2]) for i, kind in enumerate(RELEASES)],
)
def test_records_and_ledgers_are_of_users(kind, adjacency, fitted, tmp_path):
    relation = RELATIONS[adjacency]
    facts = {"epsilon": 9, "delta": 1e-4, "adjacency": relation}
    books = BudgetLedger(tmp_path / "users.db", unit="user", **facts)
    release = partial(RELEASES[kind], fitted, X, Y, epsilon=1.0, adjacency=adjacency)
    record = record_of(release(**BY_USER, ledger=books))
    assert (record.unit, record.adjacency) == ("user", relation)
    assert record.n_samples == N_USERS != len(X)
    assert "number of users, but not the number of rows" in record.assumed_public
    assert "number of records" not in record.assumed_public
    assert len(books.spends()) == 1
    facts["adjacency"] = adjacency
    records = BudgetLedger(tmp_path / "records.db", **facts)
    with pytest.raises(ValueError, match="unit must be 'user'"):
        release(**BY_USER, ledger=records)
    with pytest.raises(ValueError, match="unit must be 'record'"):
        release(ledger=books)
    assert len(books.spends()) + len(records.spends()) == 1


@quiet
@pytest.mark.parametrize(
    ("name", "delta", "adjacency"),
    [
        ("accuracy", 0.0, "replace_one"),
        ("neg_log_loss", 1e-6, "zero_out"),
        ("roc_auc", 0.0, "zero_out"),
        ("r2", 1e-6, "replace_one"),
    ],
)
def test_no_transcript_of_a_score_tells_more_than_is_charged(name, delta, adjacency):
    """One transcript, replayed on the neighbour: worst pairs, of unlike many rows."""
    events = []
    worst = {"neg_log_loss": (0.0, 1)}.get(name, (1.0, 1))
    other = {"neg_log_loss": (1.0, 1), "r2": (0.0, 0)}.get(name, (0.0, 1))
    others = [other] * 2 if adjacency == "replace_one" else []

    def run(own, noise):
        table = table_of([[(0.0, 0)], own * 3, [(1.0, 1)] * 2, []])
        ids = pd.Categorical(table.users.codes, categories=range(4))
        with answered_by(noise):
            facts = {"epsilon": 1.0, "delta": delta, "adjacency": adjacency}
            facts |= {"scoring": name, "groups": ids, "privacy_unit": "user"}
            score = private_score(Says(), table.X, table.y, **facts, **FACTS)
        events.append(score.privacy.event)

    first, second, _ = replayed(run, ([worst], others), 0)
    found = verdict(first, second, events[0]).largest
    assert (0.8 if name == "r2" else 0.999) < found <= 1


@quiet
@pytest.mark.parametrize("kind", ["private_score", "comparison"])
def test_ids_and_their_unit_come_together(kind, fitted, tmp_path):
    release = partial(RELEASES[kind], fitted, X, Y)
    with pytest.raises(ValueError, match=r"Got None\. Pass groups=ids"):
        release(epsilon=1.0, privacy_unit="user")
    with pytest.raises(ValueError, match="Set privacy_unit='user'"):
        release(epsilon=1.0, groups=IDS)
    with pytest.raises(ValueError, match="must be finite with privacy_unit='user'"):
        release(epsilon=math.inf, **BY_USER)
    with pytest.raises((ValueError, TypeError), match="id of a user for each row"):
        release(epsilon=1.0, groups=IDS[:-1], privacy_unit="user")


# ------------------------------------------------------------- searches over neighbours

STEPS = {"solver": "noisy_gd", "solver_params": {"n_steps": 2}}
PLAIN = DPLogisticRegression(classes=[0, 1], **STEPS)
GRID = {"C": [0.1, 10.0]}
PIPED = make_pipeline(DPStandardScaler(bounds=(-2, 2)), clone(PLAIN))
METHODS = {
    "composition": {},
    "composition, two parts": {"tuning_fraction": 0.5},
    "disjoint_splits": {},
    "random_stopping": {"mean_trials": 3.0},
}
N_PEOPLE = 16


def people_of(rng, most_rows=4):
    users = []
    for _ in range(N_PEOPLE):
        rows = rng.normal(size=(rng.integers(1, most_rows + 1), 2)) / 2
        users.append([(x, int(x[0] > 0)) for x in rows])
    return users


def fit_of(search, users):
    rows = [(u, x, y) for u, own in enumerate(users) for x, y in own]
    ids = pd.Categorical([u for u, *_ in rows], categories=range(len(users)))
    return search.fit(
        np.array([x for _, x, _ in rows]), np.array([y for *_, y in rows]), groups=ids
    )


_CALIBRATED = {}


def _calibrated_once(declare, budget):
    key = declare(1.0), budget
    if key not in _CALIBRATED:
        _CALIBRATED[key] = calibrate(declare, budget)
    return _CALIBRATED[key]


def searched(name, adjacency, pair, model=PLAIN, **given):
    """What a transcript of whole searches tells apart, over what is charged.

    With composition all that a user takes part in is added up; otherwise it is a trial,
    or a fit, or the choice, which each has the strength of one.
    """
    prefix = "" if model is PLAIN else "dplogisticregression__"
    fits = []

    def run(users, noise):
        search = DPGridSearchCV(
            model,
            {prefix + key: values for key, values in GRID.items()},
            epsilon=2.0,
            adjacency=adjacency,
            privacy_unit="user",
            method=name.partition(",")[0],
            method_params=METHODS[name],
            **given,
        )
        with answered_by(noise) as patch:
            for module in (_door, search_module):
                patch.setattr(module, "calibrate", _calibrated_once)
            fits.append(fit_of(search, users))

    first, second, _ = replayed(run, pair, 0)
    one, other = (fit.privacy_ for fit in fits)
    assert one.n_samples == other.n_samples == len(pair[0])
    assert one.event == other.event
    assert fits[0].best_params_ == fits[1].best_params_
    costs = {}
    for a, b in zip(first, second, strict=True):
        cost = a.share.as_mu_squared(told_apart(a, b))
        costs[a.share.opened] = costs.get(a.share.opened, 0.0) + cost
    if "composition" in name:
        return math.sqrt(sum(costs.values()) / one.event.gdp_mu_squared)
    if name == "random_stopping":
        # A trial is a fit or a score; scores are all asked at one door.
        charged = one.event.trial.mu_squared
        scores = [
            a.share.as_mu_squared(told_apart(a, b))
            for a, b in zip(first, second, strict=True)
            if not a.share.opened
        ]
        return math.sqrt(max(*scores, *(c for k, c in costs.items() if k)) / charged)
    parts = [
        math.sqrt(costs.get(k, 0.0) / one.event.parts[bool(not k)].gdp_mu_squared)
        for k in costs
    ]
    assert sum(part > 0 for part in parts) <= 1, "a user is in several parts"
    return sum(parts)


def neighbours(adjacency, rng, who):
    """Pairs in which one user has one row, many, or none."""
    users = people_of(rng)
    along = np.array([0.9, -0.9])
    worst = [(along, 1)] * 3
    others = [[], [(-along, 0)] * 7, people_of(rng, 30)[0]]
    for other in others[:1] if adjacency == "zero_out" else others:
        yield [[*users[:who], own, *users[who + 1 :]] for own in (worst, other)]


def largest(name, adjacency="replace_one", people=(0, 5)):
    return max(
        searched(name, adjacency, pair)
        for who in people
        for pair in neighbours(adjacency, np.random.default_rng(who), who)
    )


@quiet
@every_adjacency
@pytest.mark.parametrize("name", METHODS)
def test_no_neighbour_of_a_search_tells_more_than_is_charged(name, adjacency):
    assert 0.05 < largest(name, adjacency) <= 1 + ROUNDING


@quiet
def test_no_user_is_in_two_parts_and_users_without_rows_count():
    codes = np.random.default_rng(0).integers(0, 20, 200)
    codes = codes[codes != 7]
    records = SearchRecords(codes[:, None], codes, Users(20, codes))
    order = np.random.default_rng(1).permutation(20)
    parts = [records.at(order[:8]), records.at(order[8:])]
    assert [part.n_samples for part in parts] == [8, 12]
    found = [set(part.y) for part in parts]
    assert not found[0] & found[1]
    assert found[0] | found[1] == set(codes)
    for part, numbers in zip(parts, (order[:8], order[8:]), strict=True):
        assert np.array_equal(numbers[part.users.codes], part.y)
        # Rows of a user stay in the order of the table, whatever others have.
        assert np.array_equal(part.y, codes[np.isin(codes, numbers)])


# ------------------------------------------------------------------ searches: contract


def search_of(model=PLAIN, **given):
    grid = {"C": [0.1, 1.0]} if model is PLAIN else {}
    return DPGridSearchCV(
        model, grid, **{"epsilon": 2.0, "privacy_unit": "user"} | given
    )


@quiet
def test_searches_are_charged_and_reported_as_of_users(tmp_path):
    adjacency, relation = "zero_out", "zero_out_user"
    books = BudgetLedger(
        tmp_path / "users.db", epsilon=9, delta=1e-4, adjacency=relation, unit="user"
    )
    search = search_of(adjacency=adjacency, ledger=books).fit(X, Y, groups=IDS)
    record, best = search.privacy_, search.best_estimator_
    assert (record.unit, record.adjacency) == ("user", relation)
    assert record.n_samples == N_USERS
    assert "number of users, but not the number of rows" in record.assumed_public
    assert len(books.spends()) == 1
    assert (best.privacy_unit, best.privacy_.unit) == ("user", "user")
    report = privacy_report(search)
    assert report.epsilon == pytest.approx(2, abs=1e-4)
    assert report.adjacency == relation
    # Another fit of the best needs ids as well.
    with pytest.raises(ValueError, match="must have the ids of users"):
        clone(best).fit(X, Y)
    for search in (
        DPRandomizedSearchCV(PLAIN, GRID, n_iter=2, epsilon=2, privacy_unit="user"),
        DPTunedThresholdClassifier(PLAIN, epsilon=2, privacy_unit="user"),
        DPCalibratedClassifier(PLAIN, epsilon=2, privacy_unit="user"),
    ):
        record = search.fit(X, Y, groups=IDS).privacy_
        assert (record.unit, record.n_samples) == ("user", N_USERS)
        with pytest.raises(ValueError, match="must have the ids of users"):
            clone(search).fit(X, Y)


NESTED = {
    "pipeline": PIPED,
    "two": make_pipeline(make_pipeline(DPStandardScaler(bounds=(-2, 2))), PLAIN),
    "columns": make_pipeline(
        make_column_transformer(
            (DPStandardScaler(bounds=(-2, 2)), [0, 1]),
            (BoundedScaler(bounds=(-2, 2)), [2]),
            sparse_threshold=0,
        ),
        PLAIN,
    ),
    "selection": make_pipeline(
        DPStandardScaler(bounds=(-2, 2)), SelectFromModel(clone(PLAIN)), clone(PLAIN)
    ),
}


@quiet
@pytest.mark.parametrize(
    ("name", "routing"), [(name, bool(i % 2)) for i, name in enumerate(NESTED)]
)
def test_ids_reach_every_private_step(name, routing, monkeypatch):
    units = []
    kept = fit_module._statement

    def statement(model, *facts):
        made = kept(model, *facts)
        units.append((type(model).__name__, made.unit, made.n_samples))
        return made

    monkeypatch.setattr(fit_module, "_statement", statement)
    with sklearn.config_context(enable_metadata_routing=routing):
        search = search_of(clone(NESTED[name]), method="composition")
        assert search.fit(X, Y, groups=IDS).has_model_
    assert {unit for _, unit, _ in units} == {"user"}
    assert {kind for kind, *_ in units} >= {"DPStandardScaler", "DPLogisticRegression"}
    assert max(n for *_, n in units) == N_USERS


@quiet
def test_what_is_not_of_users_is_refused_before_anything_is_charged(tmp_path):
    books = BudgetLedger(
        tmp_path / "x.db", epsilon=9, delta=1e-4, adjacency="replace_user", unit="user"
    )
    # Labels are only read by what comes after.
    for model in (NoisySum(), make_pipeline(BoundedScaler((-1, 1)), NoisySum())):
        refused = (
            r"NoisySum, which protects records only.*set_fit_request.*step__groups"
        )
        with pytest.raises(ValueError, match=refused):
            search_of(model, ledger=books).fit(X, Y, groups=IDS)
    with pytest.raises(ValueError, match=r"groups=ids.*step__groups"):
        search_of(ledger=books).fit(X, Y)
    with pytest.raises(ValueError, match="Set privacy_unit='user' to protect"):
        search_of(privacy_unit="record").fit(X, Y, groups=IDS)
    with pytest.raises(ValueError, match="Set privacy_unit='user' on the search"):
        search_of(clone(MODEL), privacy_unit="record").fit(X, Y)
    with pytest.raises(ValueError, match="must not be among"):
        DPGridSearchCV(PLAIN, {"privacy_unit": ["user"]}, epsilon=2).fit(X, Y)
    with pytest.raises(ValueError, match="at least two users"):
        search_of(ledger=books).fit(X, Y, groups=np.zeros(len(X), dtype=int))
    # No solver of users is of pure noise but one.
    of_many = {"epsilon": 8.0, "delta": 0}  # fewer would be a constant
    pure = search_of(DPLogisticRegression(classes=[0, 1]), **of_many)
    with pytest.raises(ValueError, match=r"can be done by \['nesterov', 'heavy_ball'"):
        pure.fit(X, Y, groups=IDS)
    assert books.spends() == []


@quiet
def test_no_part_of_a_search_may_be_without_rows():
    few = pd.Categorical(IDS % 20, categories=range(60))
    with pytest.raises(ValueError, match="must have rows of users, however"):
        search_of(method="disjoint_splits").fit(X, Y, groups=few)
    some = pd.Categorical(IDS, categories=range(N_USERS + 10))
    search = search_of(method="disjoint_splits").fit(X, Y, groups=some)
    assert search.privacy_.n_samples == N_USERS + 10


OF_LENGTHS = [
    SparseRandomProjection(eps=0.9),
    GaussianRandomProjection(eps=0.9),
    GaussianRandomProjection(2),
    RBFSampler(gamma=1.0),
    TableEncoder(Range(-2.0, 2.0)),
]


@quiet
@pytest.mark.parametrize("step", OF_LENGTHS)
def test_steps_that_take_from_the_number_of_rows_are_refused(step):
    """It is private: it would show in shapes, or move the last bits of all rows."""
    wide = np.tile(X, 50) / 10
    search = search_of(make_pipeline(clone(step), PLAIN))
    with pytest.raises(UnaccountedStepError, match="with privacy_unit='user'"):
        search.fit(wide, Y, groups=IDS)
    for model in (search.estimator[-1], search_of()):
        own = clone(model).set_params(privacy_unit="user")
        report = privacy_report(make_pipeline(clone(step), own))
        assert math.isinf(report.epsilon)
        assert "with privacy_unit='user'" in report.steps[0].note
        own.set_params(privacy_unit="record")
        assert privacy_report(make_pipeline(clone(step), own)).is_private


# ------------------------------------------------- searches in scikit-learn's tools


def folds(ids):
    return UserKFold(2) if ids else KFold(2)


def in_grid(search, **ids):
    return GridSearchCV(search, {}, cv=folds(ids)).fit(X, Y, **ids).best_estimator_


def across_folds(search, **ids):
    routes = sklearn.get_config()["enable_metadata_routing"]
    given = {"params": ids} if routes else ids
    given |= {"cv": folds(ids), "error_score": "raise"}
    return cross_val_score(search, X, Y, **given)


def in_pipeline(search, **ids):
    routes = sklearn.get_config()["enable_metadata_routing"]
    name = "groups" if routes else "dpgridsearchcv__groups"
    model = make_pipeline(BoundedScaler((-2, 2)), search)
    return model.fit(X, Y, **dict.fromkeys(ids and [name], ids.get("groups")))


@quiet
@pytest.mark.parametrize("tool", [in_grid, across_folds, in_pipeline])
def test_tools_give_searches_of_users_or_an_error(tool, monkeypatch):
    units = []
    kept = fit_module._statement

    def statement(model, *facts):
        made = kept(model, *facts)
        if isinstance(model, search_module.PrivateSearch):
            units.append(made.unit)
        return made

    monkeypatch.setattr(fit_module, "_statement", statement)
    # Of users: with ids, or an error.
    with pytest.raises(ValueError, match="must have the ids of users"):
        tool(search_of(method="disjoint_splits"))
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises((ValueError, TypeError)):
            tool(search_of(method="disjoint_splits"), groups=IDS)
        own = search_of(method="disjoint_splits").set_fit_request(groups=True)
        tool(own, groups=IDS)
        assert set(units) == {"user"}
        # Of records: never with ids.
        units.clear()
        own = clone(own).set_params(privacy_unit="record")
        with pytest.raises(ValueError, match="Set privacy_unit='user'"):
            tool(own, groups=IDS)
    assert units == []
    if tool is in_pipeline:
        tool(search_of(method="disjoint_splits"), groups=IDS)
        assert units == ["user"]


@quiet
def test_a_projection_to_a_declared_number_of_components_is_taken():
    """Unlike the default number, which follows from the number of rows."""
    model = make_pipeline(SparseRandomProjection(2), PLAIN)
    search = search_of(model).fit(X, Y, groups=IDS)
    assert search.best_estimator_[-1].coef_.shape == (1, 2)
