"""What the table of amounts and quantiles rests on."""

from __future__ import annotations

import pytest

from benchmarks import target_losses
from benchmarks.target_losses import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_private_fits_come_near_those_without_noise(name):
    task = TASKS[name]
    assert 0.2 < target_losses.without_privacy(task, 2_000, 0)
    assert 0.1 < target_losses.private(task, 2_000, 8.0, 0)


def test_records_are_those_of_a_seed():
    task = next(iter(TASKS.values()))
    (frame, y), _ = target_losses.records(task, 100, 3)
    (other, again), (new, _) = target_losses.records(task, 100, 3)
    assert frame.equals(other)
    assert (y == again).all()
    assert len(y) == 100
    assert not frame["humidity"].isin(new["humidity"]).any()
