"""Scores and descriptions of users of sources: the bits of memory, and neighbours.

Neighbours are scored from files and from a database: one transcript, replayed on a
table in which one user has other rows, or none (`skdp.audit._exact`). A model whose
predictions depend on places stands for whatever rounds by them.
"""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPLinearRegression,
    DPLogisticRegression,
    describe,
    private_evaluation,
    private_score,
)
from skdp._users import Users
from skdp.audit._exact import replayed, verdict
from skdp.io import _session as session_module
from skdp.io._external_users import (
    FirstRows,
    LeastRows,
    Rows,
    SharesOfPasses,
    UserIds,
    UserShares,
)
from skdp.io._passes import _Taking
from skdp.io._rows import StreamSource
from skdp.io._scores import SourceScores, _passed, _read, scores_of
from skdp.model_selection._candidates import ScoredTable
from skdp.model_selection._scorer_sums import DISAGREEMENTS
from skdp.model_selection._scorers import resolve_scoring
from skdp.sums import _record_sums as user_scores_module
from skdp.sums._record_sums import (
    MOST_RECORDS,
    MOST_USERS,
    places_of_users,
    statistic_of_users,
)
from tests.audit import tables
from tests.audit.tables import answered_by
from tests.io import places
from tests.io.places import COLUMNS, FEATURES
from tests.io.test_users import (
    ADJACENCIES,
    LAYOUTS,
    MOST,
    N_USERS,
    RELATIONS,
    ROUNDING,
    SOME,
    all_count,
    facts_of,
    least,
    shuffled,
    table,
    table_of,
    users_of,
)

every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
quiet = pytest.mark.filterwarnings("ignore")
BY_USER = {"privacy_unit": "user"}
SEEDED = {**BY_USER, "epsilon": 1.0, "random_state": 0}


