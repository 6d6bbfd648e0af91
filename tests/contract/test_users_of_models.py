"""Boosted trees and networks of users: records, ledgers, rules and refusals.

What is told of a user is audited in ``tests/audit/test_replay.py``.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetLedger,
)
from skdp.exceptions import ConstantModelWarning, Refused
from skdp.model_selection import UserKFold
from skdp.privacy.accounting._relations import OF_USERS
from tests.audit.models import MODELS as ALL_MODELS
from tests.linear_model.test_users import (
    ADJACENCIES,
    N_USERS,
    D,
    table_of,
    users_of,
)

MODELS = {
    name: model
    for name, model in ALL_MODELS.items()
    if name.startswith(("trees", "network", "filters"))
}
every_model = pytest.mark.parametrize("name", MODELS)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
quiet = pytest.mark.filterwarnings("ignore")
X, Y, IDS = table_of(users_of(np.random.default_rng(0)))


def model_of(name, **params):
    return clone(MODELS[name]).set_params(**{"privacy_unit": "user", **params})


def fitted(model, users):
    rows, y, ids = table_of(users)
    return model.fit(rows, y, groups=ids)


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
    assert "number of users, but not the number of rows" in record.assumed_public
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
        # A released constant is said of the noise, not of the table.
        kinds = [x for x in caught if x.category is not ConstantModelWarning]
        messages = [str(x.message) for x in kinds]
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
    with pytest.raises(TypeError, match="all integers or all strings"):
        model.fit(X, Y, groups=np.asarray(IDS, dtype=float))
    with pytest.raises(ValueError, match="neither directly nor by"):
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
    auto = model_of("network", solver="auto", solver_params=None).forecast(1_000_000, D)
    assert (auto.solver, auto.why_solver) == (
        "noisy_gd",
        "with users, rows are not sampled",
    )


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
