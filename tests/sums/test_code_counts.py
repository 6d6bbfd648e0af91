"""Counts of codes in groups: neighbours searched, bounds attained, and a twin."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from skdp.ensemble._releases import counts_of, margins_of
from skdp.privacy.release._answers import Released
from skdp.sums._adder import Entries
from skdp.sums._counts import CodeCounts
from tests.ensemble.coded import MIXED, Columns, codes_of, source_of

SIZES = (5, 3, 2)
GROUPS = {
    "each code by itself": ((0, 1, 2, 3, 4), (0, 1, 2), (0, 1)),
    "neighbours": ((0, 0, 1, 1, 2), (0, 0, 1), (0, 1)),
    "any codes": ((1, 0, 1, 0, 2), (1, 0, 1), (1, 0)),
}
EVERY = np.array(list(itertools.product(*map(range, SIZES))), dtype=np.uint8)


def counted(query, codes):
    source = source_of(codes, np.zeros(len(codes)))
    return query.total(query.open(source), None)


def farthest(query):
    """By adjacency, the largest change of the counts over all pairs of records."""
    each = np.array([counted(query, row[None]) for row in EVERY])
    apart = np.linalg.norm(each[:, None] - each[None], query.norm, axis=2)
    largest = np.linalg.norm(each, query.norm, axis=1).max()
    return {"zero_out": largest, "replace_one": apart.max()}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("columns", [(0,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("norm", [1, 2])
def test_no_neighbour_is_farther_than_the_bound_which_is_attained(name, columns, norm):
    query = CodeCounts(columns, tuple(GROUPS[name][j] for j in columns), norm)
    for adjacency, found in farthest(query).items():
        bound = query.bound().under(adjacency)
        assert found <= bound
        assert found == pytest.approx(bound, rel=1e-9)


def test_broken_twin_that_counts_codes_and_groups_passes_the_bound(monkeypatch):
    query = CodeCounts((0, 1, 2), GROUPS["neighbours"])
    honest = CodeCounts.added

    def twice(self, block):
        forms = honest(self, block)
        return tuple(Entries(form.places * 2, form.size) for form in forms)

    monkeypatch.setattr(CodeCounts, "added", twice)
    for adjacency, found in farthest(query).items():
        assert found > 1.4 * query.bound().under(adjacency)


def test_a_group_counts_the_records_of_its_codes():
    query = CodeCounts((0, 1, 2), GROUPS["any codes"])
    codes = EVERY[::2]
    expected = []
    for j, group in enumerate(query.groups):
        groups = np.array(group)[codes[:, j]]
        expected += np.bincount(groups, minlength=max(group) + 1).tolist()
    assert counted(query, codes).tolist() == expected


@pytest.mark.parametrize("most", [2, 7, 16, 255])
def test_groups_are_neighbours_of_one_width_and_a_missing_value_is_alone(most):
    query = counts_of(MIXED, most, of_all=True)
    assert query.columns == (0, 1, 2, 3)
    for j, group in enumerate(query.groups):
        n_values = MIXED.n_bins[j] - (MIXED.missing[j] is not None)
        of_values, sizes = np.array(group[:n_values]), np.bincount(group)
        assert len(group) == MIXED.n_bins[j]
        assert set(np.diff(of_values).tolist()) <= {0, 1}
        if MIXED.missing[j] is not None:
            assert sizes[group[MIXED.missing[j]]] == 1
        if not MIXED.is_ordered[j]:
            assert sizes.max() == 1
        elif n_values > 2 * most:
            assert len(set(of_values.tolist())) < 2 * most
            assert len(set(sizes[: of_values.max()].tolist())) == 1
    assert counts_of(MIXED, most).columns == (0, 3)


def test_shares_of_codes_of_a_group_are_equal_and_add_up():
    columns = Columns((8, 3), (True, False), (7, None))
    query = counts_of(columns, 2, of_all=True)
    codes = codes_of(columns, 900)
    total = Released(counted(query, codes), 1e-9, 1e-9)
    shares = margins_of(query, total, len(codes))
    for j, group in enumerate(query.groups):
        assert shares[j].sum() == pytest.approx(1.0)
        for one in set(group):
            of_group = shares[j][np.array(group) == one]
            seen = np.mean(np.array(group)[codes[:, j]] == one)
            assert np.ptp(of_group) == 0
            assert of_group.sum() == pytest.approx(seen, abs=1e-3)
