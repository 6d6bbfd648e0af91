"""Attack private factorisation of rating values with the strongest test there is.

The attacker knows both neighbouring sets of values, the public pattern and every noisy
sum: all that the proof says may be published. Given the releases, the queries of both
sets are known, so the log-likelihood ratio is the optimal score.

Blocks of users and items that rate nobody else's give thousands of attacks for one
fit: given the first release, the sums of a block depend on its own values alone and
have noise of their own, so the scores of blocks are independent. What the first query,
which all share, says of a record is left unused. Runs are seeded: a pass stays a pass.
With fresh seeds a bound would exceed a true claim with probability below 1e-3.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from skdp.audit._result import epsilon_lower_bound
from skdp.decomposition import _value_als
from skdp.decomposition._ratings import Pattern
from tests.decomposition.value_problems import BOUNDS, half_of_the_bound, run, task_of
from tests.spies import SpyNoise, Transcript

# The exact audits of test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow

EPSILON, DELTA = 2.0, 0.05
BLOCKS = 4000

# Single pairs: every row that is multiplied with a residual has norm 1.
TIGHT = {"n_embedding": 0, "rank": 0, "n_rounds": 1}, 1
# Two users and two items: rows of later queries come from earlier releases.
ADAPTIVE = {"n_embedding": 2, "rank": 1}, 2


def blocks(size):
    """Blocks of `size` users who rated the same `size` items, block after block."""
    block, user, item = np.indices((BLOCKS, size, size)).reshape(3, -1)
    codes = (block * size + ids for ids in (user, item))
    users, items = (each.astype(np.int32) for each in codes)
    return Pattern(users, items, BLOCKS * size, BLOCKS * size)


def scores(solver, size, first, second, seed, shrink):
    """Log-likelihood ratios, block by block, of what is released for values `first`."""
    pattern = blocks(size)
    task, spy = task_of(pattern), SpyNoise(seed=seed, shrink=shrink)
    run(solver, first, task, spy, EPSILON, DELTA)
    heard = SimpleNamespace(releases=[draw.released for draw in spy.draws])
    other = Transcript(seed, heard=heard)
    run(solver, second, task, other, EPSILON, DELTA)
    total = np.zeros(BLOCKS)
    for draw, query in zip(spy.draws[1:], other.queries[1:], strict=True):
        far, near = (draw.released - query) ** 2, (draw.released - draw.query) ** 2
        ratio = (far - near) / (2 * draw.sigma**2)
        total += ratio.reshape(BLOCKS, -1).sum(axis=1)
    return total


def audited_epsilon(case, shrink=1.0):
    solver, size = case
    # Low and high blocks in turn, so that the mean, which is released, is the middle.
    values = np.repeat(np.resize(BOUNDS, BLOCKS), size * size)
    others = values.copy()
    others[:: size * size] = sum(BOUNDS) - values[:: size * size]  # one of every block
    inside = scores(solver, size, others, values, 0, shrink)
    outside = -scores(solver, size, values, others, 1, shrink)
    return epsilon_lower_bound(inside, outside, DELTA)


@pytest.mark.parametrize(("case", "least"), [(TIGHT, 1.0), (ADAPTIVE, 0.6)])
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(case, least):
    bound = audited_epsilon(case)
    assert least < bound <= EPSILON  # close enough to mean something
    assert audited_epsilon(case, shrink=0.5) > EPSILON


def test_a_clip_that_is_left_out_is_caught(monkeypatch):
    monkeypatch.setattr(_value_als, "clipped", lambda residuals, clip: residuals)
    assert audited_epsilon(TIGHT) > EPSILON


def test_half_of_the_sensitivity_is_caught(monkeypatch):
    half_of_the_bound(monkeypatch)
    assert audited_epsilon(TIGHT) > EPSILON
