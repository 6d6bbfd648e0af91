"""The private transformers as the tests of what they share need them."""

from __future__ import annotations

import importlib

import numpy as np

from skdp import DPPCA, DPQuantileClipper, DPSimpleImputer, DPStandardScaler
from skdp.tables._memory import MemorySource
from tests.spies import SpySource

# Class and the smallest honest parameters of each step.
STEPS = {
    "scaler": (DPStandardScaler, {"bounds": (-3, 3)}),
    "clipper": (DPQuantileClipper, {"bounds": (-100, 100), "n_steps": 8}),
    "imputer": (DPSimpleImputer, {"bounds": (-3, 3)}),
    "pca": (DPPCA, {"n_components": 2}),
}
ADJACENCIES = ("replace_one", "zero_out")


def make_step(name, **params):
    kind, needs = STEPS[name]
    return kind(**(needs | params))


def make_rows(n=200, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def note_reads(monkeypatch, name, diary):
    """Every source that `fit` of this step makes writes its reads down."""
    assert STEPS[name][0].__module__.startswith("skdp.preprocessing")
    module = importlib.import_module("skdp.io._table")
    monkeypatch.setattr(
        module, "MemorySource", lambda X, y: SpySource(MemorySource(X, y), diary)
    )
