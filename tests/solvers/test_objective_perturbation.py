"""objective_perturbation: its rules, its bounds, and the exact law of the minimiser."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from skdp.losses import HuberHingeLoss, LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import (
    Budget,
    ComposedEvent,
    GaussianEvent,
    ObjectiveEvent,
    calibrate,
)
from skdp.privacy.accounting._gaussian import gaussian_delta
from skdp.solvers import _objective_perturbation as module
from skdp.solvers._objective_perturbation import ObjectivePerturbation, _pure_epsilon
from skdp.tables._memory import MemorySource
from tests import door
from tests.line import Line
from tests.problems import ADJACENCIES, LOSSES
from tests.solvers.neighbours import largest_change
from tests.spies import SpyNoise
from tests.wide import covering

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS, n_samples=2000, n_features=5, data_norm=1.0, adjacency="zero_out"
)
BUDGET = Budget(1.0, 1e-6)
PURE = Budget(1.0, 0.0)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(ObjectivePerturbation, objective, budget, **params)


# What is declared ------------------------------------------------------------------

CORNERS = {
    "logistic": 1,
    "softmax": 2,
    "squared": 2,
    "huber_hinge": 1,
    "huber_hinge_rest": 1,
}


@every_adjacency
@pytest.mark.parametrize("name", LOSSES)
def test_event_counts_the_corners_of_each_loss(name, adjacency):
    objective = replace(OBJECTIVE, loss=LOSSES[name], adjacency=adjacency)
    # Planned by hand: of many outputs this is too little regularisation.
    params = {"strength": 5.0, "intercept_weight": 1.0, "law": "gaussian"}
    solver = ObjectivePerturbation(**params)
    event = door.event_of(solver, 3.0, objective)
    assert isinstance(event, ComposedEvent)
    tilt, output = event.parts
    assert isinstance(tilt, ObjectiveEvent)
    assert tilt.noise_multiplier == 3.0
    c = CORNERS[name]
    expected = (c, 0) if adjacency == "zero_out" else (c**2, 2 * c)
    assert (tilt.corners, tilt.half_corners) == expected
    assert tilt.outputs == (3 if name == "huber_hinge_rest" else 1)
    ratio = objective.loss.curvature_trace * 2.0 / 5.0
    k = objective.loss.n_outputs
    assert tilt.log_determinant == pytest.approx(k * math.log(1 + ratio / k))
    assert tilt.curvature == (pytest.approx(0.4) if name == "logistic" else None)
    assert output == GaussianEvent(30.0)


@every_adjacency
@pytest.mark.parametrize("curvature", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("multiplier", [0.2, 1.0, 8.0])
def test_pure_epsilon_of_a_logistic_loss_by_brute_force(
    adjacency, curvature, multiplier
):
    r = np.linspace(0, 1, 100_001)
    plain = 1 / multiplier
    own = plain if adjacency == "zero_out" else plain / 2
    brute = np.max(np.log1p(curvature * r * (1 - r)) + own * r) + plain - own
    determinant = math.log1p(curvature / 4)
    objective = replace(OBJECTIVE, adjacency=adjacency)
    found = _pure_epsilon(multiplier, determinant, curvature, objective)
    assert brute <= found * (1 + 1e-12)
    assert found <= plain + determinant
    # Broken twin: the curvature is never charged.
    if curvature > 2 * own:
        assert brute > plain


@pytest.mark.parametrize(
    ("loss", "budget", "params", "message"),
    [
        (HuberHingeLoss(n_outputs=501), BUDGET, {}, "so many one-against-rest"),
        (SquaredLoss(math.inf, 1.0), BUDGET, {}, "bounded gradient"),
        (LOSS, PURE, {"law": "gaussian"}, "cannot do delta=0"),
        (LOSS, BUDGET, {"strength": 1e-3}, "smaller C or another solver"),
    ],
)
def test_refusals_say_why(loss, budget, params, message):
    objective = OBJECTIVE.with_loss(loss)
    assert message in door.refusal(ObjectivePerturbation, objective, budget, **params)


# Sensitivity -----------------------------------------------------------------------


@every_adjacency
@pytest.mark.parametrize("data_norm", [1.0, 12.0])
@pytest.mark.parametrize("weight", [None, 0.1, 1.0])
@pytest.mark.parametrize("name", LOSSES)
def test_no_pair_of_neighbours_exceeds_the_sensitivity(
    name, weight, data_norm, adjacency
):
    loss = LOSSES[name]
    objective = replace(
        OBJECTIVE,
        loss=loss,
        data_norm=data_norm,
        adjacency=adjacency,
        n_features=3,
        fit_intercept=weight is not None,
    )
    solver = resolved(objective, intercept_weight=weight)
    bound = solver.sensitivity(objective)
    found = largest_change(objective, solver.intercept_weight)
    assert 0.7 * bound < found <= bound * (1 + 1e-9)
    # Broken twins: half the sensitivity, and the norm of the rows forgotten.
    assert found > bound / 2
    if data_norm > 1:
        unit = replace(objective, data_norm=1.0)
        assert found > solver.sensitivity(unit)
    # Broken twin: the intercept's noise is not enlarged, as if the weight were 1.
    if weight == 0.1:
        assert largest_change(objective, 1.0) > bound


# The exact law of the minimiser in one dimension ------------------------------------

EPSILONS = np.array([0.0, 0.03, 0.1, 0.3, 1.0, 2.0])
LINE_LOSSES = {
    "logistic": LogisticLoss(),
    "huber": HuberHingeLoss(h=0.5),
    "wide": HuberHingeLoss(h=3.0),
    "squared": SquaredLoss(residual_bound=1.0, target_bound=1.0),
}


def pairs(line):
    """Neighbours with no, one or two common records, at the corners of the domain."""
    low = -1.0 if isinstance(line.loss, SquaredLoss) else 0.0
    rests = [[], [(1.0, 1.0)], [(1.0, low), (-1.0, low)]]
    for rest in rests:
        for record in [(1.0, 1.0), (1.0, low), (0.5, 1.0)]:
            if line.adjacency == "zero_out":
                yield [record, *rest], rest
            else:
                for other in [(1.0, low), (-1.0, 1.0), (0.0, 1.0)]:
                    yield [record, *rest], [other, *rest]


def worst_deltas(line, epsilons=EPSILONS):
    return np.max([line.deltas(*pair, epsilons) for pair in pairs(line)], axis=0)


def excess(line, claim=None, epsilons=EPSILONS):
    """Largest amount by which the exact delta exceeds the claimed one."""
    claim = claim or line.claim.delta
    claimed = np.array([claim(epsilon) for epsilon in epsilons])
    return float(np.max(worst_deltas(line, epsilons) - claimed))


@pytest.mark.parametrize(
    ("name", "ratio", "mu", "adjacency"),
    covering(
        itertools.product(LINE_LOSSES, (0.02, 0.3, 3.0), (0.2, 1.0, 3.0), ADJACENCIES),
        key=lambda cell: ((cell[0], cell[3]), cell[1:3]),
    ),
)
def test_exact_delta_is_at_most_the_declared_one(name, ratio, mu, adjacency):
    assert excess(Line(LINE_LOSSES[name], adjacency, ratio, mu)) <= 1e-5


@pytest.mark.parametrize("name", ["huber", "squared"])
def test_broken_twin_with_the_noise_of_zero_out_is_caught(name):
    """Half the sensitivity under replace_one: the same claim for twice the mu."""
    line = Line(LINE_LOSSES[name], "replace_one", 300.0, 1.0)
    assert excess(line) <= 1e-5
    assert worst_deltas(line)[0] > 0.9 * gaussian_delta(1.0, 0.0)  # tight
    assert excess(replace(line, mu=2.0), claim=line.claim.delta) > 0.1


@pytest.mark.parametrize("name", LINE_LOSSES)
def test_broken_twin_without_the_determinant_is_caught(name):
    line = Line(LINE_LOSSES[name], "zero_out", 0.02, 1.0 if name != "logistic" else 0.3)
    twin = replace(line.claim, shift=0.0, curvature=None)
    assert excess(line) <= 1e-5
    assert excess(line, claim=twin.delta) > 0.01


# Units of epsilon that kappa, the change of curvature, is set to.
KAPPAS = [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("epsilon", "kappa", "adjacency"),
    covering(
        itertools.product((0.3, 1.0, 4.0), KAPPAS, ADJACENCIES),
        key=lambda cell: (cell[0], cell[1:]),
    ),
)
def test_exact_delta_around_the_free_curvature(epsilon, kappa, adjacency):
    epsilons = epsilon * np.array([0.26, 0.5, 1.0, 1.5])
    for mu in (0.2, 1.0, 3.0):
        line = Line(LOSS, adjacency, 1 / (kappa * epsilon), mu)
        claimed = np.array([line.claim.delta(e) for e in epsilons])
        assert np.all(worst_deltas(line, epsilons) <= 1.001 * claimed + 1e-9)


def deltas_of_two_outputs(adjacency, ratio, mu, pair, epsilons):
    """Given the data the outputs of one against the rest are independent.

    The weights are told apart by 1000 bins: no more than the exact deltas.
    """
    line = Line(HuberHingeLoss(h=0.5), adjacency, ratio, mu / math.sqrt(2))
    p, q = np.ones(1), np.ones(1)
    for output in (0.0, 1.0):
        records = [[(x, float(y == output)) for x, y in side] for side in pair]
        w = line.weights(records[0])
        cells = np.gradient(w)
        masses = [cells * np.exp(line.log_densities(side, w)) for side in records]
        full = np.cumsum(np.sum(masses, axis=0))
        starts = np.unique(np.searchsorted(full, np.linspace(0, full[-1], 1001)[:-1]))
        first, second = (np.add.reduceat(mass, starts) for mass in masses)
        p, q = np.outer(p, first).ravel(), np.outer(q, second).ravel()
    assert [p.sum(), q.sum()] == pytest.approx([1.0, 1.0], abs=3e-3)
    return np.array(
        [
            max(np.maximum(a - math.exp(e) * b, 0.0).sum() for a, b in ((p, q), (q, p)))
            for e in epsilons
        ]
    )


@every_adjacency
@pytest.mark.parametrize("mu", [0.5, 2.0])
@pytest.mark.parametrize("ratio", [0.3, 3.0, 100.0])
def test_exact_delta_of_two_outputs(ratio, mu, adjacency):
    objective = Line(HuberHingeLoss(h=0.5, n_outputs=2), adjacency, ratio, mu)
    epsilons = np.array([0.0, 0.3, 1.0, 3.0])
    claimed = np.array([objective.claim.delta(e) for e in epsilons])
    zero_out = adjacency == "zero_out"
    for rest in ([], [(1.0, 0.0)], [(-1.0, 0.0), (1.0, 1.0)]):
        other = [] if zero_out else [(-1.0, 0.0)]
        pair = [(1.0, 0.0), *rest], [*other, *rest]
        exact = deltas_of_two_outputs(adjacency, ratio, mu, pair, epsilons)
        assert np.all(exact <= 1.002 * claimed + 1e-9)
        # Broken twin: half the noise.
        if ratio == 100 and not rest:
            twin = replace(objective, mu=mu / 2).claim
            assert np.any(exact > 1.2 * np.array([twin.delta(e) for e in epsilons]))


# Spherical noise: pure epsilon, point by point --------------------------------------


@every_adjacency
@pytest.mark.parametrize("name", LINE_LOSSES)
@pytest.mark.parametrize("ratio", [0.02, 0.5, 5.0])
def test_pure_loss_of_the_minimiser_point_by_point(name, ratio, adjacency):
    loss, multiplier = LINE_LOSSES[name], 0.7
    line = Line(loss, adjacency, ratio, 1.0)
    solver = replace(line.solver, law="spherical")
    (tilt, _) = door.event_of(solver, multiplier, line.objective).parts
    scale = multiplier * solver.sensitivity(line.objective)
    worst = 0.0
    for pair in pairs(line):
        w = line.weights(pair[0])
        (b, h), (c, k) = (line.tilt_and_hessian(records, w) for records in pair)
        log_ratio = np.log(h / k) + (np.abs(c) - np.abs(b)) / scale
        worst = max(worst, float(np.max(np.abs(log_ratio))))
    assert worst <= tilt.epsilon * (1 + 1e-9)
    # Broken twin: half the noise.
    if name != "logistic" or adjacency == "zero_out":
        assert worst > 0.5 / multiplier


# What is released ------------------------------------------------------------------


@every_adjacency
@every_loss
@pytest.mark.parametrize("budget", [BUDGET, PURE], ids=["gaussian", "spherical"])
def test_output_noise_covers_the_certificate(loss, adjacency, budget, monkeypatch):
    """Two draws; the second has the sensitivity that tolerance and rounding leave."""
    objective = replace(
        OBJECTIVE, loss=loss, n_samples=60, n_features=3, adjacency=adjacency
    )
    solver = resolved(objective, budget)
    z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
    asked = []

    def spied(source, certified, linear, tolerance):
        asked.append((certified, linear, tolerance))
        return real(source, certified, linear, tolerance)

    real = module.certified_minimum
    monkeypatch.setattr(module, "certified_minimum", spied)
    rng = np.random.default_rng(0)
    y = rng.integers(0, max(2, loss.n_outputs), 60).astype(float)
    source = MemorySource(rng.normal(size=(60, 3)), y)
    noise = SpyNoise(seed=3)
    run = door.run(solver, source, objective, z, noise)
    tilt, output = noise.draws
    assert not tilt.query.any()
    assert tilt.fine
    assert tilt.sensitivity == solver.sensitivity(objective)
    assert tilt.noise_multiplier == pytest.approx(z)
    ((certified, linear, tolerance),) = asked
    assert np.linalg.norm(linear) <= certified.linear_norm
    shape = np.ones((4, 1))
    shape[-1] = solver.intercept_weight
    assert np.allclose(linear * shape, tilt.released, rtol=1e-14)
    rounding = certified.rounding_error(source.facts.largest_block)
    least = 2 * (tolerance + rounding) / solver.strength
    assert output.sensitivity > least > 0
    factor = 10 if budget.delta else 100
    assert output.noise_multiplier == pytest.approx(factor * z)
    assert np.array_equal(run.weights, output.released)


@pytest.mark.parametrize("budget", [BUDGET, PURE], ids=["gaussian", "spherical"])
def test_a_minimum_that_is_missed_is_no_exception(monkeypatch, budget, capsys, caplog):
    monkeypatch.setattr(module, "certified_minimum", lambda *arguments: None)
    objective = replace(OBJECTIVE, n_samples=20)
    solver = resolved(objective, budget=budget)
    noise = SpyNoise(seed=0)
    source = MemorySource(np.ones((20, 5)), np.ones(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = door.run(solver, source, objective, 5.0, noise)
    assert set(vars(run)) == {"weights", "noise_scale", "path"}
    assert run.path == ()
    assert not noise.draws[1].query.any()
    assert np.array_equal(run.weights, noise.draws[1].released)
    assert run.weights.any()
    assert capsys.readouterr() == ("", "")
    assert not caplog.records
