"""Models of users: one record each, ids that are asked for or refused, and what leaks.

Neighbours are fitted through the whole estimator: one transcript, replayed on a table
in which one user has other rows, or none (`skdp.audit._exact`).
"""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPRobustClassifier,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
    ParquetSource,
    privacy_report,
)
from skdp import _fit as fit_module
from skdp._users import Users
from skdp.audit._exact import replayed, verdict
from skdp.columns import Range
from skdp.exceptions import PublicLabelsWarning
from skdp.io._table import Table
from skdp.linear_model import _base as base_module
from skdp.model_selection import UserKFold
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
every_model = pytest.mark.parametrize("name", MODELS)
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
@every_adjacency
@every_model
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


@quiet
@every_adjacency
@pytest.mark.parametrize("name", ["logistic", "regression"])
def test_what_rows_of_users_round_to_costs_columns_hardly_any_noise(name, adjacency):
    X, y, ids = table_of(users_of(np.random.default_rng(0), 400, most_rows=1))
    facts = {"adjacency": adjacency, "random_state": 0, "columns": Range(-1, 1)}
    facts |= {"epsilon": 40.0}
    of_users = model_of(name, **facts).fit(X, y, groups=ids).privacy_
    of_rows = model_of(name, **facts, privacy_unit="record").fit(X, y).privacy_
    assert of_users.sensitivity == of_rows.sensitivity
    assert 1 < of_users.noise_scale / of_rows.noise_scale < 1.001


@quiet
@pytest.mark.parametrize("columns", [None, Range(-1, 1)])
@every_model
def test_no_order_of_rows_changes_a_bit(name, columns):
    users = users_of(np.random.default_rng(0))
    model = model_of(name, epsilon=10.0, random_state=0, columns=columns)
    in_order = numbers(fitted(model, users))
    n_rows = sum(map(len, users))
    order = np.random.default_rng(1).permutation(n_rows)
    assert np.array_equal(numbers(fitted(model, users, order)), in_order)


@quiet
@pytest.mark.parametrize("columns", [None, Range(-1, 1)])
def test_dense_sparse_and_compiled_rows_are_the_same(columns, monkeypatch):
    X, y, ids = table_of(users_of(np.random.default_rng(0)))
    model = model_of("logistic", epsilon=10.0, random_state=0, columns=columns)
    plain = numbers(model.fit(X, y, groups=ids))
    monkeypatch.setattr("skdp.sums._gradient_sum._WORTH_COMPILING", 1)
    assert np.array_equal(numbers(model.fit(X, y, groups=ids)), plain)
    if columns is None:
        # Sparse rows are on a coarser grid before they are centred.
        sparse = numbers(model.fit(csr_array(X), y, groups=ids))
        assert sparse == pytest.approx(plain, abs=1e-3 * np.abs(plain).max())


@quiet
def test_a_user_counts_once_however_often_the_rows_are_there():
    users = users_of(np.random.default_rng(0), 400)
    often = [own * (1 + i % 5) for i, own in enumerate(users)]
    model = model_of("logistic", epsilon=100.0, random_state=0)
    once, repeated = numbers(fitted(model, users)), numbers(fitted(model, often))
    assert np.abs(once - repeated).max() < 1e-3 * np.abs(once).max()


# --------------------------------------------------- neighbours, through the estimator


# ---------------------------------------------------------------- intervals of adassp


def held(unit, n_fits=60, n_users=1500):
    """Share of intervals that hold, of each coefficient; users' rows are all alike."""
    true, found = np.array([0.3, -0.2, 0.1]), np.zeros(3)
    ids = np.repeat(np.arange(n_users), 4)
    for seed in range(n_fits):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-0.7, 0.7, (n_users, 2))[ids]
        y = X @ true[:2] + true[2] + rng.uniform(-0.4, 0.4, n_users)[ids]
        model = DPLinearRegression(
            20.0, target_bounds=(-1.2, 1.2), privacy_unit=unit, solver="adassp",
            solver_params={"squares_weight": 0.5}, random_state=seed,
        )  # fmt: skip
        groups = ids if unit == "user" else None
        ends = model.fit(X, y, groups=groups).estimates_.conf_int().to_numpy()
        found += (ends[:, 0] < true) & (true < ends[:, 1])
    return found / n_fits


@quiet
def test_intervals_of_users_hold_whatever_their_rows_have_in_common():
    """Fewer than 40 of 60 at 95 % have a probability below 1e-10."""
    assert held("user").min() >= 40 / 60
    # Broken twin: as many records as rows, whose errors are taken to be their own.
    assert held("record", n_fits=30).mean() < 0.75


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


