"""Choices from integer scores kept in order: the exact law, bounded range exactly."""

from __future__ import annotations

import contextlib
import itertools

import mpmath
import numpy as np
import pytest

from skdp.privacy.noise import _selection
from skdp.privacy.noise._noise import NoiseSource, choice_shift, choice_unit
from skdp.privacy.noise._selection import Ranking

CANDIDATE_SIGNS = (1, -1)


def law_of(scores, unit):
    """Probabilities of (candidate, sign), candidates first, to 40 digits."""
    with mpmath.workdps(60):
        fold = mpmath.mpf(unit.numerator) / unit.denominator
        weights = [mpmath.exp(fold * s * c) for c in scores for s in CANDIDATE_SIGNS]
        return [w / mpmath.fsum(weights) for w in weights]


# Scores, sensitivity, epsilon: within a level, over many levels, beyond 64 e-folds.
CASES = {
    "near": ([5, -3, 0, 9, 9], 8, 2.0),
    "levels": ([700, -650, 600, 300, 699, -1, 50], 100, 2.0),
    "deep": ([10_000, 9_980, -9_990, 0, 1], 20, 4.0),
    "coarse": ([3, -3, 2, 0], 1, 3.0),
}


def exact_law(ranking, unit, monkeypatch):
    """The law of `signed_choice`, from all it can propose, nothing drawn."""
    script, seen = {}, {}

    def group_of(masses, entropy):
        seen["masses"] = masses
        return script["group"]

    def member_of(n, size, entropy):
        seen["n"] = n
        return [script["member"]]

    monkeypatch.setattr(_selection, "weighted_index", group_of)
    monkeypatch.setattr(_selection, "integers", member_of)

    def propose(group, member):
        script.update(group=group, member=member)
        gaps = []
        chosen = _selection.signed_choice(
            ranking, unit, None, lambda gap: gaps.append(gap) or True
        )
        return chosen, gaps[0]

    group, law = 0, {}
    top_group = int(np.flatnonzero(np.diff(ranking.starts))[-1]) + 1
    while group <= top_group:
        script.update(group=group, member=0)
        with contextlib.suppress(IndexError):
            propose(group, 0)
        if group >= len(seen["masses"]):
            break
        mass = seen["masses"][group]
        for member in range(seen["n"] if mass else 0):
            chosen, gap = propose(group, member)
            weight = mpmath.mpf(mass) / seen["n"]
            law[chosen] = weight * mpmath.exp(
                -mpmath.mpf(gap.numerator) / gap.denominator
            )
        group += 1
    total = mpmath.fsum(law.values())
    return {chosen: weight / total for chosen, weight in law.items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("digits_more", [-2, 0])
def test_every_proposal_enumerated_gives_the_exact_law(name, digits_more, monkeypatch):
    scores, sensitivity, epsilon = CASES[name]
    asked = {"sensitivity": sensitivity, "epsilon": epsilon}
    unit, shift = choice_unit(**asked), max(0, choice_shift(**asked) + digits_more)
    keys = itertools.product(range(len(scores)), CANDIDATE_SIGNS)
    with mpmath.workdps(60):
        found = exact_law(Ranking(np.array(scores), shift), unit, monkeypatch)
        for key, probability in zip(keys, law_of(scores, unit), strict=True):
            assert abs(found[key] / probability - 1) < 2.0**-150


def test_the_ratio_under_neighbours_stays_within_its_range_and_nearly_attains_it():
    asked = {"sensitivity": 100, "epsilon": 1.5}
    unit = choice_unit(**asked)
    rng = np.random.default_rng(5)
    ranges = []
    for _ in range(40):
        scores = rng.integers(-2000, 2000, 5)
        change = rng.choice([-100, 100], 5)
        laws = [law_of(s, unit) for s in (scores, scores + change)]
        with mpmath.workdps(60):
            losses = [mpmath.log(p / q) for p, q in zip(*laws, strict=True)]
        ranges.append(max(losses) - min(losses))
    assert 1.4999 < max(ranges) <= 1.5
    twin = choice_unit(sensitivity=50, epsilon=1.5)  # half of the noise
    laws = [law_of(s, twin) for s in (scores, scores + change)]
    losses = [mpmath.log(p / q) for p, q in zip(*laws, strict=True)]
    assert max(losses) - min(losses) > 1.5


def test_gaps_are_never_negative_and_no_score_is_cut_off():
    """Also for scores of any size, and below the lowest level kept."""
    rng = np.random.default_rng(2)
    for size in (1, 40, 2**20, 2**40, 2**61):
        scores = rng.integers(-size, size + 1, 50)
        asked = {"sensitivity": max(1, size // 1000), "epsilon": 2.0}
        ranking = Ranking(scores, choice_shift(**asked))
        gaps = []

        def accept(gap, gaps=gaps):
            gaps.append(gap)
            return len(gaps) % 40 == 0

        unit, entropy = choice_unit(**asked), NoiseSource(0)._entropy
        for _ in range(20):
            _selection.signed_choice(ranking, unit, entropy, accept)
        assert min(gaps) >= 0
