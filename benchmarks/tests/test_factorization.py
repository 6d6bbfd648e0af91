"""The sections on HAMSI run, on generated ratings and for a moment each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import __main__ as command
from benchmarks._factorization import SECTIONS
from benchmarks._rating_data import ratings

QUICK = ["hamsi", "--data", "100k-like", "--share", "0.1", "--seconds", "0.02"]


@pytest.mark.parametrize("section", SECTIONS)
def test_section(section, tmp_path, capsys):
    options = ["--section", section, "--seeds", "1", "--n-jobs", "1"]
    assert command.main([*QUICK, *options, "--results", str(tmp_path)]) == 0
    assert "10000 ratings of 1682 items by 94 users" in capsys.readouterr().out
    kept = pd.read_csv(tmp_path / f"hamsi_{section}_100k-like.csv")
    if section == "table_3_1":
        assert len(kept) == 30
        assert np.isfinite(kept["rmse"]).all()
    if section == "colors":
        sums = kept.groupby("partition")["ratings"].sum()
        assert (sums == 10_000).all()


def test_generated_ratings_have_the_shape_of_the_official_ones():
    found = ratings("100k-like")
    pattern = found.pattern
    assert (len(found), pattern.n_users, pattern.n_items) == (100_000, 943, 1682)
    pairs = pattern.users * np.int64(pattern.n_items) + pattern.items
    assert len(np.unique(pairs)) == len(pairs)
    busiest = np.sort(pattern.by_user.counts)[-94:].sum() / len(found)
    popular = np.sort(pattern.by_item.counts)[-168:].sum() / len(found)
    # 0.37 and 0.47 in MovieLens 100K.
    assert 0.25 < busiest < 0.5
    assert 0.35 < popular < 0.6
