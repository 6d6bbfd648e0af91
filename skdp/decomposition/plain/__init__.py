"""Factorisation without privacy; the door into this room is `FACTORIZERS`."""

from skdp.decomposition.plain._factorizers import FACTORIZERS

__all__ = ["FACTORIZERS"]
