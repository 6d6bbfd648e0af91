"""Made-up tables follow from their seed alone."""

from __future__ import annotations

import numpy as np
from pyarrow import parquet

from benchmarks._made_up import write_made_up


def test_made_up_rows_are_the_same_in_any_number_of_files(tmp_path):
    tables = []
    for n_files in (1, 3):
        folder = tmp_path / str(n_files)
        write_made_up(folder, 70_000, 2, n_files=n_files, seed=3)
        tables.append(parquet.read_table(folder))
    assert tables[0].equals(tables[1])
    norms = np.hypot(*(tables[0][name].to_numpy() for name in ("x0", "x1")))
    assert norms.max() <= 1 + 1e-6
    assert 0.3 < tables[0]["y"].to_numpy().mean() < 0.7
