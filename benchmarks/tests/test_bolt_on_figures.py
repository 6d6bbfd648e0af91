"""Bolt-on's further figures: what their lines cost, and how Algorithm 3 chooses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks._papers import _bolt_on as bolt_on
from benchmarks._papers import _bolt_on_figures as figures

M, D = 3_000, 4


def made_up(run=0, n_models=1):
    rng = np.random.default_rng(run)
    X = rng.normal(size=(M + 500, D)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    scores = X @ np.random.default_rng(9).normal(size=(D, n_models))
    if n_models == 1:
        signs = np.where(scores > 0, 1, -1)
    else:
        signs = np.where(scores.argmax(axis=1)[:, None] == np.arange(n_models), 1, -1)
    return figures.Data(X[:M], signs[:M], X[M:], signs[M:])


def task(**facts):
    given = {
        "loss": "logistic",
        "is_convex": False,
        "is_pure": True,
        "m": M,
        "d": D,
        "n_models": 1,
        "epsilon": 0.5,
        "delta": 0.0,
    }
    return figures.Task(**(given | facts))


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.setattr(figures, "_data", lambda name, run: made_up(run))

    def found(**facts):
        given = {"losses": ["logistic"], "tuning": ["public"], "epsilon": [0.5]}
        return list(figures.figures(data="made up", **(given | facts)))

    return found


def test_lines_of_the_four_tests(lines):
    found = lines()
    methods = [line.method for line in found]
    assert methods == [
        *("no noise", "bolt-on", "SCS13"),
        *("no noise", "bolt-on", "bolt-on, corrected", "BST14"),
        *("no noise", "bolt-on, divided by b", "bolt-on, corrected", "SCS13"),
        *("no noise", "bolt-on, divided by b", "bolt-on, corrected", "BST14"),
    ]
    assert not any(line.private for line in found)
    true = {(line.place["setting"][:6], line.method): line.true for line in found}
    assert true["Test 1", "bolt-on"] == pytest.approx(0.5)
    assert true["Test 3", "bolt-on, corrected"] == pytest.approx(0.5)
    assert true["Test 4", "bolt-on, corrected"] == pytest.approx(0.5, rel=1e-4)
    assert true["Test 2", "bolt-on"] < 0.5  # the classical rule
    for line in found:
        (accuracy,) = line.measure([0])
        assert 0.3 < accuracy <= 1
        if line.method == "no noise":
            assert accuracy > 0.9


def test_divided_by_the_batch_costs_up_to_half_the_batch():
    recipe = task().recipe("bolt-on, divided by b", 10, 1e-2)
    assert recipe.true == pytest.approx(0.5 * figures.BATCH / 2, rel=0.05)
    huber = task(loss="Huber, h = 0.1").recipe("bolt-on, divided by b", 10, 1e-2)
    # Its slope is bounded by 1 too, and its steps start shorter.
    assert 0.5 < huber.true <= recipe.true * (1 + 1e-9)


@pytest.mark.parametrize("loss", figures.LOSSES)
@pytest.mark.parametrize("is_convex", [False, True])
def test_an_exchanged_record_moves_the_weights_by_no_more(loss, is_convex):
    own = task(loss=loss, is_convex=is_convex, m=600)
    recipe = own.recipe("bolt-on, corrected", 3, 1e-2)
    exact, data = recipe.scale * own.epsilon, made_up().portion(0, 5)
    rng = np.random.default_rng(0)
    moved = []
    for place in (0, 299, 599):
        for large in ([1.0, 0, 0, 0], [-1.0, 0, 0, 0]):
            X, signs = data.X.astype(float), data.signs.astype(float)
            X[place], signs[place] = large, 1.0
            ends = []
            for sign in (1.0, -1.0):
                signs[place] = sign
                pair = figures.Data(X.copy(), signs.copy(), X, signs)
                plain = figures.Recipe(recipe.descent, math.inf)
                ends.append(plain.trained(pair, rng))
            moved.append(np.linalg.norm(ends[0] - ends[1]))
    assert max(moved) <= exact * (1 + 1e-9)
    assert max(moved) > exact / 4  # broken twin: a quarter of the noise
    if not is_convex:  # and the printed sensitivity
        assert max(moved) > bolt_on.printed_sensitivity(600, figures.BATCH, 1e-2)


def test_slopes_of_the_losses():
    z, step = np.linspace(-4, 4, 100_001), 8e-5
    huber = np.where(z < 0.9, 1 - z, np.where(z > 1.1, 0, (1.1 - z) ** 2 / 0.4))
    logistic = np.logaddexp(0, -z)
    for loss, value in zip(figures.LOSSES.values(), (logistic, huber), strict=True):
        slope = loss.slope(z)
        assert np.abs(np.gradient(value, z) - slope)[1:-1].max() < 1e-3
        assert np.diff(slope).max() / step <= loss.curvature * (1 + 1e-6)
        assert np.abs(slope).max() <= 1


def test_the_choice_is_the_exponential_mechanism():
    errors, rng = [10, 12, 30], np.random.default_rng(0)
    weights = np.exp(-0.5 * np.array(errors) / 2)
    drawn = np.array([figures.choice(errors, 0.5, rng) for _ in range(20_000)])
    shares = np.bincount(drawn, minlength=3) / len(drawn)
    # 6 standard deviations, three shares: below 1e-8 of false alarms.
    wanted = weights / weights.sum()
    assert np.all(np.abs(shares - wanted) < 6 * np.sqrt(wanted / len(drawn)))
    # Errors change by one with a record: e^epsilon at most, between neighbours.
    nearby = np.exp(-0.5 * np.add(errors, [1, -1, 1]) / 2)
    ratios = wanted / (nearby / nearby.sum())
    assert np.abs(np.log(ratios)).max() <= 0.5
    assert figures.choice(errors, math.inf, rng) == 0


def test_private_tuning_trains_and_chooses_on_portions_of_their_own(lines):
    data = made_up()
    parts = [data.portion(number, 7) for number in range(7)]
    assert [len(part.X) for part in parts] == [M // 7] * 7
    joined = np.concatenate([part.X for part in parts])
    assert joined.tobytes() == data.X[: len(joined)].tobytes()
    found = lines(tuning=["private"])
    divided = next(one for one in found if "divided" in one.method)
    assert divided.true > 2 * divided.claimed  # the worst of the grid
    own = next(
        one
        for one in found
        if one.method == "bolt-on" and one.place["setting"].startswith("Test 2")
    )
    assert own.true == own.claimed  # what the choice costs
    for line in found:
        (accuracy,) = line.measure([0])
        assert 0 <= accuracy <= 1


def test_several_models_are_counted_right():
    data = made_up(n_models=3)
    W = np.linalg.lstsq(data.X, data.signs.astype(float), rcond=None)[0].T
    labels = data.signs_test.argmax(axis=1)
    wanted = np.sum((data.X_test @ W.T).argmax(axis=1) == labels)
    assert figures.right(W, data.X_test, data.signs_test) == wanted
    recipe = task(n_models=3).recipe("bolt-on, corrected", 5, 1e-2)
    single = task().recipe("bolt-on, corrected", 5, 1e-2)
    assert recipe.scale == pytest.approx(3 * single.scale)