@quiet
@every_model
def test_without_noise_a_user_counts_once_however_often_the_rows_are_there(name):
    users = users_of(np.random.default_rng(0))
    often = [own * (1 + u % 5) for u, own in enumerate(users)]
    once, again = (
        fitted(model_of(name, epsilon=math.inf), each) for each in (users, often)
    )
    assert numbers(again) == pytest.approx(numbers(once), abs=1e-4)


def instead_of(users, rng, adjacency):
    """The last user with other rows, many, few, far out or none."""
    far = [(np.full(D, 1e6) * sign, y) for sign in (1, -1) for y in (0.0, 1.0)]
    others = [[], far[:1], far[:1] * 5, far[1:2] * 3, far, users_of(rng, 1)[0]]
    others = others[:1] if adjacency == "zero_out" else others
    return [[*users[:-1], other] for other in others]


@quiet
@pytest.mark.parametrize("columns", [None, Range(-1, 1)])
@every_adjacency
@pytest.mark.parametrize("name", [name for name in MODELS if name != "robust"])
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
@every_adjacency
@pytest.mark.parametrize("name", WEIGHTED)
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
@every_adjacency
@pytest.mark.parametrize("columns", [None, Range(-1, 1)])
def test_no_neighbour_whose_sum_is_clipped_tells_more(adjacency, columns):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    users[-1] = [(np.full(D, 0.7), 1.0)] * 3
    facts = {"solver": "noisy_gd", "solver_params": {"user_clip": 0.5}}
    for other in instead_of(users, rng, adjacency):
        found, _ = told("logistic", (users, other), adjacency, columns, **facts)
        assert found.largest <= 1 + ROUNDING


@quiet
@every_adjacency
def test_no_neighbour_of_a_robust_model_tells_more(adjacency):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    for other in instead_of(users, rng, adjacency):
        found, _ = told("robust", (users, other), adjacency)
        assert found.largest <= 1 + ROUNDING


@quiet
@pytest.mark.parametrize("columns", [None, Range(-1, 1)])
@every_adjacency
def test_twin_whose_rows_count_as_records_is_found(adjacency, columns, monkeypatch):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    users[-1] = [(np.full(D, 0.7), 0.0)] * 4
    pair = (users, instead_of(users, rng, adjacency)[0])
    assert told("logistic", pair, adjacency, columns)[0].largest <= 1
    ones = property(lambda own: np.ones(len(own.codes)))
    monkeypatch.setattr(Users, "shares", ones)
    assert told("logistic", pair, adjacency, columns)[0].largest > 1.5


@quiet
@every_adjacency
def test_what_is_printed_and_warned_of_is_the_same_for_neighbours(adjacency, capsys):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    said = []
    for table in (users, *instead_of(users, rng, adjacency)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted(model_of("logistic", adjacency=adjacency, verbose=True), table)
        said.append((capsys.readouterr().out, [str(x.message) for x in caught]))
    assert all(one == said[0] for one in said)


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
        PLAIN,
        PLAIN.astype(np.int32),
        list(PLAIN),
        [f"user {i}" for i in PLAIN],
        pd.Series(PLAIN).astype("Int64"),
        pd.Series([f"u{i}" for i in PLAIN]),
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
        np.array(LARGE),
        np.array(LARGE, dtype=np.uint64),
        pd.Series(LARGE, dtype="Int64"),
        pd.Series(LARGE, dtype="category"),
        [2**70, 2**70 + 1, -(2**70)],
        ["1", "01", "1 "],
        np.array(["1", "01", "1 "], dtype=object),
        pd.Series(["a", "A", "\u00e4"], dtype="string"),
    ],
)
def test_ids_do_not_merge(ids):
    users = Users.of(ids, 3)
    assert users.n_users == len(set(users.codes)) == 3


def test_broken_twin_whose_ids_merge_is_found():
    merged = np.asarray(LARGE, dtype=float)  # which is why floats are refused
    with pytest.raises(TypeError):
        Users.of(merged, 3)
    assert len(np.unique(merged)) < 3


