"""What a search costs, recomputed by formulas of our own from its public parameters."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from skdp import DPGridSearchCV, DPLogisticRegression
from skdp.exceptions import SourceError
from skdp.model_selection import METHODS, resolve_scoring
from skdp.model_selection._methods import SearchFacts
from skdp.privacy import Budget, BudgetLedger, GaussianEvent, PureEvent, calibrate
from skdp.privacy.ledger._allowance import Allowance
from tests.model_selection.runs import job_of, plan_of, runner
from tests.model_selection.toys import Deadly, Interrupted, NoisySum
from tests.spies import SpyLedger, SpyNoise

ROOT = Path(__file__).parents[2]


def gaussian_delta(mu, epsilon):
    """Of mu-GDP: Dong, Roth and Su (2022), corollary 2.13."""
    far = epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(far)


def gaussian_epsilon(mu, delta):
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, 200.0, xtol=1e-12)


def rows_for(n=60, n_labels=2):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, size=(n, 2)), rng.integers(n_labels, size=n)


def plan_for(budget, method, params=None, k=4, adjacency="replace_one", **others):
    search = DPGridSearchCV(
        NoisySum(),
        {"answer": [0, 1, 2, None] * (k // 4)},
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=adjacency,
        method=method,
        method_params=params,
        **others,
    )
    return plan_of(search, *rows_for())


def run_of(plan):
    """The draws and choices that a run makes for scores and selection."""
    X, y = rows_for()
    noise = SpyNoise(seed=0)
    runner(plan, job_of(plan, X, y, noise), noise)()
    return noise


def inner(plan):
    """Epsilon that each kind of fit gets."""
    return [ready.estimator.epsilon for ready in plan.candidates[0].prepared]


def inner_mu(plan):
    """mu of each kind of fit, from the epsilon that its estimator has."""
    delta = plan.facts.budget.delta
    return [
        brentq(lambda mu, e=e: gaussian_delta(mu, e) - delta, 1e-3, 50.0, xtol=1e-13)
        for e in inner(plan)
    ]


def is_just_below(value, claim):
    return claim * 0.998 <= value <= claim * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "k", "fraction"), [(0.5, 12, None), (4.0, 4, None), (1.0, 12, 0.2)]
)
def test_composition(epsilon, k, fraction):
    plan = plan_for(
        Budget(epsilon, 1e-6), "composition", {"tuning_fraction": fraction}, k
    )
    (fit, final), (draw,) = inner_mu(plan), run_of(plan).draws
    assert draw.sensitivity == pytest.approx(math.sqrt(k))  # k counts
    scores = 1 / draw.noise_multiplier
    trained = math.hypot(math.sqrt(k) * fit, 0 if fraction else final)
    scored = math.hypot(scores, 0 if fraction else final)
    for mu in (trained, scored) + ((final,) if fraction else ()):
        assert is_just_below(gaussian_epsilon(mu, 1e-6), epsilon)


@pytest.mark.parametrize("fraction", [None, 0.2])
def test_pure_composition(fraction):
    k = 4
    plan = plan_for(Budget(1.0, 0.0), "composition", {"tuning_fraction": fraction}, k)
    (fit, final), (draw,) = inner(plan), run_of(plan).draws
    assert draw.law == "laplace"
    assert draw.sensitivity == k
    rest = 0 if fraction else final
    for epsilon in (k * fit + rest, draw.epsilon + rest):
        assert is_just_below(epsilon, 1.0)
    assert is_just_below(final, 1.0) or not fraction


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("mechanism", ["exponential", "permute_and_flip"])
def test_disjoint_splits(delta, mechanism):
    plan = plan_for(Budget(1.0, delta), "disjoint_splits", {"mechanism": mechanism})
    assert is_just_below(inner(plan)[0], 1.0)
    (choice,) = run_of(plan).choices
    assert choice.law.startswith(mechanism)
    assert choice.epsilon == 1.0
    assert choice.sensitivity == 1.0  # of one count


def density(law):
    """w: the density of the best of K with respect to one trial, at u."""
    p = law.probabilities
    return lambda u: np.polyval((np.arange(1, len(p)) * p[1:])[::-1], 1 - u)


def theorem(law, mu, epsilon):
    """The bound of the proof page by brute force: the supremum on a fine grid."""
    w, x = density(law), np.linspace(-7, 7, 1500)
    u, moved = norm.cdf(x), norm.cdf(x + mu)
    y = np.linspace(-9, 9, 3001)  # a view from Q'; the log of dQ/dQ' is mu y - mu^2 / 2
    ratio = np.exp(mu * y - mu**2 / 2 - epsilon)
    best = np.max(w(u)[:, None] * ratio - w(moved)[:, None], axis=0)
    return math.exp(epsilon) * np.trapezoid(np.maximum(best, 0) * norm.pdf(y), y)


def attained(law, mu, epsilon):
    """Exact delta of the pair whose score is the loss itself, either way round."""
    w, y = density(law), np.linspace(-9, 9 + mu, 20001)
    p = w(norm.sf(y)) * norm.pdf(y)
    q = w(norm.sf(y - mu)) * norm.pdf(y - mu)
    return max(
        np.trapezoid(np.maximum(a - math.exp(epsilon) * b, 0), y)
        for a, b in ((p, q), (q, p))
    )


def published(law, mu, epsilon):
    """Koskela, Redberg and Wang (2024), theorem 4, at the law's own w."""
    w, x = density(law), np.linspace(-7, 7, 4000)
    shift = math.log(np.max(w(norm.cdf(x)) / w(norm.cdf(x + mu))))
    return law.expected * gaussian_delta(mu, max(epsilon - shift, 0.0))


