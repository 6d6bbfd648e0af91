"""Exact audits of boosted trees and networks of users; broken twins.

One transcript is replayed on a table in which one user has all rows changed, see
`skdp.audit._exact`. Cases are those of records, whose rows are dealt out to users.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.audit._exact import Replay, marked, replayed, verdict
from skdp.ensemble._trees import uncut
from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.privacy.release._plan import Layout
from skdp.sums import _adder, _leaves
from skdp.sums._counts import CodeCounts
from skdp.sums._exact import WholeSum
from skdp.sums._leaves import LeafReader, LeafSums, LeafTerms, ModelGains
from skdp.sums._network import ExactNetworkSum
from skdp.tables import _memory
from skdp.tables._memory import (
    CachedSource,
    MemorySource,
    UserSource,
    WithOffset,
    equal_shares,
    in_memory,
)
from skdp.tables._source import Block, Source
from tests.audit import test_linear_start as linear_start
from tests.audit import test_networks as networks
from tests.audit import test_newton_boosting as boosting
from tests.audit.users import OF_RECORDS, RELATIONS
from tests.ensemble.fits import loss_of

ROUNDING = 1e-9
OF_USERS = {records: users for users, records in OF_RECORDS.items()}
# Fewer than of records: what is charged for rounding does not show.
N_USERS = 2000

every_relation = pytest.mark.parametrize("relation", RELATIONS)


def as_records(codes, n_users):
    """Planted bug: every row counts as a record."""
    return np.ones(len(codes))


def by_place(codes, n_users):
    """Planted bug: a row's share follows from its place in the table."""
    return 1 / (1.0 + np.arange(len(codes)) % 2)


def of_two_ids(codes, n_users):
    """Planted bug: the id of a row is cut off, so that a user has two."""
    halves = 2 * codes + np.arange(len(codes)) % 2
    return equal_shares(halves, 2 * n_users)


def one_row_too_many(codes, n_users):
    """Planted bug: of users with many rows one more counts than is divided by."""
    counts = np.bincount(codes, minlength=n_users)[codes]
    return 1 / np.maximum(counts - 1.0, 1.0)


BUGS = [as_records, by_place, of_two_ids, one_row_too_many]


def dealt(source, n_rows=4, shares=equal_shares):
    """A table whose records are users, of rows that are all alike; the last has most.

    A null record is a user without rows.
    """
    records = getattr(source, "records", source)
    block = records.whole()
    n_users = len(block.y)
    sizes = np.ones(n_users, dtype=np.int64)
    sizes[:-1:100], sizes[-1] = 2, n_rows
    if block.present is not None:
        sizes[~block.present] = 0
    codes = np.repeat(np.arange(n_users), sizes)
    own = shares(codes, n_users)
    users = UserSource(block.X[codes], block.y[codes], own, n_users)
    if records is source:
        return users
    offset = source.offset_of(block.X)[codes]
    return WithOffset(users, lambda _: offset)


def sources(case, relation):
    """The two tables of records of a case."""
    other = case.other if relation == "replace_user" else None
    return case.source((case.code, case.target, case.raw)), case.source(other)


def of_users(case, relation):
    return replace(case, adjacency=relation, n=min(case.n, N_USERS))


def told(case, relation, seed=0, pair=None, n_rows=4, shares=equal_shares, **bugs):
    """What a transcript of a boosted fit of users tells apart, over what is charged."""
    case = of_users(case, relation)
    if pair is None:
        pair = [dealt(own, n_rows, shares) for own in sources(case, relation)]
    first, second, models = replayed(case.run, tuple(pair), seed, **bugs)
    one, other = map(boosting.bytes_of, models)
    assert one == other, "what is made of the same releases is not the same"
    return verdict(first, second, case.event)


# ------------------------------------------------------------------------------- trees


