"""Attack whole searches with canary pairs, and with planted bugs.

What is audited is ``method.run`` with the plan that ``DPGridSearchCV`` makes: its
budgets, splits, secret counts, noisy scores and choices. Thousands of runs are paid for
by two stand-ins. `Stream` draws the laws of `NoiseSource` (whose exactness
tests/privacy/test_noise.py holds) from one fast generator, and deals the records in one
order: the guarantee holds for every order, since it is drawn without regard to the
data, and the attacker takes the one in which the canary is where it hurts. `Fits` does
for many `NoisySum` at once what `Job` does one by one; a test compares the two. The
last tests attack with real fits and the real noise.

Pairs. (a) The canary is trained on: record 0 has x = 1, and in its place -1 under
replace_one, or a row of zeros, which adds nothing to the toy's sum and so stands for
the null record of zero_out (a table has no other way to write it). The thresholds of
the other records make a model's score grow with its noisy sum, so that the best of
several models is the one of the largest noise, and they are so many that the noise of
the scores is small beside that. (b) The canary is scored on: candidates always answer 0
or always 1, all other records have label 2, so that the canary's label decides which
candidate is the best.

Expected bounds, from the exact laws of what the attacker looks at, at the numbers of
runs below:

- random stopping at (1, 0.1): a trial of the correct search has mu 0.29 (geometric,
  mean 20) or 0.31 (Poisson, mean 8), and about 0 is found; with trials at the whole
  budget, mu 0.92, 1.2 and 1.2. Pure, shape 5 with mean 10 at epsilon 1: 1.25.
- composition at (1, 0.02), 16 candidates with the whole tuning budget each: mu^2 grows
  by 0.3 * 16 + 0.7, a factor 2.35 on mu, above 1.5. The final fit at the whole budget
  beside a tuning share of 0.9, or on records that were tuned on, at (2, 0.2): factors
  1.38 and 1.41 on mu, 2.56 and 2.64; without the bug 1.4.
- disjoint splits at (1, 0.05) with 16 candidates that are all trained on all
  records: the best of 16, above 1.5; pure, above 2.
- a choice without noise: it follows the canary nearly always (of 1 + mean trials once
  not, with random stopping), above 1.5.

Runs are seeded: a pass stays a pass. With fresh seeds each bound would exceed the claim
with probability below 1e-7.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from skdp import DPGridSearchCV, DPLogisticRegression
from skdp.audit._result import epsilon_lower_bound
from skdp.model_selection import Composition, RandomStopping
from skdp.model_selection._candidates import ScoredFit, SearchRecords, Split
from skdp.model_selection._methods import strength
from skdp.privacy import Budget, GaussianEvent, LaplaceEvent, calibrate
from skdp.privacy.noise._noise import NoiseSource
from skdp.tables._source import Facts, Records
from tests.model_selection.runs import job_of, plan_of, runner
from tests.model_selection.toys import SENSITIVITY, NoisySum

# The attacks need deltas that are not rare.
pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.exceptions.LargeDeltaWarning"),
    pytest.mark.slow,  # what `make test` runs is exact: test_replay.py
]

CONFIDENCE = 1 - 1e-7
STOPPING = {
    "geometric": {"mean_trials": 20.0, "shape": 1.0},
    "poisson": {"mean_trials": 8.0, "family": "poisson"},
    "fixed": {"mean_trials": 20.0, "fixed_duration": True},
}
cached_calibrate = lru_cache(calibrate)


class Stream:
    """The laws of `NoiseSource` from one fast generator; a public order of records."""

    is_private = False

    def __init__(self, seed, order):
        self._rng, self._exact = np.random.default_rng(seed), NoiseSource(seed)
        self._order, self._ends = order, None
        self.permute_and_flip = self._exact.permute_and_flip
        self.exponential_mechanism = self._exact.exponential_mechanism

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        sigma = sensitivity * noise_multiplier
        return query + sigma * self._rng.standard_normal(query.shape)

    def laplace(self, query, *, sensitivity, epsilon):
        return query + self._rng.laplace(scale=sensitivity / epsilon, size=query.shape)

    def permutation(self, n):
        return self._order

    def integers(self, n, size):
        return self._rng.integers(n, size=size)

    def weighted_index(self, weights):
        if self._ends is None:
            self._ends = np.cumsum(np.array(weights, dtype=float))
        place = self._rng.uniform(0, self._ends[-1])
        return int(np.searchsorted(self._ends, place, side="right"))


class Loud(Stream):
    """A planted bug: the choice is made on raw scores."""

    def permute_and_flip(self, scores, *, sensitivity, epsilon):
        return int(np.argmax(scores))

    exponential_mechanism = permute_and_flip

    def __init__(self, seed, order):
        super().__init__(seed, order)
        del self.permute_and_flip, self.exponential_mechanism

    def gaussian(self, query, **facts):
        return query

    laplace = gaussian


class Fits(Records):
    """What `Job` does for candidates that are `NoisySum`; a model is its sum.

    `is_overlapping` plants a bug: fits that should have records of their own are made
    on all records.
    """

    def __init__(self, plan, X, y, noise, *, is_overlapping=False):
        facts = plan.facts
        self.scorer, self.draws, self.adjacency = facts.scorer, noise, facts.adjacency
        self.facts = Facts(n_samples=len(y), largest_block=len(y))
        self._exact = []
        self._X, self._y, self._is_overlapping = X, y, is_overlapping
        self.is_pure, self._delta = facts.is_pure, facts.budget.delta
        self._rng, self._kept = np.random.default_rng(1), {}
        self._everything = np.arange(len(y))

    def scale(self, ready):
        """Scale of the noise of a fit's sum."""
        law = LaplaceEvent if self.is_pure else GaussianEvent
        if id(ready) not in self._kept:
            budget = Budget(ready.estimator.epsilon, self._delta)
            z = SENSITIVITY[self.adjacency] * cached_calibrate(law, budget)
            self._kept[id(ready)] = z, ready
        return self._kept[id(ready)][0]

    def _noisy(self, readies, rows):
        draw = self._rng.laplace if self.is_pure else self._rng.normal
        # Splits are the same in every run: see `Stream`.
        key = "total", int(rows[0]), len(rows)
        if key not in self._kept:
            self._kept[key] = self._X[rows, 0].sum()
        return draw(self._kept[key], [self.scale(ready) for ready in readies])

    def order(self):
        return self.draws.permutation(self.n_samples)

    def known(self, trials):
        return [trial.number for trial in trials]

    def fit_one(self, prepared, best, rows):
        return self.fit(prepared[best], rows)

    def fit_and_score(self, prepared, splits, *, say):
        found = [None] * len(prepared)
        self._exact = [None] * len(prepared)
        for split in {id(split): split for split in splits}.values():
            mine = [i for i, other in enumerate(splits) if other is split]
            readies = [prepared[i] for i in mine]
            rows = self._everything if self._is_overlapping else split.train
            totals = self._noisy(readies, rows)
            counts = self._right(readies, totals, split.validation)
            for i, total, count in zip(mine, totals, counts, strict=True):
                found[i] = ScoredFit(i, float(total))
                self._exact[i] = np.array([float(count)])
        return found

    def statistic(self, scorer, number):
        return self._exact[number]

    def _right(self, readies, totals, rows):
        """Number of records that each model labels right."""
        answers = [ready.estimator.answer for ready in readies]
        if answers[0] is not None:
            return (self._y[rows] == np.array(answers)[:, None]).sum(axis=1)
        key = int(rows[0]), len(rows)
        if key not in self._kept:
            self._kept[key] = np.sort(self._X[rows, 1])
        return self._kept[key].searchsorted(totals)

    def fit(self, ready, rows=None):
        rows = self._everything if rows is None or self._is_overlapping else rows
        return float(self._noisy([ready], rows)[0])


