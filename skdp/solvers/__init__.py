"""Private solvers by their keys; all else in this room is private."""

from skdp.solvers._registry import SOLVERS

__all__ = ["SOLVERS"]
