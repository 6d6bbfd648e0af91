"""Exact audits of sums of a user's gradients, clipped as one vector; broken twins."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp import DPLogisticRegression, DPSparseLogisticRegression
from skdp.privacy.release._plan import Bound, Layout
from skdp.solvers import _descent
from skdp.sums import _gradient_sum
from skdp.sums._exact import RESIDUAL_BITS
from skdp.sums._gradient import ClippedGradient
from skdp.sums._gradient_sum import ExactGradientSum
from skdp.sums._grid_rows import LONGEST
from skdp.tables._centred import Centring
from skdp.tables._memory import UserSource
from tests.audit import centred_descent
from tests.audit.linear import ALL_LOSSES
from tests.audit.test_users import ROUNDING, as_tables
from tests.audit.users import (
    RELATIONS,
    Cell,
    D,
    at_random,
    in_one_direction,
    table,
)

CLIPS = (1.0, 0.3)
LOSSES = ("logistic", "softmax", "squared", "hinge", "sigmoid", "weighted")

ASKED = ClippedGradient(
    Cell("noisy_gd", "logistic", "zero_out_user", n_users=40).objective,
    intercept_weight=0.7,
    user_clip=0.5,
)

every_relation = pytest.mark.parametrize("relation", RELATIONS)


def cell_of(relation, loss="logistic", user_clip=1.0, **facts):
    return Cell("noisy_gd", loss, relation, user_clip=user_clip, **facts)


@every_relation
@pytest.mark.parametrize("user_clip", CLIPS)
def test_a_user_of_several_rows_tells_all_that_is_charged(user_clip, relation):
    cell = cell_of(relation, user_clip=user_clip)
    pair = in_one_direction(cell.objective.loss, relation)
    for seed in range(3):
        found = cell.found(as_tables(pair), seed)
        assert 0.9995 <= found.total <= found.largest <= 1 + ROUNDING
    assert cell.found(as_tables(pair), shrink=0.5).total > 1.99


@every_relation
@pytest.mark.parametrize("loss", LOSSES)
def test_no_pair_of_users_is_told_apart_by_more(loss, relation):
    rng = np.random.default_rng(0)
    for is_long in (False, True):
        for user_clip in CLIPS:
            cell = cell_of(relation, loss, user_clip, is_long=is_long)
            for seed in range(5):
                pair = at_random(ALL_LOSSES[loss], relation, rng)
                found = cell.found(as_tables(pair), seed)
                assert found.largest <= 1 + ROUNDING


def charged_as_records(self, *given):
    """Planted bug: two users are as far apart as two records are."""
    bound = honest_bound(replace(self, user_clip=None), *given)
    return Bound(
        zero_out_user=bound.zero_out * self.user_clip,
        replace_user=bound.replace_one * self.user_clip,
    )


honest_bound = ClippedGradient.bound


def test_twin_that_charges_exchanges_as_those_of_records_is_found(monkeypatch):
    """Far weights allow one record one direction, and many rows the other one too."""
    objective = replace(ASKED.objective, fit_intercept=False, adjacency="replace_user")
    query = ClippedGradient(objective, user_clip=0.5).at(np.array([[-4.0], [0.0]]))
    far, near = np.array([2.0, 0.0]), np.array([0.05, 0.0])
    sides = [
        UserSource(np.tile(x, (n, 1)), np.full(n, y), np.ones(n), 40, np.zeros(n, int))
        for x, y, n in ((far, 1.0, 3), (near, 0.0, 200))
    ]
    one, other = (query.total(query.open(side), None) for side in sides)
    moved = float(np.linalg.norm(one - other))
    assert 0.999 < moved / query.bound().replace_user <= 1
    monkeypatch.setattr(ClippedGradient, "bound", charged_as_records)
    assert moved > 1.1 * query.bound().replace_user


@every_relation
def test_twins_that_clip_less_are_found(relation, monkeypatch):
    cell = cell_of(relation)
    pair = in_one_direction(cell.objective.loss, relation, n_rows=4, instead=4)
    honest = ExactGradientSum._most
    with monkeypatch.context() as patch:
        patch.setattr(ExactGradientSum, "_most", lambda self, w: 9 * honest(self, w))
        assert cell.found(as_tables(pair)).total > 3.9
    # Every row of a user is a user of its own.
    loose = []
    for users in pair:
        own = table([[row] for rows in users for row in rows])
        n = len(own.whole().y)
        whole = own.whole()
        loose.append(
            UserSource(whole.X, whole.y, np.ones(n), cell.n_users, np.arange(n))
        )
    assert cell.found(tuple(loose)).total > 3.9


@every_relation
def test_twin_that_clips_features_and_constant_apart_is_found(relation, monkeypatch):
    cell = cell_of(relation)
    pair = in_one_direction(cell.objective.loss, relation, n_rows=9, instead=9)
    # Planted bug: the constant is clipped by what is left, which is all.
    assert cell.found(as_tables(pair)).largest <= 1 + ROUNDING
    monkeypatch.setattr(ExactGradientSum, "_constant", 0.0)
    assert cell.found(as_tables(pair)).largest > 1.2


# ---------------------------------------------------------------------- centred rows


def test_centred_rows_are_those_that_are_multiplied():
    rng = np.random.default_rng(0)
    states = centred_descent.states(3)
    rows = centred_descent.truth_values(rng.integers(0, 2, (9, 3)))
    centring = Centring(rng.normal(size=3) / 4, rng.uniform(0.5, 2, 3), 0.8)
    found = centring.of(states.rows(rows))
    made = found.made()
    assert np.linalg.norm(made, axis=1).max() <= 1
    weights = rng.normal(size=(3, 2))
    assert made @ weights == pytest.approx(found @ weights)
    # A row's numbers do not depend on the rows beside it.
    alone = [centring.of(states.rows(rows[[i]])).made() for i in range(9)]
    assert np.array_equal(np.vstack(alone), made)


# ------------------------------------------------------------------- sums, bit by bit


def rows_of(seed=0, n_rows=160):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 40, n_rows)
    X = rng.normal(size=(n_rows, D)) * rng.choice([0.1, 1.0, 9.0], size=(n_rows, 1))
    return X, rng.integers(0, 2, n_rows).astype(float), codes


def source_of(X, y, codes):
    return UserSource(X, y, np.ones(len(y)), 40, codes)


def test_no_order_block_or_storage_changes_a_bit(monkeypatch):
    X, y, codes = rows_of()
    query = ASKED.at(np.array([[0.4], [-0.3], [0.2]]))
    found = query.total(query.open(source_of(X, y, codes)), None)
    order = np.random.default_rng(1).permutation(len(y))
    for stored in (X[order], csr_array(X[order]), np.asfortranarray(X[order])):
        for size in (1, 7, 500):
            source = source_of(stored, y[order], codes[order])
            source.facts = replace(source.facts, largest_block=size)
            assert np.array_equal(query.total(query.open(source), None), found)
    monkeypatch.setattr(_gradient_sum, "_MOST_USERS", 3)
    assert np.array_equal(query.total(query.open(source_of(X, y, codes)), None), found)


def test_users_add_their_sums_and_the_longest_are_shortened():
    """Against the definition, user by user."""
    X, y, codes = rows_of()
    query = ASKED.at(np.array([[0.4], [-0.3], [0.2]]))
    most, norm = query.bound().zero_out_user, ASKED.objective.data_norm
    clipped = X / np.maximum(1, np.linalg.norm(X, axis=1) / norm)[:, None]
    table = np.column_stack([clipped, np.full(len(y), norm)])
    residual = ASKED.objective.loss.residual(y, table @ query.weights)
    weighted = table * [1, 1, 0.7]
    parts = np.zeros((40, 3))
    np.add.at(parts, codes, weighted * residual)
    lengths = np.linalg.norm(parts, axis=1)
    assert 5 < np.sum(lengths > most) < 35
    expected = (parts * np.minimum(1, most / np.maximum(lengths, 1e-9))[:, None]).sum(0)
    found = query.total(query.open(source_of(X, y, codes)), None)
    assert found[:, 0] == pytest.approx(expected, abs=1e-3)
    assert query.read(found)[:, 0] == pytest.approx(expected / [1, 1, 0.7] / 0.5, 1e-2)
    assert query.slack(Layout(7, rows_of_unit=1024)) < 1e-9
    alone = [query.total(query.open(source_of(X[own], y[own], codes[own])), None)
             for own in (codes == u for u in range(40))]  # fmt: skip
    assert max(np.linalg.norm(one) for one in alone) <= most
    assert sum(alone) == pytest.approx(found, abs=1e-9)


def longest_part(k):
    """Length of one user's clipped part over the most it may be, in exact numbers.

    The most is next to `k` whole units, from below.
    """
    objective = replace(ASKED.objective, fit_intercept=False, data_norm=1.0)
    rows = np.tile([1.0, 0.0], (7, 1))
    source = UserSource(rows, np.ones(7), np.ones(7), 1, np.zeros(7, dtype=int))
    reader = ExactGradientSum(source, ClippedGradient(objective, user_clip=1.0))
    unit = Fraction(reader._largest) / Fraction(LONGEST) / 2**RESIDUAL_BITS
    most = float(k * unit)
    while Fraction(most) >= k * unit:
        most = math.nextafter(most, 0)
    reader._most = lambda weights: most
    total, _ = reader.whole_sums(np.zeros((2, 1)))
    return Fraction(abs(total.value()[0, 0])) * unit / Fraction(most)


def test_rounding_makes_no_part_longer():
    some = np.random.default_rng(0).integers(2**37, 2**39, 200).tolist()
    assert max(map(longest_part, some)) <= 1


# --------------------------------------------------------------------------- refusals

BY_CLIP = {"solver": "noisy_gd", "solver_params": {"user_clip": 0.5}}
FACTS = {"classes": [0, 1], "privacy_unit": "user", **BY_CLIP}


def test_what_a_clip_of_users_needs(monkeypatch):
    X, y, codes = rows_of()
    query = ASKED.at(np.zeros((3, 1)))
    with pytest.raises(TypeError, match="whose users are known"):
        query.total(query.open(UserSource(X, y, np.ones(len(y)), 40)), None)
    with pytest.raises(ValueError, match="needs privacy_unit='user'"):
        DPLogisticRegression(classes=[0, 1], **BY_CLIP).fit(X, y)
    for bad in (0.0, 1.5):
        with pytest.raises(ValueError, match="'user_clip' parameter"):
            DPLogisticRegression(**{**FACTS, "solver_params": {"user_clip": bad}}).fit(
                X, y, groups=codes
            )
    monkeypatch.setattr(_descent, "_MOST_NUMBERS", 10)
    with pytest.raises(ValueError, match="keeps a number for each user"):
        DPLogisticRegression(**FACTS).fit(X, y, groups=codes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", ["knowledge_transfer", "two_stage"])
def test_parts_of_other_solvers_take_it(key):
    name = {"knowledge_transfer": "teacher", "two_stage": "refit"}[key]
    params = {name: "noisy_gd", f"{name}_params": {"user_clip": 0.5}}
    X, y, codes = rows_of()
    model = DPSparseLogisticRegression(
        classes=[0, 1], privacy_unit="user", solver=key, solver_params=params,
        feature_bound=0.5, random_state=0,
    )  # fmt: skip
    assert model.fit(X, y, groups=codes).privacy_.adjacency == "replace_user"


@pytest.mark.filterwarnings("ignore")
def test_with_one_short_row_a_user_nothing_is_clipped():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, D)) / 4, rng.integers(0, 2, 300)
    facts = {"classes": [0, 1], "privacy_unit": "user", "random_state": 0}
    facts |= {"solver": "noisy_gd", "adjacency": "zero_out"}
    mean = DPLogisticRegression(**facts).fit(X, y, groups=np.arange(300))
    clipped = DPLogisticRegression(**facts, solver_params={"user_clip": 1.0})
    clipped.fit(X, y, groups=np.arange(300))
    assert clipped.coef_ == pytest.approx(mean.coef_, abs=1e-6)
    assert clipped.privacy_.sensitivity == mean.privacy_.sensitivity
