"""graduated_gd: from a convex loss to one that is not, each at its own sensitivity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp.exceptions import Refused
from skdp.losses import CauchyLoss, HuberHingeLoss, LogisticLoss, SigmoidLoss
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, GaussianEvent
from skdp.solvers._descent import GraduatedGD, convex_start
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import SpyNoise

BUDGET = Budget(1.0, 1e-6)
OBJECTIVE = LinearObjective(
    loss=SigmoidLoss(),
    n_samples=100,
    n_features=3,
    data_norm=1.0,
    adjacency="replace_one",
)
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def planned(objective=OBJECTIVE, **params):
    return door.planned(GraduatedGD, objective, BUDGET, **params)


def source(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return MemorySource(X, (X[:, 0] > 0.2).astype(float))


@by_adjacency
@pytest.mark.parametrize("loss", [SigmoidLoss(), CauchyLoss()], ids=repr)
def test_every_answer_has_the_noise_of_its_own_loss(loss, adjacency):
    """The convex loss needs more; broken twin: the other one's bound throughout."""
    objective = replace(OBJECTIVE, loss=loss, adjacency=adjacency)
    solver, noise = planned(objective, n_steps=6, step_size=0.5), SpyNoise(seed=0)
    door.run(solver, source(), objective, 3.0, noise)
    worst = [
        solver.gradients(each).worst.under(adjacency)
        for each in (convex_start(objective), objective)
    ]
    charged = [draw.sensitivity for draw in noise.draws]
    assert max(charged[:3]) <= worst[0] * (1 + 1e-9)
    assert max(charged[3:]) <= worst[1] * (1 + 1e-9)
    assert min(charged[:3]) > 1.5 * worst[1]
    assert solver.sensitivity(objective) == worst[0]
    assert door.event_of(solver, 3.0, objective) == GaussianEvent(3.0, 6)


def test_the_convex_loss_has_the_weights_of_the_labels():
    own = OBJECTIVE.with_loss(WeightedLoss(SigmoidLoss(), (0.2, 1.0)))
    assert convex_start(own).loss == WeightedLoss(HuberHingeLoss(), (0.2, 1.0))


def test_convex_losses_are_refused():
    for loss in (LogisticLoss(), HuberHingeLoss(n_outputs=3)):
        with pytest.raises(Refused, match=r"not convex.*Use solver='noisy_gd'"):
            planned(replace(OBJECTIVE, loss=loss))
