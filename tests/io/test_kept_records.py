"""Rows of declared tables that are kept from pass to pass: by a public figure alone.

How often a place is read may stand in its logs. So of records it must not follow from
what their cells hold: only from how many numbers may be stored of a row.
"""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from skdp import (
    DPLogisticRegression,
    DPMLPClassifier,
    DPSparseLogisticRegression,
    TableEncoder,
)
from skdp.exceptions import SourceError
from skdp.sums import _gradient_sum
from skdp.sums._exact import KeptRows
from skdp.sums._gradient_sum import ExactGradientSum
from skdp.sums._grid_rows import SparseGrid, StateGrid
from skdp.sums._network import ExactNetworkSum
from tests.io import places
from tests.io.places import COLUMNS, FEATURES, N

# So wide that rows are sparse.
WIDE = TableEncoder(COLUMNS, numeric="hats", n_knots=65)
GIVEN = {"classes": [0, 1], "epsilon": 10.0, "random_state": 0}
STEPS = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}, **GIVEN}
MODELS = {
    "sparse": DPLogisticRegression(columns=WIDE, **STEPS),
    "states": DPLogisticRegression(columns=WIDE, **GIVEN),
    "selected": DPSparseLogisticRegression(
        columns=WIDE, n_nonzero_coefs=2, solver="peeling", **GIVEN
    ),
    "network": DPMLPClassifier(columns=WIDE, hidden_layer_sizes=(4,), **STEPS),
}
KINDS = {"sparse": SparseGrid, "states": StateGrid, "network": SparseGrid}
# What is kept of a row beside its numbers: where it ends, lengths, target, presence.
OF_ROW = 48
quiet = pytest.mark.filterwarnings("ignore")


def weights_of(model):
    names = ("coef_", "intercept_", "coefs_", "intercepts_")
    found = [np.ravel(w) for name in names for w in getattr(model, name, [])]
    return np.concatenate(found).tobytes()


@pytest.fixture
def readers(monkeypatch):
    """Those of gradients, as they are made."""
    found = []
    for kind in (ExactGradientSum, ExactNetworkSum):

        def watched(self, *given, made=kind.__init__):
            made(self, *given)
            found.append(self)

        monkeypatch.setattr(kind, "__init__", watched)
    return found


def declared_bytes(reader):
    source = reader._source
    assert not source.facts.is_row_major
    return N * min(source.facts.most_entries, source.n_features) * 24


@quiet
@pytest.mark.parametrize("name", KINDS)
def test_kept_or_not_at_the_declared_figure_bits_are_those_of_memory(
    name, tmp_path, monkeypatch, passes, readers
):
    model, frame = MODELS[name], places.numbers()
    here = weights_of(clone(model).fit(frame[FEATURES], frame["y"]))
    readers.clear()
    source = places.in_files(frame, tmp_path / "rows", batch_size=97)
    assert weights_of(clone(model).fit(source)) == here
    n_kept, own = (
        len(passes),
        [one for one in readers if not one._source.facts.is_stable],
    )
    most = max(declared_bytes(one) for one in own)
    for n_bytes, is_more in ((most, False), (most - 1, True)):
        monkeypatch.setattr(_gradient_sum, "_MOST_KEPT", n_bytes)
        passes.clear()
        assert weights_of(clone(model).fit(source)) == here
        assert (len(passes) > n_kept) == is_more


@quiet
@pytest.mark.parametrize("name", KINDS)
def test_rows_take_no_more_than_is_declared(name, tmp_path, readers):
    model = clone(MODELS[name])
    model.fit(places.in_files(places.numbers(), tmp_path / "rows"))
    reader = readers[-1]
    blocks = reader._kept._blocks
    rows = [block.X.sums if hasattr(block, "X") else block.rows for block in blocks]
    assert {type(each) for each in rows} == {KINDS[name]}
    taken = sum(block.n_bytes for block in blocks)
    assert taken <= declared_bytes(reader) + N * OF_ROW
    # And not many times less: what is declared is what rows may take.
    assert taken > declared_bytes(reader) / 4


# Bytes of sparse rows, between those of the two tables.
BETWEEN = 240_000


def unlike():
    """Records whose cells are between two knots each; and records all on a knot."""
    between = places.numbers()
    return between, between.assign(**dict.fromkeys(FEATURES, -2.0))


def readings(tmp_path, passes):
    found = []
    for number, frame in enumerate(unlike()):
        passes.clear()
        source = places.in_files(frame, tmp_path / str(number), batch_size=97)
        clone(MODELS["sparse"]).fit(source)
        found.append(len(passes))
    return found


@quiet
def test_how_often_records_are_read_follows_from_no_cell(tmp_path, monkeypatch, passes):
    for n_bytes in (0, BETWEEN, 2**30):
        monkeypatch.setattr(_gradient_sum, "_MOST_KEPT", n_bytes)
        of_many, of_few = readings(tmp_path, passes)
        assert of_many == of_few


@quiet
def test_twin_that_weighs_records_is_found(tmp_path, monkeypatch, passes):
    monkeypatch.setattr(_gradient_sum, "keeps_grid", lambda *given: True)
    monkeypatch.setattr(_gradient_sum, "most_kept", lambda source: BETWEEN)
    of_many, of_few = readings(tmp_path, passes)
    assert of_many > of_few


# ------------------------------------------------------------------- after the fit


class Watched(KeptRows):
    """Rows that are kept, and what is alive of them."""

    made: ClassVar[weakref.WeakSet[Watched]] = weakref.WeakSet()

    def __init__(self, most_bytes):
        super().__init__(most_bytes)
        self.made.add(self)


@pytest.fixture
def alive(monkeypatch):
    """All that are kept and not let go."""
    Watched.made.clear()
    monkeypatch.setattr(_gradient_sum, "KeptRows", Watched)
    return Watched.made


@quiet
@pytest.mark.parametrize("name", MODELS)
def test_no_row_outlives_a_fit_or_goes_with_its_model(name, tmp_path, alive):
    source = places.in_files(places.numbers(), tmp_path / "rows")
    model = clone(MODELS[name]).fit(source)
    gc.collect()
    assert not alive
    assert b"KeptRows" not in pickle.dumps(model)


@quiet
def test_no_row_outlives_a_fit_that_fails(tmp_path, monkeypatch, alive):
    source = places.in_files(places.numbers(), tmp_path / "rows")
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
    assert not alive
    monkeypatch.setattr(ExactGradientSum, "_residual", residual)
    frame = places.numbers()
    here = clone(MODELS["sparse"]).fit(frame[FEATURES], frame["y"])
    again = clone(MODELS["sparse"]).fit(source)
    assert weights_of(again) == weights_of(here)
    assert told.value.__context__ is None
