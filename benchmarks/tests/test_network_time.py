"""Timing of epochs: the plain one is a gradient, and each has a line."""

from __future__ import annotations

import numpy as np

from benchmarks import network_time
from skdp.losses import SoftmaxLoss


def test_every_epoch_has_a_line(capsys):
    network_time.main(["--rows", "300", "--batch-size", "50", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    names = [line.split("|")[1].strip() for line in lines[2:]]
    assert names[:2] == ["all records", "samples of 50"]
    assert names[2:] == ["plain, double", "plain, single"]


def test_the_plain_epoch_is_a_gradient():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
    layers = [
        (rng.normal(size=(4, 5)), np.zeros(5)),
        (rng.normal(size=(5, 3)), np.ones(3)),
    ]

    def loss(first):
        raw = np.tanh(X @ first) @ layers[1][0] + layers[1][1]
        return SoftmaxLoss(3).value(labels.astype(float), raw).sum()

    found, step = network_time.plain_epoch(X, labels, layers)[0], np.zeros((4, 5))
    step[1, 2] = 1e-6
    first = layers[0][0]
    slope = (loss(first + step) - loss(first - step)) / 2e-6
    assert np.isclose(found[1, 2], slope, rtol=1e-6)