STOPPING = {
    "geometric": {},
    "logarithmic": {"shape": 0.0},
    "fixed": {"fixed_duration": True},
    "poisson": {"family": "poisson", "mean_trials": 6.0},
}


@pytest.mark.parametrize(
    ("name", "epsilon"), list(zip(STOPPING, (0.5, 2.0, 2.0, 0.5), strict=True))
)
def test_random_stopping(name, epsilon):
    plan = plan_for(Budget(epsilon, 1e-6), "random_stopping", STOPPING[name], 12)
    law, (fit,) = plan.chosen.method.trials, inner_mu(plan)
    draws = run_of(plan).draws
    assert all(draw.sensitivity == 1.0 for draw in draws)
    scored = {1 / draw.noise_multiplier for draw in draws}
    mu = 1 / plan.noise_multiplier
    assert all(each == pytest.approx(mu, rel=1e-9) for each in scored)
    assert fit == pytest.approx(mu, rel=1e-4)
    assert theorem(law, mu, epsilon) <= 1e-6
    # What cells and rounding cost: less than 4 % of mu.
    assert theorem(law, 1.04 * mu, epsilon) > 1e-6
    assert attained(law, mu, epsilon) <= 1e-6
    assert published(law, mu, epsilon) >= 1e-6 * 0.9


@pytest.mark.parametrize("shape", [0.0, 4.0])
def test_pure_random_stopping(shape):
    params = {"shape": shape, "max_trials": 200}
    plan = plan_for(Budget(1.0, 0.0), "random_stopping", params, 12)
    w, (own,) = density(plan.chosen.method.trials), inner(plan)
    assert all(
        draw.epsilon == pytest.approx(own, rel=1e-5) for draw in run_of(plan).draws
    )
    u = np.concatenate([np.geomspace(1e-9, 0.5, 20000), np.linspace(0.5, 1, 20000)])
    moved = np.minimum(np.exp(own) * u, 1 - np.exp(-own) * (1 - u))
    worst = own + float(np.max(np.log(w(u) / w(np.minimum(moved, 1.0)))))
    assert 0.99 <= worst <= 1.0
    assert (2 + shape) * own >= 0.99  # Papernot and Steinke (2022), corollary 3


# What is really committed.

MODELS = {
    "gaussian": DPLogisticRegression(solver="noisy_gd", solver_params={"n_steps": 3}),
    "objective": DPLogisticRegression(solver="objective_perturbation"),
}


@pytest.fixture
def committed(monkeypatch):
    """Events that fits commit in trials, one list for each fit."""
    events, commit = {}, Allowance.commit

    def spy(self, event, **facts):
        commit(self, event, **facts)
        if not self.is_rehearsal:
            events.setdefault(id(self), (self, []))[1].append(event)

    monkeypatch.setattr(Allowance, "commit", spy)
    return lambda: [found for _, found in events.values()]


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("composition", "gaussian"),
        ("composition", "objective"),
        ("random_stopping", "gaussian"),
        ("disjoint_splits", "objective"),
    ],
)
def test_fits_commit_no_more_than_the_search_states(name, method, committed):
    params = {"random_stopping": {"fixed_duration": True, "mean_trials": 2.0}}
    search = DPGridSearchCV(
        MODELS[name],
        {"C": [1e-4, 1e-3]},
        method=method,
        method_params=params.get(method),
    )
    X, y = rows_for()
    search.fit(X / 2, y)
    plan = plan_of(search, X / 2, y)
    needs = plan.chosen.method.needs(plan.noise_multiplier, plan.facts)
    fits = committed()
    expected = {"composition": 3, "disjoint_splits": 2, "random_stopping": 5}
    assert len(fits) == expected[method]
    for i, events in enumerate(fits):
        is_last = method == "composition" and i == 2
        allowed = needs[1 if is_last else 0].strength.mu_squared
        spent = math.fsum(event.gdp_mu_squared for event in events)
        assert spent <= allowed * (1 + 1e-9)
        assert spent >= 0.98 * allowed  # and nothing is wasted
    if method == "composition":  # whose fits are all of the same records
        spent = math.fsum(one.gdp_mu_squared for events in fits for one in events)
        charged = search.privacy_.event.gdp_mu_squared
        assert 0.98 * charged <= spent <= charged * (1 + 1e-9)


