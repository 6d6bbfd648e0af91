"""Who was in the training set: the likelihood-ratio attack on models of digits.

Run ``python -m benchmarks.membership_attack`` at the root of a checkout (half a
minute). Prints the table of ``docs/attacks.md``. Half of scikit-learn's digits are
members, chosen at random; noise of private models is from the operating system.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from skdp import DPLogisticRegression
from skdp.audit import MembershipInference, membership_inference

SHADOWS = 32
LARGEST = 16.0
DIGITS = list(range(10))


def models() -> dict[str, Any]:
    """By name: what is attacked."""
    private = {
        f"DPLogisticRegression, epsilon {epsilon:g}": DPLogisticRegression(
            epsilon=epsilon, classes=DIGITS
        )
        for epsilon in (1.0, 8.0)
    }
    return {
        "nearest neighbour": KNeighborsClassifier(1),
        "tree": DecisionTreeClassifier(random_state=0),
        "random forest": RandomForestClassifier(random_state=0),
        "logistic regression, C=100": LogisticRegression(C=100, max_iter=2000),
        "logistic regression, C=1": LogisticRegression(max_iter=2000),
        **private,
    }


def attacked(model: Any, seed: int = 0) -> tuple[MembershipInference, float]:
    """The attack on a fit to a random half, and the fit's accuracy on the other."""
    X, y = load_digits(return_X_y=True)
    X = X / LARGEST
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(seed).permutation(len(y))
    half = len(y) // 2
    (X1, y1), (X0, y0) = ((X[p], y[p]) for p in (order[:half], order[half:]))
    fitted = model.fit(X1, y1)
    found = membership_inference(
        fitted, (X1, y1), (X0, y0), n_shadows=SHADOWS, random_state=seed
    )
    return found, float(fitted.score(X0, y0))


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print(
        "| model | accuracy | AUC | found at 0.1 % | at 1 % | advantage | "
        "guarantee: advantage |\n|---|---|---|---|---|---|---|"
    )
    for name, model in models().items():
        found, accuracy = attacked(model)
        most = "" if found.bound is None else f"{found.bound.advantage:.3f}"
        print(
            f"| {name} | {accuracy:.3f} | {found.auc:.3f} | "
            f"{found.true_positive_rate(0.001):.3f} | "
            f"{found.true_positive_rate(0.01):.3f} | {found.advantage:.3f} | {most} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
