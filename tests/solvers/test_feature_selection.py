"""What one record does to scores, against what is charged; and the rule of choice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp._arrays import clip_entries
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.noise._laws import Choices
from skdp.privacy.release._plan import Line, Plan
from skdp.sums._features import FeatureScore
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped
from tests.door import answers_for
from tests.problems import ADJACENCIES, LOSSES
from tests.solvers.neighbours import random_targets
from tests.spies import SpyNoise

D, BOUND, NORM = 6, 0.5, 1.0
PAIRS = 60


def problem_of(adjacency, n_samples=1, **facts):
    facts = {"data_norm": NORM, "feature_bound": BOUND, "n_nonzero": 2} | facts
    facts = {"loss": LogisticLoss()} | facts
    return LinearObjective(
        n_samples=n_samples, n_features=D, adjacency=adjacency, **facts
    )


def sums(objective, *clip, **facts):
    """Gradients whose rows are scores."""
    return ClippedGradient(objective, *clip, **facts, uses_entry_bound=True)


def feature_bound(objective, *clip, radius=math.inf, **facts):
    """Of any score, before rounding of norms."""
    scored = sums(objective, *clip, **facts)
    return scored.bound(radius, "features", scored.entry_bound)


def select(source, query, k, noise, epsilon=1.0):
    """Features chosen through the door, each with the same epsilon."""
    plan = Plan((Line(k, law=Choices(epsilon)),))
    relation = query.family.objective.adjacency
    answers = answers_for(plan, source, 1.0, relation, noise)
    return query.features(answers.choose(query, k, line=0))


def scores_of(X, y, present, objective, weights, place, **clips):
    """Scores and the sensitivity they were charged."""
    spy = SpyNoise(seed=0)
    source = EntriesClipped(MemorySource(X, y, present), objective.feature_bound)
    select(
        source, FeatureScore.of(sums(objective, **clips), weights, place=place), 1, spy
    )
    (choice,) = spy.choices
    return choice.scores, choice.sensitivity


def neighbours(loss, adjacency, rng):
    """Rows of full entries and length, targets, and who is there; twice."""
    X = rng.choice([-3.0, 3.0], size=(2, D)) * rng.integers(0, 2, size=(2, D))
    X[:, 0] = [3.0, rng.choice([-3.0, 3.0])]
    y = random_targets(loss, rng, 2)
    for row in range(2):
        there = np.ones(1, dtype=bool)
        if row and adjacency == "zero_out":
            there[:] = False
        yield X[[row]] if there.all() else X[[0]], y[[row]], there


def largest_share(loss, adjacency, charge=None, **clips):
    """Largest change of a score that was found, in units of what was charged."""
    rng, worst = np.random.default_rng(1), 0.0
    objective = problem_of(adjacency, loss=loss)
    for size in np.tile([0.0, 0.1, 3.0, 1e4], PAIRS // 4):
        weights = size * rng.normal(size=(objective.n_columns, loss.n_outputs))
        weights[rng.integers(D)] = 0.0
        place = 5 * rng.normal(size=(D, loss.n_outputs))
        found = [
            scores_of(*records, objective, weights, place, **clips)
            for records in neighbours(loss, adjacency, rng)
        ]
        assert found[0][1] == found[1][1]
        charged = found[0][1] if charge is None else charge(objective, weights)
        worst = max(worst, np.abs(found[0][0] - found[1][0]).max() / charged)
    return worst


CLIPS = [{}, {"residual_clip": 0.3}, {"residual_clip": 0.3, "entry_clip": 0.2}]


@pytest.mark.parametrize("clips", CLIPS, ids=["", "residuals", "entries"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss_name", LOSSES)
def test_no_record_moves_a_score_by_more_than_is_charged(loss_name, adjacency, clips):
    loss = LOSSES[loss_name]
    attained = 0.95 if loss.n_outputs == 1 else 0.4
    assert attained < largest_share(loss, adjacency, **clips) <= 1


def zero_out_for_both(objective, weights):
    return objective.entry_bound * LogisticLoss().zero_out_bound(math.inf) * 0.999


def without_replaced_entries(objective, weights):
    """As if clipped entries were still those of the clipped rows."""
    return 2 * 0.2 * LogisticLoss().zero_out_bound(math.inf)


def test_broken_sensitivities_are_found_out():
    assert largest_share(LogisticLoss(), "replace_one", zero_out_for_both) > 1.5
    clips = {"residual_clip": 1.0}
    found = largest_share(
        LogisticLoss(), "replace_one", without_replaced_entries, **clips
    )
    assert found > 1.5


def share_in_single_precision(storage):
    """What a record's exchange does to a score of rows in single precision."""
    objective, found = problem_of("replace_one", feature_bound=0.1), []
    for sign in (1, -1):
        X = np.full((1, D), sign, dtype=np.float32)
        clips = {"residual_clip": 0.3}  # entries are clipped once, before they are read
        zeros, place = np.zeros((D + 1, 1)), np.full((D, 1), 9.0)
        records = storage(X), np.ones(1), np.ones(1, dtype=bool)
        found.append(scores_of(*records, objective, zeros, place, **clips))
    return np.abs(found[0][0] - found[1][0]).max() / found[0][1]


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_entries_in_single_precision_are_within_their_bound(storage, monkeypatch):
    """The nearest single to 0.1 is larger; a twin that clips to it is found out."""
    # Less by what grids of rows and residuals are charged.
    assert 1 - 5e-6 < share_in_single_precision(storage) <= 1
    for bound in (1e-100, 0.1, 0.7, 1e100):
        for dtype in (np.float32, np.float64):
            ends = clip_entries(np.array([[-1e38, 1e38]], dtype=dtype), bound)
            assert ends.dtype == dtype
            assert abs(ends.astype(float)).max() <= bound
    monkeypatch.setattr("skdp._arrays._within", lambda bound, dtype: bound)
    ends = clip_entries(np.ones((1, 1), dtype=np.float32), np.float32(0.1))
    assert float(ends[0, 0]) > 0.1
    # Entries are within the bound on their grid all the same.
    assert share_in_single_precision(storage) <= 1


def test_selection_is_among_the_candidates_and_in_order():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.4, size=(4000, D))
    y = np.clip(2 * X[:, 4] + X[:, 1] - X[:, 0], -1, 1)
    loss = SquaredLoss(residual_bound=2.0, target_bound=1.0)
    objective = problem_of("zero_out", loss=loss, n_samples=4000)
    source, noise = MemorySource(X, y), SpyNoise(seed=1)

    def chosen(k, **facts):
        query = FeatureScore.of(sums(objective), np.zeros((D + 1, 1)), **facts)
        return select(source, query, k, noise, epsilon=5.0).tolist()

    assert chosen(3) == [0, 1, 4]
    assert 1 in chosen(2, among=np.array([1, 2, 3, 5]))
    far = np.zeros((D, 1))
    far[3] = 1e30  # kept at a distance that floating point can tell apart from others
    assert 3 in chosen(1, place=far)