def search_for(grid, budget, adjacency, method, params=None, fraction=0.5):
    return DPGridSearchCV(
        NoisySum(),
        grid,
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=adjacency,
        method=method,
        method_params=params,
        validation_fraction=fraction,
        random_state=0,
    )


@pytest.fixture(autouse=True)
def _quick_plans(monkeypatch):
    monkeypatch.setattr("skdp.privacy.release._door.calibrate", cached_calibrate)


def trained_pair(adjacency, n, reach):
    """Neighbours that differ in record 0, which is to be trained on."""
    thresholds = np.random.default_rng(0).permutation(np.linspace(-reach, reach, n))
    X = np.column_stack([np.zeros(n), thresholds])
    Z = X.copy()
    X[0, 0], Z[0, 0] = 1.0, {"replace_one": -1.0, "zero_out": 0.0}[adjacency]
    if adjacency == "zero_out":
        X[0, 1] = Z[0, 1] = 0.0
    return (X, Z), (np.ones(n), np.ones(n))


def scored_pair(n):
    """Neighbours that differ in the label of record 0, which is to be scored on."""
    y, z = np.full(n, 2.0), np.full(n, 2.0)
    y[0], z[0] = 0.0, 1.0
    return (np.zeros((n, 2)), np.zeros((n, 2))), (y, z)


