"""Models of users: one record each, ids that are asked for or refused, and what leaks.

Neighbours are fitted through the whole estimator: one transcript, replayed on a table
in which one user has other rows, or none (`skdp.audit._exact`).
"""

from __future__ import annotations

import math
import warnings
from itertools import cycle, product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from skdp import (
    BudgetLedger,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPRobustClassifier,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
)
from skdp._users import Users
from skdp.audit._exact import replayed, verdict
from skdp.columns import Range
from skdp.io._table import Table
from skdp.privacy import PrivacyRecord
from skdp.privacy.release._door import audited_by
from skdp.solvers import SOLVERS
from skdp.tables._memory import UserSource, equal_shares
from tests.audit.users import TAKES_USERS

N_USERS, D = 60, 3
MODELS = {
    "logistic": DPLogisticRegression(classes=[0, 1]),
    "softmax": DPLogisticRegression(classes=[0, 1, 2]),
    "svc": DPLinearSVC(classes=[0, 1]),
    "robust": DPRobustClassifier(classes=[0, 1]),
    "regression": DPLinearRegression(target_bounds=(0, 1)),
    "sparse": DPSparseLogisticRegression(classes=[0, 1]),
    "sparse regression": DPSparseLinearRegression(target_bounds=(0, 1)),
}
ADJACENCIES = ("replace_one", "zero_out")
BY_USER = DPLogisticRegression(classes=[0, 1], privacy_unit="user")
ROUNDING = 1e-9

every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
quiet = pytest.mark.filterwarnings("ignore")


def users_of(rng, n_users=N_USERS, most_rows=4):
    """A list of rows for each user, with a target in {0, 1}."""
    users = []
    for _ in range(n_users):
        X = rng.normal(size=(rng.integers(1, most_rows + 1), D)) / 2
        users.append([(x, float(x[0] > 0)) for x in X])
    return users


def table_of(users, order=None):
    """Rows, targets and ids, which declare users without rows as well."""
    rows = [(u, x, y) for u, own in enumerate(users) for x, y in own]
    rows = rows if order is None else [rows[i] for i in order]
    ids = pd.Categorical([u for u, _, _ in rows], categories=range(len(users)))
    return np.array([x for _, x, _ in rows]), np.array([y for *_, y in rows]), ids


def fitted(model, users, order=None):
    X, y, ids = table_of(users, order)
    return model.fit(X, y, groups=ids)


def numbers(model):
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


def model_of(name, **params):
    params = {"privacy_unit": "user", **params}
    return clone(MODELS[name]).set_params(**params)


X, Y, IDS = table_of(users_of(np.random.default_rng(0)))
PLAIN = np.asarray(IDS)


# ------------------------------------------------------------- users count as records


@quiet
@pytest.mark.parametrize(("name", "adjacency"), list(zip(MODELS, cycle(ADJACENCIES))))
def test_users_of_one_row_are_records_to_the_last_bit(name, adjacency):
    rng = np.random.default_rng(0)
    X, y, ids = table_of(users_of(rng, 400, most_rows=1))
    facts = {"adjacency": adjacency, "random_state": 1}
    if not name.startswith("sparse"):  # whose answers are of rows as they come
        facts["solver"] = "noisy_gd"
    of_users = model_of(name, **facts).fit(X, y, groups=ids)
    of_rows = model_of(name, **facts, privacy_unit="record").fit(X, y)
    assert np.array_equal(numbers(of_users), numbers(of_rows))
    assert of_users.privacy_.sensitivity == of_rows.privacy_.sensitivity


# ------------------------------------------------------------------------ without noise


@quiet
@pytest.mark.parametrize("stored", [np.asarray, csr_array])
def test_without_noise_each_row_weighs_its_share(stored):
    """As scikit-learn's models with `sample_weight`."""
    shares = 1 / np.bincount(PLAIN)[PLAIN]
    logistic = model_of("logistic", epsilon=math.inf, C=1.0, fit_intercept=False)
    expected = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-9)
    found = logistic.fit(stored(X), Y, groups=IDS)
    expected.fit(X, Y, sample_weight=shares)
    assert found.coef_ == pytest.approx(expected.coef_, abs=1e-5)
    assert (found.privacy_.adjacency, found.privacy_.epsilon) == (
        "replace_user",
        math.inf,
    )
    regression = model_of("regression", epsilon=math.inf).fit(stored(X), Y, groups=IDS)
    least = LinearRegression().fit(X, Y, sample_weight=shares)
    assert numbers(regression)[:D] == pytest.approx(least.coef_, abs=1e-6)
    assert regression.intercept_ == pytest.approx(least.intercept_, abs=1e-6)
    sparse = model_of("sparse regression", epsilon=math.inf, n_nonzero_coefs=D)
    assert sparse.fit(stored(X), Y, groups=IDS).coef_ == pytest.approx(
        least.coef_, abs=1e-5
    )


