"""Private solvers by their keys; all else in this room is private."""

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

__all__ = ["SOLVERS"]