@pytest.mark.parametrize("name", boosting.WORST)
def test_a_user_of_equal_rows_is_told_apart_as_a_record_is(name):
    case = boosting.WORST[name]
    relation = OF_USERS[case.adjacency]
    for n_rows in (1, 3):
        found = told(case, relation, n_rows=n_rows)
        assert 0.99 <= found.total <= found.largest <= 1 + ROUNDING
    assert told(case, relation, shrink=0.5).total > 1.98


@every_relation
@pytest.mark.parametrize("name", ["logistic", "softmax", "squared", "quantile"])
def test_gains_cost_users_what_is_charged(name, relation):
    case = boosting.GAINS[f"{name}, {OF_RECORDS[relation]}"]
    found = told(case, relation)
    assert found.largest <= 1 + ROUNDING
    assert found.lines[1,] > 0.98
    assert told(case, relation, shares=as_records).lines[1,] > 3.8


@every_relation
def test_a_histogram_of_targets_costs_users_what_is_charged(relation):
    case = boosting.TARGETS[OF_RECORDS[relation]]
    found = told(case, relation)
    assert found.largest <= 1 + ROUNDING
    assert found.lines[0,] > 0.99
    assert told(case, relation, shares=as_records).lines[0,] > 3.9


def at_random(case, rng, n_users=300, most_rows=6):
    """Users with any rows; the last with any others, or none."""
    k, sizes = max(case.n_outputs, 2), rng.integers(0, 3, n_users - 1)
    is_regression = case.loss in boosting.REGRESSIONS

    def rows(n):
        y = rng.uniform(-1.5, 1.5, n) if is_regression else rng.integers(0, k, n)
        return rng.integers(0, 2, (n, 1)).astype(np.uint8), y.astype(float)

    others = [rows(n) for n in sizes]
    sizes_of_last = rng.integers(0, most_rows, 2) * [
        1,
        case.adjacency == "replace_user",
    ]
    pair = []
    offsets = rng.normal(0, 3, (sum(sizes) + most_rows * 2, case.n_outputs))
    for which, size in enumerate(sizes_of_last):
        every = [*others, rows(size)]
        codes = np.repeat(np.arange(n_users), [len(y) for _, y in every])
        X, y = (np.concatenate(own) for own in zip(*every, strict=True))
        users = UserSource(X, y, equal_shares(codes, n_users), n_users)
        own = offsets[: len(y)].copy()
        own[sum(sizes) :] = offsets[sum(sizes) + which * most_rows :][:size]
        pair.append(WithOffset(users, lambda _, own=own: own) if case.raw else users)
    return pair


@every_relation
@pytest.mark.parametrize("loss", ["logistic", "softmax", *boosting.REGRESSIONS])
def test_no_pair_of_users_is_told_apart_by_more(loss, relation):
    rng = np.random.default_rng(0)
    k = 3 if loss == "softmax" else 1
    for i in range(10):
        params = {"learning_rate": 0.5, "gains_share": 0.2}
        if loss in boosting.REGRESSIONS and i % 2:
            params |= {"targets_share": 0.2}
        labels = () if loss in boosting.REGRESSIONS else rng.uniform(0.1, 1, max(k, 2))
        labels = labels if len(labels) == 0 else labels / labels.max()
        facts = {
            "n_outputs": k,
            "n": 300,
            "raw": (0.0,) * k if not i % 2 else (),
            "columns": boosting.ORDERED,
            "params": params,
            "facts": {"label_weights": tuple(labels)},
        }
        case = boosting.Case(loss, relation, **facts)
        found = told(case, relation, i, pair=at_random(case, rng))
        assert found.largest <= 1 + ROUNDING


# ----------------------------------------------------------------- with a linear start


@every_relation
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_trees_of_users_that_continue_a_linear_model(loss, relation):
    case = linear_start.CASES[f"{loss}, {OF_RECORDS[relation]}"]
    found = [told(case, relation, seed) for seed in range(3)]
    assert max(each.largest for each in found) <= 1 + ROUNDING
    assert all(each.lines[1,] > 0.99 for each in found)
    # As of records, of whom there are more in those cases.
    floor = linear_start.FLOORS[f"{loss}, {OF_RECORDS[relation]}"]
    assert max(each.total for each in found) >= floor - 0.2


