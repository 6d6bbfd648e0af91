"""Bad input: a clear error without data, nothing spent, nothing lost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import BudgetLedger, DPMatrixFactorization
from skdp.model_selection._scorers import resolve_scoring
from tests.decomposition.ratings import N_ITEMS, N_USERS, low_rank_ratings

X, Y = low_rank_ratings()
SECRET = 123456789
BY_VALUE = {"privacy_unit": "rating_value", "rating_bounds": (1, 5)}
BY_USER = {"privacy_unit": "user", "n_users": N_USERS, "item_ids": range(N_ITEMS)}
PLAIN = {"epsilon": math.inf}
HAMSI = {"solver": "hamsi", **PLAIN}
BAD_PARAMS = [
    ({"privacy_unit": "replace_one"}, r"'privacy_unit'.*\['rating_value', 'user'\]"),
    ({"rating_bounds": None}, "'rating_bounds' .*lowest and the highest rating"),
    ({"delta": 0}, "delta"),
    ({"n_components": -1}, "'n_components'"),
    ({"alpha": -1.0, **PLAIN}, "'alpha'"),
    ({"alpha": 0.1}, "'alpha'.*private fit"),
    ({"alpha": 0.1, "solver": "vb", **PLAIN}, "'alpha'.*learns its penalties"),
    ({"biases": 1}, "'biases'"),
    ({"solver": "svd"}, r"'solver'.*als.*hamsi"),
    ({"solver": "sgd"}, "no private form"),
    ({"solver_params": {"n_steps": 3}}, "solver='auto'"),
    ({"partition": "strata"}, "solver='auto'.*'partition'"),
    ({"solver": "als", "partition": "strata", **PLAIN}, r"\['partition'\]"),
    ({"partition": "diagonal", **HAMSI}, "'partition'"),
    ({"schedule": "cyclic", **HAMSI}, "'schedule'"),
    ({"n_subsets": 10**6, **HAMSI}, "n_subsets"),
    ({"n_subsets": 2, "solver_params": {"n_subsets": 3}, **HAMSI}, "must not repeat"),
    ({"max_ratings": 5}, "'max_ratings'.*privacy_unit='user'"),
    ({**BY_USER, "max_ratings": 0}, "'max_ratings'"),
    ({**BY_USER, "biases": False}, "biases=True"),
    ({**BY_USER, "n_users": None}, "'n_users'.*must be declared"),
    ({**BY_USER, "item_ids": None}, "'item_ids'.*must be declared"),
    ({**BY_USER, "n_users": N_USERS - 1}, "'n_users'.*more users"),
    ({**BY_USER, "item_ids": range(N_ITEMS - 1)}, "among 'item_ids'"),
    (
        {**BY_USER, "solver": "als", "solver_params": {"first_share": 1.0}},
        "first_share",
    ),
    ({"solver": "als", "solver_params": {"residual_clip": 0.6}}, "residual_clip"),
    ({"item_ids": [0, 0]}, "one id twice"),
    ({"item_ids": []}, "Got none"),
    ({"item_ids": "abc"}, "an instance of str"),
    ({"n_jobs": 0}, "'n_jobs'"),
]


@pytest.mark.parametrize(("params", "message"), BAD_PARAMS)
def test_bad_parameters_are_refused_by_fit(params, message):
    model = DPMatrixFactorization(**BY_VALUE | params)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, Y)
    assert not hasattr(model, "privacy_")


def spoiled(value):
    return np.where(np.arange(len(Y)) == 3, value, Y)


BAD_INPUT = {
    "duplicate": (np.concatenate([X, X[:1]]), [*Y, 2.0], "Each pair .* once"),
    "NaN rating": (X, spoiled(np.nan), "finite"),
    "infinite rating": (X, spoiled(np.inf), "finite"),
    "text rating": (X, ["good"] * len(Y), "real numbers"),
    "no ratings": (X, None, "requires y"),
    "too few ratings": (X, Y[:-1], "inconsistent numbers of samples"),
    "one user": (X[:1], Y[:1], "at least two users"),
    "one item": (np.column_stack([np.arange(9), np.ones(9)]), Y[:9], "two items"),
    "three columns": (np.column_stack([X, X[:, 0]]), Y, "two columns"),
    "one dimension": (X[:, 0], Y, "two columns"),
    "missing id": ([[1, None], [2, 3]], [1.0, 2.0], "not missing"),
    "unhashable id": ([[1, [2]], [2, [3]]], [1.0, 2.0], "hashable"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_bad_input_costs_nothing(case, epsilon, tmp_path):
    pairs, ratings, message = BAD_INPUT[case]
    model = DPMatrixFactorization(epsilon, random_state=0, **BY_VALUE).fit(X, Y)
    facts = {"adjacency": "rating_value", "unit": "rating", "allow_nonprivate": True}
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=9.0, delta=1e-6, **facts)
    before = dict(vars(model.set_params(ledger=ledger)))
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(pairs, ratings)
    assert not ledger.spends()
    assert dict(vars(model)) == before


def test_messages_quote_no_id_and_no_rating():
    other = X.copy()
    other[5, 1] = SECRET
    twice = np.concatenate([X, [[1, SECRET], [1, SECRET]]])
    bad = [(other, Y, BY_USER), (twice, [*Y, 1, 2], {}), (X, spoiled(np.nan), {})]
    for pairs, ratings, params in bad:
        model = DPMatrixFactorization(**BY_VALUE | params)
        with pytest.raises((ValueError, TypeError)) as caught:
            model.fit(pairs, np.asarray(ratings) + SECRET)
        assert str(SECRET) not in str(caught.value)
        assert caught.value.__cause__ is None


def test_predict_refuses_ids_of_another_kind():
    model = DPMatrixFactorization(math.inf, random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="kind that fit got"):
        model.predict([["1", "2"]])
    with pytest.raises(ValueError, match="not missing"):
        model.predict([[1, None]])


def table(*rows):
    cells = np.empty((len(rows), 2), dtype=object)
    for row, (user, item) in enumerate(rows):
        cells[row] = user, item
    return cells


LARGE = 2**60


@pytest.mark.parametrize("user", ["b", LARGE + 1, True, 2.0])
def test_what_a_row_adds_to_a_score_does_not_depend_on_another_row(user):
    fitted = table(*((u, i) for u in (1, 2, 3, LARGE, LARGE + 1) for i in range(4)))
    model = DPMatrixFactorization(math.inf, rating_bounds=(1, 5), random_state=0)
    model.fit(fitted, np.resize([1.0, 2.0, 5.0], len(fitted)))
    scoring = resolve_scoring(None, model)
    others = [(user, row % 4) for row in range(15)]

    def added(row):
        return scoring.contributions(model, table(row, *others), np.full(16, 3.0))[1:]

    for first in (1, "a", 0.5, True, None):
        np.testing.assert_array_equal(added((first, 1)), added((user, 0)))
