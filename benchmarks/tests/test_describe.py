"""What `benchmarks.describe` measures, on few runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from benchmarks.describe import auc_errors, description_errors
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES


def table(n=3000):
    """Made up, of the columns of Adult."""
    rng = np.random.default_rng(0)
    numbers = {
        name: rng.integers(low, high + 1, n).astype(float)
        for name, (low, high) in ADULT_BOUNDS.items()
    }
    others = {
        name: rng.choice(np.array(values, dtype=object), n)
        for name, values in ADULT_CATEGORIES.items()
    }
    return pd.DataFrame(numbers | others)


def test_errors_of_descriptions_fall_with_epsilon():
    far, near = (description_errors(table(), epsilon, 3) for epsilon in (0.5, 1e4))
    assert near["means"].shape == (3, 5)
    assert near["quartiles"].shape == (3, 5, 3)
    assert near["means"].max() < 1e-3 < far["means"].max()
    assert near["quartiles"].max() < 0.05


def test_errors_of_areas_fall_with_epsilon():
    X, y = make_classification(4000, random_state=0)
    model = LogisticRegression().fit(X[:2000], y[:2000])
    wrong, area = auc_errors(model, X[2000:], y[2000:], 5, epsilon=1e4)
    assert np.abs(wrong).max() < 3e-3
    assert np.abs(area).max() < 1e-2
