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
from sklearn.model_selection import GridSearchCV

from skdp import (
    BudgetExceeded,
    BudgetLedger,
    DPGridSearchCV,
    DPMatrixFactorization,
    pairs_from_sparse,
)
from skdp.decomposition import _plain_kernel
from skdp.decomposition._plain import FACTORIZERS
from skdp.exceptions import SeededNoiseWarning
from skdp.model_selection import RatingKFold
from skdp.privacy.noise._noise import NoiseSource
from tests.decomposition.ratings import N_ITEMS, N_USERS, low_rank_ratings

X, Y = low_rank_ratings()
PLAIN = DPMatrixFactorization(math.inf, n_components=2, random_state=0)
BY_VALUE = {"privacy_unit": "rating_value", "rating_bounds": (1, 5)}
PRIVATE = DPMatrixFactorization(**BY_VALUE, n_components=2)
BY_USER = clone(PRIVATE).set_params(
    privacy_unit="user", n_users=N_USERS, item_ids=np.arange(N_ITEMS)
)
every_form = pytest.mark.parametrize(
    "private", [PRIVATE, BY_USER], ids=["value", "user"]
)


def rmse(model, pairs=X, ratings=Y):
    return math.sqrt(np.mean((model.predict(pairs) - ratings) ** 2))


def books(path, unit="rating_value", epsilon=1.2, **facts):
    facts = {"adjacency": unit, "unit": unit.removesuffix("_value"), **facts}
    return BudgetLedger(path / "books.db", epsilon=epsilon, delta=1e-6, **facts)


# --- Without privacy ---------------------------------------------------------------


@pytest.mark.parametrize("solver", FACTORIZERS)
def test_every_solver_learns_without_privacy(solver):
    model = clone(PLAIN).set_params(solver=solver).fit(X, Y)
    assert rmse(model) < 0.7 * np.std(Y)
    assert not model.privacy_.is_private
    assert model.n_iter_ > 0


def test_a_prediction_is_the_mean_the_biases_and_the_factors():
    """What is unknown of them falls away."""
    model = clone(PLAIN).fit(X, Y)
    users, items = X.T
    expected = model.mean_ + model.user_biases_[users] + model.item_biases_[items]
    expected += np.sum(model.user_factors_[users] * model.item_factors_[items], axis=1)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-5)
    predicted = model.predict([[10**6, 10**6], [10**6, 3], [4, 10**6]])
    known = np.array([0.0, model.item_biases_[3], model.user_biases_[4]])
    np.testing.assert_allclose(predicted, model.mean_ + known, atol=1e-6)
    centred = clone(PLAIN).set_params(biases=False).fit(X, Y)
    assert centred.mean_ == 0 == centred.predict([[10**6, 10**6]])[0]
    assert not centred.user_biases_.any()


def test_a_sparse_matrix_makes_pairs():
    R = csr_array((Y, X.T), shape=(N_USERS, N_ITEMS))
    pairs, ratings = pairs_from_sparse(R)
    order = np.lexsort((X[:, 1], X[:, 0]))
    np.testing.assert_array_equal(pairs, X[order])
    np.testing.assert_array_equal(ratings, Y[order])
    with pytest.raises(TypeError, match="pairs_from_sparse"):
        PLAIN.fit(R, Y)
    with pytest.raises(TypeError, match=r"argument: 'y'. Use X, y = pairs_from_sparse"):
        PLAIN.fit(R)


def test_a_table_with_nan_makes_pairs():
    values = np.array([[5.0, np.nan], [4.0, 0.0]])
    frame = pd.DataFrame(values, index=["ann", "bob"], columns=[("heat", 1), 7])
    films = [["ann", ("heat", 1)], ["bob", ("heat", 1)], ["bob", 7]]
    missing = frame.astype(pd.Int64Dtype())
    numbers = [[0, 0], [1, 0], [1, 1]]
    for table, expected in ((values, numbers), (frame, films), (missing, films)):
        pairs, ratings = pairs_from_sparse(table)
        assert pairs.tolist() == expected
        assert ratings.tolist() == [5.0, 4.0, 0.0]
    zeros, texts = np.nan_to_num(values), frame.map("a{}".format)
    for wrong, message in ((zeros, "zeros and no NaN"), (texts, "else"), (Y, "else")):
        with pytest.raises(ValueError, match=message) as caught:
            pairs_from_sparse(wrong)
        assert "5.0" not in str(caught.value)


