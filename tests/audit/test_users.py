"""Exact audits of fits of users, of whom one has all rows changed; broken twins.

See `skdp.audit._exact`: one transcript, replayed on the neighbour. The pairs are those
of `tests.audit.users`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp._users import Users
from skdp.audit._exact import replayed, verdict
from skdp.exceptions import UnboundedQueryError
from skdp.losses import CauchyLoss, HuberHingeLoss, SigmoidLoss, SoftmaxLoss
from skdp.losses._classification import weighted
from skdp.privacy.release._plan import Bound
from skdp.sums import _adder
from skdp.sums._gradient import ClippedGradient
from skdp.tables import _memory
from tests.audit import centred_descent, tables
from tests.audit.linear import ALL_LOSSES, BUDGETS
from tests.audit.users import (
    OF_RECORDS,
    RELATIONS,
    TAKES_USERS,
    Cell,
    as_users,
    at_random,
    in_one_direction,
    table,
)

ROUNDING = 1e-9
OF_GRADIENTS = ("graduated_gd", "heavy_ball", "nesterov", "noisy_gd")
# Audited by `test_users_of_features`.
OF_FEATURES = ("frank_wolfe", "iht", "knowledge_transfer", "peeling", "two_stage")
OF_CONVEX = ("heavy_ball", "nesterov", "noisy_gd")
LOSSES = ("logistic", "softmax", "squared", "hinge")

every_relation = pytest.mark.parametrize("relation", RELATIONS)


def as_tables(pair, **facts):
    return tuple(table(users, **facts) for users in pair)


def test_these_solvers_take_users():
    # Of streams alone; tests/papers/io/test_streams_of_users.py audits them by part.
    others = ("adassp", "ftrl")
    assert sorted(TAKES_USERS) == sorted([*OF_GRADIENTS, *OF_FEATURES, *others])


def test_these_queries_state_bounds_of_users():
    """Each of them is audited below, and its reader on the proof page."""
    folder = Path(skdp.__file__).parent / "sums"
    texts = {x.stem: x.read_text() for x in folder.glob("*.py")}
    stated = {name for name, text in texts.items() if ".with_user_bounds()" in text}
    assert stated == {"_gradient", "_leaves", "_network"} | {"_adder"}
    bounded = {name for name, text in texts.items() if "(BoundedSum)" in text}
    known = {"_counts", "_moments", "_leaves"}  # some in test_users_of_models.py
    assert bounded == known | {"_record_sums"}  # in test_centred_descent.py
    assert Bound(zero_out=2.0, replace_one=1.0).with_user_bounds().replace_user == 2.0
    for bound in (Bound(zero_out=2.0, replace_one=1.0), Bound(zero_out=1.0)):
        for relation in RELATIONS:
            with pytest.raises(UnboundedQueryError):
                bound.under(relation)


@pytest.mark.parametrize("n_outputs", [3, 10])
@pytest.mark.parametrize("kind", [SoftmaxLoss, HuberHingeLoss, CauchyLoss, SigmoidLoss])
def test_with_several_outputs_the_diameter_is_that_of_a_ball(kind, n_outputs):
    """Each output's number is cut by itself, so that a sharper one holds of no user."""
    own = kind(n_outputs=n_outputs) if kind is not SoftmaxLoss else kind(n_outputs)
    weights = (1.0, *[0.2] * (n_outputs - 1))
    for loss in (own, weighted(own, weights)):
        cell = Cell("noisy_gd", "softmax", "replace_user").objective
        for clip, share in itertools.product([math.inf, 0.3], [1.0, 0.3]):
            asked = ClippedGradient(replace(cell, loss=loss), clip, share)
            for norm in (0.0, 0.1, 1.0, 20.0, math.inf):
                bound = asked.bound(asked.radius(norm))
                assert bound.replace_user >= 2 * bound.zero_out_user * (1 - 1e-14)


# ------------------------------------------------------------------------- it is tight


