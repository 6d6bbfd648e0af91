"""Nobody's id decides how the ids of others are read."""

import warnings

import pytest

from skdp import DPMatrixFactorization
from skdp.decomposition._ids import declared_ids, found_ids

LARGE = 2**53  # as doubles it and the next integer are one


@pytest.mark.parametrize("other", [0.5, 1j, "ann", True])
def test_an_id_of_another_kind_does_not_merge_users(other):
    ids, codes = found_ids([LARGE, LARGE + 1, other], "users")
    assert len(ids) == 3
    assert len(set(codes.tolist())) == 3


def test_ids_read_as_doubles_are_caught():
    ids, _ = found_ids([float(x) for x in (LARGE, LARGE + 1, 0.5)], "users")
    assert len(ids) == 2


@pytest.mark.parametrize("last", [3, 3.0])
def test_an_id_of_another_kind_does_not_move_items(last):
    catalogue = declared_ids("item_ids", [LARGE, LARGE + 1, 3], "items")
    assert catalogue.codes([LARGE, LARGE + 1, last]).tolist() == [0, 1, 2]


def test_unordered_ids_are_found_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ids, _ = found_ids([(1, 2.0), "ann", (3,)], "users")
    assert len(ids) == 3
    with pytest.raises(TypeError) as error:
        found_ids(["ann", [1]], "users")
    assert error.value.__context__ is None


def _model(**params):
    return DPMatrixFactorization(
        privacy_unit="user", rating_bounds=(1, 5), n_users=9, item_ids=["x", "y"],
        **params,
    )  # fmt: skip


X, Y = [["ann", "x"], ["bob", "y"]], [1.0, 5.0]


def test_users_of_any_kind_are_unknown_to_a_model_without_users():
    model = _model().fit(X, Y)
    assert model.predict(X).tolist() == model.predict([[1, "x"], [2, "y"]]).tolist()


def test_the_record_tells_the_largest_noise():
    record = _model().fit(X, Y).privacy_
    largest = max(leaf.noise_multiplier for leaf in record.event.leaves)
    assert record.noise_scale == pytest.approx(largest * record.sensitivity)


@pytest.mark.parametrize("params", [{"first_share": 1.0}, {"count_share": 1e-190}])
def test_shares_that_leave_nothing_are_refused(params):
    model = _model(solver="als", solver_params={"n_rounds": 3} | params)
    with pytest.raises(ValueError, match="_share"):
        model.fit(X, Y)


def test_a_search_names_the_parameter_of_the_relation():
    from skdp import DPGridSearchCV

    search = DPGridSearchCV(
        DPMatrixFactorization(privacy_unit="user"),
        {"n_components": [0, 1]},
        epsilon=1.0,
        adjacency="rating_value",
    )
    with pytest.raises(ValueError, match="'privacy_unit' parameter"):
        search.fit(X, Y)
