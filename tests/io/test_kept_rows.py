"""Rows of sources that are kept from pass to pass: the same bits, by a public figure.

How often a place is read may stand in its logs. So of records it must follow from what
is declared, and not from what their cells hold. How many rows users have is private:
whether theirs are kept may be known by time and memory, and by nothing else.
"""

from __future__ import annotations

import gc
import pickle
import re
import warnings
import weakref
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from skdp import (
    DPLinearRegression,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSparseLogisticRegression,
    TableEncoder,
)
from skdp.exceptions import SourceError
from skdp.sums import _gradient_sum
from skdp.sums._gradient_sum import ExactGradientSum
from skdp.sums._network import ExactNetworkSum
from skdp.tables._source import KeptRows, Room
from tests.io import places
from tests.io.places import COLUMNS, FEATURES, N
from tests.io.users import (
    MODEL,
    MOST,
    ROUNDING,
    by_database,
    by_file,
    facts_of,
    fitted_here,
    shuffled,
    table,
    told,
    users_of,
)

# So wide that rows are sparse.
WIDE = TableEncoder(COLUMNS, numeric="hats", n_knots=65)
GIVEN = {"classes": [0, 1], "epsilon": 10.0, "random_state": 0}
STEPS = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}, **GIVEN}
SUMS = {"solver_params": {"n_steps": 4, "user_clip": 0.5}}
DEFAULT = DPLogisticRegression(columns=COLUMNS, **GIVEN)
MODELS = {
    "dense": DPLogisticRegression(**STEPS),
    "cells": DEFAULT,
    "sparse": DPLogisticRegression(columns=WIDE, **STEPS),
    "selected": DPSparseLogisticRegression(
        columns=WIDE, n_nonzero_coefs=2, solver="peeling", **GIVEN
    ),
    "clipped sums": DPLogisticRegression(**STEPS | SUMS),
    "network": DPMLPClassifier(columns=WIDE, hidden_layer_sizes=(4,), **STEPS),
}
# Bytes: of no row, of some of them, of all.
NONE, SOME, ALL = 0, 2000, 2**30
# What is kept of a row beside its numbers: where it ends, lengths, target, presence.
OF_ROW = 48
pytestmark = pytest.mark.filterwarnings("ignore")


def limited(monkeypatch, n_bytes):
    places.keeps(monkeypatch, n_bytes)


def weights_of(model):
    names = ("coef_", "intercept_", "coefs_", "intercepts_")
    found = [np.ravel(w) for name in names for w in getattr(model, name, [])]
    return np.concatenate(found).tobytes()


@pytest.mark.parametrize("name", ["dense", "clipped sums", "network"])
def test_kept_or_not_bits_of_users_are_those_of_memory(
    name, tmp_path, monkeypatch, passes
):
    frame = table(many=[MOST + 300])
    model = clone(MODELS[name]).set_params(privacy_unit="user")
    found = fitted_here(model, frame[FEATURES], frame["y"], frame["id"])
    here, n_passes = weights_of(found), []
    for n_bytes in (NONE, SOME, ALL):
        limited(monkeypatch, n_bytes)
        source = places.in_files(frame, tmp_path, batch_size=300, **facts_of(frame))
        assert weights_of(clone(model).fit(source)) == here
        n_passes.append(len(passes))
        passes.clear()
    of_none, of_some, of_all = n_passes
    assert of_none == of_some > of_all
    found = set()
    for n_bytes in (NONE, ALL):
        limited(monkeypatch, n_bytes)
        source = places.in_database(shuffled(frame, n_bytes % 7), **facts_of(frame))
        found.add(weights_of(clone(model).fit(source)))
    assert len(found) == 1


# -------------------------------------------------------------------------- neighbours


def straddling():
    """Tables of which one is within `SOME` bytes, and its neighbour is not."""
    users = users_of(np.random.default_rng(3))
    worst = np.array([0.7, -0.7, 0.7]) * 1e6, 0
    return [*users[:-1], [worst] * (MOST + 76)], [*users[:-1], []]


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_a_limit_that_one_user_passes_tells_nothing(
    adjacency, tmp_path, monkeypatch, passes, capsys
):
    limited(monkeypatch, SOME)
    make = by_database if adjacency == "zero_out" else by_file(tmp_path / "rows")
    assert told(make, straddling(), adjacency) <= 1 + ROUNDING
    of_one, of_other = (
        sum(own is source for own in passes) for source in (passes[0], passes[-1])
    )
    assert of_one > of_other == 1, "the pair is on both sides of the limit"
    said = []
    for users in straddling():
        clone(MODEL).set_params(verbose=True).fit(make(users))
        said.append(capsys.readouterr())
    assert said[0] == said[1]


# ----------------------------------------------------------------------- of records


@pytest.mark.parametrize("name", ["cells", "sparse", "network"])
def test_records_are_kept_up_to_the_declared_figure(
    name, tmp_path, monkeypatch, passes
):
    readers = []
    for kind in (ExactGradientSum, ExactNetworkSum):

        def watched(self, *given, made=kind.__init__):
            made(self, *given)
            readers.append(self)

        monkeypatch.setattr(kind, "__init__", watched)
    model, frame = MODELS[name], places.numbers()
    here = weights_of(clone(model).fit(frame[FEATURES], frame["y"]))
    readers.clear()
    source = places.in_files(frame, tmp_path / "rows", batch_size=97)
    assert weights_of(clone(model).fit(source)) == here
    n_kept, own = len(passes), readers[-1]._source
    most = int(N * min(own.facts.row_bytes, own.n_features * 24))
    taken = sum(block.n_bytes for block in readers[-1]._kept._blocks)
    # And not many times less: what is declared is what rows may take.
    assert most / 4 < taken <= most + N * OF_ROW
    for n_bytes, is_more in ((most, False), (most - 1, True)):
        limited(monkeypatch, n_bytes)
        passes.clear()
        assert weights_of(clone(model).fit(source)) == here
        assert (len(passes) > n_kept) == is_more