def released(search, pair, order, runs, look, *, charged_as=None, noise=Stream, **bugs):
    """What the attacker makes of many runs on both sides of a pair.

    `look` maps the job and the plan to a function of what one run releases.
    `charged_as` plants a bug: it maps the method to another, whose needs are served.
    """
    seen = []
    for seed, (X, y) in enumerate(zip(*pair, strict=True)):
        plan = plan_of(search, X, y, seed=0)
        if charged_as is not None:
            plan = plan_charged_as(charged_as(plan.chosen.method), search, plan, X, y)
        source = noise(seed, order)
        job = Fits(plan, X, y, source, **bugs)
        run, see = runner(plan, job, source), look(job, plan)
        seen.append([see(run()) for _ in range(runs)])
    return np.array(seen)


def plan_charged_as(broken, search, plan, X, y):
    """The plan as it would have been, had the search charged what `broken` says."""
    facts, chosen = plan.facts, replace(plan.chosen, method=broken)
    z = calibrate(lambda z: broken.event(z, facts), facts.budget)
    candidates = []
    for candidate in plan.candidates:
        toy = NoisySum(**candidate.params, adjacency=facts.adjacency)
        ready = search._prepared(toy, SearchRecords(X, y), chosen, z, facts)
        candidates.append(replace(candidate, prepared=ready))
    return replace(
        plan, chosen=chosen, noise_multiplier=z, candidates=tuple(candidates)
    )


def bound(seen, delta):
    return epsilon_lower_bound(*seen, delta, CONFIDENCE)


def total(job, plan):
    """The sum that the released model holds; a number of its own if there is none."""
    return lambda choice: np.inf if choice.estimator is None else choice.estimator


def minus_total(job, plan):
    return lambda choice: -total(job, plan)(choice)


@pytest.mark.parametrize("delta", [0.05, 0.0])
def test_stand_in_fits_as_the_job_does(delta):
    (X, _), (y, _) = trained_pair("replace_one", 60, 30.0)
    budget, adjacency = Budget(1.0, delta), "replace_one"
    search = search_for({"answer": [None]}, budget, adjacency, "random_stopping")
    plan = plan_of(search, X, y, seed=0)
    ready = plan.candidates[0].prepared[0]
    job = job_of(plan, X, y, NoiseSource(3), seed=3)
    split = Split(np.arange(30), np.arange(30, 60))
    (trial,) = job.fit_and_score([ready], [split], say=False)
    model, statistic = trial.model, job.statistic(job.scorer, trial.number)
    fits = Fits(plan, X, y, Stream(0, np.arange(60)))
    assert model.privacy_.noise_scale == pytest.approx(fits.scale(ready))
    assert statistic == fits._right([ready], [model.total_], split.validation)
    many = np.array([fits.fit(ready) for _ in range(4000)])
    spread = fits.scale(ready) * (1 if delta else np.sqrt(2))
    assert abs(many.mean() - 1) < 6 * spread / np.sqrt(4000)
    assert many.std() == pytest.approx(spread, rel=0.15)


# Random stopping.


class Uncharged(RandomStopping):
    """A planted bug: a trial is charged, the choice among trials is not."""

    def event(self, noise_multiplier, facts):
        return strength(noise_multiplier, facts)


def uncharged(method):
    return Uncharged(**vars(method))


@pytest.mark.parametrize(
    ("law", "adjacency"),
    [("geometric", "replace_one"), ("poisson", "zero_out"), ("fixed", "zero_out")],
)
def test_best_of_secretly_many_trials(law, adjacency):
    budget, n, grid = Budget(1.0, 0.1), 800, {"answer": [None]}
    search = search_for(grid, budget, adjacency, "random_stopping", STOPPING[law])
    # Some five standard deviations of a trial of the uncharged search.
    (X, Z), ys = trained_pair(adjacency, n, 6 * SENSITIVITY[adjacency])
    order = np.arange(n)[::-1].copy()
    runs = {"geometric": 6000, "poisson": 4000, "fixed": 2000}[law]
    # The largest losses are at the best scores, or with Poisson's law at low ones.
    case = (search, ((X, Z), ys), order, runs, total)
    if law == "poisson":
        case = (search, ((Z, X), ys), order, runs, minus_total)
    assert bound(released(*case), budget.delta) <= budget.epsilon
    if law != "fixed":  # the same law with another cut-off
        twin = released(*case, charged_as=uncharged)
        assert bound(twin, budget.delta) > budget.epsilon