def instead_of(users, rng, adjacency):
    """The last user with other rows, many, few, far out or none."""
    far = [(np.full(D, 1e6) * sign, y) for sign in (1, -1) for y in (0.0, 1.0)]
    others = [[], far[:1], far[:1] * 5, far[1:2] * 3, far, users_of(rng, 1)[0]]
    others = others[:1] if adjacency == "zero_out" else others
    return [[*users[:-1], other] for other in others]


@quiet
@pytest.mark.parametrize(
    ("name", "adjacency", "columns"),
    [
        (name, *facts)
        for name, facts in zip(
            MODELS, cycle(product(ADJACENCIES, (None, Range(-1, 1))))
        )
    ],
)
def test_no_neighbour_tells_more_than_is_charged(name, adjacency, columns):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    users[-1] = [(np.full(D, 0.7), 1.0)] * 3
    for other in instead_of(users, rng, adjacency):
        found, _ = told(name, (users, other), adjacency, columns)
        assert found.largest <= 1 + ROUNDING


def told(name, pair, adjacency, columns=None, budget=(2.0, 1e-6), **params):
    """What a transcript of whole fits tells apart, and both models."""
    facts = {"epsilon": budget[0], "delta": budget[1], "columns": columns, **params}
    models = []

    def run(users, noise):
        with audited_by(noise):
            model = model_of(name, adjacency=adjacency, **facts)
            models.append(fitted(model, users))
            return models[-1]

    first, second, _ = replayed(run, pair, 0)
    assert numbers(models[0]).tobytes() == numbers(models[1]).tobytes()
    records = [model.privacy_.to_json() for model in models]
    assert records[0] == records[1], "what is public depends on a user"
    return verdict(first, second, models[0].privacy_.event), models


# Rows of one user have unlike labels, which weigh 1 and 1/40 (Lemma 6), or three.
WEIGHTED = {
    "logistic": {"class_weight": {0: 40.0}},
    "softmax": {"class_weight": {0: 40.0, 2: 3.0}},
    "svc": {"class_weight": {1: 3.0}},
}


@quiet
@pytest.mark.parametrize(("name", "adjacency"), list(zip(WEIGHTED, cycle(ADJACENCIES))))
def test_no_neighbour_with_weights_of_labels_and_many_rows_tells_more(name, adjacency):
    rng = np.random.default_rng(3)
    users, place = users_of(rng), 20
    along = np.array([0.7, -0.7, 0.7])
    first = [(along, 0.0)] * 900 + [(-along * 50, 1.0)] * 300
    others = [[], [(-along, 1.0)], [(-along, 0.0)] * 997, users_of(rng, 1, 1200)[0]]
    for other in others[:1] if adjacency == "zero_out" else others:
        # In the midst of the table, so that all rows behind move.
        pair = [[*users[:place], own, *users[place:]] for own in (first, other)]
        found, _ = told(name, pair, adjacency, **WEIGHTED[name])
        assert found.largest <= 1 + ROUNDING
    same = [[*users[:place], [(x, 0.0)] * k] for x, k in ((along, 1024), (along, 1))]
    assert told(name, same, adjacency, **WEIGHTED[name])[0].largest < 2e-2


@quiet
@pytest.mark.parametrize(
    ("adjacency", "columns"), list(zip(ADJACENCIES, (None, Range(-1, 1)), strict=True))
)
def test_no_neighbour_whose_sum_is_clipped_tells_more(adjacency, columns):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    users[-1] = [(np.full(D, 0.7), 1.0)] * 3
    facts = {"solver": "noisy_gd", "solver_params": {"user_clip": 0.5}}
    for other in instead_of(users, rng, adjacency):
        found, models = told("logistic", (users, other), adjacency, columns, **facts)
        assert found.largest <= 1 + ROUNDING
    # It is clipped: half of what a record may have.
    whole = model_of("logistic", adjacency=adjacency, columns=columns)
    whole = fitted(whole.set_params(epsilon=2.0, solver="noisy_gd"), users)
    share = models[0].privacy_.sensitivity / whole.privacy_.sensitivity
    assert share == pytest.approx(0.5, rel=0.2)


@quiet
@pytest.mark.parametrize(
    ("adjacency", "columns"), list(zip(ADJACENCIES, (None, Range(-1, 1)), strict=True))
)
def test_twin_whose_rows_count_as_records_is_found(adjacency, columns, monkeypatch):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    users[-1] = [(np.full(D, 0.7), 0.0)] * 4
    pair = (users, instead_of(users, rng, adjacency)[0])
    assert told("logistic", pair, adjacency, columns)[0].largest <= 1
    ones = property(lambda own: np.ones(len(own.codes)))
    monkeypatch.setattr(Users, "shares", ones)
    assert told("logistic", pair, adjacency, columns)[0].largest > 1.5