@every_relation
def test_twin_of_a_linear_start_that_takes_rows_for_records_is_found(relation):
    case = linear_start.CASES[f"logistic, {OF_RECORDS[relation]}"]
    assert told(case, relation, shares=as_records).total > 2


@pytest.mark.parametrize("loss", linear_start.RELABELLED)
def test_the_descent_costs_users_what_is_charged(loss):
    case = linear_start.RELABELLED[loss]
    found = told(case, "replace_user")
    assert found.largest <= 1 + ROUNDING
    part = (3, 0) if loss == "squared" else (2, 0)
    assert found.lines[part] > (0.93 if loss == "squared" else 0.5)


# ------------------------------------------------------------------------ broken twins


@every_relation
@pytest.mark.parametrize("shares", BUGS)
def test_twins_whose_shares_are_too_large_are_found(shares, relation):
    case = boosting.WORST["logistic, start and leaves, zero_out"]
    assert told(case, relation).largest <= 1 + ROUNDING
    assert told(case, relation, shares=shares).largest > 1.3


@every_relation
def test_twin_of_leaves_that_forget_shares_is_found(relation, monkeypatch):
    honest = LeafReader.all_rows

    def all_rows(self, rows):
        block = honest(self, rows)
        return replace(block, present=block.present > 0)

    monkeypatch.setattr(LeafReader, "all_rows", all_rows)
    case = boosting.WORST["logistic, start and leaves, zero_out"]
    assert told(case, relation).largest > 1.9


@every_relation
def test_rows_beyond_the_most_do_not_count(relation, monkeypatch):
    monkeypatch.setattr(_memory, "MOST_ROWS_OF_A_USER", 3)

    def but_all_of_them(codes, n_users):
        """Planted bug: all rows count, divided by the most."""
        return 1 / np.minimum(np.bincount(codes, minlength=n_users), 3)[codes]

    case = boosting.WORST["logistic, start and leaves, zero_out"]
    found = told(case, relation, n_rows=7)
    assert 0.7 <= found.total <= found.largest <= 1 + ROUNDING
    assert told(case, relation, n_rows=7, shares=but_all_of_them).total > 1.6


@pytest.mark.parametrize("query", [LeafSums, ModelGains])
def test_twin_that_charges_the_rounding_of_one_row_is_found(query, monkeypatch):
    """On a coarse grid; a thousand rows move a fine one by as much."""
    relation, coarse = "zero_out_user", 2.0**-4
    case = boosting.WORST["logistic, start and leaves, zero_out"]
    if query is ModelGains:
        case = boosting.GAINS["logistic, zero_out"]
    monkeypatch.setattr(query, "unit", coarse)
    # Rows of little more than half a unit each: one, if they are rounded.
    n_rows = 32 if query is ModelGains else 14
    assert told(case, relation, n_rows=n_rows).largest <= 1
    honest = query.slack
    monkeypatch.setattr(query, "slack", lambda self, layout: honest(self, Layout(1)))
    assert told(case, relation, n_rows=n_rows).largest > 1.1


@every_relation
def test_twin_of_counts_to_the_nearest_is_found(relation, monkeypatch):
    """On a coarse grid: 9 rows of 16 / 9 units each are 9, or 18 to the nearest."""
    monkeypatch.setattr(CodeCounts, "unit", 2.0**-4)
    case = boosting.WORST["squared, start, counts and leaves, zero_out"]
    if relation == "replace_user":
        case = boosting.WORST["logistic, counts and another leaf"]
    assert told(case, relation, n_rows=9).largest <= 1 + ROUNDING

    def to_the_nearest(self, reader, rows):
        total = WholeSum(self.shape)
        for block in reader.blocks():
            units = np.rint(block.present / CodeCounts.unit)
            total.add(np.bincount(block.X[:, 0], units, minlength=2))
        return (total,)

    monkeypatch.setattr(CodeCounts, "whole_sums", to_the_nearest)
    assert told(case, relation, n_rows=9).lines[1,] > 1.1