@pytest.mark.parametrize(
    "groups",
    [
        PLAIN.astype(float),
        np.where(PLAIN == 3, np.nan, PLAIN),
        [None, *PLAIN[1:]],
        ["1", *PLAIN[1:]],
        [True, *PLAIN[1:]],
        PLAIN > 3,
        PLAIN[:-1],
        PLAIN[:, None],
        np.ma.masked_array(PLAIN, PLAIN == 2),
        pd.Series(PLAIN).astype("Int64").where(PLAIN != 3),
        pd.Categorical(np.where(PLAIN == 3, None, PLAIN)),
        pd.Categorical(PLAIN.astype(float)),
        PLAIN.astype("datetime64[s]"),
        "users",
        7,
    ],
)
def test_what_is_no_id_is_refused_and_not_quoted(groups, books):
    model = clone(BY_USER).set_params(ledger=books)
    with pytest.raises((ValueError, TypeError), match="all integers or all texts") as e:
        model.fit(X, Y, groups=groups)
    assert not any(sign.isdigit() for sign in str(e.value))
    assert not books.spends()


@every_model
def test_users_without_ids_and_ids_without_users_are_refused(name, tmp_path):
    needed = r"groups=ids.*step__groups.*set_fit_request\(groups=True\)"
    with pytest.raises(ValueError, match=needed):
        model_of(name).fit(X, Y)
    refused = r"privacy_unit='user'.*set_fit_request\(groups=True\), no step__groups"
    with pytest.raises(ValueError, match=refused):
        clone(MODELS[name]).fit(X, Y, groups=PLAIN)


def test_what_has_no_proof_is_refused_in_one_sentence(tmp_path):
    for unit in ("rating_value", "users", None):
        with pytest.raises(ValueError, match="'privacy_unit' parameter must be one of"):
            model_of("logistic", privacy_unit=unit).fit(X, Y, groups=PLAIN)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    frame.to_parquet(tmp_path / "rows.parquet")
    source = ParquetSource(tmp_path / "rows.parquet", target="y", n_samples=len(X))
    with pytest.raises(ValueError, match="must be left out with a source"):
        model_of("logistic").fit(source, groups=PLAIN)
    named = r"can be done by \['nesterov', 'heavy_ball'\]"
    with pytest.raises(ValueError, match=named) as told:
        model_of("logistic", delta=0, epsilon=1e3).fit(X, Y, groups=PLAIN)
    assert "Use solver='auto'" not in str(told.value)
    # What users are given to part by part cuts no table of theirs.
    others = sorted({*SOLVERS} - {*TAKES_USERS} | {"ftrl"})
    for key in others:
        with pytest.raises(ValueError, match=f"'solver'|'{key}'"):
            model_of("logistic", solver=key).fit(X, Y, groups=PLAIN)
    hidden = {"release": "last"}
    with pytest.raises(ValueError, match="privacy_unit='record'"):
        model_of("logistic", C=1.0, solver="noisy_gd", solver_params=hidden).fit(
            X, Y, groups=PLAIN
        )
    batches = {"batch_size": 10}
    with pytest.raises(ValueError, match="privacy_unit='record'"):
        model_of("logistic", delta=0, solver="nesterov", solver_params=batches).fit(
            X, Y, groups=PLAIN
        )


@pytest.mark.parametrize(
    ("key", "part"), [("two_stage", "refit"), ("knowledge_transfer", "teacher")]
)
def test_a_pure_part_of_a_sparse_model_of_users_is_named_and_fits(key, part):
    model = DPSparseLogisticRegression(
        1.0,
        delta=0,
        classes=[0, 1],
        privacy_unit="user",
        n_nonzero_coefs=2,
        solver=key,
        random_state=0,
    )
    named = rf"solver_params={{'{part}': key}} .*'nesterov', 'heavy_ball'"
    with pytest.raises(ValueError, match=named):
        model.fit(X, Y, groups=PLAIN)
    for pure in ("heavy_ball", "nesterov"):
        model.set_params(solver_params={part: pure}).fit(X, Y, groups=PLAIN)
        assert model.privacy_.delta == 0


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
    assert "number of users, not that of their rows" in record.assumed_public
    assert "number of records" not in record.assumed_public
    assert "user" in record.statement()
    assert "user" in record.risk
    assert PrivacyRecord.from_json(record.to_json()) == record
    assert str(len(X)) not in json.dumps(
        {k: v for k, v in record.to_dict().items() if k not in ("event", "ledger")}
        | {"solver_params": "", "noise_scale": "", "noise_multiplier": ""}
    )
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
    with pytest.raises(ValueError, match="keeps books under"):
        model_of("logistic", adjacency=adjacency, ledger=wrong).fit(X, Y, groups=IDS)


