"""The benchmark of intervals: its records, and one line of it."""

import numpy as np

from benchmarks import intervals


def test_least_squares_is_near_the_truth():
    drawn = intervals.sample(5000, 3, 0)
    X = np.column_stack([drawn.X, np.ones(5000)])
    found = np.linalg.lstsq(X, drawn.y, rcond=None)[0]
    assert np.all(np.abs(found - drawn.truth) < 4 * intervals.without_privacy(drawn))


def test_private_intervals_are_wider_and_hold():
    drawn = intervals.sample(5000, 3, 0)
    few, some, many = (
        intervals.covered(drawn, epsilon, "zero_out")[1] for epsilon in (0.5, 4.0, 50.0)
    )
    assert 1.0 < some < few
    # At epsilon 50 the noise, of either sign in the variance, is hardly anything.
    assert 0.95 < many < 1.1 < few
