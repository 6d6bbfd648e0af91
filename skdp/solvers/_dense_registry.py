"""The solvers that give every feature a weight: what `SOLVERS` has beside sparse ones.

A table of its own, because sparse solvers leave work to those in it.
"""

from __future__ import annotations

from skdp.solvers._adassp import AdaSSP
from skdp.solvers._base import Solver
from skdp.solvers._bolt_on import BoltOn
from skdp.solvers._diff_gd import DiffGD
from skdp.solvers._ftrl import FTRL
from skdp.solvers._graduated_gd import GraduatedGD
from skdp.solvers._heavy_ball import HeavyBall
from skdp.solvers._laplacian_smoothing import LaplacianSmoothing
from skdp.solvers._line_search_gd import LineSearchGD
from skdp.solvers._multistage import Multistage
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._noisy_gd import NoisyGD
from skdp.solvers._noisy_newton import NoisyNewton
from skdp.solvers._noisy_sgd import NoisySGD
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from skdp.solvers._online import OnlineGD
from skdp.solvers._output_perturbation import OutputPerturbation
from skdp.solvers._srm import SRM
from skdp.solvers._tree_momentum import TreeMomentum

DENSE: dict[str, type[Solver]] = {
    "adassp": AdaSSP,
    "bolt_on": BoltOn,
    "diff_gd": DiffGD,
    "ftrl": FTRL,
    "graduated_gd": GraduatedGD,
    "heavy_ball": HeavyBall,
    "laplacian_smoothing": LaplacianSmoothing,
    "line_search_gd": LineSearchGD,
    "multistage": Multistage,
    "nesterov": Nesterov,
    "noisy_gd": NoisyGD,
    "noisy_newton": NoisyNewton,
    "noisy_sgd": NoisySGD,
    "objective_perturbation": ObjectivePerturbation,
    "online": OnlineGD,
    "output_perturbation": OutputPerturbation,
    "srm": SRM,
    "tree_momentum": TreeMomentum,
}