def test_the_number_of_users_stands_in_every_rule():
    """Rows that are repeated change no rule; strength, steps and warnings are those of
    so many records."""
    model = model_of("logistic", columns=Range(-1, 1), epsilon=3.0)
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
    assert forecast.adjacency == "replace_user"
    assert f"{forecast.n_records:,}" == str(N_USERS)


@quiet
def test_a_pipeline_of_both_units_has_no_total():
    mixed = make_pipeline(DPStandardScaler(bounds=(-1, 1)), clone(BY_USER))
    report = privacy_report(mixed)
    assert math.isinf(report.epsilon)
    assert "replace_one and replace_user, which cannot be added up" in report.reason
    alone = privacy_report(make_pipeline(BoundedScaler((-1, 1)), clone(BY_USER)))
    assert (alone.epsilon, alone.adjacency) == (1.0, "replace_user")


# ---------------------------------------------------- scikit-learn's tools: the gate


def in_search(model, X, y, **ids):
    return [GridSearchCV(model, {}, cv=UserKFold(3)).fit(X, y, **ids).best_estimator_]


def across_folds(model, X, y, **ids):
    given = {"params": ids} if routes() else ids
    facts = {"cv": UserKFold(3), "return_estimator": True}
    return cross_validate(model, X, y, **given, **facts)["estimator"]


def by_scores(model, X, y, **ids):
    given = {"params": ids} if routes() else ids
    return cross_val_score(model, X, y, cv=UserKFold(3), **given)


def by_predictions(model, X, y, **ids):
    given = {"params": ids} if routes() else ids
    return cross_val_predict(model, X, y, cv=UserKFold(3), **given)


def in_calibration(model, X, y, **ids):
    found = CalibratedClassifierCV(model, cv=2).fit(X, y, **ids)
    return [one.estimator for one in found.calibrated_classifiers_]


TOOLS = {
    "grid": in_search,
    "folds": across_folds,
    "scores": by_scores,
    "predictions": by_predictions,
    "calibration": in_calibration,
    "bagging": lambda m, X, y, **i: BaggingClassifier(m, 2).fit(X, y, **i).estimators_,
    "voting": lambda m, X, y, **i: (
        VotingClassifier([("a", m)]).fit(X, y, **i).estimators_
    ),
    "stacking": lambda m, X, y, **i: (
        StackingClassifier([("a", m)]).fit(X, y, **i).estimators_
    ),
    "one": lambda m, X, y, **i: OneVsRestClassifier(m).fit(X, y, **i).estimators_,
    "rfe": lambda m, X, y, **i: [RFE(m).fit(X, y, **i).estimator_],
    "select": lambda m, X, y, **i: [SelectFromModel(m).fit(X, y, **i).estimator_],
}


def routes():
    return sklearn.get_config()["enable_metadata_routing"]


def fits_within(tool, model, monkeypatch, **ids):
    """Units of all fits that a tool commits; what it raises is told by its type."""
    units = []
    kept = fit_module._statement

    def statement(model, *facts):
        made = kept(model, *facts)
        if isinstance(model, base_module.DPEstimator):
            units.append((made.unit, made.adjacency))
        return made

    with monkeypatch.context() as patch:
        patch.setattr(fit_module, "_statement", statement)
        try:
            TOOLS[tool](model, X, Y, **ids)
        except (ValueError, TypeError):
            return {*units, "error"}
    return set(units)


USER = {("user", "replace_user")}


@quiet
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_give_user_level_or_an_error(tool, monkeypatch):
    model = clone(BY_USER).set_params(classes=[0, 1])
    piped = make_pipeline(BoundedScaler((-1, 1)), clone(model))
    for routing in (False, True):
        with sklearn.config_context(enable_metadata_routing=routing):
            for one in (clone(model), clone(piped)):
                # No ids, or ids that nobody asked for.
                assert fits_within(tool, one, monkeypatch) == {"error"}
                found = fits_within(tool, one, monkeypatch, groups=PLAIN)
                assert found in ({"error"}, USER)
    with sklearn.config_context(enable_metadata_routing=True):
        for wanted in (True, False):
            own = clone(model).set_fit_request(groups=wanted)
            piped = make_pipeline(BoundedScaler((-1, 1)), clone(own))
            found = [
                fits_within(tool, x, monkeypatch, groups=PLAIN) for x in (own, piped)
            ]
            if not wanted:
                assert found == [{"error"}, {"error"}]
            elif tool != "stacking":  # its own last model takes no ids
                assert found[0] == USER
            assert all(one <= {*USER, "error"} for one in found)