@every_relation
@pytest.mark.parametrize("key", OF_GRADIENTS)
def test_a_user_of_equal_rows_is_told_apart_as_a_record_is(key, relation):
    # Its first steps are of the convex loss of the same labels.
    cell = Cell(key, "sigmoid" if key == "graduated_gd" else "logistic", relation)
    pair = in_one_direction(cell.objective.loss, relation)
    for seed in range(3):
        found = cell.found(as_tables(pair), seed)
        assert 0.9995 <= found.total <= found.largest <= 1 + ROUNDING
    assert cell.found(as_tables(pair), shrink=0.5).total > 1.99


@every_relation
@pytest.mark.parametrize(
    ("key", "loss"),
    [
        *itertools.product(OF_CONVEX, LOSSES),
        *itertools.product(["graduated_gd", "noisy_gd"], ["sigmoid", "cauchy"]),
    ],
)
def test_no_pair_of_users_is_told_apart_by_more(key, loss, relation):
    rng = np.random.default_rng(0)
    for is_long in (False, True):
        cell = Cell(key, loss, relation, is_long=is_long)
        for seed in range(8):
            pair = at_random(ALL_LOSSES[loss], relation, rng)
            found = cell.found(as_tables(pair), seed)
            assert found.largest <= 1 + ROUNDING


@every_relation
def test_pure_noise_of_users(relation):
    cell = Cell("nesterov", "logistic", relation, law="pure")
    found = cell.found(as_tables(in_one_direction(cell.objective.loss, relation)))
    assert 0.9995 <= found.total <= found.largest <= 1 + ROUNDING


# ------------------------------------------------------------------ all other queries


def as_records(codes, n_users):
    """Planted bug: every row counts as a record."""
    return np.ones(len(codes))


def told_of_centred(relation, loss="logistic", **facts):
    pair = centred_descent.Case(loss, OF_RECORDS[relation]).pair
    case = centred_descent.Case(loss, relation)
    users = tuple(as_users(source, **facts) for source in pair)
    first, second, results = replayed(case.run, users, 0)
    one, other = map(centred_descent.bytes_of, results)
    assert one == other
    return verdict(first, second, case.event)


@every_relation
@pytest.mark.parametrize("loss", centred_descent.LOSSES)
def test_centred_rows_of_users(loss, relation):
    found = told_of_centred(relation, loss)
    assert found.largest <= 1 + ROUNDING
    assert min(found.lines[0,], found.lines[1,]) > 0.9995
    if relation == "zero_out_user" and loss == "logistic":
        assert found.total > 0.999


@every_relation
def test_twin_of_histograms_that_take_rows_for_records_is_found(relation):
    lines = told_of_centred(relation, shares=as_records).lines
    assert min(lines[0,], lines[1,]) > 3.9
    if relation == "zero_out_user":
        assert min(lines[2, 0], lines[2, 1]) > 3.9


def told_of_step(name, relation, pair, law="gaussian"):
    """A private step of preprocessing, of a user with these rows and another user."""
    kind, params, *_ = tables.TRANSFORMERS[name]
    budget, adjacency = BUDGETS[law], OF_RECORDS[relation]
    facts = {"epsilon": budget.epsilon, "delta": budget.delta, "adjacency": adjacency}
    fits = []

    def run(own, noise):
        X = np.array([*own, [0.7, 0.3]], dtype=float)
        ids = pd.Categorical([*[0] * len(own), 1], categories=[0, 1])
        with tables.answered_by(noise):
            step = kind(**facts, **params, privacy_unit="user").fit(X, groups=ids)
        fits.append(step.privacy_)

    one, other, _ = replayed(run, pair, 0)
    assert fits[0].to_json() == fits[1].to_json()
    assert (fits[0].n_samples, fits[0].unit) == (2, "user")
    return verdict(one, other, fits[0].event)


