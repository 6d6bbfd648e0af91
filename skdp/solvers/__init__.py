"""Private solvers: one file and one proof page each, one door to the data."""

from skdp.solvers._auto import Chosen, choose_solver
from skdp.solvers._base import Solution, Solver
from skdp.solvers._noise_division import (
    best_step_count,
    bound_weights,
    budget_shares,
    divide_noise,
    error_bounds,
    multistage_steps,
)
from skdp.solvers._progress import Progress
from skdp.solvers._registry import SOLVERS, named_solver
from skdp.solvers._solve import solve

__all__ = [
    "SOLVERS",
    "Chosen",
    "Progress",
    "Solution",
    "Solver",
    "best_step_count",
    "bound_weights",
    "budget_shares",
    "choose_solver",
    "divide_noise",
    "error_bounds",
    "multistage_steps",
    "named_solver",
    "solve",
]