@quiet
@pytest.mark.parametrize("tool", sorted({*TOOLS} - {"rfe", "stacking"}))
def test_tools_hand_on_the_ids_of_the_very_rows(tool, monkeypatch):
    """Ids of other rows would be a guarantee for nobody: here each row has its own."""
    rows = np.column_stack([X[:, 0], PLAIN / 100])
    seen = []
    find = Table.users

    def found(table, model, budget):
        seen.append(np.array_equal(np.rint(table.X[:, -1] * 100), table.groups))
        return find(table, model, budget)

    monkeypatch.setattr(Table, "users", found)
    with sklearn.config_context(enable_metadata_routing=True):
        own = clone(BY_USER).set_fit_request(groups=True)
        TOOLS[tool](own, rows, Y, groups=PLAIN)
    assert seen
    assert all(seen)


@quiet
def test_records_with_ids_that_are_routed_are_refused(monkeypatch):
    with sklearn.config_context(enable_metadata_routing=True):
        own = clone(MODELS["logistic"]).set_fit_request(groups=True)
        for tool in TOOLS:
            assert fits_within(tool, own, monkeypatch, groups=PLAIN) == {"error"}


@quiet
def test_pipelines_hand_ids_on():
    model = make_pipeline(BoundedScaler((-1, 1)), clone(BY_USER))
    record = model.fit(X, Y, dplogisticregression__groups=PLAIN)[-1].privacy_
    assert (record.unit, record.n_samples) == ("user", N_USERS)


@quiet
def test_searches_of_records_do_not_take_users():
    for adjacency in ("replace_one", "replace_user"):
        search = DPGridSearchCV(
            clone(BY_USER), {"C": [0.1, 1.0]}, epsilon=2, adjacency=adjacency
        )
        with pytest.raises(ValueError, match="Set privacy_unit='user'"):
            search.fit(X, Y)


def bagged(seen, monkeypatch, **facts):
    """Members of a bag, and which rows each of them was given."""
    find = Table.users

    def found(table, model, budget):
        seen.append(np.asarray(table.groups))
        return find(table, model, budget)

    with monkeypatch.context() as patch:
        patch.setattr(Table, "users", found)
        with sklearn.config_context(enable_metadata_routing=True):
            own = clone(BY_USER).set_fit_request(groups=True)
            own.set_params(ledger=facts.pop("ledger", None))
            bag = BaggingClassifier(own, 3, **facts).fit(X, Y, groups=PLAIN)
    return bag.estimators_


@quiet
def test_members_of_a_bag_say_that_they_are_not_private(books, monkeypatch):
    """What holds today: a bag seeds its members, so that no ledger takes them."""
    seen = []
    members = bagged(seen, monkeypatch)
    assert all(member.random_state is not None for member in members)
    assert not any(member.privacy_.is_private for member in members)
    assert {member.privacy_.unit for member in members} == {"user"}
    # A user may be in no sample: who was drawn follows from the number of all rows.
    assert min(len(np.unique(ids)) for ids in seen) < N_USERS
    with pytest.raises(ValueError, match="random_state"):
        bagged([], monkeypatch, ledger=books)
    assert books.spends() == []
    # Without samples every member sees everybody, and is seeded all the same.
    seen.clear()
    members = bagged(seen, monkeypatch, bootstrap=False, max_samples=1.0)
    assert all(np.array_equal(np.sort(ids), np.sort(PLAIN)) for ids in seen)
    assert not any(member.privacy_.is_private for member in members)


def test_folds_of_users_keep_a_user_together_whatever_others_do():
    rng = np.random.default_rng(0)
    cv = UserKFold(4, random_state=0)

    def folds(groups):
        found = {}
        for k, (_, test) in enumerate(
            cv.split(np.zeros((len(groups), 1)), None, groups)
        ):
            for user in np.asarray(groups)[test]:
                assert found.setdefault(user, k) == k
        return found

    groups = rng.integers(0, 50, 300)
    base = folds(groups)
    assert len(set(base.values())) == 4
    others = folds(np.concatenate([rng.integers(100, 150, 77), groups[::-1][:100]]))
    assert all(base[user] == fold for user, fold in others.items() if user in base)


@quiet
def test_labels_taken_from_y_are_said_to_be_public():
    with pytest.warns(PublicLabelsWarning):
        DPLogisticRegression(privacy_unit="user").fit(X, Y, groups=IDS)