def ledger_in(folder, kind=BudgetLedger, **changes):
    return kind(folder / "books.db", **({"epsilon": 3.0, "delta": 1e-5} | changes))


@pytest.mark.parametrize(
    ("method", "delta"), [(name, 1e-6 * (i % 2)) for i, name in enumerate(METHODS)]
)
def test_one_entry_before_the_first_read(method, delta, tmp_path, monkeypatch):
    SpyLedger.diary = diary = []
    monkeypatch.setattr(NoisySum, "_before_reading", lambda s, X: diary.append("read"))
    ledger = ledger_in(tmp_path, SpyLedger)
    search = DPGridSearchCV(
        NoisySum(), {"answer": [0, None]}, delta=delta, method=method, ledger=ledger
    ).fit(*rows_for())
    assert diary[0] == "commit"
    assert diary.count("commit") == 1
    assert set(diary[1:]) == {"read"}
    (spend,) = ledger.spends()
    assert spend.event == search.privacy_.event
    assert (spend.epsilon, spend.delta) == (1.0, delta)
    assert method in spend.label
    assert search.privacy_.ledger == ledger.path


BROKEN = {"interrupted": (Interrupted, None), "deadly": (Deadly, 2)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "method"), [("deadly", "composition"), ("interrupted", "random_stopping")]
)
def test_a_search_that_dies_leaves_one_entry_and_no_model(name, method, tmp_path):
    kind, n_jobs = BROKEN[name]
    ledger = ledger_in(tmp_path)
    search = DPGridSearchCV(
        kind(), {"answer": [0, 1]}, method=method, n_jobs=n_jobs, ledger=ledger
    )
    before = dict(vars(search))
    with pytest.raises((KeyboardInterrupt, SourceError)):
        search.fit(*rows_for())
    (spend,) = ledger.spends()
    assert spend.label.startswith("DPGridSearchCV")
    assert vars(search) == before
    # The books are as good as ever.
    DPGridSearchCV(NoisySum(), {"answer": [0]}, epsilon=0.5, ledger=ledger).fit(
        *rows_for()
    )
    assert len(ledger.spends()) == 2


# The table in docs/guide/scores.md.


@lru_cache
def row(epsilon, method, n_samples=10_000):
    """Epsilon, at delta 1e-6, of a candidate's fit and of the released model's."""
    budget = Budget(epsilon, 1e-6)
    facts = SearchFacts(
        n_samples=n_samples,
        n_candidates=12,
        budget=budget,
        adjacency="replace_one",
        scorer=resolve_scoring("accuracy", NoisySum()),
        validation_fraction=None,
        has_ledger=False,
    )
    resolved = METHODS[method].planned({}, facts)
    z = calibrate(lambda z: resolved.event(z, facts), budget)
    needs = resolved.needs(z, facts)
    mus = [1 / need.strength.noise_multiplier for need in (needs[0], needs[-1])]
    return tuple(gaussian_epsilon(mu, 1e-6) for mu in mus)


def rows():
    """The table as it should be."""
    return {
        (epsilon, method): row(epsilon, method)
        for epsilon in (0.5, 1.0, 2.0)
        for method in METHODS
    }


def rows_of_page(text):
    """Figures, as text, by total epsilon and method.

    Two columns are of composition, a candidate and the released model; the others
    are of one method each, whose fits are all alike.
    """
    section = text.split("Epsilon of a single fit", 1)[1].split("\n## ", 1)[0]
    found = {}
    for line in section.splitlines():
        cells = line.strip("|").split("|")
        if line.startswith("|") and re.fullmatch(r"[0-9.]+", cells[0]):
            epsilon, candidate, released, stopped, split = cells
            found[float(epsilon), "composition"] = candidate, released
            found[float(epsilon), "random_stopping"] = stopped, stopped
            found[float(epsilon), "disjoint_splits"] = split, split
    return found


def is_rounded(text, value):
    """Whether a figure is the value to its last digit."""
    digits = len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.5 * 10**-digits * (1 + 1e-6)


def check_table(text):
    found, expected = rows_of_page(text), rows()
    assert set(found) == set(expected)
    for key, figures in found.items():
        for figure, value in zip(figures, expected[key], strict=True):
            assert is_rounded(figure, value), (key, figure, value)


def test_table_of_what_each_fit_receives():
    check_table((ROOT / "docs" / "guide" / "scores.md").read_text())


def test_strengths_are_of_one_kind():
    for delta, kind in ((1e-6, GaussianEvent), (0.0, PureEvent)):
        for method in METHODS:
            plan = plan_for(Budget(1.0, delta), method)
            needs = plan.chosen.method.needs(plan.noise_multiplier, plan.facts)
            assert {type(need.strength) for need in needs} == {kind}
            assert len(needs) == len(plan.candidates[0].prepared)
