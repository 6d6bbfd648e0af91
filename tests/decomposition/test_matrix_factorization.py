"""`DPMatrixFactorization` as its users meet it."""

from __future__ import annotations

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from skdp import BudgetExceeded, BudgetLedger, DPGridSearchCV, DPMatrixFactorization
from skdp.decomposition import _user_sums, pairs_from_sparse
from skdp.decomposition._plain import FACTORIZERS
from skdp.exceptions import SeededNoiseWarning
from skdp.model_selection import RatingKFold
from skdp.privacy.noise._noise import NoiseSource
from tests.decomposition.ratings import N_ITEMS, N_USERS, low_rank_ratings

X, Y = low_rank_ratings()
PLAIN = DPMatrixFactorization(math.inf, n_components=2, random_state=0)
PRIVATE = DPMatrixFactorization(rating_bounds=(1, 5), n_components=2)
BY_USER = DPMatrixFactorization(
    privacy_unit="user",
    rating_bounds=(1, 5),
    n_components=2,
    n_users=N_USERS,
    item_ids=np.arange(N_ITEMS),
)


def rmse(model, pairs=X, ratings=Y):
    return math.sqrt(np.mean((model.predict(pairs) - ratings) ** 2))


@pytest.mark.parametrize("solver", FACTORIZERS)
def test_every_solver_learns_without_privacy(solver):
    model = clone(PLAIN).set_params(solver=solver).fit(X, Y)
    assert rmse(model) < 0.7 * np.std(Y)
    assert not model.privacy_.is_private
    assert model.n_iter_ > 0


def test_a_prediction_is_the_mean_the_biases_and_the_factors():
    model = clone(PLAIN).fit(X, Y)
    users, items = X[:, 0], X[:, 1]
    expected = (
        model.mean_
        + model.user_biases_[users]
        + model.item_biases_[items]
        + np.einsum("ij,ij->i", model.user_factors_[users], model.item_factors_[items])
    )
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-5)


def test_unknown_ids_fall_back_to_the_means():
    model = clone(PLAIN).fit(X, Y)
    predicted = model.predict([[10**6, 10**6], [10**6, 3], [4, 10**6]])
    expected = [
        model.mean_,
        model.mean_ + model.item_biases_[3],
        model.mean_ + model.user_biases_[4],
    ]
    np.testing.assert_allclose(predicted, expected, atol=1e-6)


def test_any_hashable_ids():
    names = [(f"u{u}", ("film", int(i))) for u, i in X]
    of_names = clone(PLAIN).fit(names, Y)
    frame = pd.DataFrame(
        {"who": pd.Categorical([n for n, _ in names]), "what": X[:, 1]}
    )
    of_frame = clone(PLAIN).fit(frame, Y)
    assert np.isfinite(of_names.predict(names)).all()
    assert set(of_names.item_ids_) == {("film", i) for i in range(N_ITEMS)}
    assert np.isfinite(of_frame.predict(frame)).all()


def test_a_sparse_matrix_makes_pairs():
    R = csr_array((Y, (X[:, 0], X[:, 1])), shape=(N_USERS, N_ITEMS))
    pairs, ratings = pairs_from_sparse(R)
    order = np.lexsort((X[:, 1], X[:, 0]))
    np.testing.assert_array_equal(pairs, X[order])
    np.testing.assert_array_equal(ratings, Y[order])
    with pytest.raises(TypeError, match="stored entries"):
        pairs_from_sparse(R.toarray())
    with pytest.raises(TypeError, match="pairs_from_sparse"):
        clone(PLAIN).fit(R, Y)


def test_precision_is_that_of_the_ratings():
    assert clone(PLAIN).fit(X, Y).item_factors_.dtype == np.float64
    whole = np.rint(Y)
    for ratings in (whole.astype(np.float32), whole.astype(np.int64), whole.tolist()):
        wanted = np.float64 if isinstance(ratings, list) else np.float32
        assert clone(PLAIN).fit(X, ratings).item_factors_.dtype == wanted


