"""What engines read releases the bits of memory: the matrix of `test_same_bits.py`.

Whole releases of records and of users, each by one engine: PostgreSQL by one
connection, by workers of the server and by two connections; Dask from files, and from
data frames, of which rows have no order.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from skdp.io import DaskSource
from skdp.io._rows import StreamSource
from tests.io import places, test_lone_cells, test_rows
from tests.io.cluster import client
from tests.io.places import FEATURES, ROW_LAYOUTS, N, kept
from tests.io.test_same_bits import (
    BY_UNIT,
    SEARCHES,
    facts_of,
    frame_of,
    in_memory,
)
from tests.io.test_users import repeated
from tests.io.users import (
    MODEL,
    MOST,
    N_USERS,
    ROUNDING,
    fitted_here,
    least,
    pairs,
    released,
    shuffled,
    table,
    table_of,
    told,
)

pytestmark = pytest.mark.filterwarnings("ignore")
CELLS = {
    "PostgreSQL": {
        "record": ["noisy_gd", "regression", "comparison"],
        "user": ["centred", "accuracy"],
    },
    "parallel workers": {"record": ["standard", "r2"], "user": ["boosting"]},
    "two readers": {
        "record": ["moments", "network", "description"],
        "user": ["clipped sums", "comparison", "search"],
    },
    "workers": {
        "record": ["noisy_gd", "network", "boosting", "moments", "score", "search"],
        "user": ["clipped sums", "description"],
    },
    "partitions": {
        "record": ["centred", "evaluation", "description"],
        "user": ["noisy_gd", "accuracy", "search of trees"],
    },
}


@pytest.fixture(scope="module")
def source_in(tmp_path_factory):
    with kept() as once:

        def find(place, unit, facts):
            folder = tmp_path_factory.getbasetemp() / f"{unit} {sorted(facts.items())}"
            folder.mkdir(exist_ok=True)
            return once(ROW_LAYOUTS[place], frame_of(unit), folder, **facts)

        yield find


@pytest.mark.parametrize(
    ("place", "unit", "what"),
    [
        (place, unit, what)
        for place, of_place in CELLS.items()
        for unit, asked in of_place.items()
        for what in asked
    ],
)
def test_releases_have_the_bits_of_memory(place, unit, what, source_in, tmp_path):
    facts, given = facts_of(unit, what)
    release, expected = BY_UNIT[unit][what][0], None
    if unit == "user" and what in SEARCHES:
        expected = release(places.in_files(table(), tmp_path / "f", **facts), **given)
    else:
        expected = in_memory(unit, what)
    assert release(source_in(place, unit, facts), **given) == expected


@pytest.mark.parametrize("place", CELLS)
def test_rows_are_read_as_in_memory(place, tmp_path):
    test_rows.test_rows_without_numbers_are_null_records(place, tmp_path)
    test_rows.test_declared_columns_are_encoded_as_in_memory(place, tmp_path)


@pytest.mark.parametrize("place", ["PostgreSQL", "workers"])
def test_a_missing_text_alone_in_its_batch(place, tmp_path):
    frame = test_lone_cells.with_last(None)
    facts = {"batch_size": N - 1, "features": ["word", "a"]}
    if place == "PostgreSQL":
        source = places.in_postgres(frame, **facts)
    else:
        source = places.on_workers(frame, tmp_path / "files", n_files=1, **facts)
    test_lone_cells.ASKED["linear"](source)


# ------------------------------------------------------------------------- users


def test_of_many_rows_the_same_count_in_any_order_of_partitions():
    frame = repeated(table(many=[MOST + 300, 2 * MOST, MOST]))
    some = least(frame, [*FEATURES, "y", "id"])
    here = fitted_here(MODEL, some[FEATURES], some["y"], some["id"])
    facts = {"groups": "id", "n_samples": N_USERS}
    there = clone(MODEL).fit(places.in_partitions(shuffled(frame), **facts))
    assert released(there).tobytes() == released(here).tobytes()
    said = there.privacy_.assumed_public
    assert any("no other user" in fact for fact in said)
    assert not any("depends on no record" in fact for fact in said)


def test_twin_whose_workers_add_up_rows_as_records_is_found(tmp_path, monkeypatch):
    (pair, *_) = pairs("zero_out")
    number = iter(range(99))

    def make(users):
        frame, folder = table_of(users, np.arange), tmp_path / f"part{next(number)}"
        facts = {"groups": "id", "n_samples": len(users)}
        return places.on_workers(frame, folder, n_files=2, **facts)

    assert told(make, pair, "zero_out") <= 1 + ROUNDING
    there = property(lambda self: self.rows.table.remote)
    monkeypatch.setattr(StreamSource, "remote", there)
    assert told(make, pair, "zero_out") > 1.5


def test_names_of_folders_are_no_ids(tmp_path):
    for name in ("7", "007"):  # of which a folder's name may make one number
        places.write(places.numbers(10), tmp_path / f"who={name}")
    facts = {"target": "y", "n_samples": 2, "features": FEATURES, "groups": "who"}
    with pytest.raises(ValueError, match="a column within the files"):
        DaskSource(str(tmp_path), client(), **facts)


def test_searches_of_records_need_an_order():
    release, _ = BY_UNIT["record"]["search"]
    with pytest.raises(ValueError, match="fixed order"):
        release(places.in_partitions(places.numbers()))