def worst_of_step(name, relation):
    _, _, first, second = tables.TRANSFORMERS[name]
    # Under zero_out it is the second that is gone, as of records.
    kept = first
    instead = [] if relation == "zero_out_user" else [second] * 2
    return [kept] * 3, instead


@every_relation
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("law", ["gaussian", "pure"])
@pytest.mark.parametrize("name", tables.TRANSFORMERS)
def test_steps_of_preprocessing_tell_as_much_of_users_as_of_records(
    name, law, relation
):
    of_records, _ = tables.transformer(name, OF_RECORDS[relation], law, [0])
    found = told_of_step(name, relation, worst_of_step(name, relation), law)
    assert 0.999 * of_records <= found.total <= found.largest <= 1 + ROUNDING


@every_relation
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", tables.TRANSFORMERS)
def test_no_users_rows_move_a_step_of_preprocessing_by_more(name, relation):
    rng = np.random.default_rng(0)
    holes = [np.nan] if name == "DPSimpleImputer" else []

    def rows():
        values = [-9.0, -2.0, -0.3, 0.0, 0.7, 2.0, 4.0, *holes]
        return list(rng.choice(values, size=(rng.integers(0, 6), 2)))

    for _ in range(20):
        other = [] if relation == "zero_out_user" else rows()
        found = told_of_step(name, relation, (rows(), other))
        assert found.largest <= 1 + ROUNDING


@every_relation
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", tables.TRANSFORMERS)
def test_twins_of_steps_that_take_rows_for_records_are_found(
    name, relation, monkeypatch
):
    ones = property(lambda own: np.ones(len(own.codes)))
    monkeypatch.setattr(Users, "shares", ones)
    assert told_of_step(name, relation, worst_of_step(name, relation)).total > 1.9


# ------------------------------------------------------------------------ broken twins


def by_place(codes, n_users):
    """Planted bug: a row's share follows from its place in the table."""
    return 1 / (1.0 + np.arange(len(codes)) % 2)


def of_two_ids(codes, n_users):
    """Planted bug: the id of a row is cut off, so that a user has two."""
    halves = 2 * codes + np.arange(len(codes)) % 2
    return _memory.equal_shares(halves, 2 * n_users)


def one_row_too_many(codes, n_users):
    """Planted bug: of users with many rows one more counts than is divided by."""
    counts = np.bincount(codes, minlength=n_users)[codes]
    return 1 / np.maximum(counts - 1.0, 1.0)


@every_relation
@pytest.mark.parametrize("shares", [as_records, by_place, of_two_ids, one_row_too_many])
def test_twins_whose_shares_are_too_large_are_found(shares, relation):
    cell = Cell("noisy_gd", "logistic", relation)
    pair = in_one_direction(cell.objective.loss, relation, n_rows=4, instead=4)
    assert cell.found(as_tables(pair)).largest <= 1 + ROUNDING
    assert cell.found(as_tables(pair, shares=shares)).total > 1.3


@every_relation
def test_twin_that_forgets_shares_is_found(relation, monkeypatch):
    cell = Cell("noisy_gd", "logistic", relation)
    pair = in_one_direction(cell.objective.loss, relation)
    monkeypatch.setattr(_adder, "row_weights", lambda block: None)
    assert cell.found(as_tables(pair)).total > 2.4


@every_relation
def test_rows_beyond_the_most_do_not_count(relation, monkeypatch):
    cell = Cell("noisy_gd", "logistic", relation)
    pair = in_one_direction(cell.objective.loss, relation, n_rows=7, instead=7)
    monkeypatch.setattr(_memory, "MOST_ROWS_OF_A_USER", 3)
    found = cell.found(as_tables(pair))
    assert 0.9995 <= found.total <= found.largest <= 1 + ROUNDING

    def but_all_of_them(codes, n_users):
        """Planted bug: all rows count, divided by the most."""
        return 1 / np.minimum(np.bincount(codes, minlength=n_users), 3)[codes]

    assert cell.found(as_tables(pair, shares=but_all_of_them)).total > 2.2