def test_best_of_secretly_many_pure_trials():
    adjacency = "zero_out"
    budget, n, params = Budget(1.0, 0.0), 800, {"mean_trials": 10.0, "shape": 5.0}
    grid = {"answer": [None]}
    search = search_for(grid, budget, adjacency, "random_stopping", params)
    (X, Z), ys = trained_pair(adjacency, n, 12 * SENSITIVITY[adjacency])
    order = np.arange(n)[::-1].copy()
    case = (search, ((Z, X), ys), order, 4000, minus_total)
    assert bound(released(*case), 0.0) <= budget.epsilon
    assert bound(released(*case, charged_as=uncharged), 0.0) > budget.epsilon


# Composition.


def log_ratio(job, plan):
    """Log-likelihood ratio of all sums, as far as the released scores tell them."""
    fit, final = (job.scale(ready) for ready in plan.candidates[0].prepared)
    (low, high), middle = SIDES[job.adjacency], plan.candidates[0].params
    assert middle == {"answer": None}
    reach = REACH * SENSITIVITY[job.adjacency]

    def of(sums, scale):
        if job.is_pure:
            return (np.abs(sums - low) - np.abs(sums - high)) / scale
        return sums * (high - low) / scale**2

    def see(choice):
        tuned = of(reach * (2 * choice.scores - 1), fit).sum()
        return float(tuned + of(choice.estimator, final))

    return see


SIDES = {"replace_one": (-1.0, 1.0), "zero_out": (0.0, 1.0)}
REACH = 25.0


class Charged(Composition):
    """Charged as it should be; what is spent is another matter."""

    def event(self, noise_multiplier, facts):
        return Composition(**vars(self)).event(noise_multiplier, facts)


class WholeShareForEach(Charged):
    """A planted bug: every candidate's fit gets the whole tuning budget."""

    def _parts(self, multiplier, facts):
        _, scores, final = super()._parts(multiplier, facts)
        return scores, scores, final


class FreeRefit(Charged):
    """A planted bug: the final fit is not charged and takes the whole budget."""

    def _parts(self, multiplier, facts):
        fit, scores, _ = super()._parts(multiplier, facts)
        return fit, scores, multiplier


def composition_case(budget, adjacency, k, runs, **params):
    grid, n = {"answer": [None] * k}, 8000
    search = search_for(grid, budget, adjacency, "composition", params)
    pair = trained_pair(adjacency, n, REACH * SENSITIVITY[adjacency])
    return search, pair, np.arange(n), runs, log_ratio


@pytest.mark.parametrize(
    ("delta", "adjacency"), [(0.02, "replace_one"), (0.0, "zero_out")]
)
def test_candidates_share_the_tuning_budget(delta, adjacency):
    # Pure noise shows less of itself, so it takes more runs.
    runs = 3000 if delta > 0 else 8000
    case = composition_case(Budget(1.0, delta), adjacency, 16, runs)
    assert 0.1 < bound(released(*case), delta) <= 1.0
    twin = released(*case, charged_as=lambda method: WholeShareForEach(**vars(method)))
    assert bound(twin, delta) > 1.0


@pytest.mark.parametrize("budget", [Budget(2.0, 0.2), Budget(1.0, 0.0)])
def test_final_fit_is_charged(budget):
    case = composition_case(budget, "replace_one", 1, 6000, tuning_share=0.9)
    assert 0.1 < bound(released(*case), budget.delta) <= budget.epsilon
    twin = released(*case, charged_as=lambda method: FreeRefit(**vars(method)))
    assert bound(twin, budget.delta) > budget.epsilon


@pytest.mark.parametrize("budget", [Budget(2.0, 0.2), Budget(1.0, 0.0)])
def test_records_tuned_on_and_those_of_the_final_fit_are_disjoint(budget):
    case = composition_case(budget, "zero_out", 1, 6000, tuning_fraction=0.9)
    assert 0.1 < bound(released(*case), budget.delta) <= budget.epsilon
    twin = released(*case, is_overlapping=True)
    assert bound(twin, budget.delta) > budget.epsilon


# Disjoint splits.


@pytest.mark.parametrize(
    ("mechanism", "delta", "adjacency"),
    [("permute_and_flip", 0.05, "replace_one"), ("exponential", 0.0, "zero_out")],
)
def test_parts_do_not_overlap(mechanism, delta, adjacency):
    grid, n, params = {"answer": [None] * 16}, 800, {"mechanism": mechanism}
    budget = Budget(1.0, delta)
    search = search_for(grid, budget, adjacency, "disjoint_splits", params)
    (X, Z), ys = trained_pair(adjacency, n, 6 * SENSITIVITY[adjacency])
    case = search, ((Z, X), ys), np.arange(n)[::-1].copy(), 1500, minus_total
    assert bound(released(*case), delta) <= 1.0
    assert bound(released(*case, is_overlapping=True), delta) > 1.0


