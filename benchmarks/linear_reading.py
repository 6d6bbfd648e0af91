"""What it costs to read coefficients linearly where centred rows are clipped.

Run ``python -m benchmarks.linear_reading``: log-loss of the model and of
``X_enc @ coef_ + intercept_`` on validation parts, and the share of rows beyond the
norm. Means of three fits.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

from benchmarks._declared import load
from benchmarks._declared_tables import declared
from skdp import DPLogisticRegression

_TABLES = ("adult", "rare", "noisy")
_EPSILONS = (0.3, 1.0, 4.0)
_FITS = 3


def costs(name: str, epsilon: float, seed: int) -> tuple[float, float, float]:
    """Log-loss of the model, of the linear reading, and the share of rows clipped."""
    known, parts = declared(name), load(name, seed)
    model = DPLogisticRegression(
        epsilon,
        columns=known.columns,
        classes=known.classes,
        delta=1 / len(parts.y_train) ** 2,
        adjacency="zero_out",
    ).fit(parts.X_train, parts.y_train)
    rows = model.encoder_.transform(parts.X)
    linear = expit(rows @ model.coef_[0] + model.intercept_[0])
    lengths = np.linalg.norm((rows - model.center_) * model.scale_, axis=1)
    found = log_loss(parts.y, model.predict_proba(parts.X)[:, 1])
    return found, log_loss(parts.y, linear), float(np.mean(lengths > model.row_norm_))


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print("| data | epsilon | model | read linearly | rows clipped |")
    print("|---|---|---|---|---|")
    for name in _TABLES:
        for epsilon in _EPSILONS:
            means = np.mean([costs(name, epsilon, i) for i in range(_FITS)], axis=0)
            told = " | ".join(f"{mean:.4f}" for mean in means)
            print(f"| {name} | {epsilon:g} | {told} |", flush=True)


if __name__ == "__main__":
    main()
