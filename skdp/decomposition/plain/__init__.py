"""Factorisation without privacy; the door into this room is `FACTORIZERS`."""

from skdp.decomposition._factorizer import Factorizer
from skdp.decomposition.plain._als import ALS
from skdp.decomposition.plain._hamsi import HAMSI
from skdp.decomposition.plain._lbfgs import LBFGS
from skdp.decomposition.plain._sgd import SGD
from skdp.decomposition.plain._vb import VariationalBayes

FACTORIZERS: dict[str, type[Factorizer]] = {
    "als": ALS,
    "hamsi": HAMSI,
    "lbfgs": LBFGS,
    "sgd": SGD,
    "vb": VariationalBayes,
}

__all__ = ["FACTORIZERS"]