# The choice follows the canary.


def is_first(job, plan):
    return lambda choice: float(choice.index == 0)


def lead(job, plan):
    """By how much the first score leads; with noise, a likelihood ratio."""
    return lambda choice: float(choice.scores[0] - choice.scores[1])


CHOICES = {
    "composition": ([0, 1], {"tuning_share": 0.9}, lead),
    "random_stopping": ([0, 1], {"mean_trials": 20.0, "shape": 1.0}, is_first),
    "disjoint_splits": ([0] + [1] * 11, {}, is_first),
    "exponential": ([0] + [1] * 11, {"mechanism": "exponential"}, is_first),
}


@pytest.mark.parametrize(
    ("name", "delta"),
    [
        ("composition", 0.05),
        ("composition", 0.0),
        ("random_stopping", 0.05),
        ("random_stopping", 0.0),
        ("disjoint_splits", 0.05),
        ("exponential", 0.0),
    ],
)
def test_choice_is_noisy(name, delta):
    answers, params, look = CHOICES[name]
    method = "disjoint_splits" if name == "exponential" else name
    budget, n = Budget(1.0, delta), 40
    search = search_for({"answer": answers}, budget, "replace_one", method, params)
    order = np.arange(n)[::-1] if method == "composition" else np.arange(n)
    runs = 4000 if method == "composition" else 1000
    case = search, scored_pair(n), order, runs, look
    assert bound(released(*case), delta) <= 1.0
    assert bound(released(*case, noise=Loud), delta) > 1.0


# Real fits and the real noise.


def real_runs(search, X, y, runs, first_seed, see, noise=NoiseSource):
    plan = plan_of(search, X, y, seed=0)
    seen = []
    for seed in range(first_seed, first_seed + runs):
        source = noise(seed)
        job = job_of(plan, X, y, source, seed=seed)
        seen.append(see(runner(plan, job, source)()))
    return np.array(seen)


class LoudSource(NoiseSource):
    """A planted bug: the choice is made on raw scores."""

    def gaussian(self, query, **facts):
        return query

    def permute_and_flip(self, scores, **facts):
        return int(np.argmax(scores))


@pytest.mark.parametrize("method", ["composition", "disjoint_splits"])
def test_choice_of_real_fits(method):
    """The canary is scored on with probability 0.95: about 1.5 without noise."""
    (X, _), ys = scored_pair(40)
    budget, grid = Budget(1.0, 0.05), {"answer": [0, 1]}
    search = search_for(grid, budget, "replace_one", method, fraction=0.95)

    def see(choice):
        return -float(choice.index)

    for noise, is_broken in ((NoiseSource, False), (LoudSource, True)):
        seen = [
            real_runs(search, X, y, 300, seed, see, noise)
            for seed, y in zip((0, 10**6), ys, strict=True)
        ]
        assert (bound(seen, budget.delta) > budget.epsilon) == is_broken


def test_logistic_regression_in_a_grid(monkeypatch):
    """Records of both labels in one place, and one that pulls the model away.

    Candidates with thirty times the epsilon that they were charged for are told apart
    nearly always, which 200 runs show as about 1.6.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(scale=0.05, size=(40, 2)), np.arange(40) % 2
    Z, z = X.copy(), y.copy()
    X[0], y[0], Z[0], z[0] = [0.7, 0.7], 1, [0.7, 0.7], 0
    model = DPLogisticRegression(
        classes=[0, 1], solver="noisy_gd", solver_params={"n_steps": 4}
    )
    search = DPGridSearchCV(
        model,
        {"C": [0.1, 1.0]},
        epsilon=1.0,
        delta=0.05,
        method="composition",
        random_state=0,
    )

    def see(choice):
        return float(choice.estimator.coef_.sum())

    def found():
        sides = (X, y, 200, 0, see), (Z, z, 200, 10**6, see)
        return bound([real_runs(search, *side) for side in sides], 0.05)

    assert found() <= 1.0
    prepare = DPGridSearchCV._prepared

    def generous(*args):
        for ready in (several := prepare(*args)):
            ready.estimator.set_params(epsilon=30 * ready.estimator.epsilon)
        return several

    monkeypatch.setattr(DPGridSearchCV, "_prepared", generous)
    assert found() > 1.0
