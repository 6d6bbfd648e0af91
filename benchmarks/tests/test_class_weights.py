"""The benchmark of rare labels: its records, and one line of it."""

import numpy as np

from benchmarks import class_weights


def test_one_label_in_forty_is_rare():
    (_, y), _ = class_weights.records(0)
    assert 0.02 < y.mean() < 0.03


def test_weights_find_the_rare_ones():
    plain, heavy = (
        class_weights.private("DPLogisticRegression", 4.0, weights, 0)
        for weights in (None, class_weights.WEIGHTS)
    )
    assert plain[0] < 0.65 < heavy[0]
    assert np.isfinite([*plain, *heavy]).all()
    assert class_weights.without_privacy(0)[0] > 0.7
