"""One part of the records for each candidate, and one to choose on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import DPGridSearchCV, DPLogisticRegression
from skdp.model_selection._candidates import SearchJob
from tests.model_selection.toys import NoisySum


def search_for(k=3, **params):
    values = {"method": "disjoint_splits"} | params
    return DPGridSearchCV(NoisySum(), {"answer": [i % 3 for i in range(k)]}, **values)


@pytest.mark.parametrize(
    ("n", "k", "fraction"),
    [(100, 3, None), (100, 7, None), (4, 3, None), (50, 3, 0.98)],
)
def test_parts_are_disjoint_equal_and_cover_all(n, k, fraction, monkeypatch):
    splits, original = [], SearchJob.fit_and_score

    def spy(self, prepared, own, *, say):
        splits.extend(own)
        return original(self, prepared, own, say=say)

    monkeypatch.setattr(SearchJob, "fit_and_score", spy)
    X, y = np.zeros((n, 2)), np.ones(n)
    search_for(k, validation_fraction=fraction).fit(X, y)
    assert len(splits) == k
    (size,) = {len(split.train) for split in splits}
    assert size > 0
    used = [i for split in splits for i in split.train] + list(splits[0].validation)
    assert sorted(used) == list(range(n))
    assert all(np.array_equal(s.validation, splits[0].validation) for s in splits)
    with pytest.raises(ValueError, match="more records than candidates"):
        search_for(n).fit(X, y)


@pytest.mark.parametrize("mechanism", ["exponential", "permute_and_flip"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_best_is_chosen_and_no_score_is_shown(mechanism, delta):
    params = {"epsilon": 2.0, "delta": delta, "method_params": {"mechanism": mechanism}}
    search = search_for(**params).fit(np.zeros((600, 2)), np.ones(600))
    assert search.best_params_ == {"answer": 1}
    assert math.isnan(search.best_score_)
    assert set(search.cv_results_) == {"params", "param_answer"}


def test_every_fit_gets_all_of_the_budget():
    params = {"solver": "noisy_gd", "solver_params": {"n_steps": 2}}
    model = DPLogisticRegression(classes=[0, 1], **params)
    search = DPGridSearchCV(model, {"C": [0.1, 1.0]}, method="disjoint_splits")
    X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(60, 2))
    search.fit(X, np.arange(60) % 2)
    assert search.best_estimator_.epsilon == pytest.approx(1.0, rel=1e-4)
