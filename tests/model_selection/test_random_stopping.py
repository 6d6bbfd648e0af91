"""The best of a secret number of trials: what a search by it shows, and what not."""

from __future__ import annotations

import logging
import math
import pickle

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from skdp import BoundedScaler, DPGridSearchCV, DPLogisticRegression
from skdp.exceptions import PlanUsedUpError
from skdp.model_selection import RandomStopping
from skdp.model_selection._candidates import SearchJob
from skdp.privacy.noise._noise import NoiseSource
from tests.model_selection.runs import job_of, plan_of, runner
from tests.model_selection.toys import Fragile, NoisySum


def rows_for(n=40):
    rng = np.random.default_rng(0)
    return rng.uniform(-0.7, 0.7, size=(n, 2)), np.arange(n) % 2


def search_for(estimator=None, grid=None, **params):
    values = {"method": "random_stopping"} | params
    return DPGridSearchCV(
        estimator or NoisySum(), grid or {"answer": [0, 1, None]}, **values
    )


@pytest.fixture
def force(monkeypatch):
    """Make the secret number of trials what the test says."""

    def force(count):
        monkeypatch.setattr(NoiseSource, "weighted_index", lambda self, weights: count)

    return force


@pytest.fixture
def reads(monkeypatch):
    """One entry for each fit that reads data."""
    diary = []
    monkeypatch.setattr(
        NoisySum, "_before_reading", lambda self, X: diary.append(len(X))
    )
    return diary


def structure(value, path="", found=None):
    """Path, type and shape of everything within an object; no number's value."""
    found = {} if found is None else found
    found[path] = type(value).__name__
    if isinstance(value, np.ndarray):
        found[path] += f" {value.dtype} {value.shape}"
    elif isinstance(value, dict):
        for name, item in value.items():
            structure(item, f"{path}.{name}", found)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            structure(item, f"{path}[{i}]", found)
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        structure(vars(value), path + "!", found)
    return found


VERBOSE = Pipeline(
    [
        ("scale", BoundedScaler((-1, 1))),
        (
            "clf",
            DPLogisticRegression(
                classes=[0, 1],
                solver="noisy_gd",
                solver_params={"n_steps": 2},
                verbose=True,
            ),
        ),
    ],
    verbose=True,
)


@pytest.mark.long
@pytest.mark.parametrize(("estimator", "n_jobs"), [(NoisySum(), 2), (VERBOSE, None)])
def test_nothing_tells_the_number_of_trials(
    estimator, n_jobs, force, capfd, caplog, recwarn
):
    caplog.set_level(logging.DEBUG)
    grid = {"answer": [None, None]} if estimator is not VERBOSE else {"clf__C": [1, 1]}
    shown = []
    for count in (1, 7):
        force(count)
        search = search_for(estimator, grid, verbose=2, n_jobs=n_jobs)
        search.fit(*rows_for())
        # What noise is about to do to the fits is public, and said before them.
        warned = [str(warning.message) for warning in recwarn.list]
        recwarn.clear()
        shown.append((structure(search), warned))
        assert capfd.readouterr() == ("", "")
        assert not [r for r in caplog.records if r.name.startswith("skdp")]
        assert all("noise dominates" in message for message in warned)
        back = pickle.loads(pickle.dumps(search))
        assert structure(back) == shown[-1][0]
    assert shown[0] == shown[1]


def test_number_of_fits_is_the_secret_one_unless_duration_is_fixed(force, reads):
    for count in (1, 4):
        force(count)
        reads.clear()
        search_for().fit(*rows_for())
        assert len(reads) == count
        reads.clear()
        params = {"fixed_duration": True, "max_trials": 5}
        search_for(method_params=params).fit(*rows_for())
        assert len(reads) == 5


