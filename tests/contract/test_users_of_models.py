"""Boosted trees and networks of users, through whole estimators; what linear ones hold.

Neighbours are fitted by the real code: one transcript, replayed on a table in which one
user has other rows, or none (`skdp.audit._exact`).
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPMLPClassifier,
    DPMLPRegressor,
    ParquetSource,
)
from skdp._users import Users
from skdp.audit._exact import replayed, verdict
from skdp.columns import Range
from skdp.exceptions import Refused
from skdp.model_selection import UserKFold
from skdp.neural_network import Convolution
from skdp.privacy.accounting._relations import OF_USERS
from skdp.privacy.release._door import audited_by
from tests.linear_model.test_users import (
    ADJACENCIES,
    N_USERS,
    D,
    instead_of,
    table_of,
    users_of,
)

ROUNDING = 1e-9
TREES = {
    "columns": Range(-1, 1),
    "solver": "newton_boosting",
    "n_estimators": 6,
    "max_depth": 3,
    "learning_rate": 0.3,
}
# All lines of a plan, and rules of so few users.
LINEAR = {"linear_share": 0.3, "counts_share": 0.2, "gains_share": 0.1}
TARGETS = {"targets_share": 0.2, "gains_share": 0.1}
BOUNDS = {"target_bounds": (0, 1)}
MODELS = {
    "trees": DPGradientBoostingClassifier(
        classes=[0, 1], **TREES, solver_params=LINEAR
    ),
    "trees of weighted labels": DPGradientBoostingClassifier(
        classes=[0, 1, 2],
        class_weight={0: 1, 1: 30, 2: 3},
        **TREES,
        solver_params=LINEAR,
    ),
    "trees of numbers": DPGradientBoostingRegressor(
        **BOUNDS, **TREES, solver_params=LINEAR | TARGETS
    ),
    "trees of counts": DPGradientBoostingRegressor(
        **BOUNDS, loss="poisson", **TREES, solver_params=TARGETS
    ),
    "trees of quantiles": DPGradientBoostingRegressor(
        **BOUNDS, loss="quantile", quantile=0.7, **TREES, solver_params=TARGETS
    ),
    "network": DPMLPClassifier(classes=[0, 1], hidden_layer_sizes=4),
    "network of columns": DPMLPClassifier(
        classes=[0, 1, 2],
        class_weight={1: 30},
        columns=Range(-1, 1),
        hidden_layer_sizes=4,
    ),
    "network of numbers": DPMLPRegressor(**BOUNDS, hidden_layer_sizes=4),
    "filters": DPMLPClassifier(
        classes=[0, 1],
        image_shape=(1, 3),
        convolutions=[Convolution(2, 1)],
        hidden_layer_sizes=(),
    ),
}
every_model = pytest.mark.parametrize("name", MODELS)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
quiet = pytest.mark.filterwarnings("ignore")
X, Y, IDS = table_of(users_of(np.random.default_rng(0)))


def model_of(name, **params):
    return clone(MODELS[name]).set_params(**{"privacy_unit": "user", **params})


def fitted(model, users, order=None):
    rows, y, ids = table_of(users, order)
    return model.fit(rows, y, groups=ids)


def told_by(model):
    """Everything that a model tells, as bytes, and its record apart."""
    if isinstance(model, (DPMLPClassifier, DPMLPRegressor)):
        parts = [*model.coefs_, *model.intercepts_]
        return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    found = model._model.boosted
    parts = [found.values, found.start, found.deviations, found.trees.cut]
    parts += [] if found.curves is None else found.curves.tables
    return b"".join(part.tobytes() for part in parts) + str(found.shrinkage).encode()


# ------------------------------------------------------------- users count as records


@quiet
@every_adjacency
@every_model
def test_users_of_one_row_are_records(name, adjacency):
    """Networks to the last bit; of trees rounding is charged for a thousand rows."""
    rows, y, ids = table_of(users_of(np.random.default_rng(0), 400, most_rows=1))
    facts = {"adjacency": adjacency, "random_state": 0}
    is_network = "network" in name or name == "filters"
    solver = {"solver": "noisy_gd"} if is_network else {}
    of_users = model_of(name, **facts, **solver).fit(rows, y, groups=ids)
    of_rows = model_of(name, **facts, **solver, privacy_unit="record").fit(rows, y)
    one, other = of_users.privacy_, of_rows.privacy_
    assert one.sensitivity == other.sensitivity
    assert one.solver_params == other.solver_params
    if is_network:
        assert told_by(of_users) == told_by(of_rows)
    assert 1 <= one.noise_scale / other.noise_scale < 1.001


@quiet
@every_model
def test_no_order_of_rows_changes_a_bit(name):
    users = users_of(np.random.default_rng(0))
    model = model_of(name, epsilon=10.0, random_state=0)
    in_order = told_by(fitted(model, users))
    order = np.random.default_rng(1).permutation(sum(map(len, users)))
    assert told_by(fitted(model, users, order)) == in_order


@quiet
@every_model
def test_threads_and_blocks_change_no_bit(name, monkeypatch):
    users = users_of(np.random.default_rng(0))
    model = model_of(name, epsilon=10.0, random_state=0)
    plain = told_by(fitted(model, users))
    monkeypatch.setattr("skdp._row_threads._LEAST_ROWS", 20)
    monkeypatch.setattr("skdp.tables._memory._MAX_ROWS", 16)
    monkeypatch.setattr("skdp.tables._memory._MIN_ROWS", 16)
    monkeypatch.setattr("skdp.sums._network._ROWS", 16)
    assert told_by(fitted(model, users)) == plain


# --------------------------------------------------- neighbours, through the estimator


def told(name, pair, adjacency, **params):
    """What a transcript of whole fits tells apart; the public parts are compared."""
    models = []

    def run(users, noise):
        with audited_by(noise):
            model = model_of(name, adjacency=adjacency, epsilon=2.0, **params)
            models.append(fitted(model, users))

    first, second, _ = replayed(run, pair, 0)
    assert told_by(models[0]) == told_by(models[1])
    records = [model.privacy_.to_json() for model in models]
    assert records[0] == records[1], "what is public depends on a user"
    return verdict(first, second, models[0].privacy_.event)


@quiet
@every_adjacency
@every_model
def test_no_neighbour_tells_more_than_is_charged(name, adjacency):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    users[20] = [(np.full(D, 0.7), 1.0)] * 3 + [(np.full(D, -0.7), 0.0)]
    others = [other[-1] for other in instead_of(users, rng, adjacency)]
    if adjacency == "replace_one":
        others.append(users_of(rng, 1, most_rows=1500)[0])
    for own in others:
        # In the midst of the table, so that all rows behind move.
        other = [*users[:20], own, *users[21:]]
        assert told(name, (users, other), adjacency).largest <= 1 + ROUNDING


@quiet
@every_adjacency
@every_model
def test_twin_whose_rows_count_as_records_is_found(name, adjacency, monkeypatch):
    users = users_of(np.random.default_rng(3))
    # A label whose weight is the largest.
    users[-1] = [(np.full(D, 0.7), 1.0)] * 40
    pair = (users, [*users[:-1], []])
    assert told(name, pair, adjacency).largest <= 1 + ROUNDING
    ones = property(lambda own: np.ones(len(own.codes)))
    monkeypatch.setattr(Users, "shares", ones)
    assert told(name, pair, adjacency).largest > 1.5


@quiet
@every_adjacency
@pytest.mark.parametrize("name", ["trees", "network"])
def test_what_is_printed_and_warned_of_is_the_same(name, adjacency, capsys):
    rng = np.random.default_rng(3)
    users = users_of(rng)
    said = []
    for table in (users, *instead_of(users, rng, adjacency)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted(model_of(name, adjacency=adjacency, verbose=True), table)
        said.append((capsys.readouterr().out, [str(x.message) for x in caught]))
    assert all(one == said[0] for one in said)


# ----------------------------------------------------------------- records and refusals


@quiet
@every_adjacency
@every_model
def test_records_and_ledgers_are_of_users(name, adjacency, tmp_path):
    relation = OF_USERS[ADJACENCIES.index(adjacency)]
    facts = {"epsilon": 2, "delta": 1e-6, "adjacency": relation}
    books = BudgetLedger(tmp_path / "users.db", unit="user", **facts)
    model = model_of(name, adjacency=adjacency, ledger=books)
    record = model.fit(X, Y, groups=IDS).privacy_
    assert (record.adjacency, record.unit) == (relation, "user")
    assert record.n_samples == N_USERS != len(X)
    assert "number of users, not that of their rows" in record.assumed_public
    assert "number of records" not in record.assumed_public
    assert len(books.spends()) == 1
    forecast = model_of(name, adjacency=adjacency).forecast(N_USERS, D)
    assert (forecast.adjacency, forecast.n_records) == (relation, N_USERS)


@every_model
def test_the_number_of_users_stands_in_every_rule(name):
    """Rows that are repeated change no rule, warning or step."""
    plain = {"solver": "auto", "solver_params": None}
    if "trees" in name:
        plain |= dict.fromkeys(("n_estimators", "max_depth", "learning_rate"))
    users = users_of(np.random.default_rng(0), most_rows=1)
    said = []
    for table in (users, [own * 20 for own in users]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = fitted(model_of(name, epsilon=9.0, **plain), table).privacy_
        messages = [str(x.message) for x in caught]
        said.append((found.solver_params, messages, found.sensitivity))
    assert said[0] == said[1]


@every_model
def test_users_without_ids_and_the_other_way_round_are_refused(name, tmp_path):
    books = BudgetLedger(
        tmp_path / "users.db", epsilon=9, delta=1e-4, adjacency="replace_user",
        unit="user",
    )  # fmt: skip
    model = model_of(name, ledger=books)
    with pytest.raises(ValueError, match=r"groups=ids.*set_fit_request"):
        model.fit(X, Y)
    with pytest.raises(TypeError, match="all integers or all texts"):
        model.fit(X, Y, groups=np.asarray(IDS, dtype=float))
    with pytest.raises(ValueError, match="no set_fit_request"):
        clone(MODELS[name]).fit(X, Y, groups=IDS)
    assert not books.spends()
    assert not hasattr(model, "privacy_")


@pytest.mark.parametrize("key", ["noisy_sgd", "noisy_adam"])
def test_samples_of_rows_are_refused(key):
    of_some = {"solver": key, "solver_params": {"batch_size": N_USERS - 1}}
    with pytest.raises(Refused, match="below the number of users"):
        model_of("network", **of_some).fit(X, Y, groups=IDS)
    # All of them are no sample, by rule too.
    for given in ({"batch_size": N_USERS}, {}):
        model = model_of("network", solver=key, solver_params=given)
        found = model.forecast(N_USERS, D)
        assert found.solver_params["batch_size"] == N_USERS
    of_many = model_of("network", solver=key).forecast(1_000_000, D)
    assert of_many.solver_params["batch_size"] == 1_000_000
    auto = model_of("network").forecast(1_000_000, D)
    assert (auto.solver, auto.why_solver) == (
        "noisy_gd",
        "with users, rows are not sampled",
    )


def test_a_source_without_ids_is_refused(tmp_path):
    frame = {name: X[:, i] for i, name in enumerate("abc")} | {"y": Y}

    pd.DataFrame(frame).to_parquet(tmp_path / "rows.parquet")
    source = ParquetSource(tmp_path / "rows.parquet", target="y", n_samples=len(X))
    for name in ("trees", "network of columns"):
        model = model_of(name, columns=dict.fromkeys("abc", (-1, 1)))
        with pytest.raises(ValueError, match=r"groups|source"):
            model.fit(source)


# ----------------------------------------------------------------- scikit-learn's tools


@quiet
@pytest.mark.parametrize("name", ["trees", "network"])
def test_tools_give_user_level_or_an_error(name):
    model, ids = model_of(name), np.asarray(IDS)
    piped = make_pipeline(BoundedScaler((-1, 1)), clone(model))
    step = type(model).__name__.lower()
    record = piped.fit(X, Y, **{f"{step}__groups": ids})[-1].privacy_
    assert (record.unit, record.n_samples) == ("user", N_USERS)
    for routing in (False, True):
        with (
            sklearn.config_context(enable_metadata_routing=routing),
            pytest.raises(ValueError, match=r"groups=ids|fits failed"),
        ):
            cross_val_score(model, X, Y, cv=3, error_score="raise", params={})
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(model).set_fit_request(groups=True)
        facts = {"cv": UserKFold(3), "params": {"groups": ids}}
        assert len(cross_val_score(asking, X, Y, **facts)) == 3
        search = GridSearchCV(asking, {}, cv=UserKFold(3)).fit(X, Y, groups=ids)
        assert search.best_estimator_.privacy_.unit == "user"