def test_ids_of_frames_and_precision_of_ratings():
    names = pd.Categorical([f"u{u}" for u in X[:, 0]])
    frame = pd.DataFrame({"who": names, "what": [("film", int(i)) for i in X[:, 1]]})
    model = clone(PLAIN).fit(frame, Y.astype(np.float32))
    assert set(model.item_ids_) == {("film", i) for i in range(N_ITEMS)}
    assert np.isfinite(model.predict(frame)).all()
    assert model.item_factors_.dtype == np.float32
    assert clone(PLAIN).fit(X, Y.tolist()).item_factors_.dtype == np.float64


def test_recommendations_are_new_and_best_first():
    model = clone(PLAIN).fit(X, Y)
    best = model.recommend(3, k=5)
    predicted = model.predict([[3, item] for item in best])
    assert (np.diff(predicted) <= 0).all()
    assert not set(best) & set(X[X[:, 0] == 3, 1])
    everything = model.recommend(3, k=10 * N_ITEMS, exclude_rated=False)
    assert sorted(everything) == list(range(N_ITEMS))
    expected = np.argsort(-model.item_biases_, kind="stable")[:3]
    np.testing.assert_array_equal(model.recommend(10**6, k=3), expected)


def test_newcomers_are_folded_in():
    known = X[:, 0] < 30
    model, (new, own) = clone(PLAIN).fit(X[known], Y[known]), (X[~known], Y[~known])
    local = model.fold_in(new, own)
    # The objective of the training set, items held fixed: better than the means.
    assert rmse(local, new, own) < rmse(model, new, own)
    assert local.transform([30, 10**6]).shape == (2, 2)
    assert not set(local.recommend(31, k=4)) & set(new[new[:, 0] == 31, 1])
    # Ratings of unknown items are left out.
    more = np.concatenate([new, [[30, 10**6]]])
    for same in (pickle.loads(pickle.dumps(local)), model.fold_in(more, [*own, 5.0])):
        np.testing.assert_array_equal(same.predict(new), local.predict(new))
    with pytest.raises(ValueError, match="once"):
        model.fold_in(np.concatenate([new, new[:1]]), [*own, 1.0])


@pytest.mark.parametrize("solver", ["auto", "als"])
def test_grid_search_over_alpha_and_rank(solver):
    search = GridSearchCV(
        clone(PLAIN).set_params(solver=solver),
        {"alpha": [0.02, 10.0], "n_components": [1, 2]},
        cv=RatingKFold(3, random_state=0),
    ).fit(X, Y)
    assert search.best_params_["alpha"] == 0.02
    record = search.best_estimator_.privacy_
    assert record.solver == {"auto": "sgd"}.get(solver, solver)
    assert solver == "als" or "alpha" in record.why_solver


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


# --- With privacy ------------------------------------------------------------------


@every_form
def test_a_private_fit_says_what_it_is(private):
    model = clone(private).fit(X, Y)
    record, predicted = model.privacy_, model.predict(X)
    assert (record.is_private, record.epsilon) == (True, 1.0)
    assert record.adjacency == private.privacy_unit
    assert "replace_one" not in repr(record)
    assert 1 <= predicted.min() <= predicted.max() <= 5
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), predicted)
    with pytest.warns(SeededNoiseWarning) as caught:
        model.set_params(random_state=0).fit(X, Y)
    assert caught[0].filename == __file__


@every_form
def test_the_record_states_the_largest_noise(private, monkeypatch):
    drawn, right = [], NoiseSource._release

    def release(self, query, scale, *args):
        drawn.append(scale.sigma)
        return right(self, query, scale, *args)

    monkeypatch.setattr(NoiseSource, "_release", release)
    record = clone(private).fit(X, Y).privacy_
    assert max(drawn) <= record.noise_scale * (1 + 2**-10)
    multipliers = [part.noise_multiplier for part in record.event.leaves]
    assert record.noise_scale == record.sensitivity * max(multipliers)


def unstated(record, facts):
    """What a reader of the record would have to ask for."""
    said = repr(record) + record.to_json()
    return [fact for fact in facts if fact not in said]


