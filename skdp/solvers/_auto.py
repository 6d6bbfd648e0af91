"""``solver="auto"``: which solver for which problem, from public facts only.

The rules and the measurements behind them are in ``docs/how_to_choose.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from skdp.exceptions import Refused
from skdp.losses import SquaredLoss
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._adassp import AdaSSP
from skdp.solvers._base import Solver
from skdp.solvers._feature_selection import favours_selection
from skdp.solvers._flow_time import wanted_steps
from skdp.solvers._graduated_gd import GraduatedGD
from skdp.solvers._iht import IHT
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._noisy_gd import NoisyGD
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from skdp.solvers._online import OnlineGD
from skdp.solvers._output_perturbation import OutputPerturbation
from skdp.solvers._peeling import Peeling

# Steps of noisy_gd below which there are too few iterates to average, and dividing the
# noise over accelerated steps is better; with one output.
FEW_STEPS = 100
# Steps from which on noise is so small that the one-shot minimiser is as accurate and
# faster. Several outputs: later, since there residual clipping pays.
_MANY_STEPS, _MANY_STEPS_OUTPUTS = 150, 600


@dataclass(frozen=True)
class Candidate:
    """A kind of solver that would do, and why it is preferred."""

    kind: type[Solver]
    reason: str


@dataclass(frozen=True)
class Chosen:
    """A planned solver, and why it was chosen."""

    solver: Solver
    reason: str


def first_that_can(
    objective: LinearObjective, budget: Budget, *, has_ledger: bool = False
) -> Chosen:
    """The first candidate that does not refuse, planned by rules alone.

    Raises `Refused` if all of them do; with their reasons.
    """
    refusals = []
    for candidate in auto_candidates(objective, budget, has_ledger=has_ledger):
        try:
            solver = candidate.kind.planned({}, objective, budget)
        except Refused as refused:
            # Without its remedy, which is solver="auto" as a rule.
            refusals.append(refused.args[0].partition(" Use ")[0])
        else:
            return Chosen(solver, candidate.reason)
    raise Refused("solver='auto' has no solver for this fit. " + " ".join(refusals))


def auto_candidates(
    objective: LinearObjective, budget: Budget, *, has_ledger: bool = False
) -> list[Candidate]:
    """Candidates for a loss, the preferred one first."""
    if objective.n_nonzero is not None:
        return _for_few_features(objective)
    if not objective.loss.is_convex:
        return _without_convexity(budget)
    if isinstance(objective.loss, SquaredLoss):
        return _for_regression(budget)
    tilt, output = ObjectivePerturbation, OutputPerturbation
    if budget.delta == 0:
        return [
            Candidate(tilt, "delta=0: the most accurate pure solver"),
            Candidate(output, "delta=0, and objective_perturbation refuses"),
            Candidate(OnlineGD, "delta=0, and rows that are not held"),
        ]
    steps = wanted_steps(objective, budget)
    many = _MANY_STEPS if objective.loss.n_outputs == 1 else _MANY_STEPS_OUTPUTS
    if objective.loss.n_outputs == 1 and steps < FEW_STEPS:
        reason = "noise limits the fit: few accelerated steps with divided noise"
        return [Candidate(Nesterov, reason)]
    if steps < many:
        reason = "noise limits the fit: averaged noisy descent is best"
        return [Candidate(NoisyGD, reason)]
    if objective.loss.form.is_of_numbers:
        # Minimisation in one must bend as much as the loss can, which it rarely does.
        reason = "little noise, and a loss of numbers: averaged noisy descent"
        return [Candidate(NoisyGD, reason)]
    if has_ledger:
        # Objective perturbation is dominated only by a mu well above its own.
        reason = "a ledger adds up Gaussian noise without loss"
        return [Candidate(NoisyGD, reason)]
    return [
        Candidate(tilt, "so little noise that one exact minimisation is best"),
        Candidate(NoisyGD, "little noise, but objective_perturbation refuses"),
    ]


def _without_convexity(budget: Budget) -> list[Candidate]:
    """Candidates for losses of which minimisers cannot be certified."""
    if budget.delta == 0:
        return [Candidate(OnlineGD, "delta=0, and a loss that is not convex")]
    return [Candidate(GraduatedGD, "a loss that is not convex: from a convex one")]


def _for_regression(budget: Budget) -> list[Candidate]:
    """Candidates for the squared loss (figures in ``docs/benchmarks.md``)."""
    if budget.delta == 0:
        return [Candidate(AdaSSP, "delta=0: second moments in one pure release")]
    return [Candidate(NoisyGD, "clipped residuals need far less noise than moments")]


def _for_few_features(objective: LinearObjective) -> list[Candidate]:
    """Candidates for a bounded number of nonzero features."""
    selected = "few features of small bound: selected first, noise on theirs only"
    thresholded = "few features: noisy gradients, thresholded for free"
    if favours_selection(objective):
        return [Candidate(Peeling, selected), Candidate(IHT, thresholded)]
    pure = "few features, and iht refuses: selected first, noise on theirs only"
    return [Candidate(IHT, thresholded), Candidate(Peeling, pure)]
