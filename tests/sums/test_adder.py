"""The adder's lemmas, over all contributions, and four planted bugs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import issparse

from skdp.privacy.release._plan import Bound, Layout
from skdp.sums import _adder
from skdp.sums._adder import BoundedSum, Compiled, Entries, Products, whole_roots
from skdp.sums._exact import added
from skdp.tables._memory import MemorySource, UserSource, equal_shares
from skdp.tables._source import Block
from tests.sums.contributions import EXAMPLES, GRADIENTS, N

ALL = EXAMPLES | GRADIENTS
every_sum = pytest.mark.parametrize("name", ALL)
every_example = pytest.mark.parametrize("name", EXAMPLES)
OF_USERS = [name for name, example in EXAMPLES.items() if example.takes_users]
ALL_OF_USERS = [*OF_USERS, *GRADIENTS]
# Their forms have numbers before they are rounded to the nearest units.
ROUNDED = [name for name in OF_USERS if EXAMPLES[name].query.rounding is np.rint]
MAPPED = ("leaves", "tree gains", "hazards")  # whose sums are mapped to the answer
ROUNDED = [name for name in ROUNDED if name not in MAPPED]


def total(query, source):
    return query.total(query.open(source), None)


def records(example, rows):
    return MemorySource(example.X[rows], example.y[rows])


def users(example, rows, codes, n_users=None):
    """A source of users; `codes` is the user of each row."""
    n_users = n_users or int(codes.max()) + 1
    shares = equal_shares(codes, n_users)
    return UserSource(example.X[rows], example.y[rows], shares, n_users, codes)


# ------------------------------------------------------- Lemma 3: any order, any parts


def parts_of(example, order, ends):
    """Sources of parts of the rows, as records or, if there are users, with shares."""
    if not example.takes_users:
        return [records(example, order[slice(*run)]) for run in pairwise(ends)]
    # Users have rows in several parts, and shares of all of them.
    shares = equal_shares(np.arange(N) % 97, 97)
    return [
        UserSource(example.X[own], example.y[own], shares[own], 97)
        for own in (order[slice(*run)] for run in pairwise(ends))
    ]


def adds_up_in_any_order(example):
    """Whether parts of the rows, in another order, have the bits of all together."""
    query = example.query

    def summed(order, ends):
        parts = parts_of(example, order, ends)
        sums = added([query.whole_sums(query.open(part), None) for part in parts])
        return query.from_whole(parts[0], sums).tobytes()

    rng, wanted = np.random.default_rng(0), summed(np.arange(N), [0, N])
    ends = [0, 1, *range(20, N, 20), N]
    # One number may be rounded to the same units by chance.
    for _ in range(4):
        shuffled = rng.permutation(N)
        if not wanted == summed(shuffled, [0, N]) == summed(shuffled, ends):
            return False
    return True


@every_sum
def test_any_order_and_any_parts_give_the_same_bits(name):
    assert adds_up_in_any_order(ALL[name])


# --------------------------------------- Lemma 3: a row's numbers follow from it alone


SIZES = (1, 2, 3, 7, 8, 9, 64, 65, N)


def numbers(query, source):
    """What each row of a source adds, before weights and rounding, to the last bit."""
    found = []
    for block in query.pieces(query.open(source), None):
        forms = query.added(block)
        for form in forms if isinstance(forms, tuple) else (forms,):
            if isinstance(form, Compiled):
                there = np.flatnonzero(block.weight)
                alone = np.eye(len(block.y))[there]
                rows = [form.sums(one, 2.0**50).ravel() for one in alone]
                found.append(np.array(rows))
            elif isinstance(form, Products):
                parts = [
                    part.toarray() if issparse(part) else part for part in form.parts
                ]
                found += [part.reshape(len(block.y), -1) for part in parts]
            else:
                found.append(dense(query, form, len(block.y)))
    return np.hstack(found)


def depends_on_the_row_alone(example):
    """Whether rows have the same bits in blocks of any size, with and without others.

    Rows in column order are there too, of which a copy of one row has both orders.
    """
    query = example.query
    whole = numbers(query, records(example, np.arange(N)))
    orders = [example.X] if issparse(example.X) else [example.X, example.X.copy("F")]
    for X in orders:
        for size in SIZES:
            alone = numbers(query, MemorySource(X[:size], example.y[:size]))
            if alone.tobytes() != whole[:size].tobytes():
                return False
            is_there = np.arange(size) % 3 == 0
            some = MemorySource(X[:size], example.y[:size], is_there)
            if numbers(query, some).tobytes() != whole[:size][is_there].tobytes():
                return False
    return True


@every_example
def test_the_numbers_of_a_row_depend_on_no_other_row(name):
    assert depends_on_the_row_alone(EXAMPLES[name])


@pytest.mark.parametrize("name", ["targets", "predictions", "errors"])
def test_planted_bug_of_numbers_that_other_rows_round_is_rejected(name, monkeypatch):
    kind = type(EXAMPLES[name].query)
    honest = kind.numbers

    def centred(self, block):
        found = honest(self, block)
        return (found - found.mean()) + found.mean()

    monkeypatch.setattr(kind, "numbers", centred)
    assert not depends_on_the_row_alone(EXAMPLES[name])


# ------------------------------------------------------------ null rows add exactly 0


def nulls_add_nothing(example, *, holds_junk=True):
    """Whether null rows leave no trace, whatever they hold."""
    is_there = np.arange(N) % 3 > 0
    X, y = example.X.copy(), example.y.copy()
    if holds_junk:
        X = X.toarray() if issparse(X) else X
        X[~is_there] = example.junk
        X = type(example.X)(X) if issparse(example.X) else X
        if np.isnan(example.junk):
            y[~is_there] = np.nan
    found = total(example.query, MemorySource(X, y, is_there))
    kept = total(example.query, records(example, is_there))
    return found.tobytes() == kept.tobytes()


@every_sum
def test_null_rows_add_exactly_nothing(name):
    example = ALL[name]
    with np.errstate(all="ignore"):
        assert nulls_add_nothing(example)
    nobody = MemorySource(example.X, example.y, np.zeros(N, dtype=bool))
    assert not total(example.query, nobody).any()


# -------------------------------------------------------- Rows stay as they were given


def leaves_rows_alone(query, example):
    X, y = example.X.copy(), example.y.copy()
    total(query, MemorySource(X, y))
    before, after = (
        [rows.data if issparse(rows) else rows, targets]
        for rows, targets in ((example.X, example.y), (X, y))
    )
    pairs = zip(before, after, strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@every_sum
def test_no_sum_overwrites_the_rows_of_its_source(name):
    assert leaves_rows_alone(ALL[name].query, ALL[name])


def test_planted_bug_of_rows_that_are_rounded_in_place_is_seen(monkeypatch):
    example = EXAMPLES["rows"]
    assert example.query.unit == 1.0
    monkeypatch.setattr(type(example.query), "added", lambda _, block: _padded(block))
    assert not leaves_rows_alone(example.query, example)


def _padded(block):
    return block.X, np.zeros(len(block.y))


# ----------------------------------------------------- Bounds: of records, and of users


def extremes(name, example):
    """Rows of an example and others that move a sum most: opposite, empty and far."""
    X = example.X[:80]
    X, y = (X.toarray() if issparse(X) else X), example.y[:80]
    far = 3.0 if name in ("knots", "targets") else 1.0
    if name == "table":
        X = np.vstack([X, X, X])
        X[80:160, 0] *= -1
        X[160:, 0] = np.nan
    elif X.dtype.kind == "f" and name not in ("states", "dense states", "knots"):
        X = np.vstack([X, -X, np.zeros_like(X)])
        X[160:180] = np.nan if name == "presence" else X[:20] / 2
    n = len(X)
    others = -y if min(example.y) < 0 else 1 - y
    y = far * np.concatenate([np.resize(y, n), np.resize(others, n)])
    X = np.vstack([X, X])
    return (type(example.X)(X) if issparse(example.X) else X), y


def record_moves(name, example):
    """Largest norm of one record's part, and distance of two, over what is charged."""
    query, (X, y) = example.query, extremes(name, example)
    sources = (MemorySource(X[[i]], y[[i]]) for i in range(len(y)))
    with np.errstate(all="ignore"):
        parts = np.array([total(query, source).ravel() for source in sources])
    norm, bound = query.bound().norm, query.bound()
    of_one, slack = np.linalg.norm(parts, norm, axis=1).max(), query.slack(Layout(N))
    parts = np.unique(parts, axis=0)
    of_two = max(np.linalg.norm(parts - part, norm, axis=1).max() for part in parts)
    return of_one / (bound.zero_out + slack), of_two / (bound.replace_one + slack)


