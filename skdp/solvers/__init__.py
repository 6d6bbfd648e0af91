"""Private solvers by their keys; every other name in this package is private."""

from skdp.solvers._registry import SOLVERS

__all__ = ["SOLVERS"]