@pytest.mark.parametrize("loss", ["logistic", "softmax", *boosting.REGRESSIONS])
def test_rows_that_are_alike_add_what_one_of_them_does(loss):
    """Curvatures as residuals: of the smaller of both neighbours tell little."""
    rng = np.random.default_rng(0)
    k, n = 3 if loss == "softmax" else 1, 50
    is_of_numbers = loss in boosting.REGRESSIONS
    y = rng.uniform(-1, 1, n) if is_of_numbers else rng.integers(0, max(k, 2), n)
    rows = np.zeros((n, 1), dtype=np.uint8), y.astype(float)
    users = np.arange(n).repeat(4)
    of_users = UserSource(
        rows[0][users], rows[1][users], equal_shares(users, n), n, users
    )
    trees, none = uncut(boosting.ORDERED), np.zeros((0, 1, k))
    start = np.full(k, 0.3)
    terms = LeafTerms(loss_of(loss, k), 1.0, 1.0)
    leaves = LeafSums(terms, trees, start, none, n)
    found, one = (
        leaves.total(leaves.open(own), None) for own in (of_users, MemorySource(*rows))
    )
    assert found == pytest.approx(one, abs=1e-5)
    assert (np.abs(one) > 1).sum() >= 2  # of both kinds


def test_readers_of_records_do_not_take_users():
    source = dealt(boosting.WORST["logistic, another leaf"].source(None))
    assert _leaves.held(source, with_shares=True).present.dtype == np.float64
    for shown in (source, WithOffset(source, lambda codes: codes)):
        with pytest.raises(TypeError, match="each row as a record"):
            _leaves.held(shown)

    class Shown(Source):
        """A view that does not say that its rows are those of users."""

        facts = replace(source.facts, is_of_users=False)

        def blocks(self):
            return (Block(b.X, b.y, b.present) for b in source.blocks())

    with pytest.raises(TypeError, match="each row as a record"):
        _leaves.held(Shown(), with_shares=True)


class Streamed(Source):
    """Users whose rows are read anew each time, in blocks that say nothing of them."""

    def __init__(self, source):
        self._source = source
        self.facts = replace(source.facts, is_stable=False, largest_block=7)

    def blocks(self):
        whole = self._source.whole()
        for start in range(0, len(whole.y), 7):
            run = slice(start, start + 7)
            yield Block(whole.X[run], whole.y[run], whole.present[run])


@every_relation
def test_users_who_are_read_once_and_kept_have_the_same_bits(relation):
    case = boosting.WORST["logistic, counts and another leaf"]
    case = of_users(case, relation)
    source = dealt(case.source((0, 1.0, ())))
    kept = in_memory(Streamed(source))
    assert (type(kept), kept.n_samples, kept.facts.is_of_users) == (
        CachedSource,
        N_USERS,
        True,
    )
    one, other = (case.run(own, Replay(3)) for own in (source, kept))
    assert boosting.bytes_of(one) == boosting.bytes_of(other)
    with pytest.raises(TypeError, match="each row as a record"):
        _leaves.held(kept)


# ---------------------------------------------------------------------------- networks


def told_of_network(
    relation, pair=None, loss=None, seed=0, n_rows=3, shares=equal_shares, **changes
):
    """What three steps of a network tell apart, over what is charged."""
    objective = networks.objective_of(relation, loss or LogisticLoss(), **changes)
    solver = networks.solver_of("noisy_gd", objective, n_steps=3)
    z = networks.multiplier_of(solver, objective)
    plan, event = solver.plan(objective), solver.plan(objective).event(z, relation)

    def run(source, noise):
        answers = marked(plan, source, z, relation, noise)
        return solver.run(answers, replace(objective, seed=7), Progress())

    if pair is None:
        pair = [one_of_many(own, n_rows, shares) for own in worst(relation)]
    one, other, results = replayed(run, tuple(pair), seed)
    assert results[0].weights.tobytes() == results[1].weights.tobytes()
    return verdict(one, other, event)