def test_recommendations_are_new_and_best_first():
    model = clone(PLAIN).fit(X, Y)
    best = model.recommend(3, k=5)
    predicted = model.predict([[3, item] for item in best])
    assert (np.diff(predicted) <= 0).all()
    assert not set(best) & set(X[X[:, 0] == 3, 1])
    everything = model.recommend(3, k=N_ITEMS, exclude_rated=False)
    assert sorted(everything) == list(range(N_ITEMS))
    popular = model.recommend(10**6, k=3)
    expected = np.argsort(-model.item_biases_, kind="stable")[:3]
    np.testing.assert_array_equal(popular, expected)


def test_newcomers_are_folded_in():
    known, new = X[:, 0] < 30, X[:, 0] >= 30
    model = clone(PLAIN).fit(X[known], Y[known])
    local = model.fold_in(X[new], Y[new])
    # The objective of the training set, items held fixed: better than the means.
    assert rmse(local, X[new], Y[new]) < rmse(model, X[new], Y[new])
    assert local.transform([30, 10**6]).shape == (2, 2)
    assert not set(local.recommend(31, k=4)) & set(X[X[:, 0] == 31, 1])
    same = pickle.loads(pickle.dumps(local))
    np.testing.assert_array_equal(same.predict(X[new]), local.predict(X[new]))


@pytest.mark.parametrize("private", [PRIVATE, BY_USER], ids=["value", "user"])
def test_a_private_fit_says_what_it_is(private):
    model = clone(private).fit(X, Y)
    record = model.privacy_
    assert record.is_private
    assert record.adjacency == private.privacy_unit
    assert "replace_one" not in repr(record)
    assert record.epsilon == 1.0
    multipliers = [part.noise_multiplier for part in record.event.leaves]
    assert record.noise_scale == record.sensitivity * max(multipliers)
    predicted = model.predict(X)
    assert predicted.min() >= 1
    assert predicted.max() <= 5
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), predicted)


def unstated(record, facts):
    """What a reader of the record would have to ask for."""
    said = repr(record) + record.to_json()
    return [fact for fact in facts if fact not in said]


@pytest.mark.parametrize(
    ("private", "facts"),
    [
        (PRIVATE, ["unit: the width of rating_bounds", "who rated what"]),
        (
            BY_USER,
            ["unit: half the width of rating_bounds", "used of a user: all of them"],
        ),
        (
            clone(BY_USER).set_params(max_ratings=7),
            ["used of a user: at most 7 (max_ratings)"],
        ),
    ],
    ids=["value", "user", "max_ratings"],
)
def test_the_record_states_what_the_claim_is_made_of(private, facts):
    record = clone(private).fit(X, Y).privacy_
    facts = [
        *facts,
        "rating_bounds (1.0, 5.0)",
        f"number of users: {N_USERS}",
        f"catalogue of {N_ITEMS} items",
    ]
    assert unstated(record, facts) == []
    # Broken twin: a record without them, as it was.
    poor = replace(record, assumed_public=("who rated what",), sensitivity_unit="")
    assert len(unstated(poor, facts)) >= 4


def test_all_ratings_are_kept_without_a_limit():
    kept = []
    for most in (None, 3):
        model = clone(BY_USER).set_params(max_ratings=most)
        with pytest.MonkeyPatch.context() as patch:
            rule = _user_sums.kept_ratings
            patch.setattr(
                _user_sums,
                "kept_ratings",
                lambda *args, rule=rule: kept.append(rule(*args)) or kept[-1],
            )
            model.fit(X, Y)
    assert [len(each) for each in kept] == [len(X), 3 * N_USERS]


