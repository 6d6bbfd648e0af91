"""Private solvers: one file and one proof page each, one door to the data."""

from skdp.solvers._base import Problem, Progress, Solution, Solver
from skdp.solvers._registry import SOLVERS, choose_solver, named_solvers
from skdp.solvers._solve import Outcome, solve

__all__ = [
    "SOLVERS",
    "Outcome",
    "Problem",
    "Progress",
    "Solution",
    "Solver",
    "choose_solver",
    "named_solvers",
    "solve",
]
