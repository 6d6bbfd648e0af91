"""One part of the records for each candidate, and one to choose on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import DPGridSearchCV, DPLogisticRegression
from skdp.model_selection._candidates import SearchJob
from skdp.papers import DisjointSplits
from tests.model_selection.toys import NoisySum


def search_for(k=3, **params):
    values = {"method": "disjoint_splits"} | params
    return DPGridSearchCV(NoisySum(), {"answer": [i % 3 for i in range(k)]}, **values)


@pytest.fixture
def splits(monkeypatch):
    seen, original = [], SearchJob.fit_and_score

    def spy(self, prepared, splits, *, say):
        seen.extend(splits)
        return original(self, prepared, splits, say=say)

    monkeypatch.setattr(SearchJob, "fit_and_score", spy)
    return seen


@pytest.mark.parametrize(
    ("n", "k", "fraction"),
    [(100, 3, None), (100, 7, None), (4, 3, None), (50, 3, 0.5), (50, 3, 0.98)],
)
def test_parts_are_disjoint_equal_and_cover_all(n, k, fraction, splits):
    X, y = np.zeros((n, 2)), np.ones(n)
    search_for(k, validation_fraction=fraction).fit(X, y)
    assert len(splits) == k
    assert len({len(split.train) for split in splits}) == 1
    assert all(len(split.train) > 0 for split in splits)
    used = [i for split in splits for i in split.train] + list(splits[0].validation)
    assert sorted(used) == list(range(n))
    assert all(np.array_equal(s.validation, splits[0].validation) for s in splits)


def test_as_many_candidates_as_records_are_refused():
    with pytest.raises(ValueError, match="more records than candidates"):
        search_for(4).fit(np.zeros((4, 2)), np.ones(4))


@pytest.mark.parametrize("mechanism", ["exponential", "permute_and_flip"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_best_is_chosen_and_no_score_is_shown(mechanism, delta):
    search = search_for(
        epsilon=2.0, delta=delta, method_params={"mechanism": mechanism}
    ).fit(np.zeros((600, 2)), np.ones(600))
    assert search.best_params_ == {"answer": 1}
    assert math.isnan(search.best_score_)
    assert set(search.cv_results_) == {"params", "param_answer"}


def test_selected_fit_is_released_and_not_fitted_again(monkeypatch):
    rows = []
    monkeypatch.setattr(NoisySum, "_before_reading", lambda s, X: rows.append(len(X)))
    search_for().fit(np.zeros((100, 2)), np.ones(100))
    assert rows == [25, 25, 25]


def test_every_fit_gets_all_of_the_budget():
    model = DPLogisticRegression(
        classes=[0, 1], solver="noisy_gd", solver_params={"n_steps": 2}
    )
    search = DPGridSearchCV(model, {"C": [0.1, 1.0]}, method="disjoint_splits")
    X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(60, 2))
    search.fit(X, np.arange(60) % 2)
    assert search.best_estimator_.epsilon == pytest.approx(1.0, rel=1e-4)


def test_parameters_out_of_range():
    with pytest.raises(ValueError, match=r"'mechanism'.*permute_and_flip"):
        DisjointSplits(mechanism="argmax")