@every_example
def test_a_record_moves_a_sum_by_no_more_than_its_bound(name):
    """And by nearly as much, so that half of a bound would be found out."""
    of_one, of_two = record_moves(name, EXAMPLES[name])
    assert 0.75 < max(of_one, of_two) <= 1


class Inexact(BoundedSum):
    """Signs, a little larger than they should be, as the sum says."""

    shape = (1,)
    unit = 2.0**-40
    arithmetic = 1e-3

    def row_bound(self):
        return Bound(zero_out=1.0, replace_one=2.0)

    def added(self, block):
        return np.sign(block.X) * (1 + self.arithmetic)


def test_arithmetic_moves_a_record_by_no_more_than_is_charged():
    query = Inexact()
    one, other = (
        total(query, MemorySource(np.array([[sign]]), np.zeros(1)))
        for sign in (1.0, -1.0)
    )
    most = query.bound().replace_one + query.slack(Layout(2))
    assert 0.999 * most < abs(one - other)[0] <= most


@pytest.mark.parametrize("name", ["codes", "labels"])
@pytest.mark.parametrize("n_rows", [3, 7, 11, 700, 1000])
def test_counts_of_a_user_add_up_to_at_most_one(name, n_rows):
    example, alike = EXAMPLES[name], np.zeros(n_rows, dtype=int)
    found = total(example.query, users(example, alike, alike))
    assert 0.99 < found.max() <= 1