FACTS = [f"number of users: {N_USERS}", f"catalogue of {N_ITEMS} items"]
FACTS += ["rating_bounds (1.0, 5.0)"]
USERS = ["unit: half the width of rating_bounds"]


@pytest.mark.parametrize(
    ("private", "facts"),
    [
        (PRIVATE, ["unit: the width of rating_bounds", "who rated what"]),
        (BY_USER, [*USERS, "used of a user: all of them"]),
        (
            clone(BY_USER).set_params(max_ratings=7),
            [*USERS, "used of a user: at most 7 (max_ratings)"],
        ),
    ],
)
def test_the_record_states_what_the_claim_is_made_of(private, facts):
    record = clone(private).fit(X, Y).privacy_
    assert unstated(record, facts + FACTS) == []
    # Broken twin: a record without them, as it was.
    poor = replace(record, assumed_public=("who rated what",), sensitivity_unit="")
    assert len(unstated(poor, facts + FACTS)) >= 4


def test_users_are_protected_unless_the_other_unit_is_named():
    facts = {"rating_bounds": (1, 5), "n_users": N_USERS, "item_ids": range(N_ITEMS)}
    record = DPMatrixFactorization(**facts).fit(X, Y).privacy_
    assert record.adjacency == "user"
    for name in ("n_users", "item_ids"):
        model = DPMatrixFactorization(**facts | {name: None})
        with pytest.raises(ValueError, match=f"'{name}'.*privacy_unit='rating_value'"):
            model.fit(X, Y)


def test_of_users_nothing_stays_in_the_model():
    model = clone(BY_USER).fit(X, Y)
    assert model.privacy_.n_samples == N_USERS
    assert len(pickle.dumps(vars(model))) < len(pickle.dumps(X))
    # A model that holds users is found out by its size.
    assert len(pickle.dumps(vars(clone(PLAIN).fit(X, Y)))) > len(pickle.dumps(X))
    looks = ("user_factors_", "user_biases_", "user_ids_")
    for look in (*(lambda n=n: getattr(model, n) for n in looks), model.transform):
        with pytest.raises(AttributeError, match="fold_in"):
            look(*[[0]] * (look == model.transform))
    # Whoever asks, an item has one prediction.
    np.testing.assert_array_equal(model.recommend(0), model.recommend(10**6))
    assert len(set(model.predict([[u, 7] for u in (0, 1, 10**6)]))) == 1


def test_folding_in_stays_at_home():
    local = clone(BY_USER).fit(X, Y).fold_in(X, Y)
    assert np.isfinite(local.predict(X)).all()
    assert "NOT covered" in repr(local)
    with pytest.raises(TypeError, match="raw ratings"):
        pickle.dumps(local)


@every_form
def test_the_ledger_is_charged_before_and_refuses(private, tmp_path):
    ledger = books(tmp_path, private.privacy_unit)
    model = clone(private).set_params(ledger=ledger).fit(X, Y)
    assert len(ledger.spends()) == 1
    assert model.privacy_.ledger == ledger.path
    before = model.item_factors_
    with pytest.raises(BudgetExceeded):
        model.fit(X, Y)
    assert len(ledger.spends()) == 1
    np.testing.assert_array_equal(model.item_factors_, before)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"unit": "record", "adjacency": "replace_one"}, "unit must be 'rating'"),
        ({"adjacency": "replace_one"}, "adjacency='rating_value'"),
    ],
)
def test_ledgers_of_records_are_refused(facts, message, tmp_path):
    ledger = books(tmp_path, **facts)
    with pytest.raises(ValueError, match=message):
        clone(PRIVATE).set_params(ledger=ledger).fit(X, Y)
    assert not ledger.spends()


def test_private_search_has_one_epsilon(tmp_path):
    ledger = books(tmp_path, epsilon=3.0)
    model, grid = DPMatrixFactorization(**BY_VALUE), {"n_components": [0, 2]}
    facts = {"epsilon": 3.0, "adjacency": "rating_value", "ledger": ledger}
    # Sorted by user, so that the first rows are one user's.
    order = np.argsort(X[:, 0], kind="stable")
    search = DPGridSearchCV(model, grid, **facts).fit(X[order], Y[order])
    record = search.privacy_
    assert (record.epsilon, record.unit) == (3.0, "rating")
    assert record.adjacency == "rating_value"
    assert len(ledger.spends()) == 1
    assert ledger.spent().epsilon == pytest.approx(3.0, rel=1e-2)
    assert np.isfinite(search.predict(X)).all()