def test_no_record_of_a_trial_is_fitted_and_scored(monkeypatch):
    met, original = [], SearchJob.fit_and_score

    def spy(self, prepared, splits, *, say):
        met.extend([*split.train, *split.validation] for split in splits)
        return original(self, prepared, splits, say=say)

    monkeypatch.setattr(SearchJob, "fit_and_score", spy)
    search_for().fit(*rows_for())
    assert met
    assert all(sorted(each) == list(range(40)) for each in met)


def test_surplus_trials_of_a_fixed_duration_are_not_looked_at(force, monkeypatch):
    """The first of five is released, though the others are better."""
    force(1)
    rank = iter(range(100))

    def fit(self, X, y):
        original(self, X, y)
        self.total_ = float(next(rank))
        return self

    original = NoisySum.fit
    X, y = np.column_stack([np.zeros(400), np.full(400, 1e6)]), np.zeros(400)
    params = {"fixed_duration": True, "max_trials": 5}
    search = search_for(grid={"answer": [None]}, method_params=params)
    plan = plan_of(search, X, y)
    monkeypatch.setattr(NoisySum, "fit", fit)
    noise = NoiseSource()
    choice = runner(plan, job_of(plan, X, y, noise), noise)()
    assert choice.estimator.total_ == 0.0
    assert next(rank) == 5


def test_more_scores_than_were_paid_for_are_refused(force):
    """A broken law of the number of trials, beyond its cut-off."""
    params = {"max_trials": 4}
    for count, is_broken in ((4, False), (5, True)):
        force(count)
        search = search_for(method_params=params)
        if not is_broken:
            search.fit(*rows_for())
            continue
        with pytest.raises(PlanUsedUpError, match="Nothing was read"):
            search.fit(*rows_for())


@pytest.mark.parametrize("kind", [NoisySum, Fragile])
def test_no_trial_gives_a_fixed_model(kind, force):
    """K = 0 of Poisson's law; what is returned follows from public facts."""
    force(0)
    params = {"family": "poisson"}
    X, y = rows_for()
    search = search_for(kind(), method_params=params).fit(X, y)
    other = search_for(kind(), method_params=params).fit(-X, 1 - y)
    for fitted in (search, other):
        assert fitted.best_index_ == 0
        assert fitted.best_params_ == {"answer": 0}
        assert fitted.best_score_ == 0.0  # accuracy at its public minimum
        assert fitted.privacy_.epsilon == 1.0
        assert len(set(fitted.predict(X))) == 1
    assert np.array_equal(search.predict(X), other.predict(X))
    with pytest.raises(ValueError, match="2D array"):
        search.predict(X[0])


@pytest.mark.parametrize(
    "params",
    [
        {"family": "uniform"},
        {"shape": -1.0},
        {"shape": 11.0},
        {"mean_trials": 1.0},
        {"max_trials": 0},
        {"max_trials": 2.5},
        {"fixed_duration": 1},
    ],
    ids=str,
)
def test_parameters_out_of_range(params):
    (name,) = params
    rest = {"shape": 1.0, "mean_trials": 3.0, "max_trials": 9}
    with pytest.raises((ValueError, TypeError), match=f"'{name}'"):
        RandomStopping(**rest | params)
    with pytest.raises((ValueError, TypeError), match=f"'{name}'"):
        search_for(method_params=params).fit(*rows_for())


def test_trials_are_drawn_by_the_stated_law(reads):
    """Counts of 120 searches within six standard deviations of the mean (1e-8)."""
    params = {"mean_trials": 2.0, "max_trials": 50}
    search = search_for(grid={"answer": [0]}, method_params=params)
    X, y = rows_for()
    plan = plan_of(search, X, y)
    law = plan.chosen.method.trials
    for seed in range(120):
        noise = NoiseSource(seed)
        runner(plan, job_of(plan, X, y, noise), noise)()
    variance = law.probabilities @ np.arange(51) ** 2 - law.expected**2
    assert abs(len(reads) - 120 * law.expected) < 6 * math.sqrt(120 * variance)