# ----------------------------------------------------- Lemma 1: weights keep the bound


def largest_moves(example, n_rows=8, n_tries=40):
    """Largest norm of one user's part, and distance of two, among rows that add most.

    In units of what is charged.
    """
    query, rng = example.query, np.random.default_rng(0)
    layout = Layout(N, rows_of_unit=n_rows)
    norm = query.bound().norm
    charged = [
        query.bound().under(relation) + query.slack(layout)
        for relation in ("zero_out_user", "replace_user")
    ]
    parts = []
    for _ in range(n_tries):
        # One row, again and again: what a user adds most, and several.
        alike = np.full(n_rows, rng.integers(60))
        rows = alike if rng.random() < 0.7 else rng.integers(N, size=n_rows)
        codes = np.zeros(n_rows, dtype=int)
        parts.append(total(query, users(example, rows, codes)).ravel())
    one = max(np.linalg.norm(part, norm) for part in parts)
    two = max(np.linalg.norm(a - b, norm) for a in parts for b in parts)
    return one / charged[0], two / charged[1]


@pytest.mark.parametrize("name", ALL_OF_USERS)
def test_a_user_moves_a_sum_by_no_more_than_is_charged(name):
    assert max(largest_moves(ALL[name])) <= 1


@pytest.mark.parametrize("name", OF_USERS)
def test_a_user_moves_a_sum_as_one_record_does(name):
    bound = EXAMPLES[name].query.row_bound()
    assert EXAMPLES[name].query.bound() == bound.with_user_bounds()


