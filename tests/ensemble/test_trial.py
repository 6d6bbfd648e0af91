"""The trial of the first trees: each of its two ways, and what they cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.ensemble import _boosting
from skdp.exceptions import Refused
from skdp.privacy import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.release._door import asking
from tests.door import answers_for
from tests.ensemble.coded import Columns, codes_of, source_of
from tests.ensemble.fits import solver_of, task_of
from tests.spies import SpyNoise

COLUMNS = Columns((16, 16, 3), (True, True, False), (None, None, None))
BUDGET = Budget(4.0, 1e-6)
N, N_TREES = 4000, 60


def signal_of(kind, codes):
    """A score that is a sum over columns, or an interaction without any main effect."""
    first, second = (codes[:, j] / 7.5 - 1 for j in (0, 1))
    return first + second if kind == "additive" else 2 * np.sign(first * second)


def table(kind, loss, seed=0):
    codes = codes_of(COLUMNS, N, seed)
    rng = np.random.default_rng(seed + 1)
    score = signal_of(kind, codes)
    if loss == "squared":
        return codes, np.clip(score / 3 + rng.normal(0, 0.1, N), -1, 1)
    return codes, (rng.random(N) < 1 / (1 + np.exp(-2 * score))).astype(float)


def fit(kind, loss="logistic", noise=None, adjacency="replace_one", **params):
    """A model, and the answers, noise and solver that it was made with."""
    codes, y = table(kind, loss)
    facts = {"columns": COLUMNS, "adjacency": adjacency, "init": "linear"}
    task = task_of(loss, N, **facts)
    solver = solver_of(task, BUDGET, n_estimators=N_TREES, trial_share=0.06, **params)
    noise = noise or SpyNoise(0)
    multiplier = 1 / gaussian_mu(BUDGET.epsilon, BUDGET.delta)
    plan = solver.plan(task)
    answers = answers_for(plan, source_of(codes, y), multiplier, adjacency, noise)
    return solver.run(answers, task, Progress()), answers, noise, solver


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_an_interaction_grows_trees(loss):
    for seed in range(4):
        model, *_, solver = fit("interaction", loss, SpyNoise(seed))
        assert solver.n_tried == N_TREES // 10
        assert len(model.values) == N_TREES
        assert model.shrinkage > 0
        codes, _ = table("interaction", loss, seed=9)
        raw, score = model.raw(codes)[:, 0], signal_of("interaction", codes)
        assert np.corrcoef(raw, score)[0, 1] > 0.75


@pytest.mark.parametrize(("loss", "least"), [("logistic", 1), ("squared", 4)])
def test_a_sum_of_effects_continues_the_line(loss, least):
    """Trees may help a line of labels, too, whose steps have not come to their end."""
    models = [fit("additive", loss, SpyNoise(seed))[0] for seed in range(8)]
    lines = [model for model in models if len(model.values) == 1]
    assert len(lines) >= least
    codes, _ = table("additive", loss, seed=9)
    for model in lines:
        assert model.shrinkage == 0
        assert not model.values.any()
        raw, score = model.raw(codes)[:, 0], signal_of("additive", codes)
        assert np.corrcoef(raw, score)[0, 1] > 0.95


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_both_ways_spend_the_whole_budget_and_no_more(loss, adjacency, monkeypatch):
    """Each answer that is given is on the event, whichever way a fit takes."""
    costs, counts = [], []
    for grows in (False, True):
        monkeypatch.setattr(_boosting, "helps", lambda gain, own=grows: own)
        _, answers, noise, _ = fit("additive", loss, adjacency=adjacency)
        paid = sum(draw.noise_multiplier**-2 for draw in noise.draws)
        assert paid == pytest.approx(answers.event.mu_squared, rel=1e-9)
        costs.append(answers.event.mu_squared)
        counts.append(len(noise.draws))
    assert costs[0] == costs[1]
    mu = gaussian_mu(BUDGET.epsilon, BUDGET.delta)
    assert math.sqrt(costs[0]) == pytest.approx(mu)
    assert counts[0] != counts[1]  # they ask different questions


def test_a_line_that_continues_gets_better_with_the_rest(monkeypatch):
    """The rest of the descent begins at the first weights, which were not shrunk."""
    monkeypatch.setattr(_boosting, "helps", lambda gain: False)
    seen = []
    honest = _boosting.LinearStart.run

    def noted(self, *facts):
        seen.append((facts[4:], honest(self, *facts)))
        return seen[-1][1]

    monkeypatch.setattr(_boosting.LinearStart, "run", noted)
    model, *_ = fit("additive")
    (before, first), (after, last) = seen
    assert before == ()
    assert after == (first,)
    assert last.noise.before is first.noise
    assert last.noise.flow > first.noise.flow
    assert np.array_equal(model.curves.tables[0].shape, (16, 1))
    n = first.weights.shape[0]
    assert first.weights == pytest.approx(first.kept * first.mean[:n])


def test_without_a_trial_the_plan_has_one_way():
    for params in ({"trial_share": 0.0}, {"gains_share": 0.0}, {"linear_share": 0.0}):
        task = task_of("logistic", N, columns=COLUMNS, init="linear")
        known = {"n_estimators": N_TREES, "trial_share": 0.06} | params
        solver = solver_of(task, BUDGET, **known)
        assert solver.n_tried == 0
        parts = solver.plan(task).lines
        assert all(getattr(part, "instead", None) is None for part in parts)


def test_several_owners_know_their_rounds_before_a_fit():
    task = task_of("logistic", 10 * N, columns=COLUMNS, init="linear")
    assert solver_of(task, BUDGET).n_tried > 0
    with asking(object()):
        alone = solver_of(task, BUDGET)
        with pytest.raises(Refused, match="trial_share must be None or 0 for several"):
            solver_of(task, BUDGET, trial_share=0.1)
    assert alone.n_tried == 0
    assert alone.n_estimators > 0
    assert [
        line for line in alone.plan(task).lines if getattr(line, "instead", 0)
    ] == []
