"""Rows of users of sources that are kept from pass to pass: the same bits as anew.

How many rows there are is private of users: whether they are kept may be known by
time and memory, and by nothing else.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skdp import (
    BudgetLedger,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSparseLogisticRegression,
)
from skdp.sums import _gradient_sum
from skdp.sums._exact import KeptRows
from skdp.sums._gradient_sum import GridPair
from skdp.sums._grid_rows import DenseGrid
from skdp.tables._source import Block
from tests.io.places import COLUMNS
from tests.io.test_users import (
    ADJACENCIES,
    GD,
    LABELS,
    LAYOUTS,
    MODEL,
    MOST,
    N_USERS,
    ROUNDING,
    by_database,
    by_file,
    facts_of,
    in_memory,
    quiet,
    released,
    shuffled,
    table,
    told,
    users_of,
)
from tests.io.test_users import MODELS as OF_SOURCES

NETWORK = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}}
MODELS = {
    "dense": MODEL,
    "declared": DPLogisticRegression(columns=COLUMNS, **GD, **LABELS),
    "chosen": DPSparseLogisticRegression(
        n_nonzero_coefs=2, data_norm=1.0, solver="peeling", **LABELS
    ),
    "clipped sums": OF_SOURCES["clipped sums"][0],
    "network": DPMLPClassifier(hidden_layer_sizes=(4,), **NETWORK, **LABELS),
}
# Bytes: of no row, of some of them, of all.
NONE, SOME, ALL = 0, 2000, 2**30
WORST = (np.array([0.7, -0.7, 0.7]) * 1e6, 0)


def limited(monkeypatch, n_bytes):
    monkeypatch.setattr(_gradient_sum, "_MOST_KEPT", n_bytes)


def weights_of(model):
    return (
        released(model)
        if hasattr(model, "coef_")
        else np.concatenate(
            [np.ravel(each) for each in (*model.coefs_, *model.intercepts_)]
        )
    )


@quiet
@pytest.mark.parametrize("layout", ["file", "shuffled rows", "DuckDB", "threads"])
@pytest.mark.parametrize("name", MODELS)
def test_kept_or_not_bits_are_those_of_memory(
    name, layout, tmp_path, monkeypatch, passes
):
    frame, model = table(), MODELS[name]
    here, n_passes = weights_of(in_memory(model, frame)).tobytes(), []
    for n_bytes in (NONE, SOME, ALL):
        limited(monkeypatch, n_bytes)
        folder = tmp_path / str(n_bytes)
        folder.mkdir()
        source = LAYOUTS[layout](frame, folder, **facts_of(frame))
        assert weights_of(clone(model).fit(source)).tobytes() == here
        n_passes.append(len(passes))
        passes.clear()
    of_none, of_some, of_all = n_passes
    assert of_none == of_some > of_all


def test_all_that_is_kept_is_counted():
    rows = DenseGrid(np.zeros((7, 3), dtype=np.float32), 1.0)
    own = np.zeros(7), np.ones(7), np.zeros(7, dtype=np.int64)
    for kept in (own, own[:2]):
        whole = Block(GridPair(rows, rows), *kept)
        assert whole.n_bytes == rows.entries.nbytes + sum(each.nbytes for each in kept)


@quiet
@pytest.mark.parametrize("layout", ["file", "DuckDB"])
def test_which_of_many_rows_count_is_the_same_if_kept(layout, tmp_path, monkeypatch):
    frame = table(many=[MOST + 300, 3 * MOST])
    found = set()
    for n_bytes in (NONE, 20 * SOME, ALL):
        limited(monkeypatch, n_bytes)
        own = frame if layout == "file" else shuffled(frame, n_bytes % 7)
        source = LAYOUTS[layout](own, tmp_path, **facts_of(frame, batch_size=97))
        found.add(released(clone(MODEL).fit(source)).tobytes())
    assert len(found) == 1


@quiet
def test_centred_rows_are_kept_by_what_all_rows_take(tmp_path, monkeypatch, passes):
    """And not by how many users there are."""
    frame = table(n_users=400, most_rows=9)
    model = DPLogisticRegression(columns=COLUMNS, **LABELS).set_params(epsilon=100.0)
    source, n_passes = LAYOUTS["file"](frame, tmp_path, **facts_of(frame)), []
    limit = 400 * 2 * len(COLUMNS) * 24
    for n_bytes in (NONE, limit, ALL):
        limited(monkeypatch, n_bytes)
        fitted = clone(model).fit(source)
        n_passes.append(len(passes))
        passes.clear()
    assert hasattr(fitted, "center_"), "rows are centred"
    of_none, of_some, of_all = n_passes
    assert of_none == of_some > of_all


# ------------------------------------------------------------------------- neighbours


def straddling():
    """Tables of which one is within `SOME` bytes, and its neighbour is not."""
    users = users_of(np.random.default_rng(3))
    return [*users[:-1], [WORST] * (MOST + 76)], [*users[:-1], []]


@quiet
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_limit_that_one_user_passes_tells_nothing(
    adjacency, tmp_path, monkeypatch, passes, capsys
):
    limited(monkeypatch, SOME)
    model = clone(MODEL).set_params(adjacency=adjacency)
    for make in (by_file(tmp_path / "rows"), by_database):
        assert told(make, straddling(), adjacency, model) <= 1 + ROUNDING
        of_one, of_other = (
            sum(own is source for own in passes) for source in (passes[0], passes[-1])
        )
        assert of_one > of_other == 1, "the pair is on both sides of the limit"
        passes.clear()
    said = []
    for users in straddling():
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            clone(model).set_params(verbose=True).fit(by_database(users))
        said.append((capsys.readouterr(), [str(each.message) for each in given]))
    assert said[0] == said[1]


def whatever_came_first(self, read):
    """A twin that takes for the whole what there was room for."""
    if self._blocks is None:
        self._blocks, n_bytes = [], 0
        for block in read():
            n_bytes += block.n_bytes
            if n_bytes <= self._most_bytes:
                self._blocks.append(block)
    yield from self._blocks


@quiet
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_twin_that_forgets_what_there_is_no_room_for_is_found(
    adjacency, tmp_path, monkeypatch
):
    limited(monkeypatch, SOME)
    monkeypatch.setattr(KeptRows, "passed", whatever_came_first)
    for make in (by_file(tmp_path / "rows"), by_database):
        assert told(make, straddling(), adjacency) > 1.05


@quiet
def test_the_ledger_is_charged_the_same_if_kept(tmp_path, monkeypatch):
    frame, spent = table(), set()
    facts = {"epsilon": 20, "delta": 1e-4, "adjacency": "replace_user"}
    for n_bytes in (NONE, SOME, ALL):
        limited(monkeypatch, n_bytes)
        books = BudgetLedger(tmp_path / f"{n_bytes}.db", unit="user", **facts)
        model = clone(MODEL).set_params(random_state=None, ledger=books)
        source = LAYOUTS["DuckDB"](frame, tmp_path, **facts_of(frame))
        assert model.fit(source).privacy_.n_samples == N_USERS
        spent.add(books.spent().epsilon)
    assert len(spent) == 1
