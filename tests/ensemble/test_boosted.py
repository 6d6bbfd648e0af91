"""Predictions of boosted trees: the fit's own, stage by stage, on any threads."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.ensemble import _boosting
from skdp.sums._leaves import GrownTrees, LeafReader
from tests.ensemble.coded import MIXED, codes_of, source_of, targets_of
from tests.ensemble.fits import SMALL, fitted, task_of
from tests.ensemble.test_trees import leaves_of

LOSSES = [("logistic", 1), ("softmax", 4), ("squared", 1)]
every_loss = pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)


def model_of(loss, n_outputs, n=500):
    codes = codes_of(MIXED, n)
    y = targets_of(loss, codes, n_outputs)
    task = task_of(loss, n, n_outputs)
    return fitted(task, source_of(codes, y), **SMALL)[0], codes


@every_loss
def test_raw_predictions_are_the_start_and_the_values_of_leaves(loss, n_outputs):
    model, codes = model_of(loss, n_outputs)
    expected = np.tile(model.start, (len(codes), 1))
    stages = list(model.staged_raw(codes))
    for tree, (values, stage) in enumerate(zip(model.values, stages, strict=True)):
        expected += values[leaves_of(model.trees, tree, codes)]
        assert np.array_equal(stage, expected)
    assert np.array_equal(model.raw(codes), expected)


@every_loss
def test_the_fit_and_predictions_agree_to_the_last_bit(loss, n_outputs, monkeypatch):
    model, codes = model_of(loss, n_outputs)
    reader = LeafReader(source_of(codes, np.zeros(len(codes))), n_outputs)
    alone = reader.raw(GrownTrees.of(model.start, model.trees, model.values))
    for n_threads in (1, 2, 3):
        monkeypatch.setattr(_boosting, "n_threads_for", lambda n, k=n_threads: k)
        assert np.array_equal(model.raw(codes), alone)
