"""Bad input: a clear error without data, nothing spent, nothing lost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

from skdp import BudgetLedger, DPGridSearchCV, DPMatrixFactorization
from skdp.decomposition._ratings import found_ids
from skdp.model_selection._scorers import resolve_scoring
from tests.decomposition.ratings import N_ITEMS, N_USERS, low_rank_ratings

X, Y = low_rank_ratings()
SECRET = 123456789


def changed(at, value):
    rows = X.copy()
    rows[at] = value
    return rows


BY_USER = {"privacy_unit": "user", "n_users": N_USERS, "item_ids": range(N_ITEMS)}
PLAIN = {"epsilon": math.inf}
BAD_PARAMS = [
    ({"privacy_unit": "replace_one"}, r"'privacy_unit'.*\['rating_value', 'user'\]"),
    ({"privacy_unit": "record"}, "'privacy_unit'"),
    ({"rating_bounds": None}, "'rating_bounds' .*lowest and the highest rating"),
    ({"rating_bounds": (5, 1)}, "'rating_bounds'.*first must be below"),
    ({"rating_bounds": (1, math.inf)}, "rating_bounds"),
    ({"delta": 0}, "delta"),
    ({"epsilon": 0}, "'epsilon'"),
    ({"n_components": -1}, "'n_components'"),
    ({"n_components": 2.5}, "'n_components'"),
    ({"alpha": -1.0, **PLAIN}, "'alpha'"),
    ({"alpha": 0.1}, "'alpha'.*private fit"),
    ({"alpha": 0.1, "solver": "vb", **PLAIN}, "'alpha'.*learns its penalties"),
    ({"biases": 1}, "'biases'"),
    ({"solver": "svd"}, r"'solver'.*als.*hamsi"),
    ({"solver": "sgd"}, "no private form"),
    ({"solver": "lbfgs"}, "no private form"),
    ({"solver_params": {"n_steps": 3}}, "solver='auto'"),
    ({"partition": "strata"}, "solver='auto'.*'partition'"),
    ({"solver": "als", "partition": "strata", **PLAIN}, r"\['partition'\]"),
    ({"solver": "hamsi", "partition": "diagonal", **PLAIN}, "'partition'"),
    ({"solver": "hamsi", "schedule": "cyclic", **PLAIN}, "'schedule'"),
    ({"solver": "hamsi", "n_subsets": 0, **PLAIN}, "'n_subsets'"),
    ({"solver": "hamsi", "n_subsets": 10**6, **PLAIN}, "n_subsets"),
    (
        {
            "solver": "hamsi",
            "n_subsets": 2,
            "solver_params": {"n_subsets": 3},
            **PLAIN,
        },
        "must not repeat",
    ),
    ({"max_ratings": 5}, "'max_ratings'.*privacy_unit='user'"),
    ({**BY_USER, "max_ratings": 0}, "'max_ratings'"),
    ({**BY_USER, "n_users": None}, "'n_users'.*must be declared"),
    ({**BY_USER, "item_ids": None}, "'item_ids'.*must be declared"),
    ({**BY_USER, "n_users": N_USERS - 1}, "'n_users'.*more users"),
    ({**BY_USER, "item_ids": range(N_ITEMS - 1)}, "among 'item_ids'"),
    ({"item_ids": [0, 0]}, "one id twice"),
    ({"item_ids": []}, "Got none"),
    ({"item_ids": "abc"}, "an instance of str"),
    ({"n_jobs": 0}, "'n_jobs'"),
    ({"random_state": np.random.RandomState(0)}, "'random_state'"),
    ({"ledger": "books.db"}, "'ledger'"),
]


@pytest.mark.parametrize(("params", "message"), BAD_PARAMS)
def test_bad_parameters_are_refused_by_fit(params, message):
    model = DPMatrixFactorization(**{"rating_bounds": (1, 5), **params})
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, Y)
    assert not hasattr(model, "privacy_")


TWICE = np.concatenate([X, X[:1]])
BAD_INPUT = {
    "duplicate pair": (TWICE, np.append(Y, 2.0), "Each pair .* once"),
    "NaN rating": (X, np.where(np.arange(len(Y)) == 3, np.nan, Y), "finite"),
    "infinite rating": (X, np.where(np.arange(len(Y)) == 3, np.inf, Y), "finite"),
    "text rating": (X, ["good"] * len(Y), "real numbers"),
    "no ratings": (X, None, "requires y"),
    "too few ratings": (X, Y[:-1], "inconsistent numbers of samples"),
    "one user": (changed((slice(None), 0), 1)[:1], Y[:1], "at least two users"),
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
    model = DPMatrixFactorization(epsilon, rating_bounds=(1, 5), random_state=0)
    model.fit(X, Y)
    before = model.predict(X)
    ledger = BudgetLedger(
        tmp_path / "books.db",
        epsilon=9.0,
        delta=1e-6,
        adjacency="rating_value",
        unit="rating",
        allow_nonprivate=True,
    )
    with pytest.raises((ValueError, TypeError), match=message):
        model.set_params(ledger=ledger).fit(pairs, ratings)
    assert not ledger.spends()
    np.testing.assert_array_equal(model.predict(X), before)


def test_messages_quote_no_id_and_no_rating():
    bad = [
        (changed((5, 1), SECRET), Y, {**BY_USER}),
        (np.concatenate([X, [[1, SECRET], [1, SECRET]]]), np.append(Y, [1, 2]), {}),
        (X, np.where(np.arange(len(Y)) == 3, np.nan, Y + SECRET), {}),
    ]
    for pairs, ratings, params in bad:
        model = DPMatrixFactorization(rating_bounds=(1, 5), **params)
        with pytest.raises((ValueError, TypeError)) as caught:
            model.fit(pairs, ratings)
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


@pytest.mark.parametrize("first", [(1, 1), ("a", 1), (0.5, 1), (True, 1), (None, 1)])
@pytest.mark.parametrize("user", ["b", LARGE + 1, True, 2, 2.0])
def test_what_a_row_adds_to_a_score_does_not_depend_on_another_row(first, user):
    fitted = table(*((u, i) for u in (1, 2, 3, LARGE, LARGE + 1) for i in range(4)))
    model = DPMatrixFactorization(math.inf, rating_bounds=(1, 5), random_state=0)
    model.fit(fitted, np.resize([1.0, 2.0, 5.0], len(fitted)))
    scoring = resolve_scoring(None, model)
    others = [(user, row % 4) for row in range(15)]

    def added(row):
        return scoring.contributions(model, table(row, *others), np.full(16, 3.0))[1:]

    np.testing.assert_array_equal(added(first), added((user, 0)))


def test_one_float_does_not_make_other_users_the_same():
    users, codes = found_ids([LARGE + 1, LARGE + 2, 0.5], "users")
    assert len(users) == len(set(codes)) == 3


def test_ids_of_two_kinds_are_found_again():
    pairs = [[1, "x"], ["b", "x"], [1, "y"], ["b", "y"]]
    model = DPMatrixFactorization(math.inf, random_state=0).fit(pairs, [1, 2, 3, 4.0])
    for pair in pairs:
        assert model.predict([pair]) == model.predict(pairs)[pairs.index(pair)]


def test_a_search_takes_ratings_sorted_by_user():
    users, items = np.divmod(np.arange(800), 80)  # the first 64 rows are one user's
    model = DPMatrixFactorization(rating_bounds=(1, 5))
    search = DPGridSearchCV(
        model, {"n_components": [1, 2]}, epsilon=5.0, adjacency="rating_value"
    )
    search.fit(np.column_stack([users, items]), 1.0 + items % 5)
    assert search.best_params_["n_components"] in (1, 2)


def test_a_search_refuses_a_model_of_another_unit_by_its_parameter():
    model = DPMatrixFactorization(rating_bounds=(1, 5), **BY_USER)
    search = DPGridSearchCV(
        model, {"n_components": [1, 2]}, epsilon=5.0, adjacency="rating_value"
    )
    with pytest.raises(ValueError, match=r"'privacy_unit' .* must stay at its default"):
        search.fit(X, Y)


def test_fewer_items_are_recommended_if_there_are_no_more():
    model = DPMatrixFactorization(math.inf, random_state=0).fit(X, Y)
    best = model.recommend(X[0, 0], k=10 * N_ITEMS, exclude_rated=False)
    assert len(best) == N_ITEMS


def test_ratings_of_unknown_items_are_left_out_of_a_fold_in():
    model = DPMatrixFactorization(math.inf, random_state=0).fit(X, Y)
    with_unknown = np.concatenate([X[:20], [[X[0, 0], 10**6]]])
    local = model.fold_in(with_unknown, np.append(Y[:20], 5.0))
    np.testing.assert_array_equal(
        local.predict(X[:20]), model.fold_in(X[:20], Y[:20]).predict(X[:20])
    )
    with pytest.raises(ValueError, match="once"):
        model.fold_in(np.concatenate([X[:5], X[:1]]), np.append(Y[:5], 1.0))


def test_the_model_is_as_before_after_a_refusal():
    model = DPMatrixFactorization(math.inf, random_state=0).fit(X, Y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="once"):
        model.fit(TWICE, np.append(Y, 2.0))
    assert dict(vars(model)) == before
    assert clone(model).get_params() == model.get_params()