# ------------------------------------------------------------------------------ shares


def test_shares_of_a_user_follow_from_the_own_rows_alone():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 20, 500)
    shares = equal_shares(codes, 20)
    for _ in range(20):
        # Others come, go and move between this user's rows.
        kept = codes == 7
        others = rng.integers(0, 20, 400)
        others = others[others != 7]
        mixed = np.concatenate([codes[kept], others])
        place = rng.permutation(len(mixed))
        place[np.sort(np.argsort(place)[: kept.sum()])] = np.arange(kept.sum())
        found = equal_shares(mixed[np.argsort(place, kind="stable")], 20)
        is_own = mixed[np.argsort(place, kind="stable")] == 7
        assert np.array_equal(found[is_own], shares[kept])


@pytest.mark.parametrize("n_rows", [1, 2, 3, 7, 49, 1023, 1024, 1025, 5000])
def test_shares_of_a_user_add_up_to_at_most_one(n_rows):
    shares = equal_shares(np.zeros(n_rows, dtype=np.int64), 1)
    assert abs(math.fsum(shares) - 1) < 1e-12
    assert np.count_nonzero(shares) == min(n_rows, 1024)
    # Whole numbers of a residual, cut: never more than one row has.
    for unit in (1, 3, 1000, 2**18, 2**26 - 1):
        assert np.trunc(unit * shares).sum() <= unit


def test_a_source_of_users_is_not_read_as_one_of_records():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(8, D)), np.arange(8) % 2
    source = UserSource(X, np.zeros(8), equal_shares(codes, 2), 2)
    assert source.n_samples == 2
    assert sum(len(block.y) for block in source.blocks()) == 8
    with pytest.raises(TypeError, match="a user without rows"):
        source.without(0)
    for key, kind in SOLVERS.items():
        assert kind.takes_users == (key in TAKES_USERS)
        assert kind.takes_users == (
            "all rows of a user" in " ".join(kind.__doc__.split())
        )


@quiet
def test_the_door_knows_users_from_records(monkeypatch):
    """A model that takes its rows for records, or records for users, reads nothing."""
    X, y, ids = table_of(users_of(np.random.default_rng(0)))
    source = Table.source
    with monkeypatch.context() as patch:
        patch.setattr(
            Table, "source", lambda own, X, y, u, **p: source(own, X, y, None)
        )
        with pytest.raises(ValueError, match="Nothing was read"):
            model_of("logistic").fit(X, y, groups=ids)
    users = Users.of(ids, len(X))
    monkeypatch.setattr(Table, "source", lambda own, X, y, u, **p: users.source(X, y))
    with pytest.raises(ValueError, match="Nothing was read"):
        model_of("logistic", privacy_unit="record").fit(X, y)


# --------------------------------------------------------------------- ids and refusals


@pytest.fixture
def books(tmp_path):
    return BudgetLedger(
        tmp_path / "users.db", epsilon=9, delta=1e-4, adjacency="replace_user",
        unit="user",
    )  # fmt: skip


@pytest.mark.parametrize(
    "groups",
    [
        PLAIN.astype(np.int32),
        [f"user {i}" for i in PLAIN],
        pd.Series(PLAIN).astype("Int64"),
        pd.Categorical([f"u{i}" for i in PLAIN]),
        [2**70 + int(i) for i in PLAIN],
    ],
)
@quiet
def test_ids_are_integers_or_texts(groups):
    model = clone(BY_USER).set_params(random_state=0).fit(X, Y, groups=groups)
    assert np.array_equal(model.coef_, clone(model).fit(X, Y, groups=PLAIN).coef_)
    assert model.privacy_.n_samples == N_USERS


LARGE = [2**53, 2**53 + 1, 2**53 + 2]


@pytest.mark.parametrize(
    "ids",
    [
        LARGE,
        np.array(LARGE, dtype=np.uint64),
        pd.Series(LARGE, dtype="category"),
        [2**70, 2**70 + 1, -(2**70)],
        np.array(["1", "01", "1 "], dtype=object),
        pd.Series(["a", "A", "\u00e4"], dtype="string"),
    ],
)
def test_ids_do_not_merge(ids):
    users = Users.of(ids, 3)
    assert users.n_users == len(set(users.codes)) == 3