@pytest.mark.parametrize(
    ("model", "name", "adjacency", "message"),
    [
        *((PRIVATE, "n_components", a, "rating_value") for a in ("zero_out", "user")),
        (BY_USER, "n_components", "rating_value", "'privacy_unit', must be 'rating_"),
        *(
            (PRIVATE, name, "rating_value", name)
            for name in ("privacy_unit", "rating_bounds", "max_ratings", "n_users")
        ),
    ],
)
def test_a_search_cannot_change_what_the_guarantee_is_about(
    model, name, adjacency, message
):
    search = DPGridSearchCV(model, {name: [1, 2]}, adjacency=adjacency)
    with pytest.raises(ValueError, match=message):
        search.fit(X, Y)


def test_progress_tells_the_error_only_without_privacy(capsys):
    for model, is_told in ((PLAIN, True), (PRIVATE, False), (BY_USER, False)):
        clone(model).set_params(verbose=True).fit(X, Y)
        assert ("RMSE" in capsys.readouterr().out) == is_told


def test_progress_is_in_the_unit_of_the_ratings(capsys):
    model = clone(PLAIN).set_params(solver="sgd", verbose=True).fit(X, 50 * Y)
    last = capsys.readouterr().out.split("training RMSE")[-1]
    assert float(last.split()[0].rstrip(",")) == pytest.approx(rmse(model, X, 50 * Y))


def test_clipping_is_told_only_without_privacy():
    model = clone(PLAIN).set_params(rating_bounds=(2, 4))
    outside = int(np.count_nonzero((Y < 2) | (Y > 4)))
    with pytest.warns(UserWarning, match=f"{outside} ratings"):
        model.fit(X, Y)
    assert model.predict(X).max() <= 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(PRIVATE).set_params(rating_bounds=(2, 4)).fit(X, Y)


@pytest.mark.parametrize("solver", ["als", "sgd", "vb"])
def test_the_interpreter_runs_the_compiled_loops_with_the_same_result(
    solver, monkeypatch
):
    """Loops read and write wherever an index leads; the interpreter checks indices."""
    pairs = np.column_stack(np.divmod(np.arange(60), 6))
    ratings = 3 + np.sin(np.arange(60.0))
    given = {"epsilon": math.inf, "n_components": 2, "rating_bounds": (1, 5)}

    def predicted():
        model = DPMatrixFactorization(solver=solver, random_state=0, **given)
        return model.fit(pairs, ratings).predict(pairs)

    compiled = predicted()
    for name, loop in vars(_plain_kernel).copy().items():
        if hasattr(loop, "py_func"):
            monkeypatch.setattr(_plain_kernel, name, loop.py_func)
    assert np.allclose(compiled, predicted(), rtol=1e-6)


# --- Units -------------------------------------------------------------------------


FITS = [clone(PLAIN).set_params(solver=solver) for solver in FACTORIZERS]
FITS += [clone(PLAIN).set_params(solver="als", alpha=0.3, rating_bounds=(1, 5))]
FITS += [clone(model).set_params(random_state=0) for model in (PRIVATE, BY_USER)]


def in_units(model, factor, shift):
    """Predictions for known users, and for folded ones, of ratings in other units."""
    model = clone(model)
    if model.rating_bounds is not None:
        bounds = factor * np.array(model.rating_bounds) + shift
        model.set_params(rating_bounds=tuple(bounds))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        model.fit(X, factor * Y + shift)
    local = model.fold_in(X, factor * Y + shift)
    predicted = np.concatenate([model.predict(X), local.predict(X)])
    return (predicted - shift) / factor


@pytest.mark.parametrize("model", FITS, ids=str)
def test_results_do_not_depend_on_the_unit_of_ratings(model):
    expected = in_units(model, 1.0, 0.0)
    np.testing.assert_array_equal(in_units(model, 2.0**20, 0.0), expected)
    for factor, shift in ((1e-3, 0.0), (5.0, -15.0), (1e4 / 3, 7.0)):
        found = in_units(model, factor, shift)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
