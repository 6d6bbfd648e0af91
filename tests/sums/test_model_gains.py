"""What trees are worth: neighbours searched, bounds attained, bits and twins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax

from skdp.losses._classification import WeightedLoss
from skdp.privacy.release._plan import Layout
from skdp.sums import _leaves_kernel as kernel
from skdp.sums._leaves import GrownTrees, ModelGains
from tests.ensemble.coded import MIXED, codes_of, draw_trees, source_of
from tests.ensemble.fits import loss_of

LOSSES = [
    ("logistic", 1),
    ("softmax", 3),
    ("squared", 1),
    ("poisson", 1),
    ("gamma", 1),
    ("quantile", 1),
]
ENDS = {
    "squared": [-1.0, -0.2, 0.1, 1.0],
    "quantile": [-1.0, -0.2, 0.1, 1.0],
    "poisson": [0.0, 0.3, 1.0],
    "gamma": [1.0, 5.0, math.exp(3.0)],
}
SHARES, CLIP = (1.0, 0.5, 0.25), 0.3
every_loss = pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)


def grown(loss, n_outputs, n, size=1.0):
    """A query of a few trees with values of about so much."""
    trees = draw_trees(MIXED, n_trees=3, max_depth=3, seed=0)
    rng = np.random.default_rng(1)
    values = size * rng.normal(size=(len(trees), trees.n_leaves, n_outputs))
    start = rng.normal(size=n_outputs) / 4
    grown = GrownTrees.of(start, trees, values)
    return ModelGains(loss_of(loss, n_outputs), grown, SHARES, CLIP, n)


def gains_of(query, codes, y, present=None, offset=None, rows=None):
    source = source_of(codes, y, present, offset)
    return query.total(query.open(source), rows)


def each(query, codes, y, offset=None):
    """What each record adds."""
    alone = np.eye(len(y), dtype=bool)
    return np.array([gains_of(query, codes, y, one, offset) for one in alone])


def records(loss, n_outputs, n=120):
    """Codes at random with targets on all sides, some of them far off."""
    rng = np.random.default_rng(2)
    codes = codes_of(MIXED, n)
    if loss in ENDS:
        return codes, rng.choice(ENDS[loss], n)
    return codes, rng.integers(max(n_outputs, 2), size=n).astype(float)


def farthest(found):
    """By adjacency, the largest change of a sum over all neighbours."""
    apart = found[:, None] - found[None]
    return {
        "zero_out": np.linalg.norm(found, axis=1).max(),
        "replace_one": np.linalg.norm(apart, axis=2).max(),
    }


@every_loss
@pytest.mark.parametrize("size", [0.1, 2.0, 1e6])
@pytest.mark.parametrize("far", [0.0, 30.0])
def test_no_neighbour_is_farther_than_the_bound(loss, n_outputs, size, far):
    codes, y = records(loss, n_outputs)
    query = grown(loss, n_outputs, len(y), size)
    offset = far * np.random.default_rng(3).normal(size=(len(y), n_outputs))
    bound, slack = query.bound(), query.slack(Layout(len(y)))
    for adjacency, found in farthest(each(query, codes, y, offset)).items():
        assert found <= bound.under(adjacency) + slack


def trees_of(query, codes):
    """What all trees add to raw predictions."""
    reader = query.open(source_of(codes, np.zeros(len(codes))))
    return reader.raw(query.grown) - query.grown.start


@every_loss
def test_broken_twin_without_a_clip_passes_the_bound(loss, n_outputs, monkeypatch):
    honest = kernel.add_gains

    def unclipped(*facts):
        facts = list(facts)
        facts[7] = 1e9
        honest(*facts)

    monkeypatch.setattr(kernel, "add_gains", unclipped)
    codes, y = records(loss, n_outputs)
    query = grown(loss, n_outputs, len(y), 40.0)
    for adjacency, found in farthest(each(query, codes, y)).items():
        assert found > 2 * query.bound().under(adjacency)


@every_loss
def test_gains_are_those_of_the_losses(loss, n_outputs):
    codes, y = records(loss, n_outputs)
    query = replace(grown(loss, n_outputs, len(y)), clip=50.0)
    offset = np.random.default_rng(5).normal(size=(len(y), n_outputs))
    added, base = trees_of(query, codes), query.grown.start + offset

    def lost(raw):
        if loss == "squared":
            return (raw[:, 0] - y) ** 2 / 2
        if loss == "quantile":
            return np.abs(raw[:, 0] - y) / 2
        if loss == "poisson":
            log = np.minimum(raw[:, 0] - 0.7, 0)
            return np.exp(log) - y * log
        if loss == "gamma":
            log = np.clip(raw[:, 0] + 1.5, 0, 3)
            return log + y * np.exp(-log)
        if n_outputs == 1:
            raw = np.hstack([np.zeros_like(raw), raw])
        return -log_softmax(raw, axis=1)[np.arange(len(y)), y.astype(int)]

    expected = [(lost(base) - lost(base + s * added)).sum() for s in SHARES]
    found = gains_of(query, codes, y, offset=offset)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("loss", "n_outputs"), [("logistic", 1), ("softmax", 3)])
def test_weights_of_labels_multiply_gains_before_they_are_clipped(loss, n_outputs):
    codes, y = records(loss, n_outputs)
    weights = (0.5, 1.0, 0.25)[: max(n_outputs, 2)]
    wide = replace(grown(loss, n_outputs, len(y)), clip=50.0)
    heavy = replace(wide, loss=WeightedLoss(wide.loss, weights))
    own = np.take(weights, y.astype(int))[:, None]
    found = each(heavy, codes, y)
    assert found == pytest.approx(own * each(wide, codes, y), abs=1e-9)
    narrow = replace(heavy, clip=CLIP)
    for adjacency, distance in farthest(each(narrow, codes, y)).items():
        assert distance <= narrow.bound().under(adjacency) + narrow.slack(Layout(1))


@pytest.mark.parametrize("clip", [0.0, -1.0, 65.0, math.nan])
def test_clips_that_sums_cannot_hold_are_refused(clip):
    with pytest.raises(ValueError, match="up to 64"):
        replace(grown("logistic", 1, 2), clip=clip)


def test_chosen_rows_are_as_if_all_others_were_null():
    codes, y = records("logistic", 1)
    query = grown("logistic", 1, len(y))
    present = np.arange(len(y)) != 7
    sums = gains_of(query, codes, y, present)
    assert np.array_equal(sums, gains_of(query, codes, y, rows=np.flatnonzero(present)))
    assert not np.array_equal(sums, gains_of(query, codes, y))