class Signs(tables.Says):
    """Predicts whether the first number is positive."""

    def _said(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(float)

    def predict(self, X):
        return self._said(X)

    def predict_proba(self, X):
        return np.column_stack([1 - self._said(X), self._said(X)])


class RowPositions(Signs):
    """Stands for a matrix product: what is predicted depends on places."""

    def _said(self, X):
        return (super()._said(X) + np.arange(len(X))) % 2.0


class Lengths(Signs):
    """The same of how many places there are."""

    def _said(self, X):
        return (super()._said(X) + len(X)) % 2.0


class Refuses(RowPositions):
    """Raises for one value."""

    def _said(self, X):
        if (np.asarray(X)[:, 0] > 0.4).any():
            raise ValueError("0.4")
        return super()._said(X)


def taken(frame, name):
    """As a model takes rows; columns without names are fast."""
    has_names = name in ("declared", "regression")
    return frame[FEATURES] if has_names else frame[FEATURES].to_numpy()


def _fitted():
    frame, plain = places.numbers(), {"epsilon": 5.0, "random_state": 0}
    logistic = DPLogisticRegression(classes=[0, 1], **plain)
    models = {
        "numbers": (logistic, "y", "roc_auc"),
        "declared": (clone(logistic).set_params(columns=COLUMNS), "y", "neg_log_loss"),
        "piped": (make_pipeline(BoundedScaler((-2, 2)), clone(logistic)), "y", "f1"),
        "regression": (
            DPLinearRegression(columns=COLUMNS, target_bounds=(0, 1), **plain),
            "t",
            "r2",
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = {
            name: (model.fit(taken(frame, name), frame[target]), target, scoring)
            for name, (model, target, scoring) in models.items()
        }
    other = clone(logistic).set_params(columns=list(COLUMNS.values()))
    other.fit(frame[FEATURES].to_numpy(), frame["y"])
    both = fitted["numbers"][0], other
    return {
        **fitted,
        "by places": (RowPositions(), "y", "accuracy"),
        "refuses": (Refuses(), "y", "balanced_accuracy"),
        "compared": (both, "y", DISAGREEMENTS),
    }


MODELS = _fitted()
MODEL = MODELS["numbers"][0]


def scorer_of(name):
    model, _, scoring = MODELS[name]
    named = {"target_bounds": (0, 1)} if name == "regression" else {}
    if name == "compared":
        return scoring
    return resolve_scoring(scoring, model, **named)


def exact(source, name):
    """The statistic before noise."""
    scorer, model = scorer_of(name), MODELS[name][0]
    scored = scores_of(source, scorer, model, is_private=True)
    return source.during(lambda: scored.statistic(scorer, model))


def in_memory(frame, name, ids="id"):
    model, target, _ = MODELS[name]
    users = Users.of(frame[ids].to_numpy(), len(frame))
    scored = ScoredTable(taken(frame, name), frame[target], users)
    return scored.statistic(scorer_of(name), model)


# --------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("layout", LAYOUTS)
def test_statistics_are_those_of_memory_bit_for_bit(layout, tmp_path):
    frame = table()
    for number, (name, (_, target, _)) in enumerate(MODELS.items()):
        if layout not in SOME and name not in ("by places", "declared"):
            continue
        ids = "id" if number % 2 else "name"
        (tmp_path / name).mkdir()
        facts = facts_of(frame, groups=ids, target=target)
        source = LAYOUTS[layout](frame, tmp_path / name, **facts)
        here = in_memory(frame, name, ids)
        assert exact(source, name).tobytes() == here.tobytes()
        assert np.any(here)


RELEASES = {
    "private_score": lambda *given, **facts: private_score(
        *given, scoring="neg_log_loss", **facts
    ),
    "private_evaluation": private_evaluation,
    "confusion matrix": partial(private_evaluation, response_method="predict"),
    "comparison": lambda model, *given, **facts: private_evaluation(
        MODELS["compared"][0], *given, **facts
    ),
    "describe": lambda model, X, y=None, **facts: describe(
        pd.DataFrame(X, columns=FEATURES) if isinstance(X, np.ndarray) else X,
        COLUMNS,
        crosses=[("a", "b")],
        **facts,
    ),
}


def record_of(released):
    return getattr(released, "privacy", None) or released.privacy_


def told_of(released):
    """What is released, as bytes."""
    if hasattr(released, "to_frame"):
        released = released.to_frame()
    counts = getattr(released, "counts", None)
    if isinstance(released, pd.DataFrame):
        return released.select_dtypes("number").to_numpy().tobytes()
    if counts is not None:
        return counts.tobytes()
    found = getattr(released, "value", None)
    return repr(found or (released.first_only, released.second_only)).encode()


@quiet
@pytest.mark.parametrize(
    "layouts",
    [
        (*SOME, "shuffled rows"),
        pytest.param(("partitions",), marks=pytest.mark.engines),
    ],
)
@pytest.mark.parametrize("kind", RELEASES)
def test_releases_are_those_of_memory_bit_for_bit(kind, layouts, tmp_path):
    frame, release = table(), RELEASES[kind]
    given = taken(frame, "numbers"), frame["y"]
    here = release(MODEL, *given, groups=frame["id"], **SEEDED)
    for layout in layouts:
        source = LAYOUTS[layout](frame, tmp_path, **facts_of(frame))
        there = release(MODEL, source, **SEEDED)
        assert told_of(here) == told_of(there)
        record = record_of(there)
        assert (record.unit, record.n_samples) == ("user", N_USERS)
        assert record.sensitivity == record_of(here).sensitivity
        assert "number of users, not that of their rows" in record.assumed_public
        assert not any("number of records" in fact for fact in record.assumed_public)


@quiet
@pytest.mark.parametrize("kind", RELEASES)
def test_users_without_rows_are_declared(kind, tmp_path):
    frame, release = table(), RELEASES[kind]
    declared = pd.CategoricalDtype(range(2**53 - 5, 2**53 + N_USERS))
    ids = frame["id"].astype(declared)
    X = taken(frame, "numbers")
    here = release(MODEL, X, frame["y"], groups=ids, **SEEDED)
    for layout in SOME:
        facts = facts_of(frame, n_samples=N_USERS + 5)
        there = release(MODEL, LAYOUTS[layout](frame, tmp_path, **facts), **SEEDED)
        assert told_of(here) == told_of(there)
        assert record_of(there).n_samples == N_USERS + 5
    nobody = LAYOUTS["file"](frame.iloc[:0], tmp_path / "none", **facts)
    assert told_of(release(MODEL, nobody, **SEEDED))


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    (tmp_path / "none").mkdir()


@pytest.mark.parametrize("batch_size", [97, 1 << 14])
def test_of_many_rows_the_first_count_in_files(batch_size, tmp_path):
    frame = table(many=[MOST + 300, 3 * MOST, MOST])
    facts = facts_of(frame, batch_size=batch_size)
    source = places.in_files(frame, tmp_path / "f", n_files=3, **facts)
    assert exact(source, "by places") == in_memory(frame, "by places")


def test_of_many_rows_the_same_count_in_any_order_of_a_database():
    frame = table(many=[MOST + 300, 2 * MOST, MOST])
    turned = frame.iloc[np.arange(len(frame))[::-1]]
    some = least(frame, [*FEATURES, "y", "id"])
    for own, threads in ((shuffled(frame), 2), (turned, 1)):
        source = places.in_database(
            own, threads=threads, batch_size=300, **facts_of(frame)
        )
        assert exact(source, "by places") == in_memory(some, "by places")


@pytest.mark.parametrize("layout", SOME)
@pytest.mark.parametrize(("column", "value"), [("a", np.nan), ("y", 7)])
def test_null_records_are_among_the_rows_of_their_user(layout, column, value, tmp_path):
    frame = table()
    bad = np.arange(len(frame)) % 4 == 0
    holes = frame.copy()
    holes.loc[bad, column] = value
    source = LAYOUTS[layout](holes, tmp_path, **facts_of(frame))
    X = taken(frame, "numbers")
    shares = 1 / frame.groupby("id")["id"].transform("size").to_numpy()
    here = ScoredTable(X, frame["y"], Users.of(frame["id"], len(frame)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Users, "shares", np.where(bad, 0.0, shares))
        stated = here.statistic(scorer_of("numbers"), MODEL)
    assert exact(source, "numbers").tobytes() == stated.tobytes()


@pytest.mark.parametrize("layout", SOME)
def test_rows_without_an_id_are_nobodys(layout, tmp_path):
    frame = table()
    some = frame["name"].where(np.arange(len(frame)) % 7 > 0)
    holes = frame.assign(name=some)
    facts = facts_of(frame, groups="name")
    source = LAYOUTS[layout](holes, tmp_path, **facts)
    for name in ("numbers", "by places"):
        here = in_memory(frame[some.notna()], name, "name")
        assert exact(source, name).tobytes() == here.tobytes()


@quiet
def test_columns_that_models_take_otherwise_are_compared_in_large_blocks(tmp_path):
    """More rows than an estimator is asked about at once, in frames, of records too."""
    frame = places.numbers(9000)
    source = places.in_files(frame, tmp_path / "f")
    one = MODELS["declared"][0]
    other = DPLogisticRegression(columns={"b": (-2, 2)}, classes=[0, 1], random_state=0)
    other.fit(frame[["b"]], frame["y"])
    found = private_evaluation((one, other), source, epsilon=1e3, random_state=0)
    told = one.predict(frame[FEATURES]), other.predict(frame[["b"]])
    right = [labels == frame["y"] for labels in told]
    assert found.first_only == pytest.approx(sum(right[0] & ~right[1]), abs=1)
    assert found.second_only == pytest.approx(sum(right[1] & ~right[0]), abs=1)
    ids = frame.assign(id=np.arange(len(frame)) // 2)
    source = places.in_files(ids, tmp_path / "u", groups="id", n_samples=4500)
    found = private_evaluation((one, other), source, **SEEDED | {"epsilon": 1e3})
    assert found.first_only == pytest.approx(sum(right[0] & ~right[1]) / 2, abs=1)


# ------------------------------------------------------------------------- neighbours


def at_random(n):
    return np.random.default_rng(5).permutation(n)


def by_file(path, order=at_random, **facts):
    def make(users):
        frame = table_of(users, order)
        own = {"groups": "id", "n_samples": len(users), "batch_size": 50, **facts}
        return places.in_files(frame, path, **own)

    return make


def by_database(users):
    frame = table_of(users, at_random)
    return places.in_database(frame, groups="id", n_samples=len(users))


def scored(model, scoring):
    """How a source is scored under a relation."""

    def release(source, adjacency):
        facts = {**BY_USER, "epsilon": 1.0, "adjacency": adjacency}
        return private_score(model, source, scoring=scoring, **facts)

    return release


def described(source, adjacency):
    facts = {**BY_USER, "epsilon": 1.0, "adjacency": adjacency}
    return describe(source, COLUMNS, n_bins=4, cross_bins=2, **facts)


ASKED = {
    "by places": scored(RowPositions(), "accuracy"),
    "by lengths": scored(Lengths(), "accuracy"),
    "refuses": scored(Refuses(), "balanced_accuracy"),
    "signs": scored(Signs(), "roc_auc"),
    "labels": scored(Signs(), "accuracy"),
    "fitted": scored(MODEL, "accuracy"),
    "described": described,
}


def told(name, make, pair, adjacency):
    """What a transcript of whole releases tells apart, over what is charged."""
    records = []

    def run(users, noise):
        with answered_by(noise):
            records.append(record_of(ASKED[name](make(users), adjacency)))

    first, second, _ = replayed(run, pair, 0)
    one, other = (record.to_json() for record in records)
    assert one == other, "what is public depends on a user"
    return verdict(first, second, records[0].event).largest


def pairs(adjacency):
    """Tables of which one user has other rows: many, few, unreadable, or none."""
    rng, along = np.random.default_rng(3), np.array([0.7, -0.7, 0.7])
    users = users_of(rng)
    one, other, unread = [(along, 1)], [(-along, 0)], [(along * math.nan, 1)]
    lists = [[], one * 4, other * (MOST + 76), other + unread * 2, users_of(rng)[0]]
    lists = lists[:1] if adjacency == "zero_out" else lists
    changes = [(own, others) for own in (one * 3, one + other) for others in lists]
    for who, change in enumerate([*changes, (other * (MOST + 76), [])]):
        yield tuple([*users[:who], own, *users[who + 1 :]] for own in change)


@quiet
@every_adjacency
@pytest.mark.parametrize("name", ASKED)
def test_no_neighbour_tells_more_than_is_charged(name, adjacency, tmp_path):
    found = 0.0
    for number, pair in enumerate(pairs(adjacency)):
        if name == "fitted" and max(len(own) for users in pair for own in users) > MOST:
            continue  # which is slow
        make = by_database if number % 2 else by_file(tmp_path / "rows")
        found = max(found, told(name, make, pair, adjacency))
    assert found <= 1 + ROUNDING
    assert found > 0.3


def shares_of_two_more(self, rows, codes):
    return rows.is_present / np.clip(self.users.counts[codes] - 2, 1, MOST)


def shares_of_others(self, rows, codes):
    return rows.is_present / np.clip(self.users.counts[codes - 1], 1, MOST)


# By name: a bug in shares, and how many rows of one user show it.
TWINS = {
    "rows count as records": (
        5,
        lambda patch: patch.setattr(
            UserShares,
            "of",
            lambda self, rows, codes: rows.is_present.astype(float),
        ),
    ),
    "rows beyond the last one count": (
        2 * MOST,
        lambda patch: [
            patch.setattr(kept, "those", all_count) for kept in (FirstRows, LeastRows)
        ],
    ),
    "two rows more than are divided by": (
        3,
        lambda patch: patch.setattr(UserShares, "of", shares_of_two_more),
    ),
    "divided by the rows of another": (
        9,
        lambda patch: patch.setattr(UserShares, "of", shares_of_others),
    ),
}


@quiet
@every_adjacency
@pytest.mark.parametrize("kind", ["labels", "described"])
@pytest.mark.parametrize("name", TWINS)
def test_planted_bugs_are_found(name, kind, adjacency, tmp_path, monkeypatch):
    n_rows, plant = TWINS[name]
    users = [own[:1] for own in users_of(np.random.default_rng(3))]
    worst = (np.array([2.0, -2.0, 2.0]), 1)
    pair = [*users[:-1], [worst] * n_rows], [*users[:-1], []]
    makes = (by_file(tmp_path / "rows"), by_database)
    assert all(told(kind, make, pair, adjacency) <= 1 + ROUNDING for make in makes)
    plant(monkeypatch)
    assert all(told(kind, make, pair, adjacency) > 1.05 for make in makes)


def asked_as_they_stand(self, scorer, model):
    """The twin asks about the rows of a block as they came."""
    shares = SharesOfPasses(
        self.X.users, "id", self.X.has_fixed_order, lambda: _passed(self.X, model)
    ).anew()
    total = np.zeros(scorer.size)
    for read in _read(self.X, scorer, model):
        rows = Rows(read.columns, read.is_present)
        own = np.where(read.there, shares.of(rows, shares.codes(rows)), 0.0)
        total += scorer.statistic(model, read.rows, read.y, own)
    return total


def ranks(self):
    """The twin takes the place of a user among those that are there."""
    return np.append(np.argsort(np.argsort(self._index.to_numpy())), 0)


PLACES = {
    "rows as they stand": (SourceScores, "_of_users", asked_as_they_stand),
    "ranks of ids that are there": (UserIds, "places", property(ranks)),
}


@quiet
@every_adjacency
@pytest.mark.parametrize("name", PLACES)
def test_twins_in_which_others_move_a_row_are_found(
    name, adjacency, tmp_path, monkeypatch
):
    rng = np.random.default_rng(4)
    users = [[(abs(x), u % 2)] for u, ((x, _), *_) in enumerate(users_of(rng, 40))]
    pair = users, [[], *users[1:]]
    make = by_file(tmp_path / "rows", np.arange, batch_size=1 << 14)
    assert told("by places", make, pair, adjacency) <= 1 + ROUNDING
    monkeypatch.setattr(*PLACES[name])
    assert told("by places", make, pair, adjacency) > 2


def as_long_as_needed(scorer, model, X, y, shares, places):
    """The twin ends an array with the last row that there is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_scores_module, "ROWS_AT_ONCE", int(places.max()) + 1)
        return statistic_of_users(scorer, model, X, y, shares, places)


@quiet
@every_adjacency
def test_a_twin_whose_arrays_have_no_public_length_is_found(
    adjacency, tmp_path, monkeypatch
):
    users = [[(abs(x), 1)] for (x, _), *_ in users_of(np.random.default_rng(4))]
    last, before = np.argsort(places_of_users(range(20)))[[-1, -2]]
    assert np.diff(places_of_users([before, last])) % 2  # lengths are odd, and even
    pair = users, [own if u != last else [] for u, own in enumerate(users)]
    make = by_file(tmp_path / "rows", np.arange, batch_size=1 << 14)
    assert told("by lengths", make, pair, adjacency) <= 1 + ROUNDING
    monkeypatch.setattr("skdp.io._scores.statistic_of_users", as_long_as_needed)
    assert told("by lengths", make, pair, adjacency) > 2


@quiet
def test_a_twin_by_places_in_a_database_is_found(monkeypatch):
    """There the order of one user's rows may follow from whether another is there."""
    along = np.array([0.7, -0.7, 0.7])
    many = [(along, 1)] * MOST + [(along, 0)] * MOST
    pair = [[many, [(along, 1)]], [many, []]]

    def make(users):
        turned = np.arange if users[-1] else lambda n: np.arange(n)[::-1]
        frame = table_of(users, turned)
        return places.in_database(frame, groups="id", n_samples=len(users))

    assert told("labels", make, pair, "zero_out") <= 1 + ROUNDING
    monkeypatch.setattr("skdp.io.SqlSource.has_fixed_order", True)
    assert told("labels", make, pair, "zero_out") > 1.5


# ----------------------------------------------------------------------- what is said


@quiet
@every_adjacency
@pytest.mark.parametrize("name", ["labels", "described"])
def test_nothing_is_said_of_how_many_rows_there_are(
    name, adjacency, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(session_module, "_PATIENCE", 0.0)
    for make in (by_file(tmp_path / "rows"), by_database):
        said = set()
        for users in list(pairs(adjacency))[-1]:
            source = make(users)
            ASKED[name](source, adjacency)
            said.add((repr(source), *capsys.readouterr()))
        assert len(said) == 1


# ---------------------------------------------------------------------------- refusals


@pytest.fixture
def books(tmp_path):
    facts = {"epsilon": 9, "delta": 1e-4, "adjacency": "replace_user"}
    return BudgetLedger(tmp_path / "users.db", unit="user", **facts)


@quiet
@every_adjacency
@pytest.mark.parametrize("kind", RELEASES)
def test_releases_are_on_books_of_users(kind, adjacency, tmp_path):
    frame, relation = table(), RELATIONS[adjacency]
    facts = {"epsilon": 9, "delta": 1e-4}
    own = BudgetLedger(tmp_path / "own.db", unit="user", adjacency=relation, **facts)
    rows = BudgetLedger(tmp_path / "rows.db", adjacency=adjacency, **facts)
    source = places.in_files(frame, tmp_path / "f", **facts_of(frame))
    given = {**BY_USER, "epsilon": 1.0, "adjacency": adjacency}
    found = RELEASES[kind](MODEL, source, ledger=own, **given)
    assert record_of(found).adjacency == relation
    assert len(own.spends()) == 1
    with pytest.raises(ValueError, match="unit"):
        RELEASES[kind](MODEL, source, ledger=rows, **given)
    assert not rows.spends()


@quiet
@pytest.mark.parametrize("kind", RELEASES)
def test_what_is_not_of_users_costs_nothing(kind, books, tmp_path):
    frame, release = table(), RELEASES[kind]
    users = places.in_files(frame, tmp_path / "u", **facts_of(frame))
    rows = places.in_files(frame, tmp_path / "r")
    of_rows = BudgetLedger(tmp_path / "rows.db", epsilon=9, delta=1e-4)
    few = facts_of(frame, n_samples=N_USERS - 1)
    for source, given, words in (
        (rows, BY_USER, "must name the column of the users' ids"),
        (users, {}, "without groups= for privacy_unit='record'"),
        (users, {**BY_USER, "groups": frame["id"]}, "must be left out with a source"),
        (users, {"groups": frame["id"]}, "Set privacy_unit='user'"),
        (
            users,
            {**BY_USER, "epsilon": math.inf, "ledger": None},
            "must be finite with privacy_unit",
        ),
        (
            places.in_files(frame, tmp_path / "few", **few),
            BY_USER,
            "including users without rows",
        ),
    ):
        own = books if "privacy_unit" in given else of_rows
        with pytest.raises(ValueError, match=words) as error:
            release(MODEL, source, **{"epsilon": 1.0, "ledger": own, **given})
        assert str(len(frame)) not in str(error.value)
    assert not books.spends() + of_rows.spends()


@quiet
@pytest.mark.parametrize("groups", [None, "id"])
def test_more_than_can_be_summed_exactly_are_refused(groups, tmp_path):
    frame = table()
    most = MOST_RECORDS if groups is None else MOST_USERS
    source = places.in_files(frame, tmp_path / "f", groups=groups, n_samples=most + 1)
    unit = "record" if groups is None else "user"
    with pytest.raises(ValueError, match=f"at most {most}"):
        private_score(MODEL, source, epsilon=1.0, privacy_unit=unit)


@quiet
def test_a_description_reads_users_as_a_fit_does(tmp_path):
    """One view of the rows, whose shares are tested where fits are."""
    frame, seen = table(), []
    source = places.in_files(frame, tmp_path / "f", **facts_of(frame))
    with pytest.MonkeyPatch.context() as patch:
        blocks = StreamSource.blocks
        patch.setattr(
            StreamSource, "blocks", lambda self: (seen.append(1), blocks(self))[1]
        )
        describe(source, COLUMNS, **SEEDED)
    assert seen == [1]


class Codes(Signs):
    """Predicts by codes of texts, where there are some."""

    feature_names_in_ = np.array(["a", "word"], dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # who takes texts takes missing ones
        return tags

    def _said(self, X):
        word = X["word"]
        codes = word.cat.codes if hasattr(word, "cat") else word == "up"
        return codes.to_numpy() % 2.0


def told_by_a_text(groups, path):
    """By how much the exact score moves with one text, where 1 is charged."""
    frame = table().assign(word="up", y=1)
    scorer, found = resolve_scoring("accuracy", Codes()), []
    for word in ("up", "first"):
        own = frame.assign(word=np.where(np.arange(len(frame)) == 0, word, "up"))
        facts = facts_of(frame, groups=groups, features=["a", "word"])
        facts["n_samples"] = len(frame) if groups is None else N_USERS
        source = places.in_files(own, path / word, **facts)
        scored = scores_of(source, scorer, Codes(), is_private=True)
        found.append(source.during(partial(scored.statistic, scorer, Codes())))
    return abs(found[0] - found[1])


@pytest.mark.parametrize("groups", [None, "id"])
def test_texts_of_one_give_no_codes_to_those_of_others(groups, tmp_path):
    assert told_by_a_text(groups, tmp_path) <= 1


@pytest.mark.parametrize("groups", [None, "id"])
def test_broken_twin_that_hands_on_codes_is_found(groups, tmp_path, monkeypatch):
    monkeypatch.setattr(_Taking, "rows", lambda self, rows: rows)
    assert told_by_a_text(groups, tmp_path) > 10
