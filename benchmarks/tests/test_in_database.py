"""Descents with noise in every update, small; tables of databases."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks import _noisy_transitions as noisy
from benchmarks import in_database, noisy_updates
from benchmarks._in_database import ALPHA, FEATURES
from skdp.papers._bolt_on import State, Updates
from skdp.papers._bolt_on_postgres import DescentText
from skdp.tables._source import Block

N, PASSES, BATCH = 97, 2, 10


def weights(kind, scale, seed=0):
    """Of both passes over made-up rows, and those of `bolt_on`."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, FEATURES)) / 7, rng.integers(0, 2, N).astype(float)
    ours = noisy_updates.methods(N, PASSES, BATCH)[0]
    steps = noisy_updates.steps_of(ours, N, PASSES, BATCH)
    updates = Updates(steps, noisy_updates.last_of(steps), BATCH, 1 / ALPHA)
    state = State(noisy_updates.objective_of(N), updates)
    found, gradient = np.zeros((1, FEATURES)), np.zeros((1, FEATURES))
    order = rng.permutation(N)
    for j in range(PASSES):
        state.transition(Block(X, y), order)
        noisy.noisy_pass(
            X, y, order, (0, N), 1.0, steps[j], BATCH, ALPHA, 1 / ALPHA, kind, scale,
            found, gradient,
        )  # fmt: skip
    return found.ravel(), state.terminate().ravel()


def test_without_noise_it_is_bolt_on():
    found, ours = weights(noisy.NONE, 0.0)
    assert np.abs(found - ours).max() <= 1e-12 * np.abs(ours).max()


@pytest.mark.parametrize("kind", [noisy.GAUSSIAN, noisy.SPHERICAL])
def test_noise_moves_the_weights(kind):
    found, ours = weights(kind, 1.0)
    assert np.linalg.norm(found - ours) > 0.1 * np.linalg.norm(ours)


@pytest.mark.parametrize("kind", [noisy.NONE, noisy.GAUSSIAN, noisy.SPHERICAL])
def test_noise_is_drawn_where_a_batch_ends(kind):
    asked = noisy_updates.asked_of(N, PASSES, BATCH)
    plain, *_ = DescentText(asked, "SELECT 1").statements
    text, *_ = noisy.NoisyText(asked, "SELECT 1", kind, 1.0).statements
    assert (text == plain) is (kind == noisy.NONE)
    before, after = text.split("IF ends THEN")
    assert "random()" not in before
    assert after.count("cos(") == (FEATURES if kind else 0)


def test_what_is_published_is_not_what_it_costs():
    single, many = (
        {one.name: one.honest for one in noisy_updates.methods(60_000, *setting)}
        for setting in ((1, 1), (20, 500))
    )
    assert single["published bolt-on"] < 0.1
    assert many["published bolt-on"] > 5
    assert single["BST14"] > 1.4
    assert noisy_updates.drawn_bst14(60_000, 1, 1) < 0.1
    assert many["bolt-on"] == many["SCS13"] == 0.1


def test_the_table_of_sizes(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["in_database", "--rows", "500"])
    in_database.main()
    *_, row = capsys.readouterr().out.splitlines()
    assert row.startswith("| 500 |")
    assert row.count("|") == 8
