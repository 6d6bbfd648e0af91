"""Trees drawn without data: boxes, turns, groups, bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.ensemble.coded import MIXED, Columns, draw_trees


def leaves_of(trees, tree, codes):
    """By the public steps of each node, all records at once."""
    node = np.zeros(len(codes), dtype=int)
    for _ in range(trees.depth):
        right = [
            trees.goes_right(tree, k)[row[trees.feature[tree, k]]]
            for k, row in zip(node, codes, strict=True)
        ]
        node = 2 * node + 1 + np.array(right, dtype=int)
    return node - trees.n_leaves + 1


def reachable(trees, tree):
    """Leaves to which cuts lead on both sides: where none is left all go left."""
    on = np.zeros(2 * trees.n_leaves - 1, dtype=bool)
    on[0] = True
    for node in range(trees.n_leaves - 1):
        on[2 * node + 1] = on[node]
        on[2 * node + 2] = on[node] and trees.cut[tree, node] < 255
    return set(np.flatnonzero(on[trees.n_leaves - 1 :]).tolist())


SMALL = Columns((4, 3, 2), (True, False, True), (3, None, None))
ALL = np.array(list(itertools.product(range(4), range(3), range(2))), dtype=np.uint8)


@pytest.mark.parametrize("interactions", [(1,), (2,), (None,), (1, 2, None)])
def test_no_leaf_that_cuts_lead_to_is_empty_by_construction(interactions):
    trees = draw_trees(
        SMALL, n_trees=30, max_depth=5, seed=0, interactions=interactions
    )
    for tree in range(len(trees)):
        assert set(leaves_of(trees, tree, ALL)) == reachable(trees, tree)


def test_broken_twin_that_cuts_anywhere_has_empty_leaves():
    trees = draw_trees(SMALL, n_trees=30, max_depth=5, seed=0)
    trees.cut[:] = np.random.default_rng(0).integers(1, 4, trees.cut.shape)
    found = [
        set(leaves_of(trees, tree, ALL)) == reachable(trees, tree)
        for tree in range(len(trees))
    ]
    assert not any(found[1:])


def test_columns_in_order_are_cut_in_order_and_missing_goes_to_both_sides():
    trees = draw_trees(MIXED, n_trees=300, max_depth=6, seed=2)
    sides, n_subsets = set(), 0
    for tree in range(len(trees)):
        for node in np.flatnonzero(trees.cut[tree] < 255):
            right = trees.goes_right(tree, node)
            column = trees.feature[tree, node]
            if MIXED.is_ordered[column]:
                assert (np.diff(right[:32].astype(int)) >= 0).all()
                sides |= {bool(right[32])} if len(right) > 32 else set()
            else:
                n_subsets += bool((np.diff(right.astype(int)) != 0).sum() > 1)
    assert sides == {False, True}
    assert n_subsets > 100


def test_trees_take_turns_of_one_two_and_all_columns():
    trees = draw_trees(MIXED, n_trees=12, max_depth=7, seed=0)
    sizes = [len(columns) for columns in trees.columns]
    assert sizes[0::3] == [1] * 4
    assert sizes[1::3] == [2] * 4
    assert sizes[2::3] == [4] * 4
    assert [columns[0] for columns in trees.columns[0::3]] == [0, 1, 2, 3]


def test_columns_of_a_tree_are_of_one_group():
    groups = [(0, 1), (1, 3)]
    trees = draw_trees(MIXED, n_trees=60, max_depth=5, seed=0, groups=groups)
    assert {0, 1, 3} == set().union(*trees.columns)
    assert all(any(set(c) <= set(g) for g in groups) for c in trees.columns)
    free = draw_trees(MIXED, n_trees=60, max_depth=5, seed=0)
    assert not all(any(set(c) <= set(g) for g in groups) for c in free.columns)


def test_a_seed_is_all_that_trees_depend_on():
    one, same = (draw_trees(MIXED, n_trees=9, max_depth=5, seed=4) for _ in range(2))
    other = draw_trees(MIXED, n_trees=9, max_depth=5, seed=5)
    for name in ("feature", "cut", "rank"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))


def test_cuts_are_even_in_shares():
    """Half of the records in three of 64 codes: most cuts are beside them."""
    columns = Columns((64,), (True,), (None,))
    shares = np.full(64, 0.5 / 61)
    shares[10:13] = 0.5 / 3
    facts = {"n_trees": 400, "max_depth": 1, "seed": 0, "interactions": (1,)}
    near = [
        np.mean(np.isin(draw_trees(columns, **facts, shares=s).cut, [10, 11, 12, 13]))
        for s in (shares, None)
    ]
    assert near[0] > 0.4
    assert near[1] < 0.15