def test_a_query_without_a_bound_of_users_has_none():
    assert [name for name in EXAMPLES if name not in OF_USERS] == [
        "newton",
        "second moments",
    ]


# ---------------------------------------------- Lemma 2: what rounding moves is charged


def dense(query, form, n_rows):
    """Vectors of a form, before weights and rounding."""
    if issparse(form):
        return form.toarray()
    if isinstance(form, Entries):
        found = np.zeros((n_rows, form.size))
        values = form.values or (np.ones(n_rows),) * len(form.places)
        for places, each in zip(form.places, values, strict=True):
            np.add.at(found, (np.arange(n_rows), places), each)
        return found
    assert not isinstance(form, Compiled | Products)
    return form.reshape(n_rows, -1)


def vectors(query, source):
    """What the rows of a source add, one block after another, with weights."""
    for block in query.pieces(query.open(source), None):
        forms = query.added(block)
        forms = forms if isinstance(forms, tuple) else (forms,)
        n = len(block.y)
        rows = np.hstack([dense(query, form, n) for form in forms])
        yield rows * (np.ones(n) if block.present is None else block.present)[:, None]


@pytest.mark.parametrize("n_rows", [1, 7, 500])
@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_moves_a_user_by_no_more_than_half_the_slack(name, n_rows):
    """Slack is of two neighbours; of one of them half."""
    example, rng = EXAMPLES[name], np.random.default_rng(n_rows)
    query = example.query
    for _ in range(20):
        rows = rng.integers(N, size=n_rows)
        source = users(example, rows, np.zeros(n_rows, dtype=int))
        exact = sum(part.sum(axis=0) for part in vectors(query, source)) * query.scale
        moved = np.linalg.norm(total(query, source).ravel() - exact)
        allowed = query.slack(Layout(N, rows_of_unit=n_rows)) / 2
        # The sum above is one of doubles.
        assert moved <= allowed + 1e-13 * n_rows**0.5


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 7, 64, 999, 1024])
def test_squares_of_roots_of_weights_add_up_to_at_most_one(n_rows):
    roots = [int(root) for root in whole_roots(np.full(n_rows, 1 / n_rows))]
    assert (1 - 2.0**-14) * 4**21 < sum(root**2 for root in roots) <= 4**21


# ----------------------------------------------------------------------- planted bugs


@pytest.mark.parametrize("name", ALL_OF_USERS)
def test_planted_bug_of_weights_that_are_ignored_is_rejected(name, monkeypatch):
    monkeypatch.setattr(
        _adder, "kernel_weights", lambda block: np.ones(len(block.present))
    )
    assert max(largest_moves(ALL[name])) > 1.5


@every_sum
def test_planted_bug_of_null_rows_that_count_is_rejected(name, monkeypatch):
    monkeypatch.setattr(_adder, "kernel_weights", lambda block: None)
    assert not nulls_add_nothing(ALL[name], holds_junk=False)


@pytest.mark.parametrize("name", ROUNDED)
def test_planted_bug_of_sums_that_are_rounded_once_is_rejected(name, monkeypatch):
    """Totals of parts, rounded when they are added up."""

    def units_of(self, block):
        forms = self.added(block)
        forms = forms if isinstance(forms, tuple) else (forms,)
        n = len(block.y)
        rows = np.hstack([dense(self, form, n) for form in forms])
        weights = np.ones(n) if block.present is None else block.present
        return np.rint(weights @ rows / self.unit).reshape(self.shape)

    monkeypatch.setattr(BoundedSum, "_units_of", units_of)
    assert not adds_up_in_any_order(EXAMPLES[name])


def test_rows_without_known_users_are_not_added_up_by_user():
    with pytest.raises(TypeError, match="whose users are known"):
        _adder.rows_of_users(Block(np.ones((2, 1)), np.ones(2)))
