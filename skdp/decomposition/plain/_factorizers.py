"""Factorisers without privacy, by the keys that users name."""

from __future__ import annotations

from skdp._registry import Registry
from skdp.decomposition._factorizer import Factorizer
from skdp.decomposition.plain._als import ALS
from skdp.decomposition.plain._sgd import SGD
from skdp.decomposition.plain._vb import VariationalBayes

FACTORIZERS: Registry[type[Factorizer]] = Registry(
    "skdp.factorizers",
    {
        "als": ALS,
        "sgd": SGD,
        "vb": VariationalBayes,
    },
)