def test_of_users_nothing_stays_in_the_model():
    model = clone(BY_USER).fit(X, Y)
    assert model.privacy_.n_samples == N_USERS
    text = pickle.dumps(vars(model))
    assert len(text) < len(pickle.dumps(X))
    # A model that holds users is found out by its size.
    assert len(pickle.dumps(vars(clone(PLAIN).fit(X, Y)))) > len(pickle.dumps(X))
    for look in (
        lambda: model.user_factors_,
        lambda: model.user_ids_,
        lambda: model.transform([0]),
    ):
        with pytest.raises(AttributeError, match="fold_in"):
            look()
    # Whoever asks, an item has one prediction.
    np.testing.assert_array_equal(model.recommend(0), model.recommend(10**6))
    by_item = model.predict([[u, 7] for u in (0, 1, 10**6)])
    assert len(set(by_item)) == 1


def test_folding_in_stays_at_home():
    local = clone(BY_USER).fit(X, Y).fold_in(X, Y)
    assert np.isfinite(local.predict(X)).all()
    assert "NOT covered" in repr(local)
    with pytest.raises(TypeError, match="raw ratings"):
        pickle.dumps(local)


@pytest.mark.parametrize("private", [PRIVATE, BY_USER], ids=["value", "user"])
def test_warnings_point_at_the_call(private):
    with pytest.warns(SeededNoiseWarning) as caught:
        clone(private).set_params(random_state=0).fit(X, Y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("private", [PRIVATE, BY_USER], ids=["value", "user"])
def test_the_ledger_is_charged_before_and_refuses(private, tmp_path):
    unit = {"rating_value": "rating", "user": "user"}[private.privacy_unit]
    ledger = BudgetLedger(
        tmp_path / "books.db",
        epsilon=1.2,
        delta=1e-6,
        adjacency=private.privacy_unit,
        unit=unit,
    )
    model = clone(private).set_params(ledger=ledger).fit(X, Y)
    assert len(ledger.spends()) == 1
    assert model.privacy_.ledger == ledger.path
    before = model.item_factors_
    with pytest.raises(BudgetExceeded):
        model.fit(X, Y)
    assert len(ledger.spends()) == 1
    assert model.item_factors_ is not None
    np.testing.assert_array_equal(model.item_factors_, before)


def test_ledgers_of_records_are_refused(tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=3.0, delta=1e-6)
    with pytest.raises(ValueError, match="unit must be 'rating'"):
        clone(PRIVATE).set_params(ledger=ledger).fit(X, Y)
    wrong = BudgetLedger(tmp_path / "other.db", epsilon=3.0, delta=1e-6, unit="rating")
    with pytest.raises(ValueError, match="adjacency='rating_value'"):
        clone(PRIVATE).set_params(ledger=wrong).fit(X, Y)
    assert not ledger.spends()
    assert not wrong.spends()


def test_the_automatic_solver_uses_an_alpha_that_is_given():
    assert clone(PLAIN).fit(X, Y).privacy_.solver == "vb"
    model = clone(PLAIN).set_params(alpha=0.05).fit(X, Y)
    assert model.privacy_.solver == "sgd"
    assert "alpha" in model.privacy_.why_solver


@pytest.mark.parametrize("solver", ["auto", "als"])
def test_grid_search_over_alpha_and_rank(solver):
    search = GridSearchCV(
        clone(PLAIN).set_params(solver=solver),
        {"alpha": [0.02, 10.0], "n_components": [1, 2]},
        cv=RatingKFold(3, random_state=0),
    ).fit(X, Y)
    assert search.best_params_["alpha"] == 0.02


def test_cross_validation_splits_rows():
    scores = cross_val_score(clone(PRIVATE), X, Y, cv=3, error_score="raise")
    assert np.isfinite(scores).all()


def test_private_search_has_one_epsilon(tmp_path):
    ledger = BudgetLedger(
        tmp_path / "books.db",
        epsilon=3.0,
        delta=1e-6,
        adjacency="rating_value",
        unit="rating",
    )
    search = DPGridSearchCV(
        DPMatrixFactorization(rating_bounds=(1, 5)),
        {"n_components": [0, 2]},
        epsilon=3.0,
        adjacency="rating_value",
        ledger=ledger,
    ).fit(X, Y)
    assert search.privacy_.epsilon == 3.0
    assert search.privacy_.adjacency == "rating_value"
    assert search.privacy_.unit == "rating"
    assert len(ledger.spends()) == 1
    assert ledger.spent().epsilon == pytest.approx(3.0, rel=1e-2)
    assert np.isfinite(search.predict(X)).all()
    assert search.best_estimator_.privacy_.release


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out", "user"])
def test_private_searches_of_other_relations_are_refused(adjacency):
    search = DPGridSearchCV(PRIVATE, {"n_components": [0, 2]}, adjacency=adjacency)
    with pytest.raises(ValueError, match="rating_value"):
        search.fit(X, Y)


def test_a_search_cannot_tune_what_decides_the_guarantee():
    for name in ("privacy_unit", "rating_bounds", "max_ratings", "item_ids", "n_users"):
        search = DPGridSearchCV(PRIVATE, {name: [None]}, adjacency="rating_value")
        with pytest.raises(ValueError, match=name):
            search.fit(X, Y)


def test_progress_tells_the_error_only_without_privacy(capsys):
    clone(PLAIN).set_params(verbose=True).fit(X, Y)
    assert "training RMSE" in capsys.readouterr().out
    for private in (PRIVATE, BY_USER):
        clone(private).set_params(verbose=True).fit(X, Y)
        assert "RMSE" not in capsys.readouterr().out


def test_an_interrupt_keeps_the_model_so_far(monkeypatch):
    kind = FACTORIZERS["als"]
    whole = kind.iterates

    def interrupted(*arguments):
        for n, factors in enumerate(whole(*arguments)):
            yield factors
            if n == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(kind, "iterates", interrupted)
    with pytest.warns(UserWarning, match="Interrupted after 2 of"):
        model = clone(PLAIN).set_params(solver="als").fit(X, Y)
    assert model.n_iter_ == 2
    assert np.isfinite(model.predict(X)).all()


def test_declared_items_without_ratings_get_the_mean():
    model = clone(PLAIN).set_params(item_ids=range(N_ITEMS + 1), solver="als")
    model.fit(X, Y)
    assert np.all(model.item_factors_[N_ITEMS] == 0)
    assert model.predict([[10**6, N_ITEMS]])[0] == pytest.approx(model.mean_, abs=1e-6)
    # What learns a prior has a guess, too.
    model.set_params(solver="vb").fit(X, Y)
    assert abs(model.predict([[10**6, N_ITEMS]])[0] - model.mean_) < np.std(Y)


def test_threads_do_not_change_results():
    for solver in FACTORIZERS:
        model = clone(PLAIN).set_params(solver=solver, solver_params={"n_steps": 3})
        one = model.set_params(n_jobs=1).fit(X, Y).predict(X)
        two = model.set_params(n_jobs=2).fit(X, Y).predict(X)
        np.testing.assert_array_equal(one, two)


def test_without_biases_nothing_is_centred():
    model = clone(PLAIN).set_params(biases=False).fit(X, Y)
    assert model.mean_ == 0
    assert not model.user_biases_.any()
    assert model.predict([[10**6, 10**6]])[0] == 0


def test_clipping_is_told_only_without_privacy():
    model = clone(PLAIN).set_params(rating_bounds=(2, 4))
    outside = int(np.count_nonzero((Y < 2) | (Y > 4)))
    with pytest.warns(UserWarning, match=f"{outside} ratings"):
        model.fit(X, Y)
    assert model.predict(X).max() <= 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(PRIVATE).set_params(rating_bounds=(2, 4)).fit(X, Y)


@pytest.mark.parametrize("unfitted", [PRIVATE, BY_USER])
def test_the_record_states_the_largest_noise(unfitted, monkeypatch):
    drawn = []
    right = NoiseSource._release

    def release(self, query, scale, *args):
        drawn.append(scale.sigma)
        return right(self, query, scale, *args)

    monkeypatch.setattr(NoiseSource, "_release", release)
    model = clone(unfitted).fit(X, Y)
    assert max(drawn) <= model.privacy_.noise_scale * (1 + 2**-10)
