"""What `benchmarks.calibration` measures, on few records."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from benchmarks.calibration import Bold, calibration_error, compared


def test_calibration_error_of_known_shares():
    y = np.array([0, 0, 1, 1])
    assert calibration_error(y, np.array([0.01, 0.02, 0.98, 0.99])) == pytest.approx(
        0.015
    )
    assert calibration_error(y, np.full(4, 0.5)) == 0.0
    assert calibration_error(y, np.ones(4)) == 0.5


def test_a_bold_model_is_worse_before():
    X, y = make_classification(4000, 5, random_state=0)
    parts = (X[:2000] / 5, y[:2000]), (X[2000:] / 5, y[2000:])
    found = compared(Bold(classes=[0, 1], data_norm=2.0), *parts, 10.0)
    assert found.shape == (4, 2)
    assert (found[2:, 0] < found[1, 0]).all()
