"""Private solvers: one file and one proof page each, one door to the data."""

from skdp.solvers._auto import Candidate
from skdp.solvers._base import Problem, Progress, Solution, Solver
from skdp.solvers._registry import SOLVERS, choose_solver, named_solver
from skdp.solvers._solve import Outcome, solve

__all__ = [
    "SOLVERS",
    "Candidate",
    "Outcome",
    "Problem",
    "Progress",
    "Solution",
    "Solver",
    "choose_solver",
    "named_solver",
    "solve",
]