def worst(relation):
    return networks.pair_of(OF_RECORDS[relation])


def one_of_many(source, n_rows, shares):
    """Four users, of whom the first has several rows, or none."""
    block = source.whole()
    sizes = np.array([n_rows, 1, 2, 1]) * block.present
    codes = np.repeat(np.arange(networks.N), sizes)
    return UserSource(
        block.X[codes], block.y[codes], shares(codes, networks.N), networks.N
    )


@every_relation
def test_a_user_of_equal_rows_moves_a_network_as_a_record_does(relation):
    for n_rows in (1, 3, 1024):
        found = told_of_network(relation, n_rows=n_rows)
        # Numbers that are cut to units are less than a thousandth part shorter.
        least = 0.999 if n_rows < 9 else 0.98
        assert least < found.total <= found.largest <= 1 + ROUNDING


@every_relation
def test_no_pair_of_users_moves_a_network_by_more(relation):
    rng = np.random.default_rng(0)
    losses = (LogisticLoss(), SoftmaxLoss(3))

    def source(others, own):
        rows = [*others, own]
        codes = np.repeat(np.arange(networks.N), [len(y) for _, y in rows])
        X, y = (np.concatenate(each) for each in zip(*rows, strict=True))
        return UserSource(X, y, equal_shares(codes, networks.N), networks.N)

    def rows(n, k):
        X = rng.normal(size=(n, 2)) * rng.choice([0.1, 1, 10])
        return X, rng.integers(0, k, n).astype(float)

    for i in range(20):
        k = 2 + i % 2
        others = [rows(int(rng.integers(1, 4)), k) for _ in range(networks.N - 1)]
        most = rng.choice([3, 60])
        sizes = rng.integers(0, most, 2) * [1, relation == "replace_user"]
        pair = [source(others, rows(n, k)) for n in sizes]
        found = told_of_network(relation, pair, losses[i % 2], seed=i)
        assert found.largest <= 1 + ROUNDING


@every_relation
@pytest.mark.parametrize("shares", BUGS)
def test_twins_of_networks_whose_shares_are_too_large_are_found(shares, relation):
    found = told_of_network(relation, n_rows=4, shares=shares)
    assert found.total > 1.3


@every_relation
def test_twin_of_networks_that_forget_shares_is_found(relation, monkeypatch):
    monkeypatch.setattr(_adder, "row_weights", lambda block: None)
    assert told_of_network(relation).total > 1.9


@every_relation
def test_filters_of_users(relation):
    flat = dict(networks.FILTERS)
    rng = np.random.default_rng(0)
    for n_rows in (1, 5):
        pair = []
        for block in (own.whole() for own in worst(relation)):
            sizes = np.array([n_rows, 1, 1, 1]) * block.present
            codes = np.repeat(np.arange(networks.N), sizes)
            shares = equal_shares(codes, networks.N)
            rows = networks.FLAT[codes], block.y[codes], shares
            pair.append(UserSource(*rows, networks.N))
        found = told_of_network(relation, pair, seed=int(rng.integers(9)), **flat)
        assert 0.95 < found.total <= found.largest <= 1 + ROUNDING


def test_rows_that_are_not_kept_keep_their_shares():
    """Of a source that shows its rows anew each time, sampled blocks are joined."""
    shares = np.array([0.5, 0.0, 0.25])
    reader = ExactNetworkSum(
        UserSource(networks.X[:3], np.ones(3), shares, 2),
        networks.objective_of("zero_out_user", n_samples=2),
        1.0,
    )
    for reader._keeps in (True, False):
        (drawn,) = reader._drawn(np.arange(3))
        assert drawn.present.tolist() == [0.5, 0.25]