NO_IDS = [
    PLAIN.astype(float),
    [None, *PLAIN[1:]],
    ["1", *PLAIN[1:]],
    [True, *PLAIN[1:]],
    PLAIN > 3,
    PLAIN[:-1],
    PLAIN[:, None],
    np.ma.masked_array(PLAIN, PLAIN == 2),
    pd.Series(PLAIN).astype("Int64").where(PLAIN != 3),
    pd.Categorical(PLAIN.astype(float)),
    pd.Categorical(np.where(PLAIN == 3, None, PLAIN)),
    PLAIN.astype("datetime64[s]"),
    "users",
    7,
]


def test_what_is_no_id_is_refused_and_not_quoted(books):
    model = clone(BY_USER).set_params(ledger=books)
    for groups in NO_IDS:
        with pytest.raises(
            (ValueError, TypeError), match="all integers or all st"
        ) as e:
            model.fit(X, Y, groups=groups)
        assert not any(sign.isdigit() for sign in str(e.value))
    with pytest.raises(ValueError, match=r"groups=ids.*set_fit_request\(groups=True\)"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=r"privacy_unit='user'.*or step__groups"):
        clone(MODELS["logistic"]).fit(X, Y, groups=PLAIN)
    assert not books.spends()


def test_what_has_no_proof_is_refused_in_one_sentence():
    def refused(match, **params):
        with pytest.raises(ValueError, match=match) as told:
            model_of("logistic", **params).fit(X, Y, groups=PLAIN)
        return str(told.value)

    for unit in ("rating_value", "users", None):
        refused("'privacy_unit' parameter must be one of", privacy_unit=unit)
    named = r"can be done by \['nesterov', 'heavy_ball'\]"
    assert "Use solver='auto'" not in refused(named, delta=0, epsilon=1e3)
    # What users are given to part by part cuts no table of theirs.
    for key in sorted({*SOLVERS} - {*TAKES_USERS} | {"ftrl"}):
        refused(f"'solver'|'{key}'", solver=key)
    of_records = "privacy_unit='record'"
    hidden = {"release": "last"}
    refused(of_records, C=1.0, solver="noisy_gd", solver_params=hidden)
    batches = {"batch_size": 10}
    refused(of_records, delta=0, solver="nesterov", solver_params=batches)


# ------------------------------------------------------------------ records and ledgers


@quiet
@every_adjacency
def test_records_and_ledgers_are_of_users(adjacency, tmp_path):
    relation = {"replace_one": "replace_user", "zero_out": "zero_out_user"}[adjacency]
    facts = {"epsilon": 2, "delta": 1e-6, "adjacency": relation}
    books = BudgetLedger(tmp_path / "users.db", unit="user", **facts)
    model = model_of("logistic", adjacency=adjacency, ledger=books)
    record = model.fit(X, Y, groups=IDS).privacy_
    assert (record.adjacency, record.unit) == (relation, "user")
    assert record.n_samples == N_USERS != len(X)
    assert "number of users, but not the number of rows" in record.assumed_public
    assert "number of records" not in record.assumed_public
    assert PrivacyRecord.from_json(record.to_json()) == record
    assert len(books.spends()) == 1
    # Neither takes what is of the other unit.
    with pytest.raises(ValueError, match="unit must be 'record'"):
        model_of("logistic", privacy_unit="record", ledger=books).fit(X, Y)
    records = BudgetLedger(tmp_path / "records.db", epsilon=2, delta=1e-6)
    with pytest.raises(ValueError, match="unit must be 'user'"):
        model_of("logistic", ledger=records).fit(X, Y, groups=IDS)
    wrong = BudgetLedger(
        tmp_path / "wrong.db", epsilon=2, delta=1e-6, adjacency=adjacency, unit="user"
    )
    with pytest.raises(ValueError, match="accepts only fits with"):
        model_of("logistic", adjacency=adjacency, ledger=wrong).fit(X, Y, groups=IDS)


@pytest.mark.parametrize("solver", ["auto", "noisy_gd"])
def test_the_number_of_users_stands_in_every_rule(solver):
    """Rows that are repeated change no rule, warning or curve."""
    model = model_of("logistic", columns=Range(-1, 1), epsilon=3.0, solver=solver)
    users = users_of(np.random.default_rng(0), most_rows=1)
    said = []
    for table in (users, [own * 20 for own in users]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = fitted(clone(model), table)
        params = found.privacy_.solver_params
        told = [str(x.message) for x in caught]
        said.append((params, told, found.encoder_.n_knots_, found.privacy_.sensitivity))
    assert said[0] == said[1]
    forecast = model.forecast(N_USERS, D)
    assert (forecast.adjacency, forecast.n_records) == ("replace_user", N_USERS)
    of_records = clone(model).set_params(privacy_unit="record").forecast(N_USERS, D)
    assert forecast.solver_params == of_records.solver_params
    assert forecast.noise_to_signal == of_records.noise_to_signal