def test_cells_take_a_tenth_of_what_sparse_rows_take(tmp_path, monkeypatch):
    kept, made = [], _gradient_sum.KeptRows

    class Spied(made):
        def passed(self, read):
            yield from super().passed(read)
            kept.append(sum(block.n_bytes for block in self._blocks))

    monkeypatch.setattr(_gradient_sum, "KeptRows", Spied)
    source = places.in_files(places.numbers(), tmp_path / "rows")
    clone(DEFAULT).fit(source)
    of_row = len(FEATURES) * 4 + 8 + 8 + 1  # cells, factor, target, presence
    assert set(kept) == {N * of_row}


# ---------------------------------------------------------------- the memory of sources


def warned_of_memory(model, source):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(source)
    return [str(each.message) for each in found if "memory" in str(each.message)]


def test_a_fit_says_before_it_that_rows_will_be_read_anew(tmp_path, passes):
    frame, most = places.numbers(), N * (len(FEATURES) * 4 + 8)
    bits = [weights_of(clone(DEFAULT).fit(frame[FEATURES], frame["y"]))]
    for memory, is_enough in ((most, True), (most - 1, False), (0, False)):
        source = places.in_files(frame, tmp_path / "rows", memory=memory, disk=0)
        passes.clear()
        model = clone(DEFAULT)
        told = warned_of_memory(model, source)
        assert len(told) == (not is_enough)
        n_steps = model.privacy_.solver_params["n_steps"]
        if told:
            # And not many more passes than it says.
            n_passes = int(re.search(r"(\d+) passes", told[0])[1])
            assert n_steps < n_passes <= len(passes) <= n_passes + 1
            assert f"memory={most} or more" in told[0]
        else:
            assert len(passes) < 10
        bits.append(weights_of(model))
    assert len(set(bits)) == 1


@pytest.mark.parametrize("given", [{"solver": "adassp"}, {"privacy_unit": "user"}])
def test_nothing_is_said_of_few_passes_or_of_users(given, tmp_path):
    frame = table()
    facts = facts_of(frame) if "privacy_unit" in given else {}
    source = places.in_files(frame, tmp_path / "rows", memory=0, disk=0, **facts)
    model = DPLogisticRegression(classes=[0, 1], columns=COLUMNS, epsilon=10.0)
    if "solver" in given:
        model = DPLinearRegression(columns=COLUMNS, epsilon=10.0, target_bounds=(0, 1))
    assert not warned_of_memory(model.set_params(**given), source)


# ------------------------------------------------------------- what no cell may decide


# Bytes of sparse rows, between those of the two tables.
BETWEEN = 240_000


def readings(tmp_path, passes):
    """Of records whose cells are between two knots each, and all on a knot."""
    between, found = places.numbers(), []
    on_knots = between.assign(**dict.fromkeys(FEATURES, -2.0))
    for number, frame in enumerate((between, on_knots)):
        passes.clear()
        source = places.in_files(frame, tmp_path / str(number), batch_size=97)
        clone(MODELS["sparse"]).fit(source)
        found.append(len(passes))
    return found


def test_how_often_records_are_read_follows_from_no_cell(tmp_path, monkeypatch, passes):
    for n_bytes in (NONE, BETWEEN):
        limited(monkeypatch, n_bytes)
        of_many, of_few = readings(tmp_path, passes)
        assert of_many == of_few
    room = Room(BETWEEN)
    monkeypatch.setattr(_gradient_sum, "room_for", lambda *given: room)  # a twin
    of_many, of_few = readings(tmp_path, passes)
    assert of_many > of_few


# ------------------------------------------------------------------- after the fit


class Watched(KeptRows):
    """Rows that are kept, and what is alive of them."""

    made: ClassVar[weakref.WeakSet[Watched]] = weakref.WeakSet()

    def __init__(self, room):
        super().__init__(room)
        self.made.add(self)


@pytest.mark.long
def test_no_row_outlives_a_fit_or_goes_with_its_model(tmp_path, monkeypatch):
    Watched.made.clear()
    monkeypatch.setattr(_gradient_sum, "KeptRows", Watched)
    source = places.in_files(places.numbers(), tmp_path / "rows")
    for name in ("sparse", "selected", "network"):
        model = clone(MODELS[name]).fit(source)
        gc.collect()
        assert not Watched.made
        assert b"KeptRows" not in pickle.dumps(model)
    n_kept, residual = [], ExactGradientSum._residual

    def fails(self, *given):
        n_kept.append(len(self._kept._blocks or []))
        if len(n_kept) > 2:
            raise OSError
        return residual(self, *given)

    monkeypatch.setattr(ExactGradientSum, "_residual", fails)
    with pytest.raises(SourceError) as told:
        clone(MODELS["sparse"]).fit(source)
    assert n_kept[-1] == 1, "rows were kept when it failed"
    gc.collect()
    assert not Watched.made
    assert told.value.__context__ is None
