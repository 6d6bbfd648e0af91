"""
======
Images
======

Three private models of small images of digits: a linear model, a network of hidden
units, and a network that begins with convolutions. The filters of a convolution have
few weights, which all positions share, so that they learn from a few hundred images in
spite of the noise.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# scikit-learn's digits: 1,797 images of 8 x 8 pixels, whose shades are from 0 to 16.
import math
import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdp import DPLogisticRegression, DPMLPClassifier
from skdp.exceptions import NoiseDominatesWarning
from skdp.neural_network import Convolution

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.25, random_state=0, stratify=y
)
print(f"{len(X_train)} images to train on, {len(X_test)} to test.\n")

# %%
# What is declared
# ----------------
# Declared are the labels, a norm of 80 for 64 pixels, about half of which are empty,
# and for filters the shape of an image. None of this was read from the records.
#
# The convolution has 16 filters of 4 x 4 pixels, and keeps the largest value of every
# 2 x 2 positions.
PUBLIC = {"delta": 1e-6, "classes": range(10), "data_norm": 80.0}
PUBLIC["adjacency"] = "zero_out"
FILTERS = {
    "convolutions": [Convolution(16, 4, padding=1, pool=2, pool_stride=2)],
    "image_shape": (8, 8),
    "hidden_layer_sizes": (),
}
MODELS = {
    "linear model": lambda epsilon: DPLogisticRegression(epsilon, **PUBLIC),
    "32 hidden units": lambda epsilon: DPMLPClassifier(epsilon, **PUBLIC),
    "16 filters": lambda epsilon: DPMLPClassifier(epsilon, **PUBLIC, **FILTERS),
}

# %%
# Over a range of epsilons
# ------------------------
# **The scores are computed from raw test data. They are not private.**
EPSILONS = (1.0, 2.0, 8.0, math.inf)
REPEATS = 2
warnings.simplefilter("ignore", NoiseDominatesWarning)  # it is what we look at
print(f"Test accuracy, zero_out, mean of {REPEATS} fits")
print(f"  {'':<18}" + "".join(f"epsilon={epsilon:<9g}" for epsilon in EPSILONS))
found = {}
for name, model_of in MODELS.items():
    cells, started = [], time.perf_counter()
    for epsilon in EPSILONS:
        fits = [model_of(epsilon).fit(X_train, y_train) for _ in range(REPEATS)]
        cells.append(np.mean([model.score(X_test, y_test) for model in fits]))
        if name == "16 filters" and epsilon == 8.0:
            shown = fits[0]
    found[name] = cells
    seconds = time.perf_counter() - started
    line = "".join(f"{cell:<17.3f}" for cell in cells)
    print(f"  {name:<18}{line}{seconds:.0f} s", flush=True)

# %%
# What was learned
# ----------------
# Filters are released weights: to look at them costs nothing more.
print(f"\n{shown.privacy_}\n")
figure, axes = plt.subplots(2, 8, figsize=(8, 2.2))
filters = shown.coefs_[0].T.reshape(-1, 4, 4)
largest = np.abs(filters).max()
for axis, own in zip(axes.ravel(), filters, strict=True):
    axis.imshow(own, cmap="RdBu", vmin=-largest, vmax=largest)
    axis.set_axis_off()
figure.suptitle("Filters at epsilon 8")
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure.savefig(folder / "filters.png", dpi=120)
print(f"Picture: {folder / 'filters.png'}")
