"""Attack `private_score` on the worst pairs of records, and with a planted bug.

The attacker knows both neighbouring data sets and sees the released statistic, from
which the score is computed. The function is run once to learn its query and the noise
it asks for, and that noise is then drawn many times. Draws are seeded: a pass stays a
pass. With fresh seeds each bound would exceed the claim with probability below 1e-7
(confidence 1 - 1e-7).
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp import private_score
from skdp.audit._result import epsilon_lower_bound
from skdp.model_selection import SCORINGS, resolve_scoring
from skdp.privacy.release import _door
from tests.audit.tables import Says
from tests.spies import SpyNoise

# Extreme losses are rarer where three numbers share spherical noise.
RUNS, RUNS_OF_R2 = 5000, 8000
EPSILON = 1.0


# The first record (prediction, target) of two neighbouring data sets, targets in
# [0, 1]; the null record is written as the one that contributes zeros.
PAIRS = {
    ("accuracy", "replace_one"): ((1, 1), (0, 1)),
    ("accuracy", "zero_out"): ((1, 1), None),
    ("balanced_accuracy", "replace_one"): ((1, 1), (0, 0)),
    ("balanced_accuracy", "zero_out"): ((1, 1), None),
    ("neg_log_loss", "replace_one"): ((1, 1), (0, 1)),
    ("neg_log_loss", "zero_out"): ((0, 1), None),
    ("neg_mean_squared_error", "replace_one"): ((0, 1), (1, 1)),
    ("neg_mean_absolute_error", "zero_out"): ((0, 1), None),
    ("r2", "replace_one"): ((0, 1), (0, 0)),
    ("r2", "zero_out"): ((0, 1), None),
}
USUAL = ("accuracy", "replace_one")


def released(scoring, adjacency, first, shrink, seed, monkeypatch):
    """The query, and many releases of it."""
    spy = SpyNoise(seed=seed, shrink=shrink)
    monkeypatch.setattr(_door, "NoiseSource", lambda _: spy)
    records = np.array([first or (0, 0), (1, 1), (0, 0), (0, 1)], dtype=float)
    if SCORINGS[scoring].task == "classification":
        records = records.astype(int)
    facts = {"classes": [0, 1], "target_bounds": (0, 1)}
    private_score(
        Says(),
        records[:, :1],
        records[:, 1],
        scoring=scoring,
        epsilon=EPSILON,
        adjacency=adjacency,
        **facts,
    )
    (draw,) = spy.draws
    query = draw.query
    if first is None:  # without what stands in the null record's place
        scorer = resolve_scoring(scoring, Says(), **facts)
        row = scorer.contributions(Says(), records[:1, :1], records[:1, 1])
        query = query - row[0]
    ask = getattr(spy, draw.law)
    asked = {"sensitivity": draw.sensitivity, "epsilon": draw.epsilon}
    runs = RUNS_OF_R2 if scoring == "r2" else RUNS
    return query, np.array([ask(query, **asked) for _ in range(runs)]), draw


def audited_epsilon(case, shrink, monkeypatch):
    first, second = PAIRS[case]
    a, inside, draw = released(*case, first, shrink, 0, monkeypatch)
    b, outside, _ = released(*case, second, shrink, 1, monkeypatch)
    norm = 1 if draw.law == "laplace" else 2
    assert 0.999 < np.linalg.norm(a - b, ord=norm) / draw.sensitivity <= 1

    def score(releases):
        to_a, to_b = (
            np.linalg.norm(releases - q, ord=norm, axis=1).round(6) for q in (a, b)
        )
        return to_b - to_a + 1e-9 * (releases @ (a - b))

    return epsilon_lower_bound(score(inside), score(outside), 0.0, 1 - 1e-7)


# One is attacked in `make test`: Laplace noise.
CASES = [
    pytest.param(
        case, marks=() if case == USUAL else pytest.mark.slow, id="-".join(case)
    )
    for case in PAIRS
]


@pytest.mark.parametrize("case", CASES)
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    case, monkeypatch
):
    close = 0.35 if case[0] == "r2" else 0.55
    assert close < audited_epsilon(case, 1.0, monkeypatch) <= EPSILON
    assert audited_epsilon(case, 0.5, monkeypatch) > EPSILON
