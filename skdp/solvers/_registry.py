"""The solvers that users may name, and the choice of ``solver="auto"``.

Each key of `SOLVERS` has a test ``tests/solvers/test_<key>.py``, a class whose
docstring is its page in the reference and links to its proof, and a benchmark
configuration. A solver of `skdp.papers` is in ``skdp/papers/entry_points.txt``
instead, with its test in ``tests/papers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skdp._base import Signal
from skdp._checks import check_choice
from skdp._configured import Registry, check_params_of_auto, given_params
from skdp.exceptions import Refused
from skdp.losses._objective import LinearObjective
from skdp.losses._regression import SquaredLoss
from skdp.privacy.accounting._calibrate import Budget
from skdp.solvers._accelerated import Nesterov
from skdp.solvers._adassp import AdaSSP
from skdp.solvers._base import Named, Solver, willing
from skdp.solvers._centred_descent import CentredDescent
from skdp.solvers._centred_rows import CentredRows, Numbers
from skdp.solvers._constant import NO_WEIGHTS, AroundConstant, ConstantModel
from skdp.solvers._default_rules import FEW_MOMENTS, favours_selection
from skdp.solvers._descent import GraduatedGD, NoisyGD, NoisySGD, wanted_steps
from skdp.solvers._newton import NoisyNewton
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from skdp.solvers._sparse import IHT, Peeling

# ----------------------------------------------------------------------- Solvers by key


# Keys of skdp, for type checkers; a test holds them to be those of the registry.
SolverName = Literal[
    "auto", "adassp", "bolt_on", "diff_gd", "frank_wolfe", "ftrl", "graduated_gd",
    "heavy_ball", "iht", "knowledge_transfer", "laplacian_smoothing", "line_search_gd",
    "multistage", "nesterov", "noisy_gd", "noisy_newton", "noisy_sgd",
    "objective_perturbation", "online", "output_perturbation", "peeling", "srm",
    "tree_momentum", "two_stage",
]  # fmt: skip
SOLVERS: Registry[type[Solver]] = Registry(
    "skdp.solvers",
    {
        "adassp": AdaSSP,
        "graduated_gd": GraduatedGD,
        "iht": IHT,
        "nesterov": Nesterov,
        "noisy_gd": NoisyGD,
        "noisy_newton": NoisyNewton,
        "noisy_sgd": NoisySGD,
        "objective_perturbation": ObjectivePerturbation,
        "peeling": Peeling,
    },
)


def _of_the_default(key: str) -> str:
    """Advice for a `key` that is no solver, or one that a record names."""
    if key not in (CentredDescent.key, ConstantModel.key):
        return "Leave solver out: 'auto' chooses one that suits."
    return "Only solver='auto' runs it, where it is possible: leave solver out."


def named_solver(key: str, params: Mapping[str, Any] | None) -> Named | None:
    """The solver named by ``solver=key, solver_params=params``; None for ``"auto"``.

    Raises
    ------
    ValueError, TypeError
        If the key or a parameter is unknown or out of range.
    """
    check_choice("solver", key, ["auto", *SOLVERS], remedy=_of_the_default(key))
    if key == "auto":
        check_params_of_auto(params, SOLVERS)
        return None
    return Named(SOLVERS[key], given_params(SOLVERS[key], key, params))


# ---------------- solver="auto": which solver for which problem, from public facts only
# The default is one recipe (``docs/guide/linear_models.md``). Problems outside the
# recipe have a list of candidates; the first candidate that does not refuse is used.


# If noisy_gd would take fewer steps, there are too few iterates to average, and
# dividing the noise over accelerated steps is better; this holds for one output.
FEW_STEPS = 100


@dataclass(frozen=True)
class Chosen:
    """A planned solver, and why it was chosen."""

    solver: Solver
    reason: str


def constant_model(objective: LinearObjective, budget: Budget) -> Chosen:
    return Chosen(ConstantModel.planned({}, objective, budget), NO_WEIGHTS)


def constant_if_dominated(
    named: Named | None, objective: LinearObjective, budget: Budget, signal: Signal
) -> Chosen | None:
    """The constant model if noise dominates and the user named no solver; else None."""
    is_open = named is None and objective.fit_intercept and objective.n_nonzero is None
    if not (is_open and signal.noise_dominates):
        return None
    try:
        return constant_model(objective, budget)
    except Refused:  # the choice among all solvers says what can be done
        return None


def is_centred(objective: LinearObjective, budget: Budget) -> bool:
    """Whether the default is a descent on centred rows."""
    try:
        CentredDescent.check_possible(objective, budget)
    except Refused:
        return False
    return True


def default_solver(
    objective: LinearObjective, budget: Budget, rows: CentredRows | None = None
) -> Chosen:
    """The solver of ``"auto"``, planned.

    Parameters
    ----------
    objective : LinearObjective
    budget : Budget
    rows : CentredRows or None, default=None
        Public declarations about the rows; None: the rows are plain numbers.

    Raises
    ------
    Refused
        If every solver refuses the problem.
    """
    if _is_about_a_constant(objective, budget):
        for key in ("objective_perturbation", "output_perturbation"):
            given = {"inner": SOLVERS[key]}
            try:
                around = AroundConstant.planned(given, objective, budget)
            except Refused:
                continue
            return Chosen(around, "delta=0: one minimisation about the constant model")
    if not is_centred(objective, budget):
        return first_that_can(objective, budget)
    rows = rows or Numbers(objective.n_features, objective.data_norm)
    solver = CentredDescent.planned({"rows": rows}, objective, budget)
    return Chosen(solver, "a descent on centred rows")


def _is_about_a_constant(objective: LinearObjective, budget: Budget) -> bool:
    """Whether a single pure minimisation can be centred at a released constant."""
    is_plain = objective.fit_intercept and objective.n_nonzero is None
    can = objective.loss.is_convex and not isinstance(objective.loss, SquaredLoss)
    return budget.delta == 0 and is_plain and can


def first_that_can(objective: LinearObjective, budget: Budget) -> Chosen:
    """The first candidate that does not refuse, planned by rules alone.

    Raises `Refused`, with every candidate's reason, if all of them refuse.
    """
    refusals = []
    for key, reason in auto_candidates(objective, budget):
        try:
            solver = SOLVERS[key].planned({}, objective, budget)
        except Refused as refused:
            # Leave out the remedy, which usually is solver="auto".
            refusals.append(refused.args[0].partition(" Use ")[0])
        else:
            return Chosen(solver, reason)
    raise Refused("solver='auto' has no solver for this fit. " + " ".join(refusals))


def auto_candidates(
    objective: LinearObjective, budget: Budget
) -> list[tuple[str, str]]:
    """Keys and reasons for rows that are not centred, the preferred one first.

    With a delta above 0 their noise is Gaussian, which adds up in squares.
    """
    if objective.n_nonzero is not None:
        return _for_few_features(objective)
    if budget.delta == 0:
        return _pure(objective)
    if not objective.loss.is_convex:
        return [("graduated_gd", "a loss that is not convex: from a convex one")]
    if isinstance(objective.loss, SquaredLoss):
        reason = "clipped residuals need far less noise than moments"
        return [("noisy_gd", reason)]
    few = wanted_steps(objective, budget) < FEW_STEPS
    if objective.loss.n_outputs == 1 and few:
        reason = "noise limits the fit: few accelerated steps with divided noise"
        return [("nesterov", reason)]
    return [("noisy_gd", "averaged noisy descent of rows as they are")]


def _pure(objective: LinearObjective) -> list[tuple[str, str]]:
    """Candidates for delta = 0."""
    if not objective.loss.is_convex:
        return [("online", "delta=0, and a loss that is not convex")]
    if isinstance(objective.loss, SquaredLoss):
        moments = ("adassp", "delta=0: second moments in one pure release")
        once = ("objective_perturbation", "delta=0: one pure minimisation")
        is_few = objective.n_features <= FEW_MOMENTS
        return [moments, once] if is_few else [once, moments]
    return [
        ("objective_perturbation", "delta=0: the most accurate pure solver"),
        ("output_perturbation", "delta=0, and objective_perturbation refuses"),
        ("online", "delta=0, and rows that are not held"),
    ]


def _for_few_features(objective: LinearObjective) -> list[tuple[str, str]]:
    """Candidates for a bounded number of nonzero features."""
    selected = "few features of small bound: selected first, noise on theirs only"
    thresholded = "few features: noisy gradients, thresholded for free"
    if favours_selection(objective):
        return [
            ("peeling", selected),
            ("iht", thresholded),
        ]
    pure = "few features, and iht refuses: selected first, noise on theirs only"
    return [("iht", thresholded), ("peeling", pure)]


def choose_solver(
    key: str,
    params: Mapping[str, Any] | None,
    objective: LinearObjective,
    budget: Budget,
    rows: CentredRows | None = None,
) -> Chosen | None:
    """The first solver that does not refuse, planned, with the reason for the choice.

    Uses public facts only. `rows` are public declarations about the rows; None: the
    rows are plain numbers.

    Returns
    -------
    Chosen or None
        None if epsilon is inf: the optimum is computed instead.

    Raises
    ------
    ValueError, TypeError
        If the key or a parameter is wrong, or if every solver refuses the problem; the
        message gives the reasons.
    """
    if key not in ("auto", *SOLVERS) and budget.is_finite:
        possible = ["auto", *willing(SOLVERS, objective, budget)]
        check_choice("solver", key, possible, remedy=_of_the_default(key))
    named = named_solver(key, params)
    if not budget.is_finite and (rows is None or named is not None):
        return None
    return planned_solver(named, objective, budget, rows)


def planned_solver(
    named: Named | None,
    objective: LinearObjective,
    budget: Budget,
    rows: CentredRows | None = None,
) -> Chosen:
    """The named solver, or the default, for a finite epsilon or declared rows."""
    try:
        if named is None:
            return default_solver(objective, budget, rows)
        return Chosen(named.planned(objective, budget), "named by the user")
    except Refused as refused:
        told = refused.args[0]
    can = willing(SOLVERS, objective, budget)
    raise Refused(f"{told} This fit can be done by {can}.")
