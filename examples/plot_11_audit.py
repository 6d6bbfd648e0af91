"""
====================
Does a promise hold?
====================

An estimator promises epsilon 1. This example tries to refute the promise, for models of
skdp and for a small estimator with a bug, on simulated data. It ends with pictures:
what an attacker sees, and what each step of a fit reveals.

An audit can refute a promise; it cannot confirm one. Noise is drawn anew in every run,
so the numbers differ a little each time.
"""

# %%
# Simulated data
# --------------
# An audit reads its data without privacy and fits hundreds of models. Use it on data
# that need no protection; it refuses an estimator with a ledger.
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from skdp import DPLinearSVC, DPLogisticRegression
from skdp.audit import audit_estimator

rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 20))
X[:, -1] = 0  # a column that nobody uses hides nobody
X /= np.linalg.norm(X, axis=1, keepdims=True)
y = (X @ rng.normal(size=20) > 0).astype(int)
DELTA = 1e-6
folder = Path("demo")
folder.mkdir(exist_ok=True)

# %%
# From the models alone
# ---------------------
# Six hundred fits, half of them on a neighbour in which one record differs.
model = DPLinearSVC(
    epsilon=1.0, delta=DELTA, classes=[0, 1], solver="output_perturbation"
)
sound = audit_estimator(model, X, y)
print(sound, "\n")

# %%
# From the noisy gradients
# ------------------------
# The final weights show little of the noisy gradients that led to them, but the budget
# pays for all these gradients. An audit of the transcript looks at them, and shows how
# much of the budget one record uses up. It needs a few fits, and is exact.
steps = DPLogisticRegression(
    epsilon=1.0, delta=DELTA, classes=[0, 1], solver="noisy_gd"
)
transcript = audit_estimator(steps, X, y, access="transcript")
print(transcript, "\n")


# %%
# A planted bug
# -------------
# If one row of norm 1 replaces another, a sum changes by up to 2, and Gaussian noise
# with standard deviation 7.5 hides the change. Half of this noise is enough only if a
# row is left out. Real software has made this mistake.
class NoisyMean(BaseEstimator):
    """The mean of rows of norm 1, with half the noise that its promise needs."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        """Add up the rows, and the noise."""
        random = check_random_state(self.random_state)
        self.mean_ = (X.sum(axis=0) + random.normal(scale=3.75, size=20)) / len(X)
        return self


refuted = audit_estimator(NoisyMean(), X, y, epsilon=1.0, delta=DELTA)
print(refuted)

# %%
# Pictures
# --------
# Left: an attacker's scores for a promise that holds and for one that does not. Right:
# what the record reveals in each answer of a descent, and what is charged for it.
figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
sound.plot(ax=axes[0])
refuted.plot(ax=axes[1])
transcript.plot(ax=axes[2])
names = ("DPLinearSVC", "NoisyMean", "noisy_gd, by transcript")
for axis, name in zip(axes, names, strict=True):
    axis.set_title(f"{name}\n{axis.get_title()}")
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig(folder / "audit.png", dpi=150)
print(f"\nPicture: {folder / 'audit.png'}")
